internal import Foundation
internal import Glibc
internal import HTTPServer
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The console at work: one thread, which waits for requests, for snapshots and for commands.
///
/// Snapshots are server-sent events. The page reads them with `fetch` and not with an `EventSource`,
/// whose request cannot carry a key.
final class ConsoleLoop {
    private static let limits = HTTPServer.Limits(
        bodyByteCountMax: 64 << 10,
        laneByteCountsMax: [1 << 20],
        headerByteCountMax: 16 << 10,
        connectionCountMax: 128,
        requestTimeoutMilliseconds: 10_000,
        idleTimeoutMilliseconds: 60_000
    )
    /// An event at least so often.
    ///
    /// With the newest snapshot again where there is no other, and its age: a page that hears nothing
    /// for longer says that the console does not answer.
    private static let eventMilliseconds: Int64 = 5_000
    private static let streamCountMax = 100
    private static let busyTurnMilliseconds = 25
    private static let idleTurnMilliseconds = 1_000

    private let gate: ConsoleGate
    private let server: HTTPServer
    private let feed: ConsoleFeed
    private let jobs: ConsoleJobs
    private var sessions = ConsoleSessions()
    private var acts: ConsoleActs
    /// Pages that are open.
    private var streams: [HTTPRequest.ID] = []
    private var toldAt: Int64 = 0

    /// - Throws: exit 1 where the address cannot be had.
    init(
        gate: ConsoleGate,
        admin: [String],
        folder: URL,
        programs: ConsolePrograms = ConsolePrograms()
    ) throws(CommandFailure) {
        self.gate = gate
        do throws(HTTPServerFault) {
            server = try HTTPServer(listen: gate.address, limits: Self.limits)
        } catch {
            switch error {
            case .cannotListen(let address, let message):
                throw CommandFailure(
                    .failed,
                    code: "console.listen",
                    "\(address) cannot be listened on: \(message)"
                )
            case .cannotStart(let message):
                throw CommandFailure(.failed, code: "console.listen", message)
            }
        }
        feed = ConsoleFeed(programs: programs, admin: admin)
        jobs = ConsoleJobs(programs: programs, folder: folder)
        acts = ConsoleActs(folder: folder, admin: admin)
    }

    var port: UInt16 { server.port }

    func run(_ stop: StopSignal) -> ExitCode {
        defer {
            server.close()
            feed.stop()
            jobs.stop()
        }
        while true {
            turn()
            var entries = [
                pollfd(fd: stop.descriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: server.wakeDescriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: feed.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            let turn = jobs.isIdle ? Self.idleTurnMilliseconds : Self.busyTurnMilliseconds
            let wait = min(server.millisecondsUntilTimeout ?? turn, turn)
            _ = unsafe poll(&entries, 3, Int32(clamping: wait))
            if entries[0].revents != 0, let exit = stop.wait(milliseconds: 0) {
                return exit
            }
        }
    }

    /// Does what can be done without waiting.
    func turn() {
        let now = WallClock.monotonicMilliseconds()
        jobs.turn(now: now)
        let isNew = feed.turn(now: now)
        server.run()
        for request in server.takeRequests() {
            answer(request, now: now)
        }
        if isNew || now - toldAt >= Self.eventMilliseconds {
            tell(now: now)
        }
    }

    // MARK: - Requests

    private func answer(_ request: HTTPRequest, now: Int64) {
        do throws(ConsoleGate.Refusal) {
            try gate.checkHost(request, port: port)
            if let asset = ConsoleAssets.asset(request.path) {
                guard request.method == "GET" || request.method == "HEAD" else {
                    return refuse(request, ConsoleFault("only GET", status: 405))
                }
                return respond(request, 200, asset.type, asset.bytes)
            }
            try gate.checkOrigin(request)
            let person = try gate.person(request)
            try answer(request, of: person, now: now)
        } catch {
            refuse(request, ConsoleFault(error.sentence, status: error.status))
        }
    }

    private func answer(
        _ request: HTTPRequest,
        of person: ConsoleGate.Person,
        now: Int64
    ) throws(ConsoleGate.Refusal) {
        switch (request.method, request.path) {
        case ("GET", "/api/session"):
            let known = request.header("x-tollway-session")
            let secret = sessions.open(for: person, known: known, now: now)
            respond(request, json: Self.session(secret, person))
        case ("GET", "/api/events"):
            listen(request, now: now)
        case ("GET", "/api/acts"):
            let list = JSONLines.list(acts.acts.map(\.json))
            respond(request, json: JSONLines.object([("acts", list)]))
        case ("POST", "/api/read"), ("POST", "/api/plans"), ("POST", "/api/acts"),
            ("POST", "/api/acts/stop"):
            let secret = request.header("x-tollway-session")
            guard sessions.accepts(secret, of: person, now: now), let secret else {
                throw .noSession
            }
            do throws(ConsoleFault) {
                try post(request, try Self.object(request), secret, person, now: now)
            } catch {
                refuse(request, error)
            }
        default:
            refuse(request, ConsoleFault("there is no such page", status: 404))
        }
    }

    private static func object(_ request: HTTPRequest) throws(ConsoleFault) -> [String: Any] {
        guard request.header("content-type")?.hasPrefix("application/json") == true else {
            throw ConsoleFault("the body is application/json", status: 415)
        }
        do {
            let object = try JSONSerialization.jsonObject(with: Data(request.body))
            guard let members = object as? [String: Any] else {
                throw ConsoleFault("the body is a JSON object")
            }
            return members
        } catch {
            throw ConsoleFault("the body is a JSON object")
        }
    }

    private func post(
        _ request: HTTPRequest,
        _ body: [String: Any],
        _ secret: String,
        _ person: ConsoleGate.Person,
        now: Int64
    ) throws(ConsoleFault) {
        switch request.path {
        case "/api/read":
            try jobs.ask(try ConsoleQuestion(body)) { [unowned self, id = request.id] result in
                let age = [("ageMilliseconds", "\(result.ageMilliseconds)")]
                respond(to: id, json: JSONLines.object(ConsoleActs.members(result) + age))
            }
        case "/api/plans":
            let (draft, question) = try acts.draft(
                body,
                session: secret,
                now: WallClock.nowMilliseconds()
            )
            let job = jobs.start(
                question,
                milliseconds: ConsoleActs.planMilliseconds,
                isUrgent: draft.action.isOfLane
            ) {
                [unowned self, id = request.id] result in
                let plan = acts.keep(draft, result.data)
                let members = plan.map { plan in
                    Fact.text("plan", plan.id) + Fact.number("go", Int64(plan.goCount))
                        + Fact.text("what", plan.what)
                }
                respond(
                    to: id,
                    json: JSONLines.object(ConsoleActs.members(result) + (members ?? []))
                )
            }
            guard job != nil else {
                throw ConsoleJobs.busy
            }
        case "/api/acts":
            let (act, command) = try acts.confirm(
                body,
                session: secret,
                by: person,
                now: WallClock.nowMilliseconds()
            )
            let job = jobs.start(
                command,
                as: person.name,
                milliseconds: nil,
                isUrgent: true
            ) {
                [unowned self] result in
                acts.end(act.number, result)
            }
            guard let job else {
                throw ConsoleJobs.busy
            }
            acts.begin(act, job: job)
            respond(request, json: JSONLines.object([("act", "\(act.number)")]))
        default:
            let number = try ConsoleQuestion.number(body["act"], in: 1...Int.max)
            guard let act = acts.acts.first(where: { $0.number == number }), let job = act.job
            else {
                throw ConsoleFault("nothing of that number is under way", status: 409)
            }
            jobs.interrupt(job)
            respond(request, json: JSONLines.object([("act", "\(act.number)")]))
        }
    }

    // MARK: - Snapshots

    private static func session(_ secret: String, _ person: ConsoleGate.Person) -> String {
        let workers = Worker.allCases.map { worker in
            JSONLines.object([
                ("worker", JSONText.quoted(worker.rawValue)),
                ("sources", topics(worker.sources)),
                ("targets", topics(worker.targets)),
                // What it writes besides is Apple's answer, which comes back.
                ("asksApple", "\(worker == .report)"),
            ])
        }
        return JSONLines.object([
            ("session", JSONText.quoted(secret)),
            ("person", JSONText.quoted(person.name)),
            ("version", JSONText.quoted(BuildInfo.version)),
            ("pipeline", JSONLines.list(workers)),
            ("deadLetterAdvice", DeadLetterAdvice.json),
        ])
    }

    private static func topics(_ topics: [Topic]) -> String {
        JSONLines.texts(topics.map { $0.name(prefix: "") })
    }

    private func listen(_ request: HTTPRequest, now: Int64) {
        guard streams.count < Self.streamCountMax else {
            return refuse(request, ConsoleJobs.busy)
        }
        server.beginStream(
            to: request.id,
            status: 200,
            headers: ConsoleAssets.headers + [
                ("Content-Type", "text/event-stream"),
                // A proxy that gathers an answer would keep the page stale.
                ("X-Accel-Buffering", "no"),
            ]
        )
        if server.send(event(now: now), toStream: request.id) {
            streams.append(request.id)
        }
    }

    /// The newest snapshot, and how old it is, to every page.
    private func tell(now: Int64) {
        toldAt = now
        guard !streams.isEmpty else {
            return
        }
        let event = event(now: now)
        streams.removeAll { !server.send(event, toStream: $0) }
    }

    /// One event; JSON of ours has no line ends.
    private func event(now: Int64) -> [UInt8] {
        Array("data: \(snapshot(now: now))\n\n".utf8)
    }

    private func snapshot(now: Int64) -> String {
        JSONLines.object([
            ("sequence", "\(feed.sequence)"),
            ("ageMilliseconds", feed.sequence == 0 ? "null" : "\(now - feed.takenAt)"),
            ("isActing", "\(acts.isUnderWay)"),
            ("actChanges", "\(acts.changeCount)"),
            (
                "snapshot",
                feed.newest.isEmpty ? "null" : String(decoding: feed.newest, as: UTF8.self)
            ),
        ])
    }

    // MARK: - Answers

    private func respond(_ request: HTTPRequest, json: String) {
        respond(to: request.id, json: json)
    }

    /// To a request whose body is not kept until its answer.
    private func respond(to id: HTTPRequest.ID, json: String) {
        respond(to: id, 200, "application/json", Array(json.utf8))
    }

    private func refuse(_ request: HTTPRequest, _ fault: ConsoleFault) {
        let body = JSONLines.object([
            ("status", "\(fault.status)"), ("detail", JSONText.quoted(fault.sentence)),
        ])
        respond(request, fault.status, "application/problem+json", Array(body.utf8))
    }

    private func respond(_ request: HTTPRequest, _ status: Int, _ type: String, _ body: [UInt8]) {
        respond(to: request.id, status, type, body)
    }

    private func respond(
        to id: HTTPRequest.ID,
        _ status: Int,
        _ type: String,
        _ body: [UInt8]
    ) {
        var headers = ConsoleAssets.headers + [("Content-Type", type)]
        switch status {
        case 401: headers.append(("WWW-Authenticate", "Bearer realm=\"tollway console\""))
        case 405: headers.append(("Allow", "GET, HEAD"))
        case 503: headers.append(("Retry-After", "2"))
        default: break
        }
        server.respond(to: id, status: status, headers: headers, body: body)
    }
}
