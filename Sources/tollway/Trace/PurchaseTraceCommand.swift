internal import Crypto
internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// `tollway purchase trace`: everything that happened to a sale.
enum PurchaseTraceCommand {
    static let verb = Verb(
        words: ["purchase", "trace"],
        summary: "where a sale is, under which token it was reported, and Apple's answers",
        operands: "LINE-ITEM",
        operandCountMax: 1,
        options: [
            .value(
                "--customer",
                "NAME",
                "whose it is: the platform's name, or the pseudonym c1.…"
            ),
            .flag("--all", "without --customer: look on where one was found"),
        ],
        details: """
            Asks Kafka alone: no worker need run. LINE-ITEM is the platform's lineItemId.
            Shows every event of it as it came in, the token that was chosen, the reports that
            carry it with every request to Apple and its answer, its lines in the ledger, its
            dead letters and what sends them back, and what it waits for now; each of them
            apart where the name is one of several: of the sandbox, too, or of another app.
            With --customer one partition of each topic is read; a name is replaced with the
            key of TOLLWAY_INGEST_CUSTOMER_KEY_FILE as ingest does it, and taken as it is where
            that is not set. Without, the sale is looked for from the newest records back until
            one is found: in what came in within seven days, and then in the ledger of sales. An
            old one takes some seconds for each million sales. A sale without customer has its
            token's id as NAME. Exit 3 if Kafka knows nothing of it, or has no topic of purchases'
            state, 75 if a transaction that does not end may hide it.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let lineItemID = try invocation.onlyOperand(named: "LINE-ITEM")
        guard !lineItemID.isEmpty else {
            throw .usage("bad_value", "LINE-ITEM is empty")
        }
        let configuration = try KafkaQuestion.configuration()
        let key = try invocation.value("--customer").map { (name) throws(CommandFailure) in
            try purchaseKey(name, configuration)
        }
        var search = PurchaseSearch(
            lineItemID: lineItemID,
            purchaseKey: key,
            isEverything: invocation.has("--all"),
            configuration,
            try TopicSearch.open(stateOf: .purchases, configuration)
        )
        search.isNameTakenForKey =
            configuration.ingestCustomerKeyFile == nil
            && key.map { !CustomerID.isWellFormed(Array($0.utf8).span) } ?? false
        return try search.print(as: invocation.output, configuration)
    }

    /// The key of a customer's records in Kafka.
    ///
    /// - Throws: exit 2 where the file that a name is replaced with cannot be read.
    private static func purchaseKey(
        _ name: String,
        _ configuration: Configuration
    ) throws(CommandFailure) -> String {
        guard !name.isEmpty else {
            throw .usage("bad_value", "--customer is empty")
        }
        if CustomerID.isWellFormed(Array(name.utf8).span) {
            return name
        }
        guard let file = configuration.ingestCustomerKeyFile else {
            // A sale without customer is keyed by its token: then this is what is meant. Where
            // nothing is found the message says so.
            return name
        }
        do throws(ConfigurationFault) {
            let key = try SecretFile.read(
                path: file,
                setting: Setting.ingestCustomerKeyFile.fullName
            )
            var text = Array("c1.".utf8)
            Base64URL.encode(HMACSHA256(key: key).code(for: Array(name.utf8)).span, to: &text)
            return String(decoding: text, as: UTF8.self)
        } catch {
            throw CommandFailure(.usage, code: error.code, error.sentence)
        }
    }

}

extension PurchaseSearch: Trace {
    var subject: String {
        PlainText.printable(lineItemID, characterCountMax: 130)
            + (isOfOneCustomer ? " under that customer" : "")
            + (isNameTakenForKey
                ? ", whose NAME was taken for the key as it stands in Kafka since"
                    + " \(Setting.ingestCustomerKeyFile.fullName) is not set"
                : "")
    }

    var isUnknown: Bool { events.isEmpty && items.allSatisfy { $0.standing == nil } }

    var text: String {
        var text = PlainText.printable(lineItemID, characterCountMax: 130)
        guard items.count > 1 else {
            let item = items.first
            if let app = item?.sale?.appAppleID {
                text += ", app \(app)"
            } else if let bundle = item?.sale?.bundleID {
                text += ", app \(PlainText.printable(bundle, characterCountMax: 100))"
            }
            return text + "\n\n" + eventTable + "\n" + now(item)
        }
        text += ": " + CountText.of(items.count, "sale") + "\n\n" + eventTable
        for item in items {
            text += "\n\(PlainText.printable(name(item), characterCountMax: 400))\n" + now(item)
        }
        return text
    }

    private func now(_ item: TracedItem?) -> String {
        let lines = standingLines(item).map { PlainText.printable($0, characterCountMax: 600) }
        return "now: \(lines.joined(separator: "\n     "))\n"
    }

    private func name(_ item: TracedItem) -> String {
        item.name(isOfOneCustomer: purchaseKeys.count == 1)
    }

    /// Of several sales each has an object of its own; what stands beside those is of all.
    var json: String {
        var members: [(name: String, json: String)] = Fact.text("lineItemId", lineItemID)
        let keys = (name: "purchaseKeys", json: JSONLines.texts(purchaseKeys))
        let deadLetters = ("deadLetters", Self.json(deadLetters))
        guard items.count > 1 else {
            let item = items.first
            members += Self.names(item?.sale) + [keys] + facts(item)
            members.append(("now", JSONLines.texts(standingLines(item))))
            return JSONLines.object(members + [deadLetters] + commonMembers)
        }
        let lines = items.flatMap { item in standingLines(item).map { "\(name(item)): \($0)" } }
        let sales = items.map { item in
            var members = Fact.text("environment", item.environment.rawValue)
            members += Fact.number("appAppleId", item.identity.app)
            members += Fact.text("bundleId", item.sale?.bundleID ?? item.identity.bundleID)
            members += Fact.text("purchaseKey", item.identity.purchaseKey) + facts(item)
            members.append(("now", JSONLines.texts(standingLines(item))))
            members.append(("deadLetters", Self.json(self.deadLetters(of: item))))
            return JSONLines.object(members)
        }
        members += [keys, ("now", JSONLines.texts(lines)), deadLetters]
        members.append(("sales", JSONLines.list(sales)))
        return JSONLines.object(members + commonMembers)
    }

    private static func names(_ sale: TracedSale?) -> [(name: String, json: String)] {
        Fact.number("appAppleId", sale?.appAppleID) + Fact.text("bundleId", sale?.bundleID)
    }

    private func facts(_ item: TracedItem?) -> [(name: String, json: String)] {
        let (outcome, standing) = (item?.outcome, item?.standing)
        var members = Fact.text("type", outcome?.type.rawValue)
        members += Fact.text("outcome", outcome?.outcome.rawValue)
        members += Fact.text("reason", outcome?.reason)
        members += Fact.number("revision", outcome.map { Int64($0.revision) })
        members += Fact.text("externalPurchaseId", outcome?.externalPurchaseID?.text)
        members += Fact.text("requestIdentifier", outcome?.requestIdentifier)
        members += Fact.text("refusedChange", item?.refusedChange?.type.rawValue)
        members += Fact.text("refusedBecause", item?.refusedChange?.reason)
        members += Fact.text("waitsFor", standing?.wait)
        members += Fact.number("waitsUntil", standing?.until)
        members += Fact.number("waitingSince", standing?.waitingSince)
        return members
    }

    private static func json(_ deadLetters: [TraceDeadLetter]) -> String {
        JSONLines.list(deadLetters.map(\.saleJSON))
    }
}

extension PurchaseSearch {
    fileprivate func deadLetters(of item: TracedItem) -> [TraceDeadLetter] {
        deadLetters.filter { item.deadLetters.contains($0.position) }
    }

    /// What is owed now of a sale, in words; nil where no record names one.
    fileprivate func standingLines(_ item: TracedItem?) -> [String] {
        var lines: [String] = []
        let open = (item.map(deadLetters) ?? deadLetters).filter { $0.settled == nil }
        let standing = item?.standing
        if let standing, let waiting = Self.words(standing, sale: item?.sale) {
            let since = standing.waitingSince.map {
                ", since \(WallClock.rfc3339(milliseconds: $0))"
            }
            lines.append(waiting + (since ?? ""))
        }
        if let outcome = item?.outcome {
            let under = outcome.externalPurchaseID.map { " under \($0.text)" } ?? ""
            switch outcome.outcome {
            case .reported where outcome.type == .retract:
                lines.append("Apple has its retraction\(under): revision \(outcome.revision)")
            case .reported:
                lines.append("Apple has it\(under): revision \(outcome.revision)")
            // What it waits for is the newer word.
            case .notOwed where standing?.isHeld == true: break
            case .notOwed where outcome.reason == "retracted":
                lines.append("nothing is owed: it was retracted before it was reported")
            case .notOwed where outcome.reason == "reference_not_owed":
                lines.append("nothing is owed: what it refers to is not owed")
            case .notOwed:
                lines.append("nothing is owed: no token fitted it (\(outcome.reason))")
            case .rejected:
                lines.append("not reported: \(outcome.reason)")
            }
        }
        if let change = item?.refusedChange {
            lines.append(
                "its later \(change.type.rawValue) was refused: \(change.reason)"
                    + (item?.outcome == nil ? "" : "; what was said before stands")
            )
        } else if lines.isEmpty, open.isEmpty || open.count < item?.receivedCount ?? 0 {
            lines.append(
                item?.receivedCount ?? 0 > 0
                    ? "received, and purchases has not settled it: see tollway lag"
                    : "no record says how it ended"
            )
        }
        for deadLetter in open {
            lines.append(
                "an open dead letter, \(deadLetter.code) (\(deadLetter.position)): "
                    + deadLetter.saleRemedy(after: item?.newestChange)
            )
        }
        return lines
    }

    /// Nil where it waits for nothing.
    static func words(_ standing: BookStanding, sale: TracedSale?) -> String? {
        let until = standing.until.map { " until \(WallClock.rfc3339(milliseconds: $0))" } ?? ""
        let token = standing.externalPurchaseID.map { " under \($0)" } ?? ""
        switch standing.wait {
        case "token": return "waits for a token of its customer\(until)"
        case "rate":
            let currency = sale?.pricingCurrency ?? "its currency"
            let day = sale?.creationDate.map {
                String(WallClock.rfc3339(milliseconds: $0).prefix(10))
            }
            let other = sale?.reportingCurrency.map { " to \($0)" } ?? ""
            return "waits for an exchange rate of \(currency)\(other) within 48 hours of "
                + (day ?? "its date") + ": \(Setting.exchangeRatesFile.fullName)"
        case "reference": return reference(standing, sale, until)
        case "base": return "waits for the buy or refund that it changes\(until)"
        case "turn": return "waits for Apple's answer about another item of the same buy"
        case "queued": return "waits for its turn to be reported\(token)"
        case "sent": return "waits for Apple's answer\(token)"
        case "now": return "about to be decided"
        case "reopening": return "a token that comes\(until) reopens it"
        default: return nil
        }
    }

    /// What another record is to it, by the kind of that record.
    private static func reference(
        _ standing: BookStanding,
        _ sale: TracedSale?,
        _ until: String
    ) -> String {
        switch standing.key?.kind {
        case .event:
            let at = standing.until.map { " at \(WallClock.rfc3339(milliseconds: $0))" } ?? ""
            return "goes to report again\(at)"
        case .subscription:
            return "waits for the start of its subscription \(standing.key?.name ?? "")\(until)"
        // Its own, and no time ends it.
        case .item where standing.until == nil:
            return "waits for its refunds and renewals to be retracted first"
        case .item, nil:
            let name = standing.key?.name ?? sale?.referenceLineItemID
            let isOther = standing.key != nil && name != sale?.referenceLineItemID
            return "waits for the sale" + (name.map { " \($0)" } ?? "")
                + (isOther ? " to be settled first" : " that it refers to") + until
        }
    }
}

extension TraceDeadLetter {
    /// What settles it, where this is the newest settled change of its sale by the ledger.
    ///
    /// The command names its place: a search for order-1001-1 finds order-1001-10 as well, and
    /// refunds of it.
    func saleRemedy(after newestChange: PurchaseOutcome?) -> String {
        guard isNoFaultOfSale else {
            return "correct the sale and send it again, then \(discard)"
        }
        // The replay of such a change holds it back.
        if let newestChange, PurchaseEvent.Kind(rawValue: sale.type)?.isChange == true,
            newestChange.cameInAt > changeReceivedAt
        {
            // The ledger may not have what a replay stated: it counts from its first failure.
            let doubt =
                newestChange.cameInAt < newestChange.receivedAt.milliseconds
                ? " (by a replay: this one may be the newer)" : ""
            return
                "a newer \(newestChange.type.rawValue) is settled\(doubt), which it may undo, so no"
                + " replay sends it; only if the newer one is to stand: \(discard)"
        }
        return "mend the cause, then: \(replay(position.options))"
    }

    /// Whether the sale may go back as it is: what refused it was ours, or Kafka's.
    private var isNoFaultOfSale: Bool {
        switch code {
        case PurchaseRule.unknownApp.code, "purchases.record_refused",
            "purchases.output_too_large":
            true
        // Under a new identifier.
        case PurchaseRule.rejected.code: message.contains(Rejection.conflict.code)
        default: false
        }
    }

    /// Without a command: a sale is corrected by who sent it.
    var saleJSON: String {
        var members = Fact.text("position", position.description)
        members += Fact.text("state", settled?.state.text ?? "open")
        members += Fact.text("code", code) + Fact.text("message", message)
        members += Fact.number("failedAt", failedAt)
        if let settled {
            members += Fact.text("replayId", settled.replayID)
            members += Fact.number("settledAt", settled.at)
        }
        return JSONLines.object(members)
    }
}
