/// What each offset carries that a worker of ours commits: by it an offset that somebody else has set is
/// known.
enum CommitMark {
    private static let start = "tw."
    /// Of an offset that an operator set with a command of ours, which is in the audit.
    static let byHand = start + "hand"

    /// Of one transaction: it shows afterwards whether that was committed, also where no position moved.
    static func of(life: String, number: Int) -> String { "\(start)\(life).\(number)" }

    static func isOurs(_ metadata: String) -> Bool { metadata.hasPrefix(start) }
}
