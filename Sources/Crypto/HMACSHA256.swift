internal import CCrypto

/// HMAC-SHA-256 under one key.
///
/// The key is prepared once. For one thread at a time.
///
/// Source: RFC 2104, RFC 4231
@safe
package final class HMACSHA256 {
    /// Owned: made in `init`, freed in `deinit`, used only between.
    private let handle: OpaquePointer

    package init(key: [UInt8]) {
        guard let handle = unsafe ccrypto_hmac_create(key, key.count) else {
            preconditionFailure("HMAC-SHA-256 is not available in this OpenSSL")
        }
        unsafe self.handle = handle
    }

    deinit {
        unsafe ccrypto_hmac_free(handle)
    }

    /// - Returns: 32 bytes.
    package func code(for message: [UInt8]) -> [UInt8] {
        code(for: message.span)
    }

    /// - Returns: 32 bytes.
    package func code(for message: Span<UInt8>) -> [UInt8] {
        var code = [UInt8](repeating: 0, count: Int(CCRYPTO_SHA256_SIZE))
        let answer = unsafe message.withUnsafeBufferPointer { message in
            unsafe ccrypto_hmac_code(handle, message.baseAddress, message.count, &code)
        }
        precondition(answer == CCRYPTO_OK, "OpenSSL could not compute an HMAC")
        return code
    }
}
