import Foundation
import Glibc
import HTTPServer

/// A server and the raw connections to it, moved on by one thread.
final class Loopback {
    let server: HTTPServer
    /// Answers what comes in; nil leaves requests to the test.
    var answer: ((HTTPServer, HTTPRequest) -> Void)?
    private(set) var requests: [HTTPRequest] = []
    private var connections: [RawConnection] = []

    init(_ limits: HTTPServer.Limits = HTTPServer.Limits(), host: String = "127.0.0.1") throws {
        server = try HTTPServer(listen: ListenAddress(host: host, port: 0), limits: limits)
    }

    /// Connects a client; without `reading` one that never reads what comes back.
    ///
    /// `host`: the last byte of its own loopback address.
    func connect(reading: Bool = true, from host: UInt32 = 1) throws -> RawConnection {
        let connection = try RawConnection(port: server.port, from: host)
        connection.isReading = reading
        connections.append(connection)
        return connection
    }

    /// One turn: waits for the first thing to happen, at most `milliseconds`.
    func turn(milliseconds: Int = 10) {
        var descriptors = [pollfd(fd: server.wakeDescriptor, events: Int16(POLLIN), revents: 0)]
        for connection in connections
        where connection.isOpen && connection.isReading && !connection.hasEnded {
            descriptors.append(
                pollfd(fd: connection.descriptor, events: Int16(POLLIN), revents: 0)
            )
        }
        let wait = min(milliseconds, server.millisecondsUntilTimeout ?? milliseconds)
        _ = unsafe poll(&descriptors, UInt(descriptors.count), Int32(wait))
        server.run()
        for request in server.takeRequests() {
            requests.append(request)
            answer?(server, request)
        }
        server.run()
        for connection in connections {
            connection.receive()
        }
    }

    /// Runs until the condition holds; false after `seconds`.
    func turn(seconds: Double = 10, until condition: () -> Bool) -> Bool {
        let end = ContinuousClock.now + .seconds(seconds)
        while !condition() {
            guard ContinuousClock.now < end else {
                return false
            }
            turn()
        }
        return true
    }

    /// Sends one request on a connection of its own and waits for the answer and the end.
    func exchange(_ text: String) throws -> Answer? {
        let connection = try connect()
        connection.send(text)
        _ = turn { connection.answer != nil || connection.hasEnded }
        connection.close()
        return connection.answer
    }
}

/// What came back, as far as the tests look at it.
struct Answer: Equatable {
    var status: Int
    var head: String
    var body: String

    func header(_ name: String) -> String? {
        for line in head.split(separator: "\r\n") where line.lowercased().hasPrefix(name + ":") {
            return line.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces)
        }
        return nil
    }
}

/// A socket that sends any bytes, right or wrong.
final class RawConnection {
    let descriptor: Int32
    private(set) var received: [UInt8] = []
    private(set) var hasEnded = false
    private(set) var wasReset = false
    private(set) var isOpen = true
    var isReading = true
    private var unsent: [UInt8] = []

    init(port: UInt16, from host: UInt32 = 1) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = unsafe Self.withAddress(host, port: 0) {
            unsafe Glibc.bind(descriptor, $0, size) == 0
        }
        let isConnected = unsafe Self.withAddress(1, port: port) {
            unsafe Glibc.connect(descriptor, $0, size) == 0
        }
        guard isBound, isConnected, fcntl(descriptor, F_SETFL, O_NONBLOCK) == 0 else {
            throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO)
        }
    }

    /// Of this machine: 127.0.0.`host`.
    private static func withAddress<Result>(
        _ host: UInt32,
        port: UInt16,
        _ body: (UnsafePointer<sockaddr>) -> Result
    ) -> Result {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = (0x7f00_0000 + host).bigEndian
        return unsafe withUnsafePointer(to: &address) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body($0) }
        }
    }

    deinit {
        close()
    }

    func close() {
        if isOpen {
            isOpen = false
            _ = Glibc.close(descriptor)
        }
    }

    func send(_ text: String) {
        send(Array(text.utf8))
    }

    /// What the socket does not take at once goes out when the loop runs.
    func send(_ bytes: [UInt8]) {
        unsent.append(contentsOf: bytes)
        flush()
    }

    var unsentByteCount: Int { unsent.count }

    private func flush() {
        while !unsent.isEmpty, isOpen {
            let count = unsafe Glibc.send(descriptor, unsent, unsent.count, Int32(MSG_NOSIGNAL))
            guard count > 0 else {
                return
            }
            unsent.removeFirst(count)
        }
    }

    func receive() {
        flush()
        guard isOpen, !hasEnded, isReading else {
            return
        }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = unsafe recv(descriptor, &buffer, buffer.count, 0)
            guard count > 0 else {
                hasEnded = count == 0 || errno != EAGAIN
                wasReset = count < 0 && errno == ECONNRESET
                return
            }
            received.append(contentsOf: buffer[..<count])
        }
    }

    /// The first complete answer, by its Content-Length.
    var answer: Answer? { answers.first }

    /// Every complete final answer.
    var answers: [Answer] {
        var answers: [Answer] = []
        var start = 0
        while let headEnd = (start..<max(start, received.count - 3)).first(where: {
            received[$0..<$0 + 4].elementsEqual("\r\n\r\n".utf8)
        }) {
            let head = String(decoding: received[start..<headEnd], as: UTF8.self)
            var answer = Answer(status: 0, head: head, body: "")
            answer.status = Int(head.split(separator: " ").dropFirst().first ?? "") ?? 0
            let length = Int(answer.header("content-length") ?? "") ?? 0
            let bodyStart = headEnd + 4
            guard received.count - bodyStart >= length else {
                break
            }
            answer.body = String(
                decoding: received[bodyStart..<bodyStart + length],
                as: UTF8.self
            )
            if answer.status >= 200 {
                answers.append(answer)
            }
            start = bodyStart + length
        }
        return answers
    }
}
