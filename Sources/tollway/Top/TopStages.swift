internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// Asks Kafka how far the workers are, one after the other.
struct TopStages {
    let prefix: String
    /// Partitions of the topics that are there, by full name.
    let there: [String: Int]
    let admin: KafkaAdmin
    /// Partitions whose leaders do not answer, by name.
    private(set) var unknown: [String] = []
    private var silentNodes: Set<Int32> = []
    private var rows: [TopSnapshot.Stage] = []

    init(prefix: String, there: [String: Int], admin: KafkaAdmin) {
        self.prefix = prefix
        self.there = there
        self.admin = admin
    }

    /// What is known of the worker that was read last.
    mutating func take() -> [TopSnapshot.Stage] {
        defer { rows = [] }
        return rows
    }

    /// To be called before the worker is read: what is not told stays unknown.
    mutating func begin(_ worker: Worker) {
        rows = worker.sources.map { source in
            var stage = TopSnapshot.Stage(
                worker: worker,
                topic: source.name(prefix: ""),
                end: 0,
                committed: 0,
                lag: nil
            )
            stage.partitionCount = there[source.name(prefix: prefix)] ?? 0
            return stage
        }
    }

    mutating func read(
        _ worker: Worker,
        clusterID: String,
        _ snapshot: inout TopSnapshot
    ) throws(LogFault) {
        let group = worker.group(prefix: prefix)
        let readers = try StageReaders.ask(worker, prefix: prefix, clusterID: clusterID, admin)
        var sources: [UnreadStage.Source] = []
        for (index, source) in worker.sources.enumerated() {
            rows[index].memberCount = readers?.memberCount
            guard rows[index].partitionCount > 0 else {
                continue
            }
            let name = source.name(prefix: prefix)
            rows[index].assignedCount = readers.map { $0.assignedCounts[name] ?? 0 }
            let (stage, waiting) = try measured(rows[index], name, group)
            rows[index] = stage
            sources.append(waiting)
        }
        if let readers, let unread = UnreadStage(worker, group: group, readers, sources) {
            snapshot.troubles.append(unread.sentence)
            snapshot.repairs[unread.sentence] = unread.repair
        }
    }

    private mutating func measured(
        _ stage: TopSnapshot.Stage,
        _ topic: String,
        _ group: String
    ) throws(LogFault) -> (TopSnapshot.Stage, UnreadStage.Source) {
        var stage = stage
        let partitions = try LagCommand.knownPartitions(
            of: topic,
            group: group,
            admin,
            &silentNodes
        )
        stage.measuredAt = WallClock.monotonicMilliseconds()
        stage.partitionCount = partitions.count
        for (number, partition) in partitions.enumerated() {
            guard let partition else {
                unknown.append("\(TopicPartition(topic: topic, partition: Int32(number)))")
                continue
            }
            stage.end += partition.end
            stage.committed += max(partition.committed ?? partition.start, partition.start)
        }
        let source = LagCommand.source(topic, partitions)
        stage.lag = partitions.contains { $0 == nil } ? nil : source.lag
        return (stage, source)
    }
}
