internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway lag`: how far each worker is behind each topic that it reads.
enum LagCommand {
    static let verb = Verb(
        words: ["lag"],
        summary: "how many records each worker has before it, by topic, and who reads them",
        options: [
            .value(
                "--worker",
                "NAME",
                "one of decode, dedupe, report, notifications, purchases; default: all of them"
            )
        ],
        details: """
            The end of each partition less what the worker's group has committed; where it has
            committed nothing, all that is there. Never negative. MEMBERS are the instances in
            the worker's group, 0 where nobody runs it; one that was killed counts for 15 s.
            ASSIGNED are the partitions that one of them has, and COMMITTED those in which the
            group has committed an offset. With -o json each partition has its offsets, and each
            group its state. Where a partition has no leader, or that does not answer, the lag is
            that of the others at least, and null with -o json; the message names the partition.
            Exit 3 if none of the topics is there, 6 without Kafka or a part of it.
            """,
        run: run
    )

    /// One partition as its reader sees it.
    struct Partition: Equatable {
        var start: Int64
        var end: Int64
        /// Nil where the group has committed nothing.
        var committed: Int64?

        /// A topic that was deleted and made anew may end before what was once committed, and
        /// records that were kept long enough may be gone before they were read.
        var lag: Int64 { max(0, end - max(committed ?? start, start)) }
    }

    struct Row: Equatable {
        var worker: Worker
        var topic: String
        /// Nil where the topic is not there; one is nil whose leader does not answer.
        var partitions: [Partition?]?
        /// Nil on the embedded broker, which does not answer this.
        var readers: StageReaders?

        var isWhole: Bool { unknown.isEmpty }
        /// Of the partitions that are known.
        var knownLag: Int64? { partitions.map { $0.reduce(0) { $0 + ($1?.lag ?? 0) } } }
        /// By name.
        var unknown: [String] {
            (partitions ?? []).enumerated().filter { $0.element == nil }.map {
                "\(TopicPartition(topic: topic, partition: Int32($0.offset)))"
            }
        }
        var assignedCount: Int? { readers.map { $0.assignedCounts[topic] ?? 0 } }
    }

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let workers = try workers(invocation)
        let configuration = try KafkaQuestion.configuration()
        let prefix = configuration.topicPrefix
        let rows = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> [Row] in
            let clusterID = try admin.clusterID()
            let there = try admin.partitionCounts()
            var rows: [Row] = []
            var silentNodes: Set<Int32> = []
            for worker in workers {
                let readers = try StageReaders.ask(
                    worker,
                    prefix: prefix,
                    clusterID: clusterID,
                    admin
                )
                for topic in worker.sources.map({ $0.name(prefix: prefix) }) {
                    var row = Row(worker: worker, topic: topic, readers: readers)
                    if there[topic] != nil {
                        row.partitions = try knownPartitions(
                            of: topic,
                            group: worker.group(prefix: prefix),
                            admin,
                            &silentNodes
                        )
                    }
                    rows.append(row)
                }
            }
            return rows
        }
        guard rows.contains(where: { $0.partitions != nil }) else {
            throw CommandFailure(
                .nothingMatched,
                code: "lag.no_topics",
                "Kafka has none of these topics under the prefix \"\(prefix)\":"
                    + " see tollway topics plan"
            )
        }
        Console.write(text(rows, format: invocation.output))
        let unknown = rows.flatMap(\.unknown)
        guard unknown.isEmpty else {
            throw CommandFailure(
                .noKafka,
                code: "kafka.unavailable",
                "not known: \(NameList.text(unknown)): no leader, or it does not answer"
            )
        }
        return .ok
    }

    static func partitions(
        of topic: String,
        group: String,
        _ admin: KafkaAdmin
    ) throws(LogFault) -> [Partition] {
        // What is committed first: it never passes the ends that are read after it.
        let committed = try admin.committedOffsets(ofGroup: group, topic: topic)
        let starts = try admin.startOffsets(ofTopic: topic)
        let ends = try admin.endOffsets(ofTopic: topic)
        return zip(zip(starts, ends), committed).map { offsets, committed in
            Partition(start: offsets.0, end: offsets.1, committed: committed)
        }
    }

    /// The same, nil of each partition that has no leader, or whose leader does not answer.
    static func knownPartitions(
        of topic: String,
        group: String,
        _ admin: KafkaAdmin,
        _ silentNodes: inout Set<Int32>
    ) throws(LogFault) -> [Partition?] {
        let committed = try admin.committedOffsets(ofGroup: group, topic: topic)
        let starts = try admin.knownOffsets(.start, ofTopic: topic, &silentNodes)
        let ends = try admin.knownOffsets(.end, ofTopic: topic, &silentNodes)
        return zip(zip(starts, ends), committed).map { offsets, committed in
            guard let start = offsets.0, let end = offsets.1 else {
                return nil
            }
            return Partition(start: start, end: end, committed: committed)
        }
    }

    /// A topic as what waits before a stage, in the partitions that are known.
    static func source(_ topic: String, _ partitions: [Partition?]) -> UnreadStage.Source {
        let known = partitions.compactMap { $0 }
        return UnreadStage.Source(
            topic: topic,
            partitionCount: partitions.count,
            lag: known.reduce(0) { $0 + $1.lag },
            hasRecords: known.contains { $0.end > 0 },
            isCommitted: known.contains { $0.committed != nil }
        )
    }

    // MARK: - Output

    static func text(_ rows: [Row], format: OutputFormat) -> String {
        switch format {
        case .table:
            var table = TextTable(columns: [
                .init(title: "WORKER"), .init(title: "TOPIC"),
                .init(title: "PARTITIONS", isNumber: true),
                .init(title: "MEMBERS", isNumber: true), .init(title: "ASSIGNED", isNumber: true),
                .init(title: "COMMITTED", isNumber: true), .init(title: "LAG", isNumber: true),
            ])
            table.rows = rows.map { row in
                [
                    row.worker.rawValue, row.topic,
                    row.partitions.map { "\($0.count)" } ?? "none",
                    row.readers.map { "\($0.memberCount)" } ?? "-",
                    row.assignedCount.map(String.init) ?? "-",
                    row.partitions.map { "\($0.count { $0?.committed != nil })" } ?? "-",
                    row.knownLag.map { row.isWhole ? "\($0)" : "at least \($0)" } ?? "-",
                ]
            }
            return table.text
        case .json, .ndjson:
            return JSONLines.text(rows.map(object), list: "lag", format: format)
        }
    }

    private static func object(_ row: Row) -> String {
        let partitions = row.partitions.map { partitions in
            let objects = partitions.enumerated().map { number, partition in
                JSONLines.object([
                    ("partition", "\(number)"),
                    ("start", partition.map { "\($0.start)" } ?? "null"),
                    ("end", partition.map { "\($0.end)" } ?? "null"),
                    ("committed", partition?.committed.map(String.init) ?? "null"),
                    ("lag", partition.map { "\($0.lag)" } ?? "null"),
                ])
            }
            return JSONLines.list(objects)
        }
        let unassigned = row.partitions.flatMap { partitions in
            row.assignedCount.map { "\(partitions.count - $0)" }
        }
        return JSONLines.object([
            ("worker", JSONText.quoted(row.worker.rawValue)),
            ("topic", JSONText.quoted(row.topic)),
            ("lag", (row.isWhole ? row.knownLag : nil).map(String.init) ?? "null"),
            ("groupState", row.readers.map { JSONText.quoted($0.state) } ?? "null"),
            ("members", row.readers.map { "\($0.memberCount)" } ?? "null"),
            ("assigned", row.assignedCount.map(String.init) ?? "null"),
            ("unassigned", unassigned ?? "null"),
            ("partitions", partitions ?? "null"),
        ])
    }

    static func workers(_ invocation: Invocation) throws(CommandFailure) -> [Worker] {
        let readers = Worker.allCases.filter { !$0.sources.isEmpty }
        guard let name = invocation.value("--worker") else {
            return readers
        }
        return [try Worker.read(name, of: "--worker", among: readers)]
    }
}
