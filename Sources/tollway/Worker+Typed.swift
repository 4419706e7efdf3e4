internal import TokenDomain

extension Worker {
    /// Reads what an operator types for one of these workers.
    ///
    /// - Throws: exit 2 for a text that names none of them.
    static func read(
        _ text: String,
        of option: String,
        among workers: [Worker]
    ) throws(CommandFailure) -> Worker {
        guard let worker = workers.first(where: { $0.rawValue == text }) else {
            throw .usage(
                "bad_value",
                "\(option) is \"\(text)\": it must be one of "
                    + workers.map(\.rawValue).joined(separator: ", ")
            )
        }
        return worker
    }
}
