internal import Telemetry
internal import TokenDomain

/// Tells when nothing came in for longer than Apple tries to deliver: what was sent meanwhile may be
/// lost to us.
///
/// Apple's sixth and last try is 157 hours after the first. An app without notifications for so long
/// looks the same, so a gap is a reason to ask Apple, and no proof. A worker hears of its own
/// partitions only: what it finds is held against the whole log, ``GapInLog``.
///
/// Source: Responding to App Store Server Notifications
struct GapWatch {
    static let retrySpan = Milliseconds.hours(157)
    /// How long `notifications.received` keeps a record, at least.
    private static let keptSpan = Milliseconds.days(7)

    struct Gap: Equatable {
        /// The last that came in before; nil where Kafka does not have it any more.
        var from: Timestamp?
        var to: Timestamp

        /// From when on Kafka has what others took in: nil where it has nothing of that time.
        ///
        /// Before that, nothing in the log does not say that nothing came in.
        var lookFrom: Timestamp? { from.map { max($0, to + -GapWatch.keptSpan) } }

        /// What is left of it where others came in at `times`: the first gap among them, from
        /// ``lookFrom`` on.
        func left(by times: [Timestamp]) -> Gap? {
            guard let from, let lookFrom else {
                return self
            }
            var last = (heard: from, known: lookFrom)
            for time in times.sorted() + [to] where time <= to && time >= last.known {
                guard time - last.known <= GapWatch.retrySpan else {
                    return Gap(from: last.heard, to: time)
                }
                last = (time, time)
            }
            return nil
        }
    }

    /// What is known of the time before this worker began.
    enum Before: Equatable {
        /// Nothing was ever read, or Kafka did not say.
        case unknown
        case last(Timestamp)
        /// All that was read is older than the topic keeps.
        case removed
    }

    /// How many gaps there were.
    static func counter(in metrics: Metrics) -> Counter {
        metrics.counter(
            "notification_gaps_total",
            help: "Times that no notification had come in for longer than Apple tries (157 hours)."
        )
    }

    private var newest: Timestamp?
    private var isRemoved: Bool

    init(before: Before = .unknown) {
        switch before {
        case .unknown:
            isRemoved = false
        case .last(let time):
            newest = time
            isRemoved = false
        case .removed:
            isRemoved = true
        }
    }

    /// A notification came in at `time`; partitions may be read out of order.
    ///
    /// - Returns: the gap that it ends.
    mutating func heard(at time: Timestamp) -> Gap? {
        defer {
            newest = max(newest ?? time, time)
            isRemoved = false
        }
        if isRemoved {
            return Gap(from: nil, to: time)
        }
        guard let newest, time - newest > Self.retrySpan else {
            return nil
        }
        return Gap(from: newest, to: time)
    }
}
