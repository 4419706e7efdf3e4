internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Tokens by number: number n always makes the same record, and a record tells its number.
///
/// Each is a SERVICES token of a customer with a period of its own, so that dedupe has two questions
/// and two entries for every one of them, and every record of one kind has the same length.
final class BenchTokens {
    static let appAppleID: Int64 = 1_234_567_890
    static let bundleID = "com.example"
    /// Digits of the number, hexadecimal, at the end of the token's id.
    private static let numberDigitCount = 12
    private static let hexDigits = Array("0123456789abcdef".utf8)
    private static let idPlaceholder = "00000000-0000-4000-8000-000000000000"
    private static let timePlaceholder = "0000000000000"

    /// UNIX milliseconds: the newest token's creation.
    private let now: Int64
    private let apps = ReceivedDecoder.Apps([(appAppleID: appAppleID, bundleID: bundleID)])
    private var decoder = ReceivedDecoder()
    private var json: [UInt8]
    private let idStart: Int
    private let creationStart: Int
    private let expirationStart: Int
    private var scratch: [UInt8] = []

    init(now: Int64) {
        self.now = now
        let head = "{\"appAppleId\":\(Self.appAppleID),\"bundleId\":\"\(Self.bundleID)\","
        let creation = "\"tokenCreationDate\":"
        let id = ",\"externalPurchaseId\":\""
        let type = "\",\"tokenType\":\"SERVICES\",\"tokenExpirationDate\":"
        json = Array(
            (head + creation + Self.timePlaceholder + id + Self.idPlaceholder + type
                + Self.timePlaceholder + "}").utf8
        )
        creationStart = head.utf8.count + creation.utf8.count
        idStart = creationStart + Self.timePlaceholder.utf8.count + id.utf8.count
        expirationStart = idStart + Self.idPlaceholder.utf8.count + type.utf8.count
    }

    /// Appends the record of `tokens.received` with a number.
    func appendReceived(_ number: Int, to outputs: inout OutputBatch) {
        let start = outputs.arena.count
        outputs.arena.append(contentsOf: "{\"token\":\"".utf8)
        appendText(number, to: &outputs.arena)
        outputs.arena.append(contentsOf: "\",\"customer\":\"".utf8)
        let key = outputs.arena.count
        appendCustomer(number, to: &outputs.arena)
        let keyRange = outputs.placed(from: key)
        outputs.arena.append(contentsOf: "\",\"receivedAt\":\(now),\"source\":\"app\"".utf8)
        outputs.arena.append(contentsOf: ",\"requestId\":\"".utf8)
        appendID(number, salt: 1, to: &outputs.arena)
        outputs.arena.append(contentsOf: "\"}".utf8)
        let value = outputs.placed(from: start)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: 0,
                key: keyRange,
                value: value,
                headers: appendTrace(number, to: &outputs.arena)
            )
        )
    }

    /// As the door writes it.
    private func appendTrace(_ number: Int, to arena: inout [UInt8]) -> ByteRange {
        TraceHeader.append(
            TraceParent(ofTopic: "bench", partition: 0, offset: Int64(number)),
            to: &arena
        )
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
                apps: apps,
                into: &outputs.arena
            )
            outputs.outputs.append(
                OutputBatch.Output(
                    topic: 0,
                    key: ByteRange(start: written.key.lowerBound, count: written.key.count),
                    value: ByteRange(start: written.value.lowerBound, count: written.value.count),
                    headers: appendTrace(number, to: &outputs.arena)
                )
            )
        } catch {
            preconditionFailure("a token of the bench is one: \(error)")
        }
        swap(&received.arena, &scratch)
    }

    /// Appends an object for the door, `{"token":"…"}`.
    func appendForDoor(_ number: Int, to body: inout [UInt8]) {
        body.append(contentsOf: "{\"token\":\"".utf8)
        appendText(number, to: &body)
        body.append(contentsOf: "\"}".utf8)
    }

    /// The number of the token whose id lies in some bytes; nil where it is none of ours.
    static func number(ofID id: Span<UInt8>) -> Int? {
        guard id.count == idPlaceholder.utf8.count else {
            return nil
        }
        var number = 0
        for index in id.count - numberDigitCount..<id.count {
            guard let digit = hexDigits.firstIndex(of: id[index]) else {
                return nil
            }
            number = number << 4 | digit
        }
        return number
    }

    // MARK: - Pieces

    private func appendText(_ number: Int, to arena: inout [UInt8]) {
        // No two periods of a customer are one, and none of them is over.
        let creation = now - Int64(number % 1_000_000) * 1_000
        Self.put(creation, at: creationStart, in: &json)
        Self.put(creation + 365 * 86_400_000, at: expirationStart, in: &json)
        var id: [UInt8] = []
        id.reserveCapacity(Self.idPlaceholder.utf8.count)
        appendID(number, salt: 0, to: &id)
        json.replaceSubrange(idStart..<idStart + id.count, with: id)
        let token = json
        Base64URL.encode(token.span, to: &arena)
    }

    private func appendID(_ number: Int, salt: UInt64, to arena: inout [UInt8]) {
        var word = Self.mix(UInt64(number) &* 2 &+ salt)
        for count in [8, 4, 4, 4] {
            for _ in 0..<count {
                arena.append(Self.hexDigits[Int(word & 15)])
                word >>= 3
            }
            arena.append(UInt8(ascii: "-"))
        }
        for digit in (0..<Self.numberDigitCount).reversed() {
            arena.append(Self.hexDigits[number >> (4 * digit) & 15])
        }
    }

    /// As ingest seals them; every customer has two tokens.
    private func appendCustomer(_ number: Int, to arena: inout [UInt8]) {
        arena.append(contentsOf: "c1.".utf8)
        var bytes = [UInt8](repeating: 0, count: 32)
        for word in 0..<4 {
            let mixed = Self.mix(UInt64(number / 2) &* 4 &+ UInt64(word) &+ 0x7f4a_0000_0000)
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
    private static func mix(_ word: UInt64) -> UInt64 {
        var word = word &+ 0x9e37_79b9_7f4a_7c15
        word = (word ^ (word >> 30)) &* 0xbf58_476d_1ce4_e5b9
        word = (word ^ (word >> 27)) &* 0x94d0_49bb_1331_11eb
        return word ^ (word >> 31)
    }
}
