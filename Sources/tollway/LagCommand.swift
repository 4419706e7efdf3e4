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
            group its state. Exit 3 if none of the topics is there, 6 without Kafka.
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
        /// Nil where the topic is not there.
        var partitions: [Partition]?
        /// Nil on the embedded broker, which does not answer this.
        var readers: StageReaders?

        var lag: Int64? { partitions.map { $0.reduce(0) { $0 + $1.lag } } }
        var assignedCount: Int? { readers.map { $0.assignedCounts[topic] ?? 0 } }
    }

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let workers = try workers(invocation)
        let configuration = try KafkaQuestion.configuration()
        let prefix = configuration.topicPrefix
        let rows = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> [Row] in
            let clusterID = try admin.clusterID()
            let there = Set(try admin.topics().filter { !$0.partitions.isEmpty }.map(\.name))
            var rows: [Row] = []
            for worker in workers {
                let readers = try StageReaders.ask(
                    worker,
                    prefix: prefix,
                    clusterID: clusterID,
                    admin
                )
                for topic in worker.sources.map({ $0.name(prefix: prefix) }) {
                    var row = Row(worker: worker, topic: topic, readers: readers)
                    if there.contains(topic) {
                        row.partitions = try partitions(
                            of: topic,
                            group: "\(prefix)\(worker.rawValue)",
                            admin
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

    /// A topic as what waits before a stage.
    static func source(_ topic: String, _ partitions: [Partition]) -> UnreadStage.Source {
        UnreadStage.Source(
            topic: topic,
            partitionCount: partitions.count,
            lag: partitions.reduce(0) { $0 + $1.lag },
            hasRecords: partitions.contains { $0.end > 0 }
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
                    row.partitions.map { "\($0.count { $0.committed != nil })" } ?? "-",
                    row.lag.map(String.init) ?? "-",
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
                    ("partition", "\(number)"), ("start", "\(partition.start)"),
                    ("end", "\(partition.end)"),
                    ("committed", partition.committed.map(String.init) ?? "null"),
                    ("lag", "\(partition.lag)"),
                ])
            }
            return "[" + objects.joined(separator: ",") + "]"
        }
        let unassigned = row.partitions.flatMap { partitions in
            row.assignedCount.map { "\(partitions.count - $0)" }
        }
        return JSONLines.object([
            ("worker", JSONText.quoted(row.worker.rawValue)),
            ("topic", JSONText.quoted(row.topic)),
            ("lag", row.lag.map(String.init) ?? "null"),
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
        guard let worker = readers.first(where: { $0.rawValue == name }) else {
            throw .usage(
                "bad_value",
                "--worker is \"\(name)\": it must be one of "
                    + readers.map(\.rawValue).joined(separator: ", ")
            )
        }
        return [worker]
    }
}
