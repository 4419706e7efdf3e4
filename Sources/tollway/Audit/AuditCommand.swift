internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway audit ls`: who changed what by hand, when and why.
enum AuditCommand {
    private static let limitDefault = 100
    private static let limitMax = 100_000
    /// The clocks of operators' machines and of brokers may differ by this.
    private static let clockSkewMilliseconds: Int64 = 600_000

    static let list = Verb(
        words: ["audit", "ls"],
        summary: "who replayed, discarded, paused, repaired, asked for what, when and why",
        options: [
            .value("--since", "TIME", "then or later: 2026-03-01T12:00:00Z, 90m, 7d (ago)"),
            .value("--until", "TIME", "before then"),
            .value(
                "--action",
                "NAME",
                "dlq.replay, report.request, …; lanes means all of lanes.*",
                isRepeatable: true
            ),
            .value("--by", "TEXT", "in the name of the user and its machine"),
            .value("--run", "ID", "one order or run, as its verb printed it", isRepeatable: true),
            .value("--limit", "N", "the newest so many; default 100"),
        ],
        details: """
            The newest first, from the audit topic, which is kept for ever. Every verb that changes
            something writes there in the transaction of the change: what is there happened. A long
            replay has one record for each of its transactions; one whose newest says running is at
            work, or was killed, taken over, or lost Kafka. With -o json and ndjson each is the
            record as it is in Kafka (Protocols/audit.v1.schema.json). A filter that the audit
            quotes may hold what was typed into it. Reads the whole topic, or that since --since;
            memory is bounded by --limit. Exit 1 if a record of it cannot be
            read, 3 if nothing matches, 6 without Kafka, 75 if a transaction in the audit does
            not end.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let filter = try filter(invocation, now: now)
        let limit = try invocation.integer(
            "--limit",
            default: limitDefault,
            in: 1...limitMax
        )
        let configuration = try KafkaQuestion.configuration()
        var list = AuditList(countMax: limit)
        let unreadableCount = try read(configuration, filter, into: &list)
        list.prune()
        if unreadableCount > 0 {
            Console.say(
                CountText.of(unreadableCount, "record") + " of the audit topic cannot be read"
            )
        }
        guard list.seenCount > 0 else {
            throw CommandFailure(
                unreadableCount > 0 ? .failed : .nothingMatched,
                code: "audit.none",
                "nothing in the audit matches"
            )
        }
        Console.write(
            invocation.output == .table
                ? list.table
                : JSONLines.text(list.objects, list: "audit", format: invocation.output)
        )
        if list.seenCount > limit {
            Console.say("the newest \(limit) of \(list.seenCount); --limit shows more")
        }
        return unreadableCount > 0 ? .failed : .ok
    }

    private static func filter(
        _ invocation: Invocation,
        now: Timestamp
    ) throws(CommandFailure) -> AuditFilter {
        var filter = AuditFilter()
        filter.since = try invocation.instant("--since", now: now)?.milliseconds
        filter.until = try invocation.instant("--until", now: now)?.milliseconds
        filter.actions = invocation.values("--action")
        filter.runIDs = invocation.values("--run")
        filter.by = invocation.value("--by")
        return filter
    }

    private static func isLineEnd(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "\n") || byte == UInt8(ascii: "\r")
    }

    /// - Returns: how many records are none of ours.
    private static func read(
        _ configuration: Configuration,
        _ filter: AuditFilter,
        into list: inout AuditList
    ) throws(CommandFailure) -> Int {
        let topic = Topic.audit.name(prefix: configuration.topicPrefix)
        let places = try TopicScan.places(
            of: topic,
            from: filter.since.map { .timestamp(max(0, $0 - clockSkewMilliseconds)) } ?? .earliest,
            configuration
        )
        let progress = ProgressLine("records of the audit")
        var unreadableCount = 0
        // An open transaction would hide what was committed behind it.
        try TopicScan(configuration: configuration, topics: [topic], isToHighWatermark: true).run(
            from: places,
            progress: progress
        ) {
            batch throws(CommandFailure) in
            for record in batch.records where !record.value.isAbsent {
                let value = batch.arena.span.extracting(record.value.indices)
                guard let entry = AuditEntry(value) else {
                    unreadableCount += 1
                    continue
                }
                guard filter.matches(entry) else {
                    continue
                }
                // Between values a line end is white space like any other; within them JSON has none.
                let line = batch.arena[record.value.indices].map { isLineEnd($0) ? 0x20 : $0 }
                list.add(
                    entry,
                    String(decoding: line, as: UTF8.self),
                    at: (record.partition, record.offset)
                )
            }
            return true
        }
        return unreadableCount
    }
}
