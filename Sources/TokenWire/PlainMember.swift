internal import Glibc

/// An object of a single text in the form in which programs write it: `{"token":"…"}`, without blanks,
/// the text plain ASCII without escapes.
///
/// An object of any other form, valid or not, is not understood here and goes to the scanner, which
/// alone knows the faults.
package enum PlainMember {
    /// Where the text lies, without its quotes.
    ///
    /// - Parameters:
    ///   - head: all that stands before it, such as `{"token":"`.
    ///   - object: the whole object.
    /// - Returns: nil where the object is of another form.
    package static func text(after head: StaticString, of object: Span<UInt8>) -> Range<Int>? {
        let start = head.utf8CodeUnitCount
        return unsafe object.withUnsafeBufferPointer { bytes in
            // Behind the text come the quote and the brace, and nothing else.
            let end = bytes.count - 2
            guard let base = bytes.baseAddress, end >= start,
                unsafe memcmp(base, head.utf8Start, start) == 0,
                unsafe JSONString.plainEnd(bytes, from: start) == end,
                unsafe bytes[end] == UInt8(ascii: "\""),
                unsafe bytes[end + 1] == UInt8(ascii: "}")
            else {
                return nil
            }
            return start..<end
        }
    }
}
