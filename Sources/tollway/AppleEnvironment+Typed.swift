internal import TokenDomain

extension AppleEnvironment {
    /// Reads what an operator types for one of Apple's environments, in whatever case.
    ///
    /// - Throws: exit 2 for a text that names none.
    static func read(_ text: String, of name: String) throws(CommandFailure) -> AppleEnvironment {
        guard let environment = AppleEnvironment(rawValue: text.lowercased()) else {
            throw .usage("bad_value", "\(name) is \"\(text)\": it must be production or sandbox")
        }
        return environment
    }
}
