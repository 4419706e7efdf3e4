/// What may match, and no look at the dead letters has seen.
extension DeadLetterCommand {
    /// Says what may match and was not seen.
    ///
    /// - Returns: whether an open transaction hides dead letters.
    @discardableResult
    static func sayUnseen(
        _ scan: DeadLetterScan,
        _ otherNameCount: Int
    ) throws(CommandFailure) -> Bool {
        if let text = DeadLetterFilter.otherNames(otherNameCount) {
            Console.say(text)
        }
        guard let hindrance = try scan.hindrance() else {
            return false
        }
        Console.say("note: \(hindrance)")
        return true
    }

    /// - Throws: what keeps Kafka from being asked.
    static func nothingMatched(
        _ scan: DeadLetterScan,
        _ otherNameCount: Int
    ) throws(CommandFailure) -> CommandFailure {
        let hindrance = try scan.hindrance(isAny: true)
        let what =
            scan.filter.words.isEmpty && !scan.includesSettled
            ? "no dead letter is open"
            : "no \(scan.includesSettled ? "" : "open ")dead letter matches: \(scan.filter.text)"
        return failure(
            "dlq.nothing_matched",
            [what] + [DeadLetterFilter.otherNames(otherNameCount)].compactMap { $0 },
            hindrance: hindrance
        )
    }

    /// Nothing is there, or it is hidden.
    static func failure(
        _ code: String,
        _ sentences: [String],
        hindrance: String?
    ) -> CommandFailure {
        CommandFailure(
            hindrance == nil ? .nothingMatched : .tryAgain,
            code: hindrance == nil ? code : "dlq.held_back",
            (sentences + [hindrance].compactMap { $0 }).joined(separator: "; ")
        )
    }
}
