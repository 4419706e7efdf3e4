internal import Glibc
internal import TokenDomain

/// Reads JSON in the very form in which programs write it: strings of plain ASCII without escapes,
/// positive integers of at most 18 digits, members in a known order.
///
/// Whatever is of another form, valid or not, is not understood here and goes to ``JSONScanner``, which
/// alone knows the faults.
@safe
struct PlainScanner {
    private static let integerDigitCountMax = 18

    private let bytes: UnsafeBufferPointer<UInt8>
    private(set) var position = 0

    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        unsafe self.bytes = bytes
    }

    var isAtEnd: Bool { unsafe position == bytes.count }

    /// The environment that a token's id says.
    func environment(ofID range: Range<Int>) -> AppleEnvironment {
        AppleEnvironment(
            ofExternalPurchaseID: unsafe Span(_unsafeElements: bytes).extracting(range)
        )
    }

    @inline(__always)
    mutating func take(_ text: StaticString) -> Bool {
        let count = text.utf8CodeUnitCount
        guard unsafe position + count <= bytes.count, let base = unsafe bytes.baseAddress,
            unsafe memcmp(base + position, text.utf8Start, count) == 0
        else {
            return false
        }
        position += count
        return true
    }

    /// Skips one blank, if there is one.
    @inline(__always)
    mutating func skipBlank() {
        if unsafe position < bytes.count && bytes[position] == UInt8(ascii: " ") {
            position += 1
        }
    }

    /// The content of a string whose quote was taken, and the quote behind it.
    @inline(__always)
    mutating func string(byteCountMax: Int = .max) -> Range<Int>? {
        let start = position
        let end = unsafe JSONString.plainEnd(bytes, from: start)
        guard unsafe end < bytes.count && bytes[end] == UInt8(ascii: "\""),
            end - start <= byteCountMax
        else {
            return nil
        }
        position = end + 1
        return start..<end
    }

    @inline(__always)
    mutating func integer() -> Int64? {
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
            value = value &* 10 &+ Int64(digit)
            position += 1
        }
        // A zero in front is another form, if it is a number at all.
        guard position > start, unsafe bytes[start] != UInt8(ascii: "0") else {
            return nil
        }
        return value
    }
}
