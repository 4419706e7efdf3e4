internal import Kafka
internal import TokenDomain

/// What Kafka does with the records for each topic of the door, so that one that stores nothing shuts no
/// other's route.
struct TargetTopics {
    /// A topic stores nothing for so long since something was handed over: it is stalled.
    static let stalledAfterMilliseconds: Int64 = 5_000
    /// Between two requests that are let in although nothing is stored.
    static let probeIntervalMilliseconds: Int64 = 1_000

    /// Why Kafka takes nothing, where no waiting mends that.
    private enum Refusal: CaseIterable {
        case denied
        case missing

        init?(code: String) {
            switch code {
            case "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART": self = .missing
            case _ where code.hasSuffix("AUTHORIZATION_FAILED"): self = .denied
            default: return nil
            }
        }

        /// The name of its line among the probes'.
        var condition: StaticString {
            switch self {
            case .denied: "rights"
            case .missing: "topics"
            }
        }

        func sentence(_ names: String) -> String {
            switch self {
            case .denied:
                "Kafka refuses to store in \(names): give this worker's user the right, with"
                    + " Deploy/acls.sh"
            case .missing:
                "Kafka has no such partition of \(names) any more: tollway topics plan says what is"
                    + " missing"
            }
        }
    }

    private struct Target {
        /// Records that were handed over and have no receipt.
        var waitingCount = 0
        /// Monotonic milliseconds: when the first was handed over since one was stored; nil: none was.
        ///
        /// What was handed over before that may wait for a partition of its own: of the others it says
        /// nothing, and where nobody comes nothing would end it.
        var triedAt: Int64?
        /// Monotonic milliseconds: from then on a request is let in although nothing is stored.
        var probesFrom = Int64.min
        var refusal: Refusal?

        func isStalled(now: Int64) -> Bool {
            guard waitingCount > 0, let triedAt else {
                return false
            }
            return now - triedAt > TargetTopics.stalledAfterMilliseconds
        }
    }

    /// By their numbers among the targets of `ingest`.
    private var targets = Worker.ingest.targets.map { _ in Target() }

    mutating func handedOver(_ recordCount: Int, to topic: Int, now: Int64) {
        if targets[topic].waitingCount == 0 || targets[topic].triedAt == nil {
            targets[topic].triedAt = now
        }
        targets[topic].waitingCount += recordCount
        targets[topic].probesFrom = now + Self.probeIntervalMilliseconds
    }

    /// Takes note of a receipt of a topic's records.
    ///
    /// - Returns: whether ``conditions`` may be others since.
    mutating func note(_ receipt: KafkaProducer.Receipt, of topic: Int) -> Bool {
        let before = targets[topic].refusal
        targets[topic].waitingCount -= receipt.outputCount
        if let failure = receipt.failure {
            targets[topic].refusal = Refusal(code: failure) ?? before
        } else {
            targets[topic].triedAt = nil
            targets[topic].refusal = nil
        }
        return targets[topic].refusal != before
    }

    /// Whether a topic takes nothing in at this time: it is stalled, and one request has tried lately.
    func isShut(_ topic: Int, now: Int64) -> Bool {
        targets[topic].isStalled(now: now) && now < targets[topic].probesFrom
    }

    /// The names of those that are stalled.
    func stalledNames(now: Int64) -> [String] {
        Self.names(targets.indices.filter { targets[$0].isStalled(now: now) })
    }

    func isAnyStalled(now: Int64) -> Bool {
        targets.contains { $0.isStalled(now: now) }
    }

    /// What the probes say of topics that take nothing, until one of its records is stored; nil where all is
    /// well.
    var conditions: [(name: StaticString, sentence: String?)] {
        Refusal.allCases.map { refusal in
            let names = Self.names(targets.indices.filter { targets[$0].refusal == refusal })
            return (
                refusal.condition,
                names.isEmpty ? nil : refusal.sentence(names.joined(separator: ", "))
            )
        }
    }

    private static func names(_ topics: [Int]) -> [String] {
        topics.map { Worker.ingest.targets[$0].name(prefix: "") }
    }
}
