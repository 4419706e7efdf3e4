internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway token trace`: where a token is, and what was reported to Apple about it.
enum TokenTraceCommand {
    static let verb = Verb(
        words: ["token", "trace"],
        summary: "where a token is, what was reported to Apple about it, and the answers",
        operands: "EXTERNAL-PURCHASE-ID | TOKEN",
        operandCountMax: 1,
        details: """
            Asks Kafka alone: no worker need run. Shows where the token came in, what each stage
            made of it, every request to Apple with its answer, where it lies among the dead
            letters and what sends it back from there, and what is owed now. A token's text, or
            the link with it, does as well as its id. RECORD is a position as tollway dlq show
            takes it. Reads one partition of each topic that is keyed by the id, report's state
            from its end back, and of the others the time in which it passed; a token that
            nothing is known of is looked for in all of them. What Kafka keeps no longer is not
            shown: token topics have seven days, the ledger everything. Exit 3 if Kafka knows
            nothing of it.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let id = try TokenOperand.id(
            try invocation.onlyOperand(named: "EXTERNAL-PURCHASE-ID")
        )
        let configuration = try KafkaQuestion.configuration()
        let startedAt = Date()
        var search = TraceSearch(id: id, configuration, try TopicSearch.open(configuration))
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
                    + " (" + CountText.of(search.readCount, "record") + " looked at)"
                    + search.notes.map { "; " + $0 }.joined()
            )
        }
        switch invocation.output {
        case .table:
            Console.write(text(search))
            for note in search.notes {
                Console.say("note: \(note)")
            }
            Console.say(
                CountText.of(search.readCount, "record")
                    + " looked at in \(String(format: "%.1f", seconds)) s"
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
        let lines = search.standing.map { PlainText.printable($0, characterCountMax: 600) }
        return text + "now: \(lines.joined(separator: "\n     "))\n"
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
            ("now", "[" + search.standing.map(JSONText.quoted).joined(separator: ",") + "]")
        )
        let deadLetters = search.deadLetters.map {
            $0.json(for: search.id, lastAccepted: account?.lastAccepted)
        }
        members.append(("deadLetters", "[" + deadLetters.joined(separator: ",") + "]"))
        members.append(
            ("notes", "[" + search.notes.map(JSONText.quoted).joined(separator: ",") + "]")
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
}
