internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// Takes snapshots: from Kafka, and from the admin ports that were named.
///
/// Kept from look to look, so that each asks only for what is new. One thread uses it.
final class TopSource {
    private static let deadlineMilliseconds = 5_000
    private static let deadLettersShownMax = 100

    private let configuration: Configuration
    private let ports: AdminPorts
    private var admin: KafkaAdmin?
    private var deadLetters: TopDeadLetters?
    /// Read anew from the beginning; it takes the place of the other one once it knows all.
    private var renewed: TopDeadLetters?
    private var ledger: TopTail?
    private var earlier: TopSnapshot?

    init(_ configuration: Configuration, addresses: [String]) throws(CommandFailure) {
        self.configuration = configuration
        ports = try AdminPorts(addresses)
    }

    func close() {
        admin?.close()
        deadLetters?.close()
        renewed?.close()
        ledger?.close()
    }

    /// One look, with rates since the one before.
    func look() -> TopSnapshot {
        var snapshot = TopSnapshot()
        snapshot.at = WallClock.nowMilliseconds()
        snapshot.servers = configuration.kafka.bootstrapServers
        snapshot.prefix = configuration.topicPrefix
        do throws(LogFault) {
            try askKafka(&snapshot)
        } catch {
            snapshot.troubles.append("Kafka: \(DoctorKafka.sentence(error))")
            drop()
        }
        ports.ask(&snapshot)
        snapshot.compare(with: earlier)
        earlier = snapshot
        return snapshot
    }

    /// What failed is made anew at the next look.
    private func drop() {
        close()
        admin = nil
        deadLetters = nil
        renewed = nil
        ledger = nil
    }

    private func askKafka(_ snapshot: inout TopSnapshot) throws(LogFault) {
        let admin = try openAdmin()
        let clusterID = try admin.clusterID()
        snapshot.clusterID = clusterID
        let prefix = configuration.topicPrefix
        let there = Set(try admin.topics().filter { !$0.partitions.isEmpty }.map(\.name))
        for worker in Worker.allCases where !worker.sources.isEmpty {
            let group = "\(prefix)\(worker.rawValue)"
            let readers = try StageReaders.ask(worker, prefix: prefix, clusterID: clusterID, admin)
            var sources: [UnreadStage.Source] = []
            for source in worker.sources {
                let name = source.name(prefix: prefix)
                var stage = TopSnapshot.Stage(
                    worker: worker,
                    topic: source.name(prefix: ""),
                    end: 0,
                    committed: 0,
                    lag: nil
                )
                stage.memberCount = readers?.memberCount
                if there.contains(name) {
                    stage.assignedCount = readers.map { $0.assignedCounts[name] ?? 0 }
                    sources.append(try measure(&stage, name, group, admin))
                }
                snapshot.stages.append(stage)
            }
            if let readers, let unread = UnreadStage(worker, group: group, readers, sources) {
                snapshot.troubles.append(unread.sentence)
                snapshot.repairs[unread.sentence] = unread.repair
            }
        }
        try readDeadLetters(&snapshot, there: there)
        try readLedger(&snapshot, there: there)
    }

    private func openAdmin() throws(LogFault) -> KafkaAdmin {
        if let admin {
            return admin
        }
        let made = try KafkaAdmin(
            settings: configuration.kafka,
            deadlineMilliseconds: Self.deadlineMilliseconds
        )
        admin = made
        return made
    }

    private func measure(
        _ stage: inout TopSnapshot.Stage,
        _ topic: String,
        _ group: String,
        _ admin: KafkaAdmin
    ) throws(LogFault) -> UnreadStage.Source {
        let partitions = try LagCommand.partitions(of: topic, group: group, admin)
        stage.partitionCount = partitions.count
        for partition in partitions {
            stage.end += partition.end
            stage.committed += max(partition.committed ?? partition.start, partition.start)
        }
        let source = LagCommand.source(topic, partitions)
        stage.lag = source.lag
        return source
    }

    private func readDeadLetters(
        _ snapshot: inout TopSnapshot,
        there: Set<String>
    ) throws(LogFault) {
        let prefix = configuration.topicPrefix
        let stages = DeadLetters.stages.filter {
            there.contains(Topic.deadLetters($0).name(prefix: prefix))
        }
        guard !stages.isEmpty else {
            return
        }
        let hasReplays = there.contains(Topic.deadLetterReplays.name(prefix: prefix))
        var deadLetters: TopDeadLetters
        if let known = self.deadLetters {
            deadLetters = known
        } else {
            deadLetters = try openDeadLetters(stages, hasReplays)
            self.deadLetters = deadLetters
        }
        try deadLetters.look()
        if WallClock.monotonicMilliseconds() - deadLetters.madeAt > TopDeadLetters.lifeMilliseconds {
            deadLetters = try renew(deadLetters, stages, hasReplays)
            self.deadLetters = deadLetters
        }
        if let failure = deadLetters.failure {
            snapshot.troubles.append(failure.message)
        }
        snapshot.deadLetterTotal = Int64(deadLetters.total)
        snapshot.areDeadLettersAll = deadLetters.isComplete
        snapshot.deadLetters = Array(deadLetters.shown.prefix(Self.deadLettersShownMax))
    }

    /// Reads everything anew beside what is known, for Kafka has removed dead letters since.
    ///
    /// - Returns: the new one once it knows all, else the old one.
    private func renew(
        _ deadLetters: TopDeadLetters,
        _ stages: [Worker],
        _ hasReplays: Bool
    ) throws(LogFault) -> TopDeadLetters {
        let fresh: TopDeadLetters
        if let renewed {
            fresh = renewed
        } else {
            fresh = try openDeadLetters(stages, hasReplays)
            renewed = fresh
        }
        try fresh.look()
        guard fresh.isRead else {
            return deadLetters
        }
        deadLetters.close()
        renewed = nil
        return fresh
    }

    private func openDeadLetters(
        _ stages: [Worker],
        _ hasReplays: Bool
    ) throws(LogFault) -> TopDeadLetters {
        try TopDeadLetters(
            settings: configuration.kafka,
            prefix: configuration.topicPrefix,
            stages: stages,
            hasReplays: hasReplays
        )
    }

    private func readLedger(
        _ snapshot: inout TopSnapshot,
        there: Set<String>
    ) throws(LogFault) {
        let topic = Topic.reportsOutcomes.name(prefix: configuration.topicPrefix)
        guard there.contains(topic) else {
            return
        }
        let tail = try open(ledger, [topic], snapshot.at, TopTail.outcome)
        ledger = tail
        try tail.look(now: snapshot.at)
        snapshot.reported = tail.groups.map {
            .init(app: Int64($0.group[0]) ?? 0, environment: $0.group[1], count: $0.count)
        }
    }

    private func open(
        _ tail: TopTail?,
        _ topics: [String],
        _ now: Int64,
        _ describe: @escaping (RecordBatch.Record, RecordBatch, String) -> [String]
    ) throws(LogFault) -> TopTail {
        if let tail {
            return tail
        }
        return try TopTail(
            settings: configuration.kafka,
            topics: topics,
            now: now,
            describe: describe
        )
    }
}
