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
        /// Records not done; nil where the topic is not there.
        var lag: Int64?
        var partitionCount = 0
        /// Instances in the worker's group; nil on the embedded broker, which does not tell.
        var memberCount: Int?
        /// Partitions that one of them has.
        var assignedCount: Int?
        /// Nil in the first snapshot, and where no admin port tells seconds.
        var inPerSecond: Double?
        var donePerSecond: Double?
        var lagSeconds: Double?
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
        var startedCount: Int64 = 0
        var startedPerSecond: Double?
        var inFlight = 0
        /// UNIX milliseconds; the earliest of all instances.
        var nextDeadline: Int64?
    }

    /// What the ledger says was told to Apple lately.
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
        var usefulReplicas: Int64?
    }

    /// UNIX milliseconds.
    var at: Int64 = 0
    var servers = ""
    var prefix = ""
    /// Nil where Kafka is away.
    var clusterID: String?
    var stages: [Stage] = []
    var lanes: [Lane] = []
    var reported: [Reported] = []
    var deadLetters: [DeadLetters] = []
    /// All that are open: neither replayed nor discarded.
    var deadLetterTotal: Int64 = 0
    /// Whether all of them have been read; else there are more.
    var areDeadLettersAll = true
    var instances: [Instance] = []
    /// Why a part could not be shown, or nothing at all.
    var troubles: [String] = []

    /// Takes rates from what was seen before.
    mutating func compare(with earlier: TopSnapshot?) {
        guard let earlier, at > earlier.at else {
            return
        }
        let seconds = Double(at - earlier.at) / 1_000
        for index in stages.indices {
            let now = stages[index]
            guard
                let then = earlier.stages.first(where: {
                    $0.worker == now.worker && $0.topic == now.topic
                }), now.lag != nil, then.lag != nil
            else {
                continue
            }
            // A topic that was made anew begins again.
            stages[index].inPerSecond = max(0, Double(now.end - then.end)) / seconds
            stages[index].donePerSecond = max(0, Double(now.committed - then.committed)) / seconds
        }
        for index in lanes.indices {
            let now = lanes[index]
            let then = earlier.lanes.first {
                $0.app == now.app && $0.environment == now.environment
                    && $0.endpoint == now.endpoint
            }
            if let then {
                lanes[index].startedPerSecond =
                    max(0, Double(now.startedCount - then.startedCount)) / seconds
            }
        }
    }

    var json: String {
        func list(_ objects: [String]) -> String { "[" + objects.joined(separator: ",") + "]" }
        func number(_ name: String, _ value: Double?) -> [(name: String, json: String)] {
            value.map { [(name, "\(($0 * 10).rounded() / 10)")] } ?? []
        }
        return JSONLines.object([
            ("at", "\(at)"),
            (
                "stages",
                list(
                    stages.map { stage in
                        JSONLines.object(
                            Fact.text("worker", stage.worker.rawValue)
                                + Fact.text("topic", stage.topic)
                                + Fact.number("end", stage.end)
                                + Fact.number("committed", stage.committed)
                                + Fact.number("lag", stage.lag)
                                + Fact.number("partitions", Int64(stage.partitionCount))
                                + Fact.number("members", stage.memberCount.map(Int64.init))
                                + Fact.number("assigned", stage.assignedCount.map(Int64.init))
                                + number("lagSeconds", stage.lagSeconds)
                                + number("inPerSecond", stage.inPerSecond)
                                + number("donePerSecond", stage.donePerSecond)
                        )
                    }
                )
            ),
            (
                "lanes",
                list(
                    lanes.map { lane in
                        JSONLines.object(
                            Fact.number("appAppleId", lane.app)
                                + Fact.text("environment", lane.environment)
                                + Fact.text("endpoint", lane.endpoint)
                                + Fact.text("state", lane.state)
                                + Fact.text("because", lane.because)
                                + Fact.number("until", lane.until)
                                + number("allowedPerSecond", lane.allowedPerSecond)
                                + number("startedPerSecond", lane.startedPerSecond)
                                + Fact.number("inFlight", Int64(lane.inFlight))
                                + Fact.number("nextDeadline", lane.nextDeadline)
                        )
                    }
                )
            ),
            (
                "reported",
                list(
                    reported.map { reported in
                        JSONLines.object(
                            Fact.number("appAppleId", reported.app)
                                + Fact.text("environment", reported.environment)
                                + Fact.number("count", Int64(reported.count))
                        )
                    }
                )
            ),
            ("deadLetterTotal", "\(deadLetterTotal)"),
            ("areDeadLettersAll", "\(areDeadLettersAll)"),
            (
                "deadLetters",
                list(
                    deadLetters.map { letters in
                        JSONLines.object(
                            Fact.text("stage", letters.stage) + Fact.text("code", letters.code)
                                + Fact.number("count", Int64(letters.count))
                                + Fact.number("newest", letters.newest)
                        )
                    }
                )
            ),
            (
                "instances",
                list(
                    instances.map { instance in
                        JSONLines.object(
                            Fact.text("address", instance.address)
                                + Fact.text("worker", instance.worker)
                                + Fact.text("instance", instance.name)
                                + (instance.isReady.map { [("isReady", "\($0)")] } ?? [])
                                + Fact.number("partitions", instance.partitionCount.map(Int64.init))
                                + Fact.number("usefulReplicas", instance.usefulReplicas)
                        )
                    }
                )
            ),
            ("troubles", list(troubles.map(JSONText.quoted))),
        ])
    }
}
