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
            nothing of it, or has no topic of report's state, 75 if a transaction that does not end
            may hide it.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let id = try TokenOperand.id(
            try invocation.onlyOperand(named: "EXTERNAL-PURCHASE-ID")
        )
        let configuration = try KafkaQuestion.configuration()
        let topics = try TopicSearch.open(stateOf: .report, configuration)
        var search = TraceSearch(id: id, configuration, topics)
        return try search.print(as: invocation.output, configuration)
    }
}

extension TraceSearch: Trace {
    var subject: String { PlainText.printable(id.text, characterCountMax: 100) }
    var isUnknown: Bool { events.isEmpty && account == nil }

    var text: String {
        var text = "\(subject) (\(id.environment.rawValue))"
        if let app = account?.appAppleID ?? distinct?.appAppleID {
            text += ", app \(app)"
        }
        if let bundle = account?.bundleID ?? distinct?.bundleID {
            text += " \(PlainText.printable(bundle, characterCountMax: 100))"
        }
        text += "\n\n"
        text += eventTable + "\n"
        let traces = traceIDs
        if !traces.isEmpty {
            text += "trace \(traces.joined(separator: ", "))\n"
        }
        let lines = standing.map { PlainText.printable($0, characterCountMax: 600) }
        return text + "now: \(lines.joined(separator: "\n     "))\n"
    }

    var json: String {
        var members: [(name: String, json: String)] = Fact.text(
            "externalPurchaseId",
            id.text
        )
        members += Fact.text("environment", id.environment.rawValue)
        members += Fact.number("appAppleId", account?.appAppleID ?? distinct?.appAppleID)
        members += Fact.text("bundleId", account?.bundleID ?? distinct?.bundleID)
        members += Fact.text("role", (account?.role ?? distinct?.role)?.text)
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
        members.append(("now", JSONLines.texts(standing)))
        let deadLetters = self.deadLetters.map { $0.json(for: id, account) }
        members.append(("deadLetters", JSONLines.list(deadLetters)))
        members.append(("traceIds", JSONLines.texts(traceIDs)))
        return JSONLines.object(members + commonMembers)
    }

    private var traceIDs: [String] {
        var ids: [String] = []
        for id in events.compactMap(\.traceID) where !ids.contains(id) {
            ids.append(id)
        }
        return ids
    }
}
