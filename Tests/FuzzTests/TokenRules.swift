import Synchronization
import TokenDomain
import TokenWire

/// Tokens as they come in, by text, link and topic.
///
/// The first byte says what the input is.
enum TokenRules {
    static func broken(by input: [UInt8]) -> String? {
        let text = Array(input.dropFirst())
        return switch (input.first ?? 0) % 4 {
        case 0: bothWays(text)
        case 1: bothWays(Array(Base64URL.encode(text.span).utf8))
        case 2: link(text)
        default: received(text)
        }
    }

    /// The token, or the code of its fault.
    private static func decoded(_ text: [UInt8]) -> Result<ExternalPurchaseToken, DecodeFault> {
        do throws(DecodeFault) {
            return .success(try decodeToken(text.span))
        } catch {
            return .failure(error)
        }
    }

    /// Reads every input, so that behind each lies what the ones before it left in its memory.
    private static let lasting = Mutex(TokenReader())

    private static func read(
        _ text: [UInt8],
        by reader: inout TokenReader
    ) -> Result<ExternalPurchaseToken, DecodeFault> {
        do throws(DecodeFault) {
            try reader.read(text.span)
            return .success(reader.token)
        } catch {
            return .failure(error)
        }
    }

    /// The reader of the plain form must agree with the one of all forms, which a member that it does
    /// not know brings into play.
    private static func bothWays(_ text: [UInt8]) -> String? {
        guard let first = text.first, let last = text.last, !isBlank(first), !isBlank(last) else {
            // A token is trimmed; Base64 knows nothing of that, and takes a blank for a plus sign.
            return nil
        }
        let plain = decoded(text)
        guard lasting.withLock({ read(text, by: &$0) }) == plain else {
            return "a token is another behind others"
        }
        guard let json = bytes(ofBase64: text), json.first == UInt8(ascii: "{"),
            json.contains(UInt8(ascii: ":")),
            json.count < TextLimit.tokenText.byteCountMax / 2
        else {
            return nil
        }
        let longer = Array(#"{"\u0078":0,"#.utf8) + json.dropFirst()
        switch (plain, decoded(Array(Base64URL.encode(longer.span).utf8))) {
        case (.success(let one), .success(let other)):
            return one == other ? nil : "the plain form of a token says something else"
        case (.failure(let one), .failure(let other)):
            return one.code == other.code
                ? nil : "the plain form of a token is \(one.code), another form \(other.code)"
        case (.success, .failure(let fault)):
            return "only the plain form of a token is good: \(fault.code)"
        case (.failure(let fault), .success):
            return "only the plain form of a token is \(fault.code)"
        }
    }

    /// Base64 as tokens have it, read one character at a time: in both alphabets, padded or not,
    /// with a blank for a plus sign; nil where the text is none.
    private static func bytes(ofBase64 text: [UInt8]) -> [UInt8]? {
        var characters = text[...]
        for _ in 0..<2 where characters.last == UInt8(ascii: "=") {
            characters.removeLast()
        }
        guard characters.count % 4 != 1 else {
            return nil
        }
        var bytes: [UInt8] = []
        var bits: UInt32 = 0
        for (index, character) in characters.enumerated() {
            guard let digit = value(ofBase64: character) else {
                return nil
            }
            bits = bits << 6 | UInt32(digit)
            if index % 4 > 0 {
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(6 - index % 4 * 2)))
            }
        }
        return bytes
    }

    private static func value(ofBase64 character: UInt8) -> UInt8? {
        switch character {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): character - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): character - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): character - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"), UInt8(ascii: "+"), UInt8(ascii: " "): 62
        case UInt8(ascii: "_"), UInt8(ascii: "/"): 63
        default: nil
        }
    }

    private static func isBlank(_ byte: UInt8) -> Bool {
        byte == 0x20 || 0x09...0x0d ~= byte
    }

    private static func link(_ text: [UInt8]) -> String? {
        do throws(DecodeFault) {
            let link = try TokenLink(reading: text.span)
            var query = "bundleId=\(escaped(link.bundleID ?? ""))"
            query += "&externalPurchaseToken=\(escaped(link.token))"
            let again = try TokenLink(reading: Array("https://example.com/?\(query)".utf8).span)
            return again.token == link.token && again.bundleID == link.bundleID ?? ""
                ? nil : "a link comes back as another"
        } catch {
            return nil
        }
    }

    private static func escaped(_ text: String) -> String {
        text.utf8.map { "%" + String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// What the decoder makes of a record must be what the readers of its parts make of them.
    private static func received(_ value: [UInt8]) -> String? {
        var decoder = ReceivedDecoder()
        var arena: [UInt8] = []
        let time = Timestamp(milliseconds: 1_760_000_000_000)
        do {
            let message = try TokenReceived(reading: value.span)
            let token = try decodeToken(Array(message.token.utf8).span)
            let apps = ReceivedDecoder.Apps([(token.appAppleID, token.bundleID)])
            let written = try decoder.decode(
                value.span,
                recordTime: time,
                apps: apps,
                into: &arena
            )
            let decoded = try TokenDecoded(reading: Array(arena[written.value]).span)
            return decoded.token == token && decoded.customer == message.customer
                ? nil : "a token is decoded to another"
        } catch {
            // Also what was refused has its record, where there is an id.
            if let seen = decoder.writeSeen(to: &arena) {
                return isGood(Array(arena[seen.written.value]))
                    ? nil : "a seen record cannot be read"
            }
            return nil
        }
    }

    private static func isGood(_ value: [UInt8]) -> Bool {
        do throws(WireFault) {
            return try TokenDistinct(reading: value.span).role == .seen
        } catch {
            return false
        }
    }
}
