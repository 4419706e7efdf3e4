internal import CCrypto

/// One of our C keys.
///
/// OpenSSL's keys do not change once made and may be used by many threads at once; what C keeps of
/// a signature for the next one has a lock.
@safe
final class KeyHandle: @unchecked Sendable {
    /// The longest form of a key that we write; a P-256 key in PEM takes 241 bytes.
    private static let writtenByteCountMax = 4096

    /// Owned: given to `init`, freed in `deinit`, used only between.
    private let pointer: OpaquePointer

    /// Takes over what `make` makes: one of our C functions that set a key and answer with a code.
    init(
        _ make: (UnsafeMutablePointer<OpaquePointer?>) -> Int32
    ) throws(CryptoFault) {
        var made: OpaquePointer?
        let code = unsafe make(&made)
        guard code == CCRYPTO_OK, let made = unsafe made else {
            throw CryptoFault(code: Int(code))
        }
        unsafe pointer = made
    }

    deinit {
        unsafe ccrypto_key_free(pointer)
    }

    func sign(_ message: Span<UInt8>) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: Int(CCRYPTO_SIGNATURE_SIZE_MAX))
        let count = unsafe message.withUnsafeBufferPointer { message in
            unsafe ccrypto_sign(
                pointer,
                message.baseAddress,
                message.count,
                &signature,
                Int(CCRYPTO_SIGNATURE_SIZE_MAX)
            )
        }
        precondition(count > 0, "OpenSSL could not sign")
        return Array(signature.prefix(count))
    }

    func verify(signature: [UInt8], message: Span<UInt8>) -> Bool {
        let code = unsafe message.withUnsafeBufferPointer { message in
            unsafe ccrypto_verify(
                pointer,
                message.baseAddress,
                message.count,
                signature,
                signature.count
            )
        }
        return code == CCRYPTO_OK
    }

    func written(_ form: Int) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.writtenByteCountMax)
        let count = unsafe ccrypto_key_write(pointer, Int32(form), &bytes, bytes.count)
        precondition(count > 0, "OpenSSL could not write a key")
        return Array(bytes.prefix(count))
    }

    func withPointer<Result>(_ body: (OpaquePointer) -> Result) -> Result {
        unsafe body(pointer)
    }
}
