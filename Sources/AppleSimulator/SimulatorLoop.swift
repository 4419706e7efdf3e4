internal import Foundation
internal import HTTPServer

/// Requests in, answers out, late ones later: the transport around ``AppleWorld``.
final class SimulatorLoop {
    private static let bodyByteCountMax = 1 << 20
    private static let adminBodyByteCountMax = 64 << 20
    private static let connectionCountMax = 4096

    let ports: AppleSimulator.Ports
    private let doors: [(environment: StoreEnvironment, server: HTTPServer)]
    private let admin: HTTPServer
    private let world: AppleWorld
    private let lock: NSLock
    private let sender: NotificationSender
    private var lateAnswers = LateAnswers()

    /// An answer that is made and not yet sent.
    struct Pending {
        var environment: StoreEnvironment
        var id: HTTPRequest.ID
        var reply: AppleReply
    }

    init(host: String, port: UInt16, world: AppleWorld, lock: NSLock) throws(SimulatorFault) {
        guard port == 0 || port <= UInt16.max - 2 else {
            throw .cannotListen(address: "\(host):\(port)", message: "two more ports must follow")
        }
        self.world = world
        self.lock = lock
        sender = try NotificationSender()
        var servers: [HTTPServer] = []
        for (index, bodyMax) in [
            Self.bodyByteCountMax, Self.bodyByteCountMax, Self.adminBodyByteCountMax,
        ].enumerated() {
            let limits = HTTPServer.Limits(
                bodyByteCountMax: bodyMax,
                laneByteCountsMax: [4 * Self.adminBodyByteCountMax],
                connectionCountMax: Self.connectionCountMax
            )
            let address = ListenAddress(host: host, port: port == 0 ? 0 : port + UInt16(index))
            do {
                servers.append(try HTTPServer(listen: address, limits: limits))
            } catch {
                for server in servers { server.close() }
                throw .cannotListen(address: address.description, message: "\(error)")
            }
        }
        doors = [(.production, servers[0]), (.sandbox, servers[1])]
        admin = servers[2]
        ports = AppleSimulator.Ports(
            production: servers[0].port,
            sandbox: servers[1].port,
            admin: servers[2].port
        )
    }

    /// Serves until one of `ends` becomes readable.
    func run(until ends: [Int32]) {
        var wait = DescriptorWait(
            ends + doors.map(\.server.wakeDescriptor)
                + [admin.wakeDescriptor, sender.wakeDescriptor]
        )
        var hasMore = true
        while true {
            let ready = wait.wait(milliseconds: hasMore ? 0 : millisecondsUntilDue)
            if ready[..<ends.count].contains(true) { return }
            hasMore = turn()
        }
    }

    func close() {
        for door in doors { door.server.close() }
        admin.close()
        sender.close()
    }

    private var millisecondsUntilDue: Int? {
        let now = SystemClock.now()
        lock.lock()
        defer { lock.unlock() }
        let waits = [
            admin.millisecondsUntilTimeout,
            lateAnswers.firstDue.map { Int(max(0, $0 - now)) },
            sender.millisecondsUntilDue(world, real: now),
        ]
        return (waits + doors.map(\.server.millisecondsUntilTimeout)).compactMap { $0 }.min()
    }

    /// Moves everything on once.
    ///
    /// - Returns: whether another turn may find work although no descriptor says so: what was
    ///   answered must go out, and what followed on its connection has perhaps come in.
    private func turn() -> Bool {
        let now = SystemClock.now()
        lock.lock()
        defer { lock.unlock() }
        var answeredCount = 0
        for (environment, server) in doors {
            server.run()
            let batch = server.takeRequests()
            serve(batch, environment: environment, now: now)
            answeredCount += batch.count
        }
        let due = lateAnswers.takeDue(at: now)
        for late in due { send(late) }
        admin.run()
        let calls = admin.takeRequests()
        for call in calls { serveAdmin(call, now: now) }
        return answeredCount + due.count + calls.count + sender.turn(world, real: now) > 0
    }

    /// Judges one batch; answers leave after its last, since all of them were under way together.
    private func serve(
        _ batch: [HTTPRequest],
        environment: StoreEnvironment,
        now: UnixMilliseconds
    ) {
        var answered: [Pending] = []
        answered.reserveCapacity(batch.count)
        for request in batch {
            let reply = world.exchange(
                AppleRequest(
                    environment: environment,
                    method: request.method,
                    path: request.path,
                    query: request.query,
                    contentType: request.header("content-type"),
                    authorization: request.header("authorization"),
                    traceparent: request.header("traceparent"),
                    body: request.body
                ),
                real: now
            )
            if let token = reply.busyToken { world.hold(token) }
            let pending = Pending(environment: environment, id: request.id, reply: reply)
            if reply.delayMilliseconds > 0 {
                lateAnswers.add(pending, due: now + reply.delayMilliseconds)
            } else {
                answered.append(pending)
            }
        }
        for pending in answered { send(pending) }
    }

    private func send(_ pending: Pending) {
        if let token = pending.reply.busyToken { world.release(token) }
        let server = doors[pending.environment == .production ? 0 : 1].server
        let answer = pending.reply.answer
        switch pending.reply.delivery {
        case .reset: server.reset(pending.id)
        case .torn:
            server.respondTorn(
                to: pending.id,
                status: answer.status,
                headers: answer.headerList,
                body: answer.body
            )
        case .answered:
            server.respond(
                to: pending.id,
                status: answer.status,
                headers: answer.headerList,
                body: answer.body
            )
        }
    }

    private func serveAdmin(_ request: HTTPRequest, now: UnixMilliseconds) {
        let answer = AdminAPI(world: world, real: now).answer(
            method: request.method,
            path: request.path,
            query: request.query,
            body: request.body
        )
        admin.respond(
            to: request.id,
            status: answer.status,
            headers: answer.headerList,
            body: answer.body
        )
    }
}

/// Answers that a fault keeps back, ordered by when they are due.
struct LateAnswers {
    private var entries: [(due: UnixMilliseconds, pending: SimulatorLoop.Pending)] = []

    var firstDue: UnixMilliseconds? { entries.first?.due }

    mutating func add(_ pending: SimulatorLoop.Pending, due: UnixMilliseconds) {
        // Faults mostly share one delay, so the place is at or near the end.
        let index = entries.lastIndex { $0.due <= due }.map { $0 + 1 } ?? 0
        entries.insert((due, pending), at: index)
    }

    mutating func takeDue(at now: UnixMilliseconds) -> [SimulatorLoop.Pending] {
        let due = entries.prefix { $0.due <= now }
        entries.removeFirst(due.count)
        return due.map(\.pending)
    }
}
