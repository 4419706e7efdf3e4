/// The reports asked for that wait behind the one under way, in the order in which they came.
///
/// Each is in a record of its own, under its place: any number of them may wait, and the account
/// stays small. Only the next one is in memory, where the state was asked for it. What joins and
/// what leaves is kept for the writer of the records: ``takeChanges()``.
package struct RequestLine: Sendable {
    /// The place of the next report; places go on from it without a gap.
    package private(set) var first = 0
    /// The place of the next report to come.
    package private(set) var end = 0
    /// Bytes of line items, and of other texts, that any report that waits has at most.
    ///
    /// Kept until none waits: the account must have room for each of them.
    package private(set) var lineItemByteCountMax = 0
    package private(set) var textByteCountMax = 0
    private var hand: [Int: ReportIntent] = [:]
    private var changes: [Int: ReportIntent?] = [:]

    package init() {}

    /// A line as the state has it.
    package init(first: Int, end: Int, lineItemByteCountMax: Int, textByteCountMax: Int) {
        self.first = first
        self.end = end
        self.lineItemByteCountMax = lineItemByteCountMax
        self.textByteCountMax = textByteCountMax
    }

    /// A line that is still in its account, as all did once: its records are yet to be written.
    package init(inAccount intents: [ReportIntent]) {
        for intent in intents {
            let place = end
            append(intent)
            hand[place] = intent
        }
    }

    package var count: Int { end - first }
    package var isEmpty: Bool { first == end }
    /// Whether the next report can be taken.
    package var isNextAtHand: Bool { hand[first] != nil }
    /// The one that joined last, if that was since the account was read.
    package var joined: ReportIntent? { changes[end - 1] ?? nil }

    package mutating func append(_ intent: ReportIntent) {
        if isEmpty {
            hand[end] = intent
        }
        changes[end] = .some(intent)
        end += 1
        lineItemByteCountMax = max(lineItemByteCountMax, intent.lineItemByteCount)
        textByteCountMax = max(textByteCountMax, intent.textByteCount)
    }

    /// The next report, as its record has it.
    package mutating func lay(_ intent: ReportIntent) {
        precondition(!isEmpty, "only of a line that is not empty a record is read")
        hand[first] = intent
    }

    /// Takes the next report, if it is in memory.
    package mutating func takeNext() -> ReportIntent? {
        guard let intent = hand.removeValue(forKey: first) else {
            return nil
        }
        changes[first] = .some(nil)
        first += 1
        if isEmpty {
            (first, end, lineItemByteCountMax, textByteCountMax) = (0, 0, 0, 0)
        }
        return intent
    }

    package var hasChanges: Bool { !changes.isEmpty }

    /// The changes since the line was read, by place: a report that joined, nil for one that left.
    package mutating func takeChanges() -> [Int: ReportIntent?] {
        defer { changes = [:] }
        return changes
    }
}

extension RequestLine: Equatable {
    /// As the state has it: what is in memory is no part of it.
    package static func == (one: RequestLine, other: RequestLine) -> Bool {
        one.first == other.first && one.end == other.end
            && one.lineItemByteCountMax == other.lineItemByteCountMax
            && one.textByteCountMax == other.textByteCountMax
    }
}
