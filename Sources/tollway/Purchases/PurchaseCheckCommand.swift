internal import Foundation
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// `tollway purchase check`: what sales become, without Kafka and without Apple.
enum PurchaseCheckCommand {
    static let verb = Verb(
        words: ["purchase", "check"],
        summary: "the line items that sales become, or each fault with its repair",
        operands: "FILE",
        operandCountMax: 1,
        options: [
            .value(
                "--tokens",
                "FILE",
                "the customers' tokens, one a line: alone, or with token or url, and customer"
            ),
            .value("--rates", "FILE", "exchange rates: date,from,to,rate"),
        ],
        details: """
            FILE (- for standard input) holds events as POST /v1/purchases takes them: one JSON
            object, an array of them, or one a line. They are compiled offline, from an empty
            book: a refund needs its buy in the same file, in any order. A retraction also shows
            what is retracted with the item, before it and under the same line. Without --tokens
            nobody asks which token carries a sale. TOLLWAY_PURCHASES_TOKEN_WINDOW and, without
            --rates, TOLLWAY_EXCHANGE_RATES_FILE hold as for tollway-purchases. Exit 1 with a
            fault, 3 without an event; a sale that waits for a rate or is not owed is no fault.
            """,
        run: run
    )

    static let byteCountMax = 256 << 20

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let file = try invocation.onlyOperand(named: "FILE")
        let lines = PurchaseCheckInput.events(try read(file))
        guard !lines.isEmpty else {
            throw CommandFailure(
                .nothingMatched,
                code: "sales.no_events",
                "\(file) holds no event"
            )
        }
        let tokens = try invocation.value("--tokens").map { (path) throws(CommandFailure) in
            try PurchaseCheckInput.tokens(try read(path), path)
        }
        let settings = try settings()
        var book = PurchaseCheckBook(
            tokens: tokens,
            tokenWindow: settings.purchasesTokenWindow,
            rates: try rates(invocation.value("--rates"), settings),
            now: Timestamp(milliseconds: WallClock.nowMilliseconds())
        )
        let results = book.check(lines)
        switch invocation.output {
        case .table: Console.write(results.map(row).joined())
        case .json, .ndjson:
            let objects = results.map(object)
            Console.write(JSONLines.text(objects, list: "events", format: invocation.output))
        }
        return results.contains { $0.isFault } ? .failed : .ok
    }

    /// Two settings are used: the others may be wrong.
    private static func settings() throws(CommandFailure) -> Configuration {
        let names = [Setting.purchasesTokenWindow, .exchangeRatesFile].map(\.fullName)
        do throws(ConfigurationFault) {
            return try Configuration(
                environment: ProcessInfo.processInfo.environment.filter { names.contains($0.key) },
                program: .tollway,
                hostName: "offline"
            )
        } catch {
            throw CommandFailure(.usage, code: error.code, error.sentence)
        }
    }

    /// The rates of a file, else those that the worker has.
    private static func rates(
        _ path: String?,
        _ settings: Configuration
    ) throws(CommandFailure) -> ExchangeRates {
        if let path {
            return try PurchaseCheckInput.rates(try read(path), path)
        }
        guard let path = settings.exchangeRatesFile else {
            return .none
        }
        do throws(ConfigurationFault) {
            return try ExchangeRatesFile.load(path)
        } catch {
            throw CommandFailure(.usage, code: error.code, error.sentence)
        }
    }

    private static func read(_ path: String) throws(CommandFailure) -> [UInt8] {
        let bytes = try InputFile.read(path, byteCountMax: byteCountMax)
        guard bytes.count <= byteCountMax else {
            throw .usage("input_too_large", "\(path) has more than \(byteCountMax) bytes")
        }
        return bytes
    }

    // MARK: Output

    private static func row(_ result: PurchaseCheckResult) -> String {
        let name = result.lineItemID.isEmpty ? "" : " \(result.lineItemID)"
        let start = "line \(result.line)\(name): "
        let texts: [String] =
            switch result.end {
            case .lineItem(let item, let token):
                [
                    start + String(decoding: item, as: UTF8.self)
                        + (token.map { " under \($0)" } ?? "")
                ]
            case .faults(let faults):
                faults.map { fault in
                    let apple = fault.appleCode.map { " (Apple's \($0.rawValue), \($0))" } ?? ""
                    let field = fault.field.isEmpty ? "" : " \(fault.field)"
                    return "\(start)\(fault.code)\(apple)\(field): \(fault.repair)"
                }
            case .settled(let word): [start + word]
            case .waits(let cause): ["\(start)waits for \(cause)"]
            }
        return texts.map { PlainText.printable($0, characterCountMax: 4_096) + "\n" }.joined()
    }

    private static func object(_ result: PurchaseCheckResult) -> String {
        var members = [("line", "\(result.line)")]
        if !result.lineItemID.isEmpty {
            members.append(("lineItemId", JSONText.quoted(result.lineItemID)))
        }
        switch result.end {
        case .lineItem(let item, let token):
            members.append(("outcome", JSONText.quoted("line_item")))
            members.append(("item", String(decoding: item, as: UTF8.self)))
            if let token {
                members.append(("externalPurchaseId", JSONText.quoted(token.text)))
            }
        case .faults(let faults):
            members.append(("outcome", JSONText.quoted("fault")))
            members.append(("faults", JSONLines.list(faults.map(object))))
        case .settled(let word):
            members.append(("outcome", JSONText.quoted(word)))
        case .waits(let cause):
            members.append(("outcome", JSONText.quoted("waits")))
            members.append(("cause", JSONText.quoted(cause)))
        }
        return JSONLines.object(members)
    }

    private static func object(_ fault: PurchaseFault) -> String {
        JSONLines.object([
            ("rule", JSONText.quoted(fault.code)),
            ("field", fault.field.isEmpty ? "null" : JSONText.quoted(fault.field)),
            ("appleCode", fault.appleCode.map { "\($0.rawValue)" } ?? "null"),
            ("repair", JSONText.quoted(fault.repair)),
        ])
    }
}
