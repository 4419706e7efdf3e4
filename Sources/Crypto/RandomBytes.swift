internal import CCrypto

/// Bytes from the system's generator, for keys and identifiers that nobody may guess.
package enum RandomBytes {
    package static func next(count: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        let code = unsafe ccrypto_random(&bytes, count)
        precondition(code == CCRYPTO_OK, "the system gives no random bytes")
        return bytes
    }
}

/// Random words from the system's generator, fetched many at a time: a few bytes cost what a page does.
///
/// For identifiers; what is fetched ahead stays in memory until it is used.
package struct RandomWords: RandomNumberGenerator {
    private static let fetchByteCount = 4_096

    private var bytes: [UInt8] = []
    private var position = 0

    package init() {}

    package mutating func next() -> UInt64 {
        if position == bytes.count {
            bytes = RandomBytes.next(count: Self.fetchByteCount)
            position = 0
        }
        defer { position += MemoryLayout<UInt64>.size }
        return unsafe bytes.withUnsafeBytes { bytes in
            unsafe bytes.loadUnaligned(fromByteOffset: position, as: UInt64.self)
        }
    }
}
