internal import TokenDomain
internal import TokenWire

/// One event of a file, and the line that it begins in.
struct PurchaseCheckLine: Equatable {
    var line: Int
    var text: [UInt8]
}

/// The files of `purchase check`.
enum PurchaseCheckInput {
    /// The events of a file: of one array or object, or one a line.
    static func events(_ text: [UInt8]) -> [PurchaseCheckLine] {
        wholeDocument(text) ?? lines(of: text)
    }

    private static func lines(of text: [UInt8]) -> [PurchaseCheckLine] {
        text.split(separator: 0x0a, omittingEmptySubsequences: false).enumerated()
            .map { PurchaseCheckLine(line: $0 + 1, text: Array($1)) }
            .filter { line in line.text.contains { $0 != 0x20 && $0 != 0x09 && $0 != 0x0d } }
    }

    /// Nil where the text is not one array or one object.
    private static func wholeDocument(_ text: [UInt8]) -> [PurchaseCheckLine]? {
        var found: [PurchaseCheckLine] = []
        var line = 1
        var counted = 0
        do throws(WireFault) {
            try JSONScanner.scan(text.span) { (scanner) throws(WireFault) in
                guard try scanner.peekKind() == .array else {
                    let start = scanner.position
                    found.append(PurchaseCheckLine(line: 1, text: try scanner.raw()))
                    found[0].line = 1 + text[..<start].count { $0 == 0x0a }
                    return
                }
                try scanner.beginArray()
                while try scanner.nextElement() {
                    _ = try scanner.peekKind()
                    line += text[counted..<scanner.position].count { $0 == 0x0a }
                    counted = scanner.position
                    found.append(PurchaseCheckLine(line: line, text: try scanner.raw()))
                }
            }
            return found
        } catch {
            // Events one a line, or a text whose fault its line shows.
            return nil
        }
    }

    /// A token, and whose it is.
    struct OwnedToken: Equatable {
        var token: ExternalPurchaseToken
        var customer: String?
    }

    /// The tokens of a file, the first line first: a token, `{"token":…,"customer":…}`, the same
    /// with `url` as `POST /v1/tokens` takes it, or a record of `tokens.decoded.v1`.
    static func tokens(
        _ text: [UInt8],
        _ path: String
    ) throws(CommandFailure) -> [OwnedToken] {
        var tokens: [OwnedToken] = []
        for line in lines(of: text) {
            do throws(DecodeFault) {
                tokens.append(try token(line.text))
            } catch {
                throw CommandFailure(
                    .usage,
                    code: error.code,
                    "line \(line.line) of \(path) is no token: \(error.message)"
                )
            }
        }
        return tokens
    }

    private static func token(_ text: [UInt8]) throws(DecodeFault) -> OwnedToken {
        guard text.first(where: { $0 != UInt8(ascii: " ") }) == UInt8(ascii: "{") else {
            return OwnedToken(token: try decodeToken(text.span))
        }
        var token: [UInt8]?
        var url: [UInt8]?
        var customer: String?
        do throws(WireFault) {
            try JSONScanner.scanObject(text.span) { (key, scanner) throws(WireFault) in
                switch key {
                case "token": token = try scanner.stringBytes()
                case "url": url = try scanner.stringBytes()
                case "customer": try scanner.fill(&customer)
                default: try scanner.skip()
                }
            }
        } catch {
            throw .badEnvelope(reason: error.message)
        }
        switch (token, url) {
        case (let token?, nil):
            return OwnedToken(token: try decodeToken(token.span), customer: customer)
        case (nil, let url?):
            return OwnedToken(token: try linked(url), customer: customer)
        default:
            throw .badEnvelope(reason: "it has not one of \"token\" and \"url\"")
        }
    }

    /// The token of a link, which is of the link's app.
    private static func linked(_ url: [UInt8]) throws(DecodeFault) -> ExternalPurchaseToken {
        let link = try TokenLink(reading: url.span)
        let token = try decodeToken(Array(link.token.utf8).span)
        guard link.bundleID.map({ BundleID($0) == BundleID(token.bundleID) }) ?? true else {
            throw .bundleMismatch
        }
        return token
    }

    static func rates(_ text: [UInt8], _ path: String) throws(CommandFailure) -> ExchangeRates {
        do throws(ExchangeRates.Fault) {
            return try ExchangeRates(csv: text)
        } catch {
            throw CommandFailure(
                .usage,
                code: "sales.bad_rates",
                "line \(error.line) of \(path): \(error.message)"
            )
        }
    }
}
