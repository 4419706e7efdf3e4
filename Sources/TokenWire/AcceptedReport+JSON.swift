package import TokenDomain

/// One accepted report inside an account's value.
extension AcceptedReport: WireMessage {
    package static let blank = AcceptedReport(
        number: 0,
        identifier: nil,
        status: .noLineItem,
        contentHash: 0
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("number", &number)
        coder.member("requestIdentifier", &identifier)
        coder.member("status", &status)
        var hash = HexadecimalNumber(value: contentHash)
        coder.member("contentHash", &hash, default: HexadecimalNumber(value: 0))
        contentHash = hash.value
    }
}

/// A number as a text, because not every reader of JSON has integers of 64 bits.
struct HexadecimalNumber: WireValue, Equatable {
    var value: UInt64

    static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> HexadecimalNumber {
        guard let value = UInt64(try scanner.string(), radix: 16) else {
            throw .outOfRange(field: scanner.fieldName)
        }
        return HexadecimalNumber(value: value)
    }

    func write(by writer: inout JSONWriter) { writer.string(String(value, radix: 16)) }
}

/// The history of a replayed dead letter, inside what it asks for.
extension ReplayHistory: WireMessage {
    package static let blank = ReplayHistory(
        firstFailedAt: nil,
        attempts: 0,
        replayCount: 0,
        replayID: nil
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("firstFailedAt", &firstFailedAt)
        coder.member("attempts", &attempts)
        coder.member("replayCount", &replayCount)
        coder.member("replayId", &replayID)
    }
}
