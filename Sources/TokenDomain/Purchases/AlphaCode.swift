/// Three capital letters that name a currency (ISO 4217) or a country (ISO 3166-1 alpha-3).
///
/// Held as one word: a code costs no memory of its own.
package struct AlphaCode: Hashable, Sendable, CustomStringConvertible {
    private let letters: UInt32

    /// Nil unless it is three capital letters of ASCII: Apple compares codes as they stand.
    package init?(utf8 text: Span<UInt8>) {
        guard text.count == 3 else {
            return nil
        }
        var letters: UInt32 = 0
        for index in 0..<3 {
            guard text[index] >= UInt8(ascii: "A"), text[index] <= UInt8(ascii: "Z") else {
                return nil
            }
            letters = letters << 8 | UInt32(text[index])
        }
        self.letters = letters
    }

    package init?(_ text: String) {
        self.init(utf8: text.utf8.span)
    }

    /// Short enough to lie in the string itself.
    package var text: String {
        unsafe String(unsafeUninitializedCapacity: 3) { bytes in
            for index in 0..<3 {
                unsafe bytes[index] = UInt8(truncatingIfNeeded: letters >> UInt32(16 - 8 * index))
            }
            return 3
        }
    }

    package var description: String { text }
}
