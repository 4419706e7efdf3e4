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
        limits: HTTPServer.Limits
    ) throws(HTTPServerFault) {
        precondition(
            (1...Int(CHTTP_LANE_COUNT_MAX)).contains(limits.laneByteCountsMax.count),
            "a body is counted in a lane"
        )
        let laneCount = limits.laneByteCountsMax.count
        precondition(
            limits.laneConnectionCountsMax.allSatisfy { $0 > 0 }
                && [0, laneCount].contains(limits.laneConnectionCountsMax.count),
            "every lane is bounded in connections, or none is"
        )
        var message = [CChar](repeating: 0, count: 256)
        let host = listen.host.utf8CString.map { $0 }
        let result = unsafe host.withUnsafeBufferPointer { host in
            var options = unsafe chttp_server_options()
            unsafe options.host = host.baseAddress
            unsafe options.port = listen.port
            unsafe options.judges_heads = limits.judgesHeads ? 1 : 0
            unsafe options.body_byte_count_max = limits.bodyByteCountMax
            unsafe options.lane_count = UInt32(laneCount)
            unsafe withUnsafeMutableBytes(of: &options.lane_byte_counts_max) { lanes in
                for (lane, byteCount) in limits.laneByteCountsMax.enumerated() {
                    unsafe lanes.storeBytes(
                        of: byteCount,
                        toByteOffset: lane * MemoryLayout<Int>.stride,
                        as: Int.self
                    )
                }
            }
            unsafe withUnsafeMutableBytes(of: &options.lane_connection_counts_max) { lanes in
                for lane in 0..<laneCount {
                    let count =
                        limits.laneConnectionCountsMax.isEmpty
                        ? limits.connectionCountMax : limits.laneConnectionCountsMax[lane]
                    unsafe lanes.storeBytes(
                        of: UInt32(count),
                        toByteOffset: lane * MemoryLayout<UInt32>.stride,
                        as: UInt32.self
                    )
                }
            }
            unsafe options.header_byte_count_max = limits.headerByteCountMax
            unsafe options.connection_count_max = UInt32(limits.connectionCountMax)
            unsafe options.request_timeout_ms = UInt32(limits.requestTimeoutMilliseconds)
            unsafe options.idle_timeout_ms = UInt32(limits.idleTimeoutMilliseconds)
            unsafe options.newcomer_ms = UInt32(limits.newcomerMilliseconds)
            return unsafe chttp_server_open(&options, &self.server, &message, message.count)
        }
        let sentence = String(
            decoding: message.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)),
            as: UTF8.self
        )
        switch result {
        case CHTTP_OPEN_OK: break
        case CHTTP_OPEN_CANNOT_LISTEN:
            throw .cannotListen(address: listen.description, message: sentence)
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
