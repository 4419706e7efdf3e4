internal import Glibc
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway transactions`: transactions that hang, and the markers that Kafka owes them.
enum TransactionsCommand {
    static let list = Verb(
        words: ["transactions", "list"],
        summary: "transactions that hold readers back, with their coordinator's verdict",
        details: """
            Kafka 4.1 to 4.3 can complete a transaction without the markers of a partition that has
            no leader at that moment (KAFKA-20734): the partition's last stable offset then stands
            still, and read-committed readers see nothing behind it. Shows every transaction that is
            open in the pipeline's topics or in the groups' offsets: commit or abort is what its
            coordinator decided ten seconds ago or earlier, so its marker does not come by itself;
            under way ends by itself; of unknown no record is left. Exit 3 if there is none, 6 where
            a partition has no leader, or that does not answer: the message names it.
            Wants a PLAINTEXT listener, and the right to read the topics and __transaction_state.
            """,
        run: runList
    )

    static let repair = Verb(
        words: ["transactions", "repair"],
        summary: "write the markers that Kafka owes transactions that hang",
        options: [
            .value("--why", "TEXT", "for the audit"),
            .flag("--yes", "do it; without, the list is shown and nothing changed"),
        ],
        details: """
            Writes to each partition what the transaction's coordinator decided, commit or abort, as
            the coordinator itself would have. Leaves alone what is under way or unknown. Both the
            order and its result go to the audit topic. Kafka wants the right CLUSTER_ACTION for it.
            Exit 3 if nothing is owed, 5 without --yes, 4 if a part could not be written, 6 if nothing
            was found and a partition did not answer.
            """,
        run: runRepair
    )

    /// How long a partition's leader may take to show a marker.
    private static let shownMillisecondsMax: Int64 = 10_000
    /// Between two looks whether it does.
    private static let lookMilliseconds: Int32 = 200
    private static let deadlineMilliseconds = 10_000

    private static func runList(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let found = try find(KafkaQuestion.configuration())
        guard !found.transactions.isEmpty else {
            throw nothing(found)
        }
        Console.write(text(found.transactions, format: invocation.output))
        if let unanswered = unanswered(found) {
            throw unanswered
        }
        return .ok
    }

    private static func nothing(_ found: HangingTransactions.Found) -> CommandFailure {
        unanswered(found)
            ?? CommandFailure(
                .nothingMatched,
                code: "transactions.none",
                "no transaction holds a partition back"
            )
    }

    /// Nil where every leader answered.
    private static func unanswered(_ found: HangingTransactions.Found) -> CommandFailure? {
        guard !found.unanswered.isEmpty else {
            return nil
        }
        return CommandFailure(
            .noKafka,
            code: "kafka.unavailable",
            "not known: \(names(found.unanswered)): no leader, or it does not answer"
        )
    }

    private static func names(_ partitions: [TopicPartition]) -> String {
        NameList.text(partitions.map { "\($0)" })
    }

    private static func runRepair(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let configuration = try KafkaQuestion.configuration()
        let found = try find(configuration)
        let owed = found.transactions.filter(\.isOwed)
        guard !found.transactions.isEmpty else {
            throw nothing(found)
        }
        Console.write(text(found.transactions, format: invocation.output))
        guard !owed.isEmpty else {
            throw unanswered(found)
                ?? CommandFailure(
                    .nothingMatched,
                    code: "transactions.nothing_owed",
                    "no marker is owed to any of them"
                )
        }
        guard invocation.has("--yes") else {
            Console.say("nothing was changed; say --yes to do it")
            return .refusedBySafetyRule
        }
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let order = try HandOrder("repair", why: invocation.value("--why"), now: now)
        var audit = RepairAudit(order: order, transactions: owed)
        try audit.record(configuration) { audit throws(CommandFailure) in
            audit.refusals = try ask(configuration) { hanging throws(LogFault) in
                try hanging.repair(owed)
            }
        }
        let count = CountText.of(owed.count, "marker was", "markers were")
        let blocked = try stillBlocked(owed, audit.refusals, configuration)
        guard blocked.isEmpty else {
            throw partlyDone(
                "\(count) sent, and these partitions are still blocked:"
                    + " \(blocked.joined(separator: ", "))"
            )
        }
        guard found.unanswered.isEmpty else {
            throw partlyDone("\(count) written; not looked at: \(names(found.unanswered))")
        }
        Console.say("done: \(count) written")
        return .ok
    }

    private static func partlyDone(_ sentence: String) -> CommandFailure {
        CommandFailure(
            .partlyDone,
            code: "transactions.partly_done",
            "\(sentence); run it again"
        )
    }

    /// Partitions that refused their marker, or do not show it in time.
    private static func stillBlocked(
        _ owed: [HangingTransaction],
        _ refused: [(HangingTransaction, code: String)],
        _ configuration: Configuration
    ) throws(CommandFailure) -> [String] {
        let left: [HangingTransaction]
        do throws(CommandFailure) {
            left = try awaitRepair(of: owed, configuration)
        } catch {
            let count = CountText.of(owed.count - refused.count, "marker was", "markers were")
            throw partlyDone(
                "\(count) written; whether the partitions are free is not known: \(error.message)"
            )
        }
        let names =
            refused.map { "\($0.0.partition) (\($0.code))" } + left.map { "\($0.partition)" }
        return Set(names).sorted()
    }

    // MARK: - Asking

    private static func find(
        _ configuration: Configuration
    ) throws(CommandFailure) -> HangingTransactions.Found {
        let topics = Topic.all.map { $0.name(prefix: configuration.topicPrefix) }
        return try ask(configuration) { hanging throws(LogFault) in
            try hanging.find(in: topics, now: WallClock.nowMilliseconds())
        }
    }

    private static func ask<Answer>(
        _ configuration: Configuration,
        _ question: (HangingTransactions) throws(LogFault) -> Answer
    ) throws(CommandFailure) -> Answer {
        try KafkaQuestion.ask(configuration) { admin throws(LogFault) in
            try question(HangingTransactions(settings: configuration.kafka, admin: admin))
        }
    }

    /// Those that still hang when the time is over.
    private static func awaitRepair(
        of owed: [HangingTransaction],
        _ configuration: Configuration
    ) throws(CommandFailure) -> [HangingTransaction] {
        let start = WallClock.monotonicNanoseconds()
        while true {
            let found = try find(configuration)
            let left = owed.filter { one in
                found.unanswered.contains(one.partition)
                    || found.transactions.contains {
                        $0.partition == one.partition && $0.startOffset == one.startOffset
                    }
            }
            let waited = Int64((WallClock.monotonicNanoseconds() - start) / 1_000_000)
            guard !left.isEmpty, waited < shownMillisecondsMax else {
                return left
            }
            _ = poll(nil, 0, lookMilliseconds)
        }
    }

    // MARK: - Output

    static func text(_ found: [HangingTransaction], format: OutputFormat) -> String {
        switch format {
        case .table:
            var table = TextTable(columns: [
                .init(title: "TOPIC"), .init(title: "PARTITION", isNumber: true),
                .init(title: "OFFSET", isNumber: true), .init(title: "PRODUCER", isNumber: true),
                .init(title: "EPOCH", isNumber: true), .init(title: "TRANSACTIONAL ID"),
                .init(title: "VERDICT"),
            ])
            table.rows = found.map { one in
                [
                    one.partition.topic, "\(one.partition.partition)", "\(one.startOffset)",
                    "\(one.producerID)", "\(one.producerEpoch)",
                    // Kafka takes any text of whoever writes the topic.
                    PlainText.printable(one.transactionalID ?? "?", characterCountMax: 200),
                    one.verdict.rawValue,
                ]
            }
            return table.text
        case .json, .ndjson:
            return JSONLines.text(found.map(object), list: "transactions", format: format)
        }
    }

    private static func object(_ one: HangingTransaction) -> String {
        JSONLines.object([
            ("topic", JSONText.quoted(one.partition.topic)),
            ("partition", "\(one.partition.partition)"),
            ("startOffset", "\(one.startOffset)"),
            ("producerId", "\(one.producerID)"),
            ("producerEpoch", "\(one.producerEpoch)"),
            ("transactionalId", one.transactionalID.map(JSONText.quoted) ?? "null"),
            ("verdict", JSONText.quoted(one.verdict.rawValue)),
        ])
    }
}
