internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// `tollway token decode`: a token's fields, judged as `decode` judges them.
enum TokenDecodeCommand {
    static let verb = Verb(
        words: ["token", "decode"],
        summary: "the fields of a token, or of every token of standard input",
        operands: "[TOKEN | -]",
        operandCountMax: 1,
        options: [.flag("--url", "links instead of tokens: ...?externalPurchaseToken=TOKEN")],
        details: """
            Without TOKEN, or with -, reads a token a line and writes one JSON document a line:
            its fields, or {"line":N,"error":{...}}. Exit 1 if one was no token. A token is
            unsigned: what it says is a claim, not a proof.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let isLink = invocation.has("--url")
        guard let operand = invocation.operands.first, operand != "-" else {
            return try decodeLines(isLink: isLink)
        }
        do throws(DecodeFault) {
            let decoded = try decode(Array(operand.utf8), isLink: isLink)
            switch invocation.output {
            case .table: Console.write(HelpText.table(decoded.rows, indent: "") + "\n")
            case .json, .ndjson: Console.write(decoded.json + [UInt8(ascii: "\n")])
            }
            return .ok
        } catch {
            throw CommandFailure(.failed, code: error.code, message(error))
        }
    }

    private static func decodeLines(isLink: Bool) throws(CommandFailure) -> ExitCode {
        var lines = LineReader(byteCountMax: isLink ? linkByteCountMax : lineByteCountMax)
        var lineNumber = 0
        var areAllGood = true
        var written: [UInt8] = []
        while let line = try lines.next() {
            lineNumber += 1
            do throws(DecodeFault) {
                written += try decode(line, isLink: isLink).json
            } catch {
                areAllGood = false
                let fault = JSONLines.object([
                    ("code", JSONText.quoted(error.code)),
                    ("message", JSONText.quoted(message(error))),
                ])
                written += JSONLines.object([("line", "\(lineNumber)"), ("error", fault)]).utf8
            }
            written.append(UInt8(ascii: "\n"))
            if written.count >= writeByteCount || !lines.hasMoreAtHand {
                Console.stream(written)
                written.removeAll(keepingCapacity: true)
            }
        }
        return areAllGood ? .ok : .failed
    }

    /// The sentence of a fault; a link here is no record of a topic.
    private static func message(_ fault: DecodeFault) -> String {
        guard case .badEnvelope(let reason) = fault else {
            return fault.message
        }
        return "The link cannot be read: \(reason)."
    }

    /// Longer lines are cut there, and are too long all the same.
    private static let lineByteCountMax = 64 << 10
    private static let linkByteCountMax = 64 << 10
    private static let writeByteCount = 64 << 10

    /// A token as it is shown: the fields of `tokens.decoded.v1` that the token alone can give.
    private struct Decoded {
        var token: ExternalPurchaseToken
        var text: String

        var json: [UInt8] {
            var writer = JSONWriter()
            writer.beginObject()
            writer.fields(of: token)
            writer.field("token", text)
            writer.endObject()
            return writer.bytes
        }

        var rows: [(String, String)] {
            func date(_ time: Timestamp) -> String {
                "\(time.milliseconds)  (\(WallClock.rfc3339(milliseconds: time.milliseconds)))"
            }
            let rows: [(String, String?)] = [
                ("externalPurchaseId", token.externalPurchaseID.text),
                ("environment", token.environment.rawValue),
                ("appAppleId", String(token.appAppleID)),
                ("bundleId", token.bundleID),
                ("tokenType", token.tokenType?.text),
                ("tokenCreationDate", date(token.tokenCreationDate)),
                ("tokenExpirationDate", token.tokenExpirationDate.map(date)),
            ]
            // Whatever a hostile token says must not steer the terminal.
            return rows.compactMap { name, text in
                text.map { (name, PlainText.printable($0, characterCountMax: 4_096)) }
            }
        }
    }

    private static func decode(_ bytes: [UInt8], isLink: Bool) throws(DecodeFault) -> Decoded {
        guard isLink else {
            return Decoded(
                token: try decodeToken(bytes.span),
                text: String(decoding: bytes, as: UTF8.self)
            )
        }
        let link = try TokenLink(reading: bytes.span)
        let token = try decodeToken(Array(link.token.utf8).span)
        guard link.bundleID.map({ BundleID($0) == BundleID(token.bundleID) }) ?? true else {
            throw .bundleMismatch
        }
        return Decoded(token: token, text: link.token)
    }
}
