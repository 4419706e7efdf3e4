internal import Glibc

/// A connection of our own to one broker, for the few requests of KIP-664 that librdkafka 2.0.2 does
/// not have.
///
/// PLAINTEXT only: where a listener wants TLS or SASL, ``HangingTransactions`` says what to do instead.
final class WireConnection {
    private static let answerSecondsMax = 10
    private static let answerByteCountMax = 64 << 20
    private static let clientID = "tollway"

    private let descriptor: Int32
    private let name: String
    private var correlation: Int32 = 0

    init(host: String, port: String) throws(LogFault) {
        name = "\(host):\(port)"
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard unsafe getaddrinfo(host, port, &hints, &found) == 0, let first = unsafe found else {
            throw .unavailable(code: "_RESOLVE", message: "\(host) has no address")
        }
        defer { unsafe freeaddrinfo(first) }
        var next: UnsafeMutablePointer<addrinfo>? = unsafe first
        while let address = unsafe next {
            if let descriptor = unsafe Self.connected(to: address.pointee) {
                self.descriptor = descriptor
                return
            }
            unsafe next = address.pointee.ai_next
        }
        throw .unavailable(code: "_TRANSPORT", message: "no connection to \(host):\(port)")
    }

    deinit {
        close(descriptor)
    }

    private static func connected(to address: addrinfo) -> Int32? {
        let descriptor = unsafe socket(
            address.ai_family,
            address.ai_socktype | Int32(SOCK_CLOEXEC.rawValue),
            address.ai_protocol
        )
        guard descriptor >= 0 else {
            return nil
        }
        var patience = timeval(tv_sec: answerSecondsMax, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            unsafe setsockopt(descriptor, SOL_SOCKET, option, &patience, size)
        }
        guard unsafe connect(descriptor, address.ai_addr, address.ai_addrlen) == 0 else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    /// Sends a request and waits for its answer.
    ///
    /// - Returns: what follows the answer's header.
    func ask(
        api: Int16,
        version: Int16,
        isFlexible: Bool,
        _ body: [UInt8]
    ) throws(LogFault) -> ArraySlice<UInt8> {
        correlation += 1
        var message = WireWriter()
        message.put(api)
        message.put(version)
        message.put(correlation)
        message.put(text: Self.clientID)
        if isFlexible {
            message.putNoTags()
        }
        message.put(bytes: body)
        var framed = WireWriter()
        framed.put(Int32(clamping: message.bytes.count))
        framed.put(bytes: message.bytes)
        try send(framed.bytes)
        let size = try receive(4).reduce(0) { $0 << 8 | Int($1) }
        guard size <= Self.answerByteCountMax else {
            throw .unusable(message: "\(name) answers with \(size) bytes")
        }
        var reader = WireReader(try receive(size)[...])
        do throws(WireReader.CutShort) {
            guard try reader.integer(Int32.self) == correlation else {
                throw WireReader.CutShort()
            }
            if isFlexible {
                try reader.skipTags()
            }
        } catch {
            throw .unusable(message: "\(name) answers what was not asked")
        }
        return reader.rest
    }

    private func send(_ bytes: [UInt8]) throws(LogFault) {
        var sent = 0
        while sent < bytes.count {
            let count = unsafe bytes.withUnsafeBytes { buffer in
                unsafe Glibc.send(
                    descriptor,
                    buffer.baseAddress?.advanced(by: sent),
                    buffer.count - sent,
                    Int32(MSG_NOSIGNAL)
                )
            }
            guard count > 0 else {
                throw .unavailable(code: "_TRANSPORT", message: "\(name) takes no request")
            }
            sent += count
        }
    }

    private func receive(_ count: Int) throws(LogFault) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var received = 0
        while received < count {
            let more = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe recv(
                    descriptor,
                    buffer.baseAddress?.advanced(by: received),
                    buffer.count - received,
                    0
                )
            }
            guard more > 0 else {
                throw .unavailable(code: "_TRANSPORT", message: "\(name) does not answer")
            }
            received += more
        }
        return bytes
    }
}
