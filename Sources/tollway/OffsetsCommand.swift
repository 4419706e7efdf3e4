internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway offsets`: lets workers go on whose place in a topic is gone.
enum OffsetsCommand {
    static let reset = Verb(
        words: ["offsets", "reset"],
        summary: "let a worker go on whose next records were removed before it read them",
        options: [
            .value(
                "--worker",
                "NAME",
                "one of decode, dedupe, report, notifications, purchases; default: all of them"
            ),
            .value("--why", "TEXT", "a sentence for the audit"),
            .flag("--yes", "do it; without, the plan is shown and nothing changed"),
        ],
        details: """
            A worker whose committed offset lies before the first record that is left, or beyond
            the last one, ends with 75 and says so: going on by itself would hide the loss.
            This shows such places, with what is lost, and sets them to the first record there
            is. Places that are sound are never touched. Stop the worker first; Kafka gives its
            membership up 15 s later, and refuses before that. What is read again does no
            harm: repeats are settled. The order, with what is lost, and its result go to the
            audit topic. Exit 3 if every place is sound, 4 if a part was set, 5 without --yes or
            while the worker runs.
            """,
        run: run
    )

    /// One place to be set.
    struct Row: Equatable {
        var worker: Worker
        var lost: LostRecords
    }

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let workers = try LagCommand.workers(invocation)
        let configuration = try KafkaQuestion.configuration()
        let order = try HandOrder(
            "offsets",
            why: invocation.value("--why"),
            now: Timestamp(milliseconds: WallClock.nowMilliseconds())
        )
        let rows = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> [Row] in
            try lostPlaces(of: workers, prefix: configuration.topicPrefix, admin)
        }
        guard !rows.isEmpty else {
            throw CommandFailure(
                .nothingMatched,
                code: "offsets.sound",
                "every worker's place in its topics is there: nothing to reset"
            )
        }
        Console.write(text(rows, format: invocation.output))
        guard invocation.has("--yes") else {
            Console.say("nothing was changed; say --yes to do it")
            return .refusedBySafetyRule
        }
        var audit = OffsetsAudit(order: order, rows: rows)
        try audit.record(configuration) { audit throws(CommandFailure) in
            try set(rows, &audit.count, configuration)
        }
        Console.say(
            "done: " + CountText.of(rows.count, "partition goes", "partitions go")
                + " on at the first record"
        )
        return .ok
    }

    private static func lostPlaces(
        of workers: [Worker],
        prefix: String,
        _ admin: KafkaAdmin
    ) throws(LogFault) -> [Row] {
        let there = try admin.partitionCounts()
        var rows: [Row] = []
        for worker in workers {
            let topics = worker.sources.map { $0.name(prefix: prefix) }
            for topic in topics where there[topic] != nil {
                let partitions = try LagCommand.partitions(
                    of: topic,
                    group: worker.group(prefix: prefix),
                    admin
                )
                for (number, partition) in partitions.enumerated() {
                    let lost = LostRecords(
                        TopicPartition(topic: topic, partition: Int32(number)),
                        committed: partition.committed,
                        start: partition.start,
                        end: partition.end
                    )
                    if let lost {
                        rows.append(Row(worker: worker, lost: lost))
                    }
                }
            }
        }
        return rows
    }

    private static func set(
        _ rows: [Row],
        _ doneCount: inout Int,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        let failure = try KafkaQuestion.ask(configuration) { admin -> (Row, LogFault)? in
            for row in rows {
                do throws(LogFault) {
                    try admin.commit(
                        [row.lost.partition.partition: row.lost.start],
                        ofGroup: row.worker.group(prefix: configuration.topicPrefix),
                        topic: row.lost.partition.topic
                    )
                    doneCount += 1
                } catch {
                    return (row, error)
                }
            }
            return nil
        }
        guard let (row, fault) = failure else {
            return
        }
        if case .fenced = fault {
            throw CommandFailure(
                doneCount > 0 ? .partlyDone : .refusedBySafetyRule,
                code: "offsets.worker_runs",
                "\(row.worker.rawValue) is still a member of its group: stop it, wait 15 s, and run"
                    + " this again"
            )
        }
        let because = KafkaQuestion.failure(fault, configuration)
        guard doneCount > 0 else {
            throw because
        }
        throw CommandFailure(
            .partlyDone,
            code: "offsets.partly_done",
            "\(doneCount) of " + CountText.of(rows.count, "partition was", "partitions were")
                + " set: \(because.message); run it again"
        )
    }

    // MARK: - Output

    static func text(_ rows: [Row], format: OutputFormat) -> String {
        switch format {
        case .table:
            var table = TextTable(columns: [
                .init(title: "WORKER"), .init(title: "TOPIC"),
                .init(title: "PARTITION", isNumber: true),
                .init(title: "COMMITTED", isNumber: true), .init(title: "FIRST", isNumber: true),
                .init(title: "END", isNumber: true), .init(title: "LOST", isNumber: true),
            ])
            table.rows = rows.map { row in
                [
                    row.worker.rawValue, row.lost.partition.topic,
                    "\(row.lost.partition.partition)", "\(row.lost.position)",
                    "\(row.lost.start)", "\(row.lost.end)",
                    row.lost.lostCount.map(String.init) ?? "?",
                ]
            }
            return table.text
        case .json, .ndjson:
            return JSONLines.text(rows.map(object), list: "offsets", format: format)
        }
    }

    private static func object(_ row: Row) -> String {
        JSONLines.object([
            ("worker", JSONText.quoted(row.worker.rawValue)),
            ("topic", JSONText.quoted(row.lost.partition.topic)),
            ("partition", "\(row.lost.partition.partition)"),
            ("committed", "\(row.lost.position)"), ("first", "\(row.lost.start)"),
            ("end", "\(row.lost.end)"),
            ("lost", row.lost.lostCount.map(String.init) ?? "null"),
        ])
    }
}
