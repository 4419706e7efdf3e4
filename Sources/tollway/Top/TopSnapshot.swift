internal import Kafka
internal import Telemetry
internal import TokenDomain

/// What `tollway top` shows at one moment.
struct TopSnapshot: Equatable, Sendable {
    /// One topic that a worker reads.
    struct Stage: Equatable, Sendable {
        var worker: Worker
        /// Without the prefix.
        var topic: String
        /// Next offsets, over all partitions.
        var end: Int64
        var committed: Int64
        /// By the clock that never goes back, milliseconds.
        var measuredAt: Int64 = 0
        /// Records not done; nil where a partition is not known, or the topic is not there.
        var lag: Int64?
        /// 0 where the topic is not there.
        var partitionCount = 0
        /// Instances in the worker's group; nil on the embedded broker, which does not answer this.
        var memberCount: Int?
        /// Partitions that one of them has.
        var assignedCount: Int?
        /// Nil in the first snapshot, and where no admin port has it.
        var inPerSecond: Double?
        var donePerSecond: Double?
        var lagSeconds: Double?
        /// How far it is behind: by its own word, else estimated from what comes in.
        ///
        /// An idle topic counts as one record a second.
        var secondsBehind: Double? {
            guard lagSeconds == nil, let lag, let inPerSecond else {
                return lagSeconds
            }
            return Double(lag) / max(inPerSecond, 1)
        }
        /// Partitions whose state is still being read, over all instances asked; nil where no admin
        /// port has it.
        var restoringCount: Int?
    }

    struct Day: Equatable, Sendable {
        /// Reports that are due, with their deadline on that day.
        var deadlineCount: Int64 = 0
        /// Reports that are held, and due from that day on.
        var fallingCount: Int64 = 0
    }

    struct Lane: Equatable, Sendable {
        var app: Int64
        var environment: String
        var endpoint: String
        /// `open`, `held`, `stopped`, `probing`, `paused`.
        var state: String
        var because: String?
        /// UNIX milliseconds.
        var until: Int64?
        /// Of a pause, UNIX milliseconds.
        var since: Int64?
        /// Over all instances asked.
        var allowedPerSecond = 0.0
        /// By the file of the apps; the largest of all instances.
        var configuredPerSecond = 0.0
        /// Reports due, over all instances asked; nil where none are counted.
        var due: Int64?
        /// By the address of the instance, since it was started.
        var startedCounts: [String: Int64] = [:]
        var startedPerSecond: Double?
        var inFlight = 0
        /// UNIX milliseconds; the earliest of all instances.
        var nextDeadline: Int64?
        /// By the start of the day, UNIX milliseconds, over all instances.
        var days: [Int64: Day] = [:]

        /// What it is the lane of.
        struct Key: Hashable {
            var app: Int64
            var environment: String
            var endpoint: String
        }

        var key: Key { Key(app: app, environment: environment, endpoint: endpoint) }
    }

    /// How often Apple gave one answer, over all instances asked.
    struct Answer: Equatable, Sendable {
        var app: Int64
        var environment: String
        /// Of HTTP, or a word for why there was none.
        var status: String
        /// Apple's own; empty where the answer has none.
        var code: String
        /// By the address of the instance, since it was started.
        var counts: [String: Int64]
        /// Nil where no instance told it in the snapshot before.
        var perSecond: Double?

        var count: Int64 { counts.values.reduce(0) { $0.adding(saturating: $1) } }

        /// What it is an answer to, and which one.
        struct Key: Hashable {
            var app: Int64
            var environment: String
            var status: String
            var code: String
        }

        var key: Key { Key(app: app, environment: environment, status: status, code: code) }
    }

    /// What was reported to Apple lately, by the ledger.
    struct Reported: Equatable, Sendable {
        var app: Int64
        var environment: String
        var count: Int
    }

    struct DeadLetters: Equatable, Sendable {
        var stage: String
        var code: String
        var count: Int
        /// UNIX milliseconds.
        var newest: Int64
    }

    /// One admin port that was given.
    struct Instance: Equatable, Sendable {
        var address: String
        /// Nil: no answer.
        var worker: String?
        var name: String?
        var isReady: Bool?
        var partitionCount: Int?
        /// Partitions whose state is still being read.
        var restoringCount: Int?
        var usefulReplicas: Int64?
        /// When its status came, by the clock that never goes back, milliseconds; nil without one.
        var statusAt: Int64?
        /// The same of its metrics.
        var metricsAt: Int64?
    }

    /// How a trouble begins that Kafka makes.
    static let kafkaTrouble = "Kafka: "

    /// UNIX milliseconds.
    var at: Int64 = 0
    var servers = ""
    var prefix = ""
    /// Nil where Kafka is away.
    var clusterID: String?
    var stages: [Stage] = []
    var lanes: [Lane] = []
    var answers: [Answer] = []
    /// Nil where the ledger was not read.
    var reported: [Reported]?
    /// Whether nothing of the last hour is missing from it.
    var isReportedAll = false
    var deadLetters: [DeadLetters] = []
    /// All that are open: neither replayed nor discarded; nil where they were not read.
    var deadLetterTotal: Int64?
    /// Whether all of them have been read; else there are more.
    var areDeadLettersAll = false
    var instances: [Instance] = []
    /// Why a part could not be shown, or nothing at all.
    var troubles: [String] = []
    /// What to do about some of them, by their sentence.
    var repairs: [String: String] = [:]

    /// Takes rates from what was seen before.
    mutating func compare(with earlier: TopSnapshot?) {
        guard let earlier else {
            return
        }
        for index in stages.indices {
            let now = stages[index]
            guard
                let then = earlier.stages.first(where: {
                    $0.worker == now.worker && $0.topic == now.topic
                }), now.lag != nil, then.lag != nil, now.measuredAt > then.measuredAt
            else {
                continue
            }
            let seconds = Double(now.measuredAt - then.measuredAt) / 1_000
            // A topic that was made anew begins again.
            stages[index].inPerSecond = max(0, Double(now.end - then.end)) / seconds
            stages[index].donePerSecond = max(0, Double(now.committed - then.committed)) / seconds
        }
        let statusSeconds = seconds(since: earlier, \.statusAt)
        // There may be thousands of lanes and of answers.
        let startedCounts = Dictionary(
            earlier.lanes.map { ($0.key, $0.startedCounts) },
            uniquingKeysWith: { first, _ in first }
        )
        for index in lanes.indices {
            lanes[index].startedPerSecond = Self.rate(
                of: lanes[index].startedCounts,
                since: startedCounts[lanes[index].key] ?? [:],
                over: statusSeconds
            )
        }
        let metricsSeconds = seconds(since: earlier, \.metricsAt)
        let answerCounts = Dictionary(
            earlier.answers.map { ($0.key, $0.counts) },
            uniquingKeysWith: { first, _ in first }
        )
        for index in answers.indices {
            answers[index].perSecond = Self.rate(
                of: answers[index].counts,
                since: answerCounts[answers[index].key] ?? [:],
                over: metricsSeconds
            )
        }
    }

    /// Between two answers of each instance that gave both, by its address.
    private func seconds(
        since earlier: TopSnapshot,
        _ time: KeyPath<Instance, Int64?>
    ) -> [String: Double] {
        let before = Dictionary(
            earlier.instances.map { ($0.address, $0[keyPath: time]) },
            uniquingKeysWith: { $1 }
        )
        var seconds: [String: Double] = [:]
        for instance in instances {
            if let now = instance[keyPath: time], let then = before[instance.address] ?? nil,
                now > then
            {
                seconds[instance.address] = Double(now - then) / 1_000
            }
        }
        return seconds
    }

    /// Over the instances that told both times; nil where none did.
    ///
    /// One that had nothing of a kind before has begun it since.
    private static func rate(
        of counts: [String: Int64],
        since earlier: [String: Int64],
        over seconds: [String: Double]
    ) -> Double? {
        var rate: Double?
        for (address, count) in counts {
            if let seconds = seconds[address] {
                // A worker that was started anew counts from nothing.
                let grown = max(0, Double(count) - Double(earlier[address] ?? 0))
                rate = (rate ?? 0) + grown / seconds
            }
        }
        return rate
    }
}

extension TopSnapshot {
    /// That the lanes are those of some instances of `report`, of which its group has so many; nil
    /// where all were asked, or that is not known.
    func lanesAreOfSome(of memberCount: Int?) -> String? {
        let count = instances.filter { $0.worker == Worker.report.rawValue }.count
        guard let memberCount, count > 0, count < memberCount else {
            return nil
        }
        return "the lanes are those of \(count) of \(memberCount) instances of report"
    }
}
