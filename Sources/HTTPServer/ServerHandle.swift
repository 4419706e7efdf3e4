internal import CHTTPServer

/// The C server; closed once.
@safe final class ServerHandle {
    private var server: OpaquePointer?

    var isClosed: Bool { unsafe server == nil }

    /// Not to be asked for after ``close()``.
    var pointer: OpaquePointer {
        guard let server = unsafe server else {
            preconditionFailure("the HTTP server was closed")
        }
        return unsafe server
    }

    init(
        listen: ListenAddress,
        limits: HTTPServer.Limits,
        identity: HTTPServer.Identity?
    ) throws(HTTPServerFault) {
        var message = [CChar](repeating: 0, count: 256)
        let host = listen.host.utf8CString.map { $0 }
        let certificate = identity.map { $0.certificatePEM.map(CChar.init(bitPattern:)) + [0] }
        let key = identity.map { $0.keyPEM.map(CChar.init(bitPattern:)) + [0] }
        let result = unsafe host.withUnsafeBufferPointer { host in
            unsafe (certificate ?? []).withUnsafeBufferPointer { certificate in
                unsafe (key ?? []).withUnsafeBufferPointer { key in
                    var options = unsafe chttp_server_options(
                        host: host.baseAddress,
                        port: listen.port,
                        certificate_pem: identity == nil ? nil : certificate.baseAddress,
                        key_pem: identity == nil ? nil : key.baseAddress,
                        body_byte_count_max: limits.bodyByteCountMax,
                        held_byte_count_max: limits.heldByteCountMax,
                        header_byte_count_max: limits.headerByteCountMax,
                        connection_count_max: UInt32(limits.connectionCountMax),
                        request_timeout_ms: UInt32(limits.requestTimeoutMilliseconds),
                        idle_timeout_ms: UInt32(limits.idleTimeoutMilliseconds)
                    )
                    return unsafe chttp_server_open(
                        &options,
                        &self.server,
                        &message,
                        message.count
                    )
                }
            }
        }
        let sentence = String(
            decoding: message.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)),
            as: UTF8.self
        )
        switch result {
        case CHTTP_OPEN_OK: break
        case CHTTP_OPEN_CANNOT_LISTEN:
            throw .cannotListen(address: listen.description, message: sentence)
        case CHTTP_OPEN_BAD_IDENTITY: throw .badIdentity
        default: throw .cannotStart(message: sentence)
        }
    }

    func close() {
        guard let open = unsafe server else {
            return
        }
        unsafe server = nil
        unsafe chttp_server_close(open)
    }
}
