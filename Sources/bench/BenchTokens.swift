internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Tokens by number, mixed as the apps of a platform mix them: number n of a seed always makes the
/// same record, and the number can be read from the record.
///
/// Three apps, customers and ids by chance, a fifth of the JSON with blanks, half of the tokens padded,
/// a third from links, and no header: an input that is all of one form flatters whoever reads it.
/// Each is a SERVICES token of a customer with a period of its own, so that dedupe has two questions
/// and two entries for every one of them.
final class BenchTokens {
    /// The lengths of the names are such that the JSON of each has padding in base64.
    static let apps: [(appAppleID: Int64, bundleID: String)] = [
        (1_234_567_890, "com.example"), (1_700_000_123, "com.example.mu"),
        (6_450_000_007, "com.example.video"),
    ]
    static let seedDefault: UInt64 = 1
    /// What an id of the sandbox begins with.
    static let sandboxHead = "SANDBOX_"
    static let customerCount = 500_000
    /// Digits of the number, hexadecimal, at the end of the token's id.
    private static let numberDigitCount = 12
    private static let hexDigits = Array("0123456789abcdef".utf8)
    private static let idPlaceholder = "00000000-0000-4000-8000-000000000000"
    private static let timePlaceholder = "0000000000000"

    /// UNIX milliseconds: the newest token's creation.
    let now: Int64
    private let seed: UInt64
    private let known = ReceivedDecoder.Apps(apps)
    private var decoder = ReceivedDecoder()
    /// The JSON of a token, by app, without and with blanks.
    private var templates: [Template]
    private var scratch: [UInt8] = []

    init(now: Int64, seed: UInt64 = seedDefault) {
        self.now = now
        self.seed = seed
        templates = Self.apps.flatMap { app in
            [false, true].map { Template(app.appAppleID, app.bundleID, isSpaced: $0) }
        }
    }

    /// What is by chance of one number.
    private struct Mix {
        var app: Int
        var isSpaced: Bool
        var isPadded: Bool
        var isLink: Bool
        var customer: UInt64

        init(_ word: UInt64) {
            app = Int(word % 3)
            isSpaced = (word >> 8) % 5 == 0
            isPadded = word >> 17 & 1 == 0
            isLink = (word >> 20) % 3 == 0
            customer = (word >> 24) % UInt64(customerCount)
        }
    }

    private func mix(of number: Int) -> Mix { Mix(Self.mix(UInt64(number) ^ seed &<< 48)) }

    /// Appends the value alone of that record.
    func appendReceivedValue(_ number: Int, to arena: inout [UInt8]) {
        var outputs = OutputBatch()
        appendReceived(number, to: &outputs)
        arena += outputs.arena[outputs.outputs[0].value.indices]
    }

    /// Appends the record of `tokens.received` with a number.
    func appendReceived(_ number: Int, to outputs: inout OutputBatch) {
        let mix = mix(of: number)
        let (colon, comma) = mix.isSpaced ? (": ", ", ") : (":", ",")
        let start = outputs.arena.count
        func put(_ text: String) { outputs.arena.append(contentsOf: text.utf8) }
        put("{\"token\"\(colon)\"")
        appendText(number, mix, to: &outputs.arena)
        put("\"\(comma)\"customer\"\(colon)\"")
        let key = outputs.arena.count
        appendCustomer(mix.customer, to: &outputs.arena)
        let keyRange = outputs.placed(from: key)
        put("\"\(comma)\"receivedAt\"\(colon)\(now)\(comma)\"source\"\(colon)")
        if mix.isLink {
            put("\"link\"\(comma)\"bundleId\"\(colon)\"\(Self.apps[mix.app].bundleID)\"")
        } else {
            put("\"app\"")
        }
        put("\(comma)\"requestId\"\(colon)\"")
        appendID(number, salt: 1, to: &outputs.arena)
        put("\"}")
        let value = outputs.placed(from: start)
        outputs.outputs.append(OutputBatch.Output(topic: 0, key: keyRange, value: value))
    }

    /// Appends the record of `tokens.decoded` that decode makes of it.
    func appendDecoded(_ number: Int, to outputs: inout OutputBatch) {
        var received = OutputBatch()
        swap(&received.arena, &scratch)
        received.arena.removeAll(keepingCapacity: true)
        appendReceived(number, to: &received)
        do throws(DecodeFault) {
            let written = try decoder.decode(
                received.arena.span.extracting(received.outputs[0].value.indices),
                recordTime: Timestamp(milliseconds: now),
                apps: known,
                into: &outputs.arena
            )
            outputs.outputs.append(
                OutputBatch.Output(
                    topic: 0,
                    key: ByteRange(start: written.key.lowerBound, count: written.key.count),
                    value: ByteRange(start: written.value.lowerBound, count: written.value.count)
                )
            )
        } catch {
            preconditionFailure("a token of the bench is one: \(error)")
        }
        swap(&received.arena, &scratch)
    }

    /// Appends the record of `tokens.distinct` with a number: the first of its period, of one of these
    /// apps, one in four of the sandbox.
    func appendDistinct(
        _ number: Int,
        of apps: [(appAppleID: Int64, bundleID: String)],
        to outputs: inout OutputBatch
    ) {
        let word = Self.mix(UInt64(number) ^ seed &<< 48)
        let app = apps[Int(word % UInt64(apps.count))]
        let isSandbox = (word >> 8) % 4 == 0
        // About in the order in which they were made: no two phones take equally long to send theirs.
        let seconds = Int64(number % 1_000_000) - 1_000_000 - Int64((word >> 16) % 600)
        let creation = Timestamp(milliseconds: now + seconds * 1_000)
        let distinct = TokenDistinct(
            externalPurchaseID: TokenID((isSandbox ? Self.sandboxHead : "") + id(number)),
            appAppleID: app.appAppleID,
            bundleID: app.bundleID,
            tokenType: TokenType(.services),
            tokenCreationDate: creation,
            tokenExpirationDate: creation + .days(365),
            customer: customerID(Int(mix(of: number).customer)),
            receivedAt: Timestamp(milliseconds: now),
            role: .primary
        )
        let key = outputs.place(distinct.externalPurchaseID.text.utf8.span)
        let start = outputs.arena.count
        distinct.write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(topic: 0, key: key, value: outputs.placed(from: start))
        )
    }

    /// Appends an object for the door: `{"token":"…","customer":"…"}`, or with the `url` of a link.
    func appendForDoor(_ number: Int, to body: inout [UInt8]) {
        let mix = mix(of: number)
        let (colon, comma) = mix.isSpaced ? (": ", ", ") : (":", ",")
        if mix.isLink {
            let head = "https://shop.example/buy?externalPurchaseToken="
            body.append(contentsOf: "{\"url\"\(colon)\"\(head)".utf8)
            appendText(number, mix, to: &body)
            body.append(contentsOf: "&bundleId=\(Self.apps[mix.app].bundleID)".utf8)
        } else {
            body.append(contentsOf: "{\"token\"\(colon)\"".utf8)
            appendText(number, mix, to: &body)
        }
        body.append(contentsOf: "\"\(comma)\"customer\"\(colon)\"customer-\(mix.customer)\"}".utf8)
    }

    /// The app of the token with a number.
    func app(of number: Int) -> (appAppleID: Int64, bundleID: String) {
        Self.apps[mix(of: number).app]
    }

    /// The id of the token with a number; with another salt, another id that has the number.
    func id(_ number: Int, salt: UInt64 = 0) -> String {
        var bytes: [UInt8] = []
        appendID(number, salt: salt, to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The number of the token whose id lies in some bytes; nil where it is none of ours.
    static func number(ofID id: Span<UInt8>) -> Int? {
        guard id.count == idPlaceholder.utf8.count else {
            return nil
        }
        var hidden: UInt64 = 0
        for index in id.count - numberDigitCount..<id.count {
            guard let digit = hexDigits.firstIndex(of: id[index]) else {
                return nil
            }
            hidden = hidden << 4 | UInt64(digit)
        }
        return Int(shown(hidden))
    }

    // MARK: - Pieces

    /// The JSON of a token, with places for what differs.
    private struct Template {
        var json: [UInt8]
        let creationStart: Int
        let idStart: Int
        let expirationStart: Int

        init(_ appAppleID: Int64, _ bundleID: String, isSpaced: Bool) {
            let (colon, comma) = isSpaced ? (": ", ", ") : (":", ",")
            let creation =
                "{\"appAppleId\"\(colon)\(appAppleID)\(comma)\"bundleId\"\(colon)\"\(bundleID)\""
                + "\(comma)\"tokenCreationDate\"\(colon)"
            let id = "\(comma)\"externalPurchaseId\"\(colon)\""
            let expiration =
                "\"\(comma)\"tokenType\"\(colon)\"SERVICES\"\(comma)\"tokenExpirationDate\"\(colon)"
            creationStart = creation.utf8.count
            idStart = creationStart + timePlaceholder.utf8.count + id.utf8.count
            expirationStart = idStart + idPlaceholder.utf8.count + expiration.utf8.count
            json = Array(
                (creation + timePlaceholder + id + idPlaceholder + expiration + timePlaceholder
                    + "}").utf8
            )
        }
    }

    private func appendText(_ number: Int, _ mix: Mix, to arena: inout [UInt8]) {
        let which = 2 * mix.app + (mix.isSpaced ? 1 : 0)
        // No two periods of a customer are one, and none of them is over.
        let creation = now - Int64(number % 1_000_000) * 1_000
        var id: [UInt8] = []
        id.reserveCapacity(Self.idPlaceholder.utf8.count)
        appendID(number, salt: 0, to: &id)
        let template = templates[which]
        Self.put(creation, at: template.creationStart, in: &templates[which].json)
        Self.put(
            creation + 365 * 86_400_000,
            at: template.expirationStart,
            in: &templates[which].json
        )
        let idRange = template.idStart..<template.idStart + id.count
        templates[which].json.replaceSubrange(idRange, with: id)
        let token = templates[which].json
        let start = arena.count
        Base64URL.encode(token.span, to: &arena)
        while mix.isPadded, (arena.count - start) % 4 != 0 {
            arena.append(UInt8(ascii: "="))
        }
    }

    private func appendID(_ number: Int, salt: UInt64, to arena: inout [UInt8]) {
        let first = Self.mix(UInt64(number) &* 4 &+ salt ^ seed)
        let words = [first, Self.mix(first)]
        var digits = (0..<20).map { Int(words[$0 / 10] >> UInt64(6 * ($0 % 10)) & 15) }[...]
        for count in [8, 4, 4, 4] {
            arena.append(contentsOf: digits.prefix(count).map { Self.hexDigits[$0] })
            digits = digits.dropFirst(count)
            arena.append(UInt8(ascii: "-"))
        }
        let hidden = Self.hidden(UInt64(number))
        for digit in (0..<Self.numberDigitCount).reversed() {
            arena.append(Self.hexDigits[Int(hidden >> UInt64(4 * digit) & 15)])
        }
    }

    /// In the form in which ingest writes it.
    func customerID(_ customer: Int) -> CustomerID {
        var bytes: [UInt8] = []
        appendCustomer(UInt64(customer), to: &bytes)
        return CustomerID(String(decoding: bytes, as: UTF8.self))
    }

    private func appendCustomer(_ customer: UInt64, to arena: inout [UInt8]) {
        arena.append(contentsOf: "c1.".utf8)
        var bytes = [UInt8](repeating: 0, count: 32)
        for word in 0..<4 {
            let mixed = Self.mix(customer &* 4 &+ UInt64(word) &+ 0x7f4a_0000_0000)
            for index in 0..<8 {
                bytes[8 * word + index] = UInt8(truncatingIfNeeded: mixed >> (8 * index))
            }
        }
        Base64URL.encode(bytes.span, to: &arena)
    }

    /// Thirteen digits.
    private static func put(_ value: Int64, at start: Int, in bytes: inout [UInt8]) {
        var left = value
        for index in (start..<start + timePlaceholder.utf8.count).reversed() {
            bytes[index] = UInt8(ascii: "0") + UInt8(left % 10)
            left /= 10
        }
    }

    /// SplitMix64: every word once.
    static func mix(_ word: UInt64) -> UInt64 {
        var word = word &+ 0x9e37_79b9_7f4a_7c15
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }

    // A number in 48 bits that look like chance, as ids do: each step has an inverse.

    private static let mask: UInt64 = 1 << 48 - 1
    private static let factor: UInt64 = 0x9e37_79b9_7f4b
    /// Modulo 2^48; Newton's step doubles the bits that are right, three at first.
    private static let inverse = (0..<4).reduce(factor) { inverse, _ in
        inverse &* (2 &- factor &* inverse) & mask
    }

    private static func hidden(_ number: UInt64) -> UInt64 {
        var word = number & mask
        word = (word ^ word >> 24) &* factor & mask
        word = (word ^ word >> 24) &* factor & mask
        return word ^ word >> 24
    }

    private static func shown(_ hidden: UInt64) -> UInt64 {
        var word = hidden
        word = (word ^ word >> 24) &* inverse & mask
        word = (word ^ word >> 24) &* inverse & mask
        return word ^ word >> 24
    }
}
