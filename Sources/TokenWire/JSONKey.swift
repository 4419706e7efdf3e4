/// The name of a member, held without an allocation, to be compared with the names one knows.
///
///     switch key {
///     case "token": try scanner.fill(&token)
///     default: try scanner.skip()
///     }
package struct JSONKey: Equatable, Sendable, ExpressibleByStringLiteral {
    /// No name of ours is longer; longer ones are cut here and never equal a known name.
    package static let byteCountMax = 32

    private var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    private(set) var byteCount: Int

    @inline(__always)
    init(_ bytes: UnsafeBufferPointer<UInt8>) {
        byteCount = bytes.count
        let kept = min(bytes.count, Self.byteCountMax)
        unsafe withUnsafeMutableBytes(of: &words) { words in
            unsafe words.copyMemory(
                from: UnsafeRawBufferPointer(start: bytes.baseAddress, count: kept)
            )
        }
    }

    /// Inlined, so that a name to compare with is a constant and not made for every comparison.
    @inline(__always)
    package init(stringLiteral text: StaticString) {
        precondition(
            text.utf8CodeUnitCount <= Self.byteCountMax,
            "a name that is compared has at most 32 bytes"
        )
        unsafe self.init(
            UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        )
    }

    /// The name as text, cut at ``byteCountMax`` bytes: for messages.
    package var text: String {
        unsafe withUnsafeBytes(of: words) { words in
            unsafe String(decoding: words.prefix(min(byteCount, Self.byteCountMax)), as: UTF8.self)
        }
    }

    package static func == (left: JSONKey, right: JSONKey) -> Bool {
        left.byteCount == right.byteCount && left.words.0 == right.words.0
            && left.words.1 == right.words.1 && left.words.2 == right.words.2
            && left.words.3 == right.words.3
    }
}
