internal import Glibc
internal import HTTPServer
internal import Synchronization

/// Why the admin port could not be opened.
package enum AdminServerFault: Error, Equatable, Sendable {
    /// The address is taken, foreign or malformed; one sentence.
    case cannotListen(address: String, because: String)
}

/// The admin port: `/livez /readyz /startupz` (`?verbose`), `/metrics`, `/debug/status`.
///
/// It has a thread of its own, so that a stuck loop can be seen. Made, started and stopped by one
/// thread; between start and stop only the admin thread touches the server.
package final class AdminServer {
    /// The port it listens on, also where 0 was asked for.
    package let port: UInt16

    private let loop: AdminLoop
    private let stopDescriptor: Int32
    private var thread: pthread_t?

    /// Binds and listens; nothing is answered before ``start()``.
    ///
    /// - Parameters:
    ///   - listen: `127.0.0.1:9401`, `[::1]:9401`; port 0 is any.
    ///   - hosts: names that it answers to, besides addresses and `localhost`.
    ///   - metrics: what `/metrics` shows.
    ///   - health: what the three probes show.
    ///   - status: the JSON of `/debug/status`; called on the admin thread.
    /// - Throws: ``AdminServerFault/cannotListen(address:because:)``.
    package init(
        listen: String,
        hosts: [String] = [],
        metrics: Metrics,
        health: Health,
        status: @escaping @Sendable () -> [UInt8]
    ) throws(AdminServerFault) {
        guard let address = ListenAddress(listen) else {
            throw .cannotListen(address: listen, because: "it is no address with a port")
        }
        let server: HTTPServer
        do throws(HTTPServerFault) {
            server = try HTTPServer(listen: address, limits: AdminLoop.limits)
        } catch {
            throw .cannotListen(address: listen, because: Self.sentence(for: error))
        }
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else {
            throw .cannotListen(address: listen, because: "the process has too many open files")
        }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        port = server.port
        stopDescriptor = ends[1]
        loop = AdminLoop(
            server: server,
            responder: AdminResponder(metrics: metrics, health: health, status: status),
            hosts: HostRule(names: hosts),
            stopDescriptor: ends[0]
        )
    }

    deinit {
        stop()
        close(stopDescriptor)
    }

    /// Answers from now on, on a thread of its own.
    package func start() {
        precondition(thread == nil, "the admin port is started once")
        var started = pthread_t()
        let argument = unsafe Unmanaged.passRetained(loop).toOpaque()
        let status = unsafe pthread_create(
            &started,
            nil,
            { argument in
                guard let argument = unsafe argument else {
                    preconditionFailure("a thread gets the argument it was made with")
                }
                unsafe Unmanaged<AdminLoop>.fromOpaque(argument).takeRetainedValue().run()
                return nil
            },
            argument
        )
        precondition(status == 0, "the system gives the admin port a thread")
        thread = started
    }

    /// Ends the thread and waits for it; what it answers at the time it still answers.
    ///
    /// Idempotent.
    package func stop() {
        guard let running = thread else {
            return
        }
        thread = nil
        var byte: UInt8 = 1
        // The pipe is empty, so the write cannot fail for want of room.
        let written = unsafe write(stopDescriptor, &byte, 1)
        precondition(written == 1, "the admin thread can be told to stop")
        pthread_join(running, nil)
    }

    private static func sentence(for fault: HTTPServerFault) -> String {
        switch fault {
        case .cannotListen(_, let message), .cannotStart(let message): message
        }
    }
}

/// The loop of the admin thread.
///
/// `@unchecked`: handed over once, by `pthread_create`, and from then on used by that thread alone.
private final class AdminLoop: @unchecked Sendable {
    static let limits = HTTPServer.Limits(
        bodyByteCountMax: 1 << 10,
        laneByteCountsMax: [64 << 10],
        headerByteCountMax: 8 << 10,
        connectionCountMax: 128,
        requestTimeoutMilliseconds: 5_000,
        idleTimeoutMilliseconds: 30_000
    )

    private let server: HTTPServer
    private let responder: AdminResponder
    private let hosts: HostRule
    private let stopDescriptor: Int32

    init(
        server: HTTPServer,
        responder: AdminResponder,
        hosts: HostRule,
        stopDescriptor: Int32
    ) {
        self.server = server
        self.responder = responder
        self.hosts = hosts
        self.stopDescriptor = stopDescriptor
    }

    deinit {
        close(stopDescriptor)
    }

    func run() {
        var entries = [
            pollfd(fd: server.wakeDescriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: stopDescriptor, events: Int16(POLLIN), revents: 0),
        ]
        while entries[1].revents == 0 {
            let wait = server.millisecondsUntilTimeout.map { Int32(clamping: max($0, 0)) } ?? -1
            _ = unsafe poll(&entries, 2, wait)
            // Once a turn: between two a connection that goes on with its next request would hold its place
            // while a new one, a probe's, is accepted.
            server.run()
            for request in server.takeRequests() {
                answer(request)
            }
        }
        server.close()
    }

    private func answer(_ request: HTTPRequest) {
        let isForUs = hosts.accepts(request.header("host"))
        let answer =
            isForUs
            ? responder.answer(method: request.method, path: request.path, query: request.query)
            : AdminResponder.misdirected
        var headers = [("Content-Type", answer.contentType), ("Cache-Control", "no-store")]
        if let allow = answer.allow {
            headers.append(("Allow", allow))
        }
        server.respond(to: request.id, status: answer.status, headers: headers, body: answer.body)
    }
}
