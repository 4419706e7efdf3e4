internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway dlq`: looking at dead letters; nothing here changes anything.
enum DeadLetterCommand {
    private static let all = Verb.Option.flag(
        "--all",
        "also those already replayed or discarded"
    )
    private static let reveal = Verb.Option.flag(
        "--reveal",
        "tokens, payloads, customers and keys in clear"
    )
    private static let listCountMax = 10_000
    private static let showCountMax = 100

    static let filterHelp = """
        Different filters must all hold; one given twice means either. Without any: all that
        are open, which is neither replayed nor discarded.
        """

    static let nothingHelp =
        "Exit 3 if nothing matched, 75 if a transaction that does not end may hide what does."

    static let groups = Verb(
        words: ["dlq", "groups"],
        summary: "what is in the dead letters, by stage, reason and kind: start here",
        options: DeadLetterFilter.options + [all],
        details: """
            FIRST and LAST are how long ago; DUE is the nearest of Apple's deadlines among them;
            KIND is the fingerprint, equal for faults of one kind (--fingerprint takes it);
            APPS names the app with most dead letters and how many others. What each reason means
            and what to do about it: Deploy/RUNBOOK.md, "Dead letters grow". -o json has the
            fault's sentence and an example for tollway dlq show.
            \(filterHelp)
            \(nothingHelp)
            """,
        run: runGroups
    )

    static let list = Verb(
        words: ["dlq", "ls"],
        summary: "single dead letters, newest first",
        options: DeadLetterFilter.options + [
            .value("--limit", "N", "lines at most; default 20"),
            .flag("--brief", "as data: without key, value and headers, which may be large"),
            .flag("--newest", "read from the newest on, and stop when there are enough"), all,
            reveal,
        ],
        details: """
            The first column is what tollway dlq show takes; DUE is Apple's deadline for it.
            --newest answers at once where there are millions, from --until back where that is
            given; how many match in all is not said then, and those of workers with very
            different clocks may be left out.
            \(filterHelp)
            \(nothingHelp)
            """,
        run: runList
    )

    static let show = Verb(
        words: ["dlq", "show"],
        summary: "all about one dead letter",
        operands: "POSITION...",
        operandCountMax: showCountMax,
        options: [reveal],
        details: """
            POSITION is stage/partition/offset as ls and groups print it: decode/3/1234. The
            topic's full name, as in tollway token trace, and @ before the offset do as well.
            Tokens, payloads, customers and keys are masked unless --reveal. Exit 3 if one is
            not there (dead letters are kept for 30 days or longer).
            """,
        run: runShow
    )

    static let count = Verb(
        words: ["dlq", "count"],
        summary: "how many dead letters match, as a number",
        options: DeadLetterFilter.options + [all],
        details: "\(filterHelp)\n\(nothingHelp)",
        run: runCount
    )

    static let export = Verb(
        words: ["dlq", "export"],
        summary: "dead letters as NDJSON, one object a line",
        options: DeadLetterFilter.options + [
            .value("--max", "N", "stop after so many; default: all"), all, reveal,
        ],
        details: """
            Always NDJSON, whatever -o says. Tokens, payloads, customers and keys are masked
            unless --reveal; a revealed value that is no UTF-8 comes as valueBase64 too.
            \(filterHelp)
            \(nothingHelp)
            """,
        run: runExport
    )

    // MARK: - Groups and count

    private static func runGroups(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        var scan = try scan(invocation, now: now)
        scan.readsSubjects = true
        let settled = try settled(scan)
        var groups = DeadLetterGroups(deadlineDays: scan.configuration.reportDeadlineDays)
        let otherNameCount = try scan.run(
            settled: settled,
            progress: ProgressLine("dead letters")
        ) { deadLetter, batch, subject in
            groups.add(deadLetter, in: batch, subject: subject)
            return true
        }
        guard groups.count > 0 else {
            throw try nothingMatched(scan, otherNameCount)
        }
        Console.write(groups.text(format: invocation.output, now: now))
        try sayUnseen(scan, otherNameCount)
        if groups.otherCount > 0 {
            Console.say("\(groups.otherCount) more of kinds that found no room in the table")
        }
        if invocation.output == .table {
            Console.say(
                "\(groups.count) \(scan.includesSettled ? "in all" : "open");"
                    + " see tollway dlq ls --fingerprint KIND, or tollway dlq plan"
            )
        }
        return .ok
    }

    private static func runCount(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let scan = try scan(invocation, now: now)
        let settled = try settled(scan)
        var count = 0
        let otherNameCount = try scan.run(
            settled: settled,
            progress: ProgressLine("dead letters")
        ) { _, _, _ in
            count += 1
            return true
        }
        Console.write(
            invocation.output == .table
                ? "\(count)\n" : "{\"count\":\(count),\"otherNameCount\":\(otherNameCount)}\n"
        )
        let isHindered = try sayUnseen(scan, otherNameCount)
        return count > 0 ? .ok : isHindered ? .tryAgain : .nothingMatched
    }

    // MARK: - Lists

    private static func runList(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let limit = try invocation.integer("--limit", default: 20, in: 1...listCountMax)
        var scan = try scan(invocation, now: now)
        scan.readsSubjects = true
        let isNewest = invocation.has("--newest")
        var settled = isNewest ? SettledDeadLetters() : try settled(scan)
        var list: DeadLetterList
        var depth = newestDepth
        // No dead letter that was not read is younger; nil where all are read.
        var unreadUntil: Int64?
        var otherNameCount = 0
        repeat {
            if isNewest {
                let (places, unread) = try scan.newestPlaces(depth: depth)
                scan.places = places
                let times = try scan.firstTimes(from: places)
                if let oldest = times.values.min() {
                    settled = try self.settled(scan, since: oldest)
                }
                // Where nothing was read, as behind transactions that were aborted, it may be any.
                unreadUntil = unread.map { times[$0] ?? .max }.max()
                depth *= newestDepthFactor
            }
            list = DeadLetterList(
                countMax: limit,
                text: DeadLetterText(
                    isRevealed: invocation.has("--reveal"),
                    isBrief: invocation.has("--brief")
                ),
                isTable: invocation.output == .table,
                deadlineDays: scan.configuration.reportDeadlineDays,
                now: now
            )
            otherNameCount = try scan.run(
                settled: settled,
                progress: ProgressLine("dead letters")
            ) { deadLetter, batch, subject in
                list.add(deadLetter, in: batch, subject: subject)
                return true
            }
        } while !list.hasNewest(unreadUntil: unreadUntil)
        guard list.seenCount > 0 else {
            throw try nothingMatched(scan, otherNameCount)
        }
        Console.write(list.text(format: invocation.output))
        try sayUnseen(scan, otherNameCount)
        if list.seenCount > limit, unreadUntil == nil {
            Console.say("the newest \(limit) of \(list.seenCount); --limit shows more")
        }
        return .ok
    }

    private static func runExport(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let countMax = try invocation.integer("--max", default: .max, in: 1...Int.max)
        var scan = try scan(invocation, now: now)
        scan.readsSubjects = true
        let settled = try settled(scan)
        let text = DeadLetterText(isRevealed: invocation.has("--reveal"))
        var page = ""
        var count = 0
        let otherNameCount = try scan.run(
            settled: settled,
            progress: ProgressLine("dead letters")
        ) { deadLetter, batch, subject in
            page += text.object(
                deadLetter,
                in: batch,
                subject: subject,
                deadlineDays: scan.configuration.reportDeadlineDays
            )
            page += "\n"
            count += 1
            if page.utf8.count > pageByteCountMax {
                Console.stream(page)
                page = ""
            }
            return count < countMax
        }
        Console.stream(page)
        guard count > 0 else {
            throw try nothingMatched(scan, otherNameCount)
        }
        try sayUnseen(scan, otherNameCount)
        return .ok
    }

    private static let pageByteCountMax = 64 << 10
    /// Offsets of each partition that are looked at first, and how many times more after that.
    private static let newestDepth: Int64 = 250
    private static let newestDepthFactor: Int64 = 16

    // MARK: - One

    private static func runShow(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        _ = try invocation.onlyOperand(named: "POSITION")
        let configuration = try KafkaQuestion.configuration()
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let text = DeadLetterText(isRevealed: invocation.has("--reveal"))
        var positions: [DeadLetterPosition] = []
        for operand in invocation.operands {
            guard let position = DeadLetterPosition(operand, prefix: configuration.topicPrefix)
            else {
                throw .usage(
                    "bad_position",
                    "\"\(operand)\" is no position: it must be stage/partition/offset,"
                        + " such as decode/3/1234"
                )
            }
            positions.append(position)
        }
        var objects: [String] = []
        var missing: [DeadLetterPosition] = []
        let settled = try settled(positions, configuration)
        for position in positions {
            var isFound = false
            try find(position, configuration, settled) { deadLetter, batch, subject in
                isFound = true
                if invocation.output == .table {
                    objects.append(
                        DeadLetterSheet(text: text, configuration: configuration, now: now)
                            .text(deadLetter, in: batch, subject: subject)
                    )
                } else {
                    objects.append(
                        text.object(
                            deadLetter,
                            in: batch,
                            subject: subject,
                            deadlineDays: configuration.reportDeadlineDays
                        )
                    )
                }
            }
            if !isFound {
                missing.append(position)
            }
        }
        if !objects.isEmpty {
            Console.write(
                invocation.output == .table
                    ? objects.joined(separator: "\n")
                    : JSONLines.text(objects, list: "deadLetters", format: invocation.output)
            )
        }
        guard missing.isEmpty else {
            let places = Set(missing.map { $0.place(prefix: configuration.topicPrefix) })
            throw failure(
                "dlq.not_there",
                [
                    "there is no dead letter at "
                        + missing.map(\.description).joined(separator: ", ")
                ],
                hindrance: try OpenTransactions(in: places, configuration).sentence
            )
        }
        return .ok
    }

    /// The state of some dead letters, read from the time of the oldest on.
    private static func settled(
        _ positions: [DeadLetterPosition],
        _ configuration: Configuration
    ) throws(CommandFailure) -> SettledDeadLetters {
        let scan = DeadLetterScan(configuration: configuration, filter: DeadLetterFilter())
        let ends = try ends(of: positions, configuration)
        var places: [TopicPartition: LogBrowser.Start] = [:]
        for position in positions {
            let place = position.place(prefix: configuration.topicPrefix)
            guard position.offset < ends[place] ?? 0 else {
                continue
            }
            if case .offset(let known) = places[place], known <= position.offset {
                continue
            }
            places[place] = .offset(position.offset)
        }
        guard let oldest = try scan.firstTimes(from: places).values.min() else {
            return SettledDeadLetters()
        }
        return try scan.settled(since: oldest, of: positions)
    }

    /// The ends of the partitions that some dead letters lie in, as far as they are there.
    private static func ends(
        of positions: [DeadLetterPosition],
        _ configuration: Configuration
    ) throws(CommandFailure) -> [TopicPartition: Int64] {
        let topics = Set(positions.map { $0.place(prefix: configuration.topicPrefix).topic })
        return try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> [TopicPartition: Int64] in
            var ends: [TopicPartition: Int64] = [:]
            for topic in topics where try admin.topic(topic) != nil {
                for (number, end) in try admin.endOffsets(ofTopic: topic).enumerated() {
                    ends[TopicPartition(topic: topic, partition: Int32(number))] = end
                }
            }
            return ends
        }
    }

    private static func find(
        _ position: DeadLetterPosition,
        _ configuration: Configuration,
        _ settled: SettledDeadLetters,
        _ body: (DeadLetterRecord, RecordBatch, DeadLetterSubject) -> Void
    ) throws(CommandFailure) {
        var filter = DeadLetterFilter()
        filter.stages = [position.stage]
        filter.partitions = [Int64(position.partition)...Int64(position.partition)]
        filter.offsets = [position.offset...position.offset]
        var scan = DeadLetterScan(configuration: configuration, filter: filter)
        scan.includesSettled = true
        scan.readsSubjects = true
        let place = position.place(prefix: configuration.topicPrefix)
        guard position.offset < (try ends(of: [position], configuration))[place] ?? 0 else {
            return
        }
        scan.places = [place: .offset(position.offset)]
        try scan.run(settled: settled) { deadLetter, batch, subject in
            body(deadLetter, batch, subject)
            return false
        }
    }

    // MARK: - Shared

    private static func scan(
        _ invocation: Invocation,
        now: Timestamp
    ) throws(CommandFailure) -> DeadLetterScan {
        let configuration = try KafkaQuestion.configuration()
        var scan = DeadLetterScan(
            configuration: configuration,
            filter: try DeadLetterFilter(invocation, configuration, now: now)
        )
        scan.includesSettled = invocation.has("--all")
        return scan
    }

    private static func settled(
        _ scan: DeadLetterScan,
        since: Int64? = nil
    ) throws(CommandFailure) -> SettledDeadLetters {
        try scan.settled(since: since, progress: ProgressLine("records of earlier replays"))
    }
}

extension DeadLetterPosition {
    /// Its topic and partition.
    fileprivate func place(prefix: String) -> TopicPartition {
        TopicPartition(topic: Topic.deadLetters(stage).name(prefix: prefix), partition: partition)
    }
}
