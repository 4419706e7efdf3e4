internal import Crypto
internal import Glibc
internal import HTTPServer
internal import Kafka
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// The one loop of `ingest`: requests in, records out, receipts in, answers out.
///
/// One wait for everything: the HTTP server's epoll, the producer's descriptor, the signals.
final class IngestLoop {
    /// The two clocks, handed in.
    struct Clocks {
        var now: () -> Timestamp
        /// Milliseconds that never go back.
        var monotonic: () -> Int64
    }

    /// The longest time between two rounds of the loop, so that the probes see it alive.
    private static let waitMillisecondsMax: Int64 = 1_000
    /// Between two looks at topics that are not known yet.
    private static let openWaitMilliseconds: Int64 = 20
    /// What of one turn's records is gathered before the producer, which copies them, gets them.
    private static let handOverByteCount = 32 << 10
    private static let acceptedHeaders = HTTPHeaders([("Content-Type", "application/json")])
    private static let oneAccepted = acceptedBody(recordCount: 1)

    private let server: HTTPServer
    private let sink: any RecordSink
    /// Nil of a sink that has no descriptor: it is looked at in each turn.
    private let sinkWatch: HTTPServer.Watch?
    /// Monotonic milliseconds: the producer is looked at now and then without being woken for it, to
    /// see an error that ended it and to make a new one.
    private var sinkIsLookedAtFrom: Int64 = 0
    private let clocks: Clocks
    private let measures: IngestMeasures
    private let log: Log
    private let health: Health
    private let view: IngestView?
    private var door: Door
    private var waiting = Waiting()
    private var outputs = OutputBatch()
    private var tags: [UInt64] = []
    private var stopsAt: Int64?
    /// Whether the topics are known to be there: until then nothing is let in.
    private let isOpen: () -> Bool
    /// As it was told last.
    private var obstacle: Obstacle?
    private var topics = TargetTopics()

    init(
        server: HTTPServer,
        sink: any RecordSink,
        door: Door,
        clocks: Clocks,
        measures: IngestMeasures,
        log: Log,
        health: Health,
        view: IngestView? = nil,
        isOpen: @escaping () -> Bool = { true }
    ) {
        self.server = server
        self.sink = sink
        sinkWatch = sink.wakeDescriptor < 0 ? nil : server.watch(sink.wakeDescriptor)
        self.door = door
        self.clocks = clocks
        self.measures = measures
        self.log = log
        self.health = health
        self.view = view
        self.isOpen = isOpen
        obstacle = isOpen() ? nil : .brokerAway
    }

    /// Lets ``turn(waitingAtMost:)`` wake when this descriptor is readable, too.
    func watch(_ descriptor: Int32) -> HTTPServer.Watch {
        server.watch(descriptor)
    }

    /// How long to wait at most; the server's own deadlines come on top.
    func waitMilliseconds() -> Int {
        var wait = isOpen() ? Self.waitMillisecondsMax : Self.openWaitMilliseconds
        if let milliseconds = door.notifications?.line.millisecondsUntilTurn(
            now: clocks.monotonic()
        ) {
            wait = min(wait, milliseconds)
        }
        for deadline in [waiting.nextDeadline(), stopsAt] {
            if let deadline {
                wait = min(wait, deadline - clocks.monotonic())
            }
        }
        return Int(max(wait, 0))
    }

    /// From now on these roots decide which notifications are genuine.
    func trust(_ roots: TrustedRoots) {
        door.notifications?.trust(roots)
    }

    /// Takes nothing new in but what has come already; what is held is still answered.
    func stop() throws(LogFault) {
        guard stopsAt == nil else {
            return
        }
        stopsAt = clocks.monotonic() + IngestLimits.stopTimeoutMilliseconds
        health.setNotReady(because: "stopping")
        server.stopAccepting()
        // What lies in the sockets is a request begun only after this.
        try turn()
    }

    var isStopping: Bool { stopsAt != nil }

    /// Whether everything held was answered since ``stop()``, or its time is over.
    var hasStopped: Bool {
        guard let stopsAt else {
            return false
        }
        return clocks.monotonic() >= stopsAt
            || (waiting.openCount == 0 && server.heldRequestCount == 0
                && server.incompleteRequestCount == 0)
    }

    /// Waits until there is something to do, and moves everything on that can be moved.
    ///
    /// Without `milliseconds` it does not wait.
    ///
    /// - Returns: which of the watched descriptors are readable.
    @discardableResult
    func turn(waitingAtMost milliseconds: Int = 0) throws(LogFault) -> HTTPServer.Readable {
        let readable = server.run(waitingAtMost: milliseconds)
        let now = clocks.monotonic()
        // Before anything is refused: after a pause of the process what was stored meanwhile lies there.
        if sinkWatch.map(readable.contains) ?? true || now >= sinkIsLookedAtFrom {
            sinkIsLookedAtFrom = now + Self.waitMillisecondsMax
            try hear(sink.takeReceipts(), now: now)
        }
        tellBroker(now: now)
        try admit(now: now)
        for entry in waiting.takeExpired(now: now) {
            answer(entry, .notStored, now: now)
        }
        for note in sink.takeNotes() where note.level <= 4 {
            log.limited(
                .warning,
                "librdkafka",
                per: note.facility,
                ("facility", .text(note.facility)),
                ("text", .text(note.text))
            )
        }
        measures.set(
            inFlight: waiting.openCount,
            fillLevel: sink.fillLevel,
            connections: server.connectionCount,
            notificationsWaiting: door.notifications?.line.count ?? 0
        )
        measures.setIncomplete { server.incompleteByteCount(lane: $0.lane) }
        measures.refused { server.refusalCount(status: $1, lane: $0?.lane) }
        measures.evicted(server.evictionCount)
        health.beat()
        log.writeWithheld()
        view?.show(
            IngestView.Moment(
                inFlightCount: waiting.openCount,
                connectionCount: server.connectionCount,
                fillLevel: sink.fillLevel,
                isBrokerAway: obstacle == .brokerAway,
                isStopping: stopsAt != nil
            ),
            now: clocks.now()
        )
        return readable
    }

    /// Answers what is still held: its records may be stored or not.
    func end() {
        for entry in waiting.takeAll() {
            answer(entry, .stopping, now: clocks.monotonic())
        }
        for id in door.notifications?.line.takeAll() ?? [] {
            refuse(id, .stopping, route: .notifications)
        }
        server.run()
        server.close()
    }

    private func admit(now: Int64) throws(LogFault) {
        let receivedAt = clocks.now()
        while let request = server.takeRequest() {
            guard request.isComplete else {
                judge(request, now: now)
                continue
            }
            try admit(request, now: now, receivedAt: receivedAt)
        }
        for _ in 0..<NotificationLine.turnCountMax {
            guard let request = door.notifications?.line.takeTurn(now: now) else {
                break
            }
            try admit(request, isTurn: true, now: now, receivedAt: receivedAt)
        }
        for id in door.notifications?.line.takeDisplaced() ?? [] {
            refuse(id, .tooManyRequests, route: .notifications)
        }
        try handOver()
    }

    /// Lets the body of a request come in, or answers before any of it is kept.
    private func judge(_ head: HTTPRequest, now: Int64) {
        do throws(Problem) {
            let route = try door.judge(head, isBusy: busyProblem(head, now: now))
            server.accept(head.id, lane: route.lane, bodyByteCountMax: route.bodyByteCountMax)
        } catch {
            refuse(head.id, error, route: Route(rawValue: head.path))
        }
    }

    private func admit(
        _ request: HTTPRequest,
        isTurn: Bool = false,
        now: Int64,
        receivedAt: Timestamp
    ) throws(LogFault) {
        do throws(Problem) {
            let admission = try door.admit(
                request,
                isBusy: busyProblem(request, now: now),
                isTurn: isTurn,
                now: now,
                receivedAt: receivedAt,
                to: &outputs
            )
            if let admission, admission.notification?.isStored == true {
                accept(request.id, admission)
            } else if let admission {
                topics.handedOver(admission.recordCount, to: admission.route.topic, now: now)
                let tag = waiting.add(request.id, admission, now: now)
                tags.append(contentsOf: repeatElement(tag, count: admission.recordCount))
            }
        } catch {
            if error.code.hasPrefix("jws.") {
                log.limited(
                    .warning,
                    "a notification is not genuine",
                    ("code", .text(error.code)),
                    ("peer", .text(request.remoteAddress))
                )
            }
            refuse(request.id, error, route: Route(rawValue: request.path))
        }
        if outputs.arena.count >= Self.handOverByteCount {
            try handOver()
        }
    }

    private func handOver() throws(LogFault) {
        precondition(tags.count == outputs.outputs.count, "one tag an output")
        guard !tags.isEmpty else {
            return
        }
        try sink.produce(outputs, tags: tags)
        outputs.removeAll()
        tags.removeAll(keepingCapacity: true)
    }

    private func hear(_ receipts: [KafkaProducer.Receipt], now: Int64) {
        for receipt in receipts {
            if let topic = waiting.topic(of: receipt.tag) {
                if topics.note(receipt, of: topic) {
                    topics.conditions.forEach { health.setCondition($0.name, $0.sentence) }
                }
                measures.received(
                    topic,
                    isStored: receipt.isStored,
                    recordCount: receipt.outputCount
                )
            }
            if let failure = receipt.failure {
                log.limited(.warning, "the broker did not store a record", ("code", .text(failure)))
                if failure == "MSG_SIZE_TOO_LARGE" {
                    log.limited(
                        .warning,
                        "a topic takes less at once than is sent; see tollway topics plan",
                        ("setting", .text("max.message.bytes"))
                    )
                }
            }
            if let entry = waiting.note(receipt) {
                if let notification = entry.admission.notification, entry.problem == nil {
                    door.notifications?.noteStored(notification)
                }
                answer(entry, entry.problem, now: now)
            }
        }
    }

    /// What keeps records from being stored.
    private enum Obstacle: Equatable {
        case brokerAway
        case nothingStored(topics: [String])
    }

    private var isBrokerAway: Bool { sink.isBrokerAway || !isOpen() }

    private func currentObstacle(now: Int64) -> Obstacle? {
        if isBrokerAway {
            return .brokerAway
        }
        let stalled = topics.stalledNames(now: now)
        return stalled.isEmpty ? nil : .nothingStored(topics: stalled)
    }

    /// Nothing of what waits for a topic was stored for 5 s.
    var isStalled: Bool { topics.isAnyStalled(now: clocks.monotonic()) }

    /// What refuses a request at this time, whatever it is.
    ///
    /// One partition that stores nothing looks like a topic that does: a request now and then is let in
    /// to each, and the first record that is stored opens that route to all.
    private func busyProblem(_ request: HTTPRequest, now: Int64) -> Problem? {
        if isBrokerAway {
            return .brokerAway
        }
        let fillLevel = sink.fillLevel
        if fillLevel >= IngestLimits.fillLevelMax {
            return .queueFull
        }
        guard fillLevel >= IngestLimits.topicFillLevelMax || topics.isAnyStalled(now: now),
            let route = Route(rawValue: request.path)
        else {
            return nil
        }
        if topics.isShut(route.topic, now: now) {
            return .nothingStored
        }
        let byteCountMax = IngestLimits.topicFillLevelMax * Double(IngestLimits.queueByteCountMax)
        return Double(waiting.byteCounts[route.topic]) >= byteCountMax ? .queueFull : nil
    }

    private func answer(_ entry: Waiting.Entry, _ problem: Problem?, now: Int64) {
        let route = entry.admission.route
        if let problem {
            refuse(
                entry.request,
                problem,
                route: route,
                requestID: entry.admission.requestID
            )
        } else {
            accept(entry.request, entry.admission)
        }
        measures.took(milliseconds: now - entry.startedAt, route: route)
    }

    private func accept(_ request: HTTPRequest.ID, _ admission: Door.Admission) {
        let recordCount = admission.recordCount
        var headers = Self.acceptedHeaders
        headers.append("X-Request-Id", admission.requestID)
        server.respond(
            to: request,
            status: admission.route.acceptedStatus,
            headers: headers,
            body: recordCount == 1
                ? Self.oneAccepted : Self.acceptedBody(recordCount: recordCount)
        )
        measures.answered(route: admission.route, status: admission.route.acceptedStatus)
    }

    private static func acceptedBody(recordCount: Int) -> [UInt8] {
        var body: [UInt8] = []
        JSONWriter.append(to: &body) { writer in
            writer.beginObject()
            writer.field("accepted", recordCount)
            writer.endObject()
        }
        return body
    }

    /// `requestID` is that of its records, where some were handed over.
    private func refuse(
        _ request: HTTPRequest.ID,
        _ problem: Problem,
        route: Route?,
        requestID: String? = nil
    ) {
        measures.answered(route: route, status: problem.status)
        if route == .notifications {
            measures.refusedNotification(code: problem.code)
        }
        server.respond(
            to: request,
            status: problem.status,
            headers: problem.headers + (requestID.map { [("X-Request-Id", $0)] } ?? []),
            body: problem.body
        )
    }

    private func tellBroker(now: Int64) {
        let current = currentObstacle(now: now)
        switch current {
        case .brokerAway:
            health.setCondition("kafka", sink.loginRefusal ?? "the broker does not answer")
        case .nothingStored(let topics):
            let sentence = "nothing was stored for 5 s in \(topics.joined(separator: ", "))"
            health.setCondition("kafka", sink.loginRefusal ?? sentence)
        case nil: break
        }
        if current != obstacle {
            tell(current, after: obstacle)
            obstacle = current
        }
    }

    private func tell(_ current: Obstacle?, after before: Obstacle?) {
        if before == .brokerAway {
            log.info("the broker answers")
        }
        switch current {
        case .brokerAway:
            health.setNotReady(because: "the broker does not answer")
            log.warning("the broker does not answer: requests get 503")
            return
        case .nothingStored(let topics):
            log.limited(
                .warning,
                "nothing was stored for 5 s: one request a second is let in to each of these topics",
                ("topics", .text(topics.joined(separator: " ")))
            )
        case nil:
            health.setCondition("kafka", nil)
            if before != nil, before != .brokerAway {
                log.limited(.info, "records are stored again")
            }
        }
        // Also where nothing is stored: whom a balancer takes out gets no request that is stored.
        if stopsAt == nil {
            health.setReady()
        }
    }
}
