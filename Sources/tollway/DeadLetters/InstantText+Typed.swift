internal import StageRuntime
internal import TokenDomain

extension InstantText {
    /// Reads what an operator types: RFC 3339, a day in UTC, or a span before `now`.
    static func read(_ text: String, now: Timestamp) -> Timestamp? {
        let bytes = Array(text.utf8)
        if let time = read(bytes.span) {
            return Timestamp(milliseconds: time)
        }
        if bytes.count == 10, let day = day(bytes.span) {
            return Timestamp(milliseconds: day * 86_400_000)
        }
        if text.hasSuffix("d"), let days = Int64(text.dropLast()), (0...400).contains(days) {
            return now + -.days(days)
        }
        return DurationText.read(text).map { now + -$0 }
    }

    /// Reads what an operator types for an option.
    ///
    /// - Throws: exit 2 for a text that is no point in time.
    static func read(
        _ text: String,
        of option: String,
        now: Timestamp
    ) throws(CommandFailure) -> Timestamp {
        guard let time = read(text, now: now) else {
            throw .usage("bad_value", "\(option) is \"\(text)\": it must be \(expected)")
        }
        return time
    }
}
