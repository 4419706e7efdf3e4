internal import AppStoreAPI
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// What a report by hand would do, before it is done.
struct ReportPage {
    let report: ReportByHand
    let configuration: Configuration

    private var topic: String { Topic.reportsRequested.name(prefix: configuration.topicPrefix) }

    func place(_ origin: RecordOrigin) -> String {
        "\(topic)/\(origin.partition)/\(origin.offset)"
    }

    private var standing: [String] {
        report.account == nil
            ? ["report knows nothing of it"]
            : TraceStanding(
                id: report.request.externalPurchaseID,
                account: report.account,
                deadLetters: nil,
                now: report.now
            ).lines
    }

    private var lineItemCount: Int? {
        report.request.lineItems.flatMap { JSONValue(Array($0.utf8))?.elements?.count }
    }

    var text: String {
        let request = report.request
        var text = PlainText.printable(request.externalPurchaseID.text, characterCountMax: 100)
        text += " (\(request.externalPurchaseID.environment.rawValue)), app \(request.appAppleID) "
        text += PlainText.printable(request.bundleID, characterCountMax: 100) + "\n"
        let lines = standing.map { PlainText.printable($0, characterCountMax: 600) }
        text += "now: \(lines.joined(separator: "\n     "))\n\n"
        var table = TextTable(columns: [
            .init(title: "STATUS"), .init(title: "MAY FOLLOW"), .init(title: "WHY NOT"),
        ])
        table.rows = report.rules.map { rule in
            [rule.status.rawValue, rule.because == nil ? "yes" : "no", rule.because ?? ""]
        }
        text += table.text.split(separator: "\n").map { line in
            String(line.reversed().drop { $0 == " " }.reversed()) + "\n"
        }.joined()
        if report.refusal == nil, let intent = report.intent {
            let count = lineItemCount.map { " with \($0) line items" } ?? ""
            text += "\nreport \(intent.number): \(request.status.rawValue)\(count)"
            text += " under \(intent.identifier)\n"
        }
        return text
    }

    var json: String {
        let request = report.request
        var members = Fact.text("externalPurchaseId", request.externalPurchaseID.text)
        members += Fact.text("environment", request.externalPurchaseID.environment.rawValue)
        members += Fact.number("appAppleId", request.appAppleID)
        members += Fact.text("bundleId", request.bundleID)
        members += Fact.text("lastAccepted", report.account?.lastAccepted?.rawValue)
        members.append(("now", JSONLines.texts(standing)))
        let rules = report.rules.map { rule in
            JSONLines.object(
                Fact.text("status", rule.status.rawValue)
                    + [("mayFollow", "\(rule.because == nil)")]
                    + Fact.text("because", rule.because)
            )
        }
        members.append(("rules", JSONLines.list(rules)))
        members += Fact.text("status", request.status.rawValue)
        members += Fact.number("lineItemCount", lineItemCount.map(Int64.init))
        members += Fact.number("number", (report.intent?.number).map(Int64.init))
        members += Fact.text("requestIdentifier", report.intent?.identifier)
        members += Fact.text("topic", topic)
        members.append(("isWritten", "false"))
        return JSONLines.object(members)
    }
}

/// The result of a report by hand that was written.
struct ReportResult {
    let order: HandOrder
    let place: String
    let number: Int?
    let identifier: String?
    let ending: ReportFollower.Ending

    private var state: String {
        switch ending {
        case .settled(let outcome): outcome.outcome.rawValue
        case .deadLetter: "dead_letter"
        case .timedOut, .interrupted, .unread: number == nil ? "written" : "under_way"
        }
    }

    var text: String {
        var text = "\(order.id): \(state)"
        if let number, let identifier {
            text += ", report \(number) under \(identifier)"
        }
        switch ending {
        case .settled(let outcome):
            text += ", \(outcome.status.rawValue), HTTP \(outcome.httpStatus)"
        case .deadLetter(let position, let code, let message):
            text += ", \(position): "
            text += PlainText.printable("\(code), \(message)", characterCountMax: 400)
        case .timedOut, .interrupted, .unread: break
        }
        return text + "\n"
    }

    var json: String {
        var members = Fact.text("orderId", order.id)
        members.append(("isWritten", "true"))
        members += Fact.text("position", place)
        members += Fact.text("state", state)
        members += Fact.number("number", number.map(Int64.init))
        members += Fact.text("requestIdentifier", identifier)
        switch ending {
        case .settled(let outcome):
            members += Fact.text("status", outcome.status.rawValue)
            members += Fact.number("httpStatus", Int64(outcome.httpStatus))
            members += Fact.number("settledAt", outcome.settledAt.milliseconds)
        case .deadLetter(let position, let code, let message):
            members += Fact.text("deadLetter", position.description)
            members += Fact.text("code", code) + Fact.text("message", message)
        case .timedOut, .interrupted, .unread: break
        }
        return JSONLines.object(members)
    }
}
