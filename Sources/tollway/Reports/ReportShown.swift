internal import AppStoreAPI
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// One report as it is shown: what the ledger has, what is under way, what Apple holds.
struct ReportShown {
    /// Clocks differ.
    private static let slackMilliseconds: Int64 = 60_000

    let identifier: String
    /// Nil where neither the operator nor Apple names it.
    private(set) var token: TokenID?
    /// Nil where Apple was not asked.
    private(set) var apple: AppleHolding?
    /// Records of the ledger, the newest last.
    var claims: [AppleReports.Claim] = []
    var underWay: ReportIntent?

    init(identifier: String, apple: AppleHolding?) {
        self.identifier = identifier
        self.apple = apple
    }

    /// Looks at all parts, one after the other, while report works on; what passes from one part to
    /// another meanwhile is looked for again.
    ///
    /// - Throws: what `askApple`, `readLedger` and `readState` throw.
    init(
        identifier: String,
        token: TokenID?,
        askApple: () throws(CommandFailure) -> AppleHolding?,
        readLedger: (TokenID?) throws(CommandFailure) -> [AppleReports.Claim],
        readState: (TokenID) throws(CommandFailure) -> ReportIntent?
    ) throws(CommandFailure) {
        let askedAt = WallClock.nowMilliseconds()
        self.init(identifier: identifier, apple: try askApple())
        self.token = token ?? apple?.token
        claims = try readLedger(self.token)
        if let token = self.token {
            underWay = try readState(token)
            // It may have ended since the ledger was read.
            if underWay == nil, accepted == nil {
                claims = try readLedger(token)
            }
        }
        // It may have been sent since Apple was asked.
        if case .notHeld? = verdict, let settledAt = accepted?.outcome.settledAt.milliseconds,
            askedAt - Self.slackMilliseconds < settledAt
        {
            apple = try askApple()
        }
    }

    var isKnown: Bool { !claims.isEmpty || underWay != nil || apple?.report != nil }

    /// What the ledger says that Apple has.
    private var accepted: AppleReports.Claim? { claims.last { $0.outcome.outcome != .rejected } }

    /// What Apple's report is compared with; one that was rejected, where Apple holds another under its
    /// identifier.
    private var compared: AppleReports.Claim? {
        accepted ?? claims.last { apple?.report != nil && $0.lane == apple?.lane }
    }

    /// How Apple's report compares with ours; nil where there is nothing to compare.
    private var verdict: AppleReports.Verdict? {
        guard let apple, let compared else {
            return nil
        }
        let lane = compared.lane
        guard let answer = apple.answers[lane] else {
            return .unclear(
                apple.troubles[lane]?.message
                    ?? "was not asked: app \(lane.appAppleID) is not in"
                    + " \(Setting.appsFile.fullName), or not the app of --app"
            )
        }
        return AppleReports.verdict(answer, on: compared)
    }

    var isRight: Bool {
        switch verdict {
        case nil: apple.map { $0.report == nil && $0.unclear.isEmpty } ?? true
        case .equal, .heldUnproven: true
        case .differs, .notHeld, .unclear: false
        }
    }

    // MARK: For a person

    var text: String {
        var text = claims.map(Self.text).joined(separator: "\n")
        if let underWay {
            text +=
                "report \(underWay.number) (\(underWay.status.rawValue)) is under way, deadline"
                + " \(Self.time(underWay.deadline))\n"
        }
        return text + appleText
    }

    private static func text(_ claim: AppleReports.Claim) -> String {
        let outcome = claim.outcome
        var lines = [
            "\(outcome.requestIdentifier)  \(outcome.status.rawValue) \(outcome.outcome.rawValue)",
            "  token     \(printable(outcome.externalPurchaseID.text))"
                + " (\(outcome.externalPurchaseID.environment.rawValue)), app \(outcome.appAppleID)",
            "  because   \(printable(outcome.reason))",
            "  sent      \(time(outcome.firstSentAt)), settled \(time(outcome.settledAt))",
            "  deadline  \(deadline(outcome.details))",
        ]
        if !outcome.errors.isEmpty {
            let errors = outcome.errors.map { error in
                ["\(error.code)", error.fieldName, error.lineItemID].compactMap { $0 }
                    .joined(separator: " ")
            }
            lines.append("  refused   error \(printable(errors.joined(separator: "; ")))")
        }
        for exchange in outcome.exchanges {
            let answer = exchange.httpStatus == 0 ? "no answer" : "HTTP \(exchange.httpStatus)"
            let code = exchange.errorCode.map { ", error \($0)" } ?? ""
            let wait = (exchange.answeredAt - exchange.sentAt).count
            lines.append(
                "  request   \(time(exchange.sentAt)) \(exchange.request.method): \(answer)\(code)"
                    + " after \(wait) ms"
            )
        }
        if outcome.exchanges.isEmpty {
            lines.append("  requests  \(outcome.attempts), the last HTTP \(outcome.httpStatus)")
        }
        lines.append("  ledger    \(claim.position)")
        return lines.map { $0 + "\n" }.joined() + itemTable(outcome)
    }

    private static func deadline(_ details: ReportOutcome.Details) -> String {
        let when = details.deadline.map(time) ?? "not in the ledger"
        guard let late = details.lateBySeconds else {
            return when
        }
        return when + (late > 0 ? ", LATE by \(AgeText.of(.seconds(late)))" : ", in time")
    }

    private static func itemTable(_ outcome: ReportOutcome) -> String {
        guard let text = outcome.details.lineItems else {
            return outcome.status == .lineItem ? "  its line items are not in the ledger\n" : ""
        }
        let items: [LedgerLineItem]
        do throws(WireFault) {
            items = try LedgerLineItem.list(text)
        } catch {
            return "  its line items cannot be read: \(printable(error.message))\n"
        }
        var table = TextTable(columns: [
            .init(title: "LINE ITEM"), .init(title: "EVENT"), .init(title: "SOLD"),
            .init(title: "TAX EXCL.", isNumber: true), .init(title: "TAX", isNumber: true),
            .init(title: "NET", isNumber: true), .init(title: ""), .init(title: ""),
        ])
        table.rows = items.map { item in
            [
                printable(item.lineItemID, 36), printable(item.eventType ?? "-", 8),
                item.creationDate.map { String(time($0).prefix(10)) } ?? "-",
                amount(item.amounts.taxExclusive), amount(item.amounts.tax),
                amount(item.amounts.netTaxExclusive), printable(item.reportingCurrency ?? "-", 8),
                item.isErroneous ? "retracted" : item.isRestatement ? "restated" : "",
            ]
        }
        return table.text.split(separator: "\n").map { "  \($0)\n" }.joined()
    }

    /// Thousandths with a decimal point; what is no whole number as it is.
    private static func amount(_ digits: String?) -> String {
        guard let digits else {
            return "-"
        }
        return Int64(digits).map { LedgerTotals.decimal(Int128($0)) } ?? printable(digits, 24)
    }

    private var appleText: String {
        guard let apple else {
            return ""
        }
        var text = "\nApple     "
        switch verdict {
        case .equal: text += "holds this very report\n"
        case .heldUnproven: text += "holds it; the ledger does not say what was in it\n"
        case .notHeld: text += "does not hold it, although the ledger says so\n"
        case .unclear(let because): text += "not known: \(Self.printable(because))\n"
        case .differs(let differences):
            text += "holds it otherwise:\n"
            var table = TextTable(columns: [
                .init(title: "LINE ITEM"), .init(title: "FIELD"), .init(title: "OURS"),
                .init(title: "APPLE'S"),
            ])
            table.rows = differences.map { difference in
                [
                    Self.printable(difference.lineItemID ?? "-", 40), difference.field,
                    Self.printable(difference.ours ?? "absent", 60),
                    Self.printable(difference.apples ?? "absent", 60),
                ]
            }
            text += table.text
        case nil where apple.report != nil:
            text += "holds a report under it that the ledger has not\n"
        case nil where apple.unclear.isEmpty: text += "holds nothing under it\n"
        case nil:
            text += "holds nothing under it as far as is known\n"
            text += apple.unclear.map { "          \(Self.printable($0))\n" }.joined()
        }
        return text
    }

    private static func printable(_ text: String, _ countMax: Int = 200) -> String {
        PlainText.printable(text, characterCountMax: countMax)
    }

    private static func time(_ time: Timestamp) -> String {
        WallClock.rfc3339(milliseconds: time.milliseconds)
    }

    // MARK: For a program

    var json: String {
        var members = Fact.text("requestIdentifier", identifier)
        let records = claims.map { claim in
            var value: [UInt8] = []
            claim.outcome.write(to: &value)
            return JSONLines.object(
                Fact.text("position", claim.position)
                    + [("outcome", String(decoding: value, as: UTF8.self))]
            )
        }
        members.append(("ledger", JSONLines.list(records)))
        if let underWay {
            let facts =
                Fact.number("number", Int64(underWay.number))
                + Fact.text("status", underWay.status.rawValue)
                + Fact.number("deadline", underWay.deadline.milliseconds)
            members.append(("underWay", JSONLines.object(facts)))
        }
        if let apple {
            members.append(("apple", appleJSON(apple)))
        }
        return JSONLines.object(members)
    }

    private func appleJSON(_ apple: AppleHolding) -> String {
        let isHeld =
            switch verdict {
            case .notHeld: "false"
            case .unclear where apple.report == nil: "null"
            case nil where apple.report == nil: apple.unclear.isEmpty ? "false" : "null"
            case .equal, .heldUnproven, .differs, .unclear, nil: "true"
            }
        var members: [(name: String, json: String)] = [("isHeld", isHeld)]
        members += Fact.number("appAppleId", apple.lane?.appAppleID)
        members += Fact.text("environment", apple.lane?.environment.rawValue)
        if let verdict {
            let isEqual =
                switch verdict {
                case .equal: "true"
                case .differs, .notHeld: "false"
                case .heldUnproven, .unclear: "null"
                }
            members.append(("isEqual", isEqual))
        }
        if case .differs(let differences) = verdict {
            let objects = differences.map { difference in
                JSONLines.object(
                    Fact.text("lineItemId", difference.lineItemID)
                        + Fact.text("field", difference.field)
                        + Fact.text("ours", difference.ours)
                        + Fact.text("apples", difference.apples)
                )
            }
            members.append(("differences", JSONLines.list(objects)))
        }
        if case .unclear(let because) = verdict {
            members += Fact.text("because", because)
        }
        members.append(("notAsked", JSONLines.texts(apple.unclear)))
        return JSONLines.object(members)
    }
}
