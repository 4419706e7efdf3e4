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
