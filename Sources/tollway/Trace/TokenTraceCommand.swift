internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway token trace`: where a token is, and what Apple was told about it.
enum TokenTraceCommand {
    static let verb = Verb(
        words: ["token", "trace"],
        summary: "where a token is, and what Apple was told about it and answered",
        operands: "EXTERNAL-PURCHASE-ID",
        operandCountMax: 1,
        details: """
            Asks Kafka alone: no worker need run. Shows where the token came in, what each stage
            made of it, every request to Apple with its answer, and what is owed now. Reads one
            partition of each topic that is keyed by the id, and of the others the minutes in
            which it passed. What Kafka keeps no longer is not shown: token topics have seven
            days, the ledger everything. Exit 3 if Kafka knows nothing of it.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let id = TokenID(try invocation.onlyOperand(named: "EXTERNAL-PURCHASE-ID"))
        let configuration = try KafkaQuestion.configuration()
        let startedAt = Date()
        let counts = try KafkaQuestion.ask(configuration) {
            (admin) throws(LogFault) -> [String: Int] in
            try admin.topics().reduce(into: [:]) { $0[$1.name] = $1.partitions.count }
        }
        var search = TraceSearch(
            id: id,
            configuration,
            partitionCounts: counts.filter { $0.value > 0 }
        )
        do throws(LogFault) {
            try search.run()
        } catch {
            throw KafkaQuestion.failure(error, configuration)
        }
        let seconds = Date().timeIntervalSince(startedAt)
        guard !search.events.isEmpty || search.account != nil else {
            throw CommandFailure(
                .nothingMatched,
                code: "trace.unknown",
                "Kafka knows nothing of \(PlainText.printable(id.text, characterCountMax: 100))"
                    + " (\(search.readCount) records looked at)"
            )
        }
        switch invocation.output {
        case .table:
            Console.write(text(search))
            Console.say(
                "\(search.readCount) records looked at in \(String(format: "%.1f", seconds)) s"
            )
        case .json:
            Console.write(json(search) + "\n")
        case .ndjson:
            Console.write(search.events.map { $0.json + "\n" }.joined())
        }
        return .ok
    }

    // MARK: - Output

    static func text(_ search: TraceSearch) -> String {
        let id = PlainText.printable(search.id.text, characterCountMax: 100)
        var text = "\(id) (\(search.id.environment.rawValue))"
        if let app = search.account?.appAppleID ?? search.distinct?.appAppleID {
            text += ", app \(app)"
        }
        if let bundle = search.account?.bundleID ?? search.distinct?.bundleID {
            text += " \(PlainText.printable(bundle, characterCountMax: 100))"
        }
        text += "\n\n"
        var table = TextTable(columns: [
            .init(title: "TIME"), .init(title: "STAGE"), .init(title: "EVENT"),
            .init(title: "RECORD"),
        ])
        table.rows = search.events.map { event in
            [
                WallClock.rfc3339(milliseconds: event.at), event.stage,
                PlainText.printable(event.text, characterCountMax: 160), event.place,
            ]
        }
        text += table.text + "\n"
        let traces = traceIDs(search)
        if !traces.isEmpty {
            text += "trace \(traces.joined(separator: ", "))\n"
        }
        return text + "now: \(standing(search).joined(separator: "; "))\n"
    }

    static func json(_ search: TraceSearch) -> String {
        let account = search.account
        var members: [(name: String, json: String)] = Fact.text(
            "externalPurchaseId",
            search.id.text
        )
        members += Fact.text("environment", search.id.environment.rawValue)
        members += Fact.number("appAppleId", account?.appAppleID ?? search.distinct?.appAppleID)
        members += Fact.text("bundleId", account?.bundleID ?? search.distinct?.bundleID)
        members += Fact.text("role", (account?.role ?? search.distinct?.role)?.text)
        members += Fact.text("lastAccepted", account?.lastAccepted?.rawValue)
        members += Fact.number("lastAcceptedAt", account?.lastAcceptedAt?.milliseconds)
        members += Fact.text("pendingStatus", account?.current?.status.rawValue)
        members += Fact.text("pendingRequestIdentifier", account?.current?.identifier)
        members += Fact.number(
            "pendingNextAttemptAt",
            account?.current?.nextAttemptAt?.milliseconds
        )
        members += Fact.number("deadline", account?.current?.deadline.milliseconds)
        members += Fact.number("dueAt", account?.debt?.dueAt.milliseconds)
        members.append(
            ("now", "[" + standing(search).map(JSONText.quoted).joined(separator: ",") + "]")
        )
        members.append(
            ("traceIds", "[" + traceIDs(search).map(JSONText.quoted).joined(separator: ",") + "]")
        )
        members.append(("events", "[" + search.events.map(\.json).joined(separator: ",") + "]"))
        members.append(("recordsRead", "\(search.readCount)"))
        return JSONLines.object(members)
    }

    private static func traceIDs(_ search: TraceSearch) -> [String] {
        var ids: [String] = []
        for id in search.events.compactMap(\.traceID) where !ids.contains(id) {
            ids.append(id)
        }
        return ids
    }

    /// What is owed now, in words.
    static func standing(_ search: TraceSearch) -> [String] {
        guard let account = search.account else {
            return [
                search.events.contains { $0.text.hasPrefix("dead letter") }
                    ? "in the dead letters; report knows nothing of it"
                    : "on its way; report knows nothing of it yet"
            ]
        }
        var words: [String] = []
        if let intent = account.current {
            let next = intent.nextAttemptAt.map { "not before \(time($0))" } ?? "as soon as it may"
            let way = intent.phase == .doubtful ? "asked for" : "sent"
            words.append(
                "report \(intent.number) (\(intent.status.rawValue)) is \(way) \(next), "
                    + "deadline \(time(intent.deadline))"
            )
        }
        if !account.queued.isEmpty {
            words.append("\(account.queued.count) more wait behind it")
        }
        if let debt = account.debt {
            words.append("owed at \(time(debt.dueAt)) because of \(debt.reason.rawValue)")
        }
        if let notice = account.waitingNotice {
            words.append(
                "Apple asked at \(time(notice.receivedAt)); waits for the proof that it is unknown"
            )
        }
        if !account.parked.isEmpty {
            words.append("\(account.parked.count) refused by Apple, in the dead letters")
        }
        if let status = account.lastAccepted, let at = account.lastAcceptedAt {
            words.append("Apple accepted \(status.rawValue) at \(time(at))")
        }
        return words.isEmpty ? ["nothing is owed"] : words
    }

    private static func time(_ time: Timestamp) -> String {
        WallClock.rfc3339(milliseconds: time.milliseconds)
    }
}
