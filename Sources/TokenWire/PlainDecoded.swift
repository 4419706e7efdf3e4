internal import Glibc
internal import TokenDomain

/// A value of `tokens.decoded.v1` in the very form in which `decode` writes it, read in one pass.
///
/// Members in its order, no blanks, strings of plain ASCII without escapes, positive integers of at
/// most 18 digits. A value of any other form, valid or not, is not understood here and goes to the
/// scanner, which alone knows the faults.
@safe
package struct PlainDecoded {
    /// What lies where in the value.
    package struct Fields: Equatable {
        package var externalPurchaseID = 0..<0
        package var appAppleID: Int64 = 0
        package var bundleID = 0..<0
        package var tokenType: Range<Int>?
        package var tokenCreationDate: Int64 = 0
        package var tokenExpirationDate: Int64?
        package var customer: Range<Int>?
        package var receivedAt: Int64 = 0
        /// Where the members that `tokens.distinct.v1` takes over end, before the comma.
        package var keptEnd = 0
    }

    private static let integerDigitCountMax = 18

    private let bytes: UnsafeBufferPointer<UInt8>
    private var position = 0

    private init(_ bytes: UnsafeBufferPointer<UInt8>) {
        unsafe self.bytes = bytes
    }

    /// - Returns: nil where the value is of another form.
    package static func read(_ value: Span<UInt8>) -> Fields? {
        unsafe value.withUnsafeBufferPointer { bytes in
            var reader = unsafe PlainDecoded(bytes)
            return reader.fields()
        }
    }

    private mutating func fields() -> Fields? {
        var fields = Fields()
        guard take("{\"externalPurchaseId\":\""), let id = string(.tokenField),
            take(",\"environment\":\""),
            takeEnvironment(of: id), take(",\"appAppleId\":"), let app = integer(),
            take(",\"bundleId\":\""), let bundle = string(.tokenField)
        else {
            return nil
        }
        fields.externalPurchaseID = id
        fields.appAppleID = app
        fields.bundleID = bundle
        if take(",\"tokenType\":\"") {
            guard let type = string(.tokenField) else {
                return nil
            }
            fields.tokenType = type
        }
        guard take(",\"tokenCreationDate\":"), let creation = integer() else {
            return nil
        }
        fields.tokenCreationDate = creation
        if take(",\"tokenExpirationDate\":") {
            guard let expiration = integer() else {
                return nil
            }
            fields.tokenExpirationDate = expiration
        }
        if take(",\"customer\":\"") {
            guard let customer = string(.customer), !customer.isEmpty else {
                return nil
            }
            fields.customer = customer
        }
        guard take(",\"receivedAt\":"), let receivedAt = integer() else {
            return nil
        }
        fields.receivedAt = receivedAt
        fields.keptEnd = position
        guard take(",\"token\":\""), string(.tokenText) != nil, take("}"),
            unsafe position == bytes.count,
            !id.isEmpty
        else {
            return nil
        }
        return fields
    }

    /// The environment that the id says, and its quote.
    private mutating func takeEnvironment(of id: Range<Int>) -> Bool {
        let environment = unsafe AppleEnvironment(
            ofExternalPurchaseID: Span(_unsafeElements: bytes).extracting(id)
        )
        return switch environment {
        case .production: take("production\"")
        case .sandbox: take("sandbox\"")
        }
    }

    private mutating func take(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard unsafe position + count <= bytes.count, let base = unsafe bytes.baseAddress,
            unsafe memcmp(base + position, text.utf8Start, count) == 0
        else {
            return false
        }
        position += count
        return true
    }

    /// The content of a string whose quote was taken, and the quote behind it.
    private mutating func string(_ limit: TextLimit) -> Range<Int>? {
        let start = position
        let end = unsafe JSONString.plainEnd(bytes, from: start)
        guard unsafe end < bytes.count && bytes[end] == UInt8(ascii: "\""),
            end - start <= limit.byteCountMax
        else {
            return nil
        }
        position = end + 1
        return start..<end
    }

    private mutating func integer() -> Int64? {
        var value: Int64 = 0
        let start = position
        while unsafe position < bytes.count {
            let digit = unsafe bytes[position] &- UInt8(ascii: "0")
            guard digit < 10 else {
                break
            }
            guard position - start < Self.integerDigitCountMax else {
                return nil
            }
            value = value * 10 + Int64(digit)
            position += 1
        }
        // A zero in front is another form, if it is a number at all.
        guard position > start, unsafe bytes[start] != UInt8(ascii: "0") else {
            return nil
        }
        return value
    }
}
