/// Whether all characters of a text are of one kind.
///
/// With arithmetic alone the compiler takes many bytes at once; where a comparison says yes or no of a
/// byte it branches on each, which took six times as long.
enum ASCIIClass {
    /// - Parameters:
    ///   - bytes: the text; of no bytes at all the answer is yes.
    ///   - isMember: of one byte; its top bit is the answer.
    /// - Returns: whether every byte is of the kind.
    @inline(__always)
    static func holdsAll(
        of bytes: Span<UInt8>,
        _ isMember: (_ byte: UInt16) -> UInt16
    ) -> Bool {
        unsafe bytes.withUnsafeBufferPointer { bytes in
            var answers: UInt16 = isTrue
            for index in bytes.indices {
                unsafe answers &= isMember(UInt16(truncatingIfNeeded: bytes[index]))
            }
            return answers & isTrue != 0
        }
    }

    /// In its top bit, whether a byte is one of `count` characters from `first` on.
    @inline(__always)
    static func isOne(_ byte: UInt16, of count: UInt16, from first: UInt8) -> UInt16 {
        ((byte &- UInt16(truncatingIfNeeded: first)) & 0xff) &- count
    }

    private static let isTrue: UInt16 = 0x8000
}
