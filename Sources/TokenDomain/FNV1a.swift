/// FNV-1a, 64 bits: for texts whose hash is written down, and so is the same in every version.
///
/// It detects mistakes, not forgeries. Hash tables of keys in memory have Swift's hash, and the state
/// store its own.
package struct FNV1a: Equatable, Sendable {
    package private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

    package init() {}

    package mutating func add(_ byte: UInt8) {
        value = (value ^ UInt64(byte)) &* 0x0000_0100_0000_01b3
    }

    package static func hash(of bytes: some Sequence<UInt8>) -> UInt64 {
        var hash = FNV1a()
        for byte in bytes {
            hash.add(byte)
        }
        return hash.value
    }

    package static func hash(of bytes: Span<UInt8>) -> UInt64 {
        var hash = FNV1a()
        for index in bytes.indices {
            hash.add(bytes[index])
        }
        return hash.value
    }
}
