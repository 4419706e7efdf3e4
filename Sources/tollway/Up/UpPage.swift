internal import Foundation
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// What `tollway up` prints once: where everything listens, and what to paste.
struct UpPage {
    /// An address, by what listens there.
    typealias Address = (name: String, text: String)

    private let addresses: [Address]
    private let lines: [String]
    private let notes: [String]
    private let kafka: String
    private let hold: String

    /// Has Apple's side issue the tokens that the printed lines name.
    init(_ run: UpRun) throws {
        let tokens = try Self.mint(run)
        let workers = run.workers
        let simulator = workers.simulator
        kafka = run.cluster.sentence
        hold = workers.environment[Setting.reportHold.fullName] ?? UpRun.hold
        addresses = [
            ("console", run.consoleURL),
            ("door", "\(workers.ingestURL)/v1/tokens"),
            (
                "Apple's side",
                "http://127.0.0.1:\(simulator.production), sandbox :\(simulator.sandbox),"
                    + " admin :\(simulator.admin)"
            ),
            ("Kafka", "\(run.cluster.bootstrapServers), topics \(run.prefix)*"),
            (
                "admin ports",
                run.adminAddresses.map { "\($0.name) :\($0.address.split(separator: ":")[1])" }
                    .joined(separator: ", ")
            ),
            ("logs, keys", run.folder.path + (run.isKept ? "" : " (removed at the end)")),
        ]
        lines = Self.lines(run, tokens)
        notes =
            run.ports.unusualPorts
            + (run.isKept ? [] : ["nothing is kept: --dir DIR keeps it with a Kafka of KAFKA_HOME"])
    }

    // MARK: - Tokens

    private struct Token {
        var id: String
        var text: String
    }

    private static func mint(_ run: UpRun) throws -> [Token] {
        let app = DemoStream.apps[0]
        let order: [String: Any] = [
            "mint": [
                "event": "purchase", "appAppleId": app.appAppleID, "bundleId": app.bundleID,
                "customer": "mia", "count": 3,
            ]
        ]
        let answer = try run.http.call(
            "POST",
            run.workers.simulatorURL("/tokens"),
            body: Array(try JSONSerialization.data(withJSONObject: order))
        )
        guard let answer, answer.status == 200,
            let page = try JSONSerialization.jsonObject(with: Data(answer.body)) as? [String: Any]
        else {
            throw CommandFailure(.failed, code: "up.sim", "the simulator issues no tokens")
        }
        return (page["tokens"] as? [[String: Any]] ?? []).compactMap { token in
            guard let id = token["externalPurchaseId"] as? String,
                let text = token["token"] as? String
            else {
                return nil
            }
            return Token(id: id, text: text)
        }
    }

    // MARK: - Lines

    private static func lines(_ run: UpRun, _ tokens: [Token]) -> [String] {
        let door = run.workers.ingestURL
        let app = DemoStream.apps[0]
        var lines: [String] = []
        if tokens.count >= 3 {
            lines = [
                post("\(door)/v1/tokens", ["token": tokens[0].text, "customer": "mia"]),
                post(
                    "\(door)/v1/tokens",
                    [
                        "url": "https://example.com/buy?externalPurchaseToken=\(tokens[1].text)"
                            + "&bundleId=\(app.bundleID)",
                        "customer": "noah",
                    ]
                ),
            ]
            lines.append(purchase(door, app.appAppleID, now: WallClock.nowMilliseconds()))
            lines += [
                post(
                    run.workers.simulatorURL("/notifications"),
                    [
                        "subtype": "UNREPORTED", "externalPurchaseId": tokens[2].id,
                        "url": "\(door)/v1/notifications",
                    ]
                ),
                "\(settings(run))\(command) token trace \(tokens[0].id)",
            ]
        }
        return lines
    }

    /// `now` is the sale's date, which is not in the future when the line is pasted at once.
    static func purchase(_ door: String, _ app: Int64, now: Int64) -> String {
        post(
            "\(door)/v1/purchases",
            [
                // With --dir an earlier run's is known: its name with another date is a conflict.
                "lineItemId": "order-\(now)", "customer": "mia", "appAppleId": app,
                "creationDate": now,
                "productIdentifier": "coins.100", "taxCountry": "DEU",
                "pricingCurrency": "EUR", "amountTaxInclusive": 11_900, "taxAmount": 1_900,
            ]
        )
    }

    private static func post(_ url: String, _ body: [String: Any]) -> String {
        do {
            let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
            let json = try JSONSerialization.data(withJSONObject: body, options: options)
            let text = String(decoding: json, as: UTF8.self)
            return "curl -H 'Content-Type: application/json' -d '\(text)' \(url)"
        } catch {
            preconditionFailure("plain values make JSON: \(error)")
        }
    }

    /// As this command was called.
    private static var command: String {
        CommandLine.arguments.first ?? "tollway"
    }

    /// What a command needs to know that is not so by default.
    private static func settings(_ run: UpRun) -> String {
        var settings = ""
        if run.cluster.bootstrapServers != "127.0.0.1:\(LocalPorts.kafkaDefault)" {
            settings += "\(Setting.kafkaBootstrapServers)=\(run.cluster.bootstrapServers) "
        }
        if run.prefix != Setting.topicPrefix.defaultText {
            settings += "\(Setting.topicPrefix.fullName)=\(run.prefix) "
        }
        return settings
    }

    // MARK: - Output

    func text(format: OutputFormat) -> String {
        guard format == .table else {
            return JSONLines.object([
                ("kafka", JSONText.quoted(kafka)),
                (
                    "addresses",
                    JSONLines.object(addresses.map { ($0.name, JSONText.quoted($0.text)) })
                ),
                ("lines", JSONLines.texts(lines)),
                ("notes", JSONLines.texts(notes)),
            ]) + "\n"
        }
        return """
            Tollway runs on \(kafka).

            \(HelpText.table(addresses.map { ($0.name, $0.text) }))
            \(notes.map { "\nnote: \($0)\n" }.joined())
            Paste one after the other. What nothing was bought with is reported after \(hold).

            \(lines.joined(separator: "\n\n"))

            Ctrl-C ends it.

            """
    }
}
