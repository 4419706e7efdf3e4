internal import CHTTPClient
internal import Glibc

/// The C client; closed once.
@safe final class ClientHandle {
    private var client: OpaquePointer?

    var isClosed: Bool { unsafe client == nil }

    /// Not to be asked for after ``close()``.
    var pointer: OpaquePointer {
        guard let client = unsafe client else {
            preconditionFailure("the HTTP client was closed")
        }
        return unsafe client
    }

    init(
        limits: HTTPClient.Limits,
        userAgent: String,
        certificateAuthorityFile: String?
    ) throws(HTTPClientFault) {
        if let path = certificateAuthorityFile {
            guard unsafe access(path, R_OK) == 0 else {
                throw .badCertificateAuthorityFile(path: path)
            }
        }
        let agent = terminated(userAgent)
        let path = certificateAuthorityFile.map(terminated)
        let result = unsafe agent.withUnsafeBufferPointer { agent in
            unsafe (path ?? []).withUnsafeBufferPointer { path in
                var options = unsafe chttp_client_options(
                    user_agent: agent.baseAddress,
                    authority_file: certificateAuthorityFile == nil ? nil : path.baseAddress,
                    concurrency_max: UInt32(limits.concurrency),
                    connect_timeout_ms: UInt32(limits.connectTimeoutMilliseconds),
                    total_timeout_ms: UInt32(limits.totalTimeoutMilliseconds),
                    body_byte_count_max: limits.responseByteCountMax
                )
                return unsafe chttp_client_open(&options, &self.client)
            }
        }
        guard result == 0 else {
            throw .cannotStart(message: "libcurl, its TLS or a descriptor cannot be had")
        }
    }

    /// Hands a request to C, which copies it.
    ///
    /// - Returns: false where memory is out.
    func submit(_ request: HTTPClientRequest, number: UInt64) -> Bool {
        let lines = Self.lines(request.headers)
        let method = terminated(request.method)
        let url = terminated(request.url)
        return unsafe method.withUnsafeBufferPointer { method in
            unsafe url.withUnsafeBufferPointer { url in
                unsafe lines.withUnsafeBytes { lines in
                    unsafe request.body.withUnsafeBufferPointer { body in
                        var flat = unsafe chttp_client_request(
                            id: number,
                            method: method.baseAddress,
                            url: url.baseAddress,
                            headers: lines.assumingMemoryBound(to: CChar.self).baseAddress,
                            header_byte_count: lines.count,
                            body: body.baseAddress,
                            body_byte_count: body.count
                        )
                        return unsafe chttp_client_submit(pointer, &flat) == 0
                    }
                }
            }
        }
    }

    /// A line a header, each with a zero behind it.
    private static func lines(_ headers: [(String, String)]) -> [UInt8] {
        var lines: [UInt8] = []
        lines.reserveCapacity(headers.reduce(0) { $0 + $1.0.utf8.count + $1.1.utf8.count + 3 })
        for (name, value) in headers {
            let start = lines.count
            lines.append(contentsOf: name.utf8)
            if value.isEmpty {
                // libcurl drops a header whose value is empty, unless it ends in a semicolon.
                lines.append(UInt8(ascii: ";"))
            } else {
                lines.append(UInt8(ascii: ":"))
                lines.append(UInt8(ascii: " "))
                lines.append(contentsOf: value.utf8)
            }
            precondition(!lines[start...].contains { $0 < 0x20 }, "a header is one line")
            lines.append(0)
        }
        return lines
    }

    func close() {
        guard let open = unsafe client else {
            return
        }
        unsafe client = nil
        unsafe chttp_client_close(open)
    }
}

/// As C reads it.
private func terminated(_ text: String) -> [CChar] {
    precondition(!text.utf8.contains(0), "a text for C has no zero inside")
    return text.utf8.map(CChar.init(bitPattern:)) + [0]
}
