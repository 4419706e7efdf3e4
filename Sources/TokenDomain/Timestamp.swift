/// A point in time: UNIX milliseconds, UTC, as Apple writes them and as every message of ours does.
package struct Timestamp: Hashable, Comparable, Sendable {
    package var milliseconds: Int64

    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    package static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.milliseconds < right.milliseconds
    }

    /// Nil where there is neither.
    package static func later(of one: Timestamp?, _ other: Timestamp?) -> Timestamp? {
        guard let one, let other else {
            return one ?? other
        }
        return max(one, other)
    }

    package static func earlier(of one: Timestamp?, _ other: Timestamp?) -> Timestamp? {
        guard let one, let other else {
            return one ?? other
        }
        return min(one, other)
    }

    /// Saturates at the ends of `Int64` instead of trapping: a date in a token may be any positive
    /// integer, and a hostile one must not end the worker.
    package static func + (time: Timestamp, span: Milliseconds) -> Timestamp {
        let (sum, overflow) = time.milliseconds.addingReportingOverflow(span.count)
        guard overflow else {
            return Timestamp(milliseconds: sum)
        }
        return Timestamp(milliseconds: span.count > 0 ? .max : .min)
    }

    package static func - (left: Timestamp, right: Timestamp) -> Milliseconds {
        let (difference, overflow) =
            left.milliseconds.subtractingReportingOverflow(right.milliseconds)
        guard overflow else {
            return Milliseconds(difference)
        }
        return Milliseconds(left.milliseconds > right.milliseconds ? .max : .min)
    }
}

/// A span of time in milliseconds; may be negative.
package struct Milliseconds: Hashable, Comparable, Sendable {
    package var count: Int64

    package init(_ count: Int64) {
        self.count = count
    }

    package static func seconds(_ count: Int64) -> Milliseconds { Milliseconds(count * 1_000) }
    package static func minutes(_ count: Int64) -> Milliseconds { .seconds(count * 60) }
    package static func hours(_ count: Int64) -> Milliseconds { .minutes(count * 60) }
    package static func days(_ count: Int64) -> Milliseconds { .hours(count * 24) }

    package static func < (left: Milliseconds, right: Milliseconds) -> Bool {
        left.count < right.count
    }

    package static prefix func - (span: Milliseconds) -> Milliseconds {
        Milliseconds(span.count == .min ? .max : -span.count)
    }
}
