internal import AppStoreAPI
internal import HTTPClient
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Fetches page after page, of several lanes at once, and stores them with the position after them,
/// one transaction for many.
final class BackfillRun {
    /// Where a run begins.
    struct Start {
        var plan: BackfillPlan
        var order: HandOrder
        /// Transactions and notifications of the run so far.
        var part = 0
        var runCount = 0
    }

    /// A page of one lane.
    struct Question {
        /// Of ``BackfillPlan/places``.
        var laneIndex: Int
        var query: NotificationHistoryQuery
    }

    /// Lanes that are asked at once, each for one page after the other: an Apple that is away is given
    /// up after twenty seconds or more, and each lane has to find that out.
    private static let laneCountMax = 16
    private static let recordCountMax = 2_000
    private static let byteCountMax = 8 << 20
    /// Fetched and not yet stored for no longer than this.
    private static let partMilliseconds: Int64 = 5_000

    private let order: HandOrder
    private let isReal: Bool
    private let configuration: Configuration
    private let queue: AppleRequestQueue<Question>
    private let topics: [String]
    private let progress: ProgressLine?
    private var transactor: KafkaTransactor?
    private var plan: BackfillPlan
    private var part: Int
    private var runCount: Int
    private var outputs = OutputBatch()
    private var partSince = WallClock.monotonicMilliseconds()
    private var pageCount = 0
    /// Lanes with a question under way, and the first that was not begun.
    private var openLanes: Set<Int> = []
    private var nextLane = 0
    /// Lanes that were given up.
    private var troubles: [Int: CommandFailure] = [:]
    /// Lanes that were started again: once each.
    private var restartedLanes: Set<Int> = []
    private var isInterrupted = false

    init(
        start: Start,
        keys: AppleKeys,
        requestsPerSecond: Int,
        isReal: Bool,
        configuration: Configuration
    ) throws(CommandFailure) {
        plan = start.plan
        part = start.part
        runCount = start.runCount
        order = start.order
        self.isReal = isReal
        self.configuration = configuration
        topics = [Topic.notificationsReceived, .audit].map {
            $0.name(prefix: configuration.topicPrefix)
        }
        progress = ProgressLine("notifications")
        let requests = AppStoreRequests(hosts: configuration.appleHosts)
        queue = try AppleRequestQueue(
            keys: keys,
            // Apple's limit is that of an app.
            rate: { lane in
                min(
                    Double(requestsPerSecond),
                    Double(NotificationHistoryQuery.requestsPerSecondMax)
                        * lane.environment.limitShare
                )
            },
            make: { question, environment, webToken, tag in
                requests.notificationHistory(
                    question.query,
                    environment: environment,
                    webToken: webToken,
                    tag: tag
                )
            }
        )
    }

    deinit {
        transactor?.close()
    }

    func run(stop: StopSignal) throws(CommandFailure) -> BackfillEnding {
        // Before Apple is asked: what cannot be stored is not fetched.
        try open()
        if isReal {
            // What is killed says nothing at its end: by this record it can go on.
            try storeIfDue(isForced: true, state: .running)
            Console.say("\(order.id) begins: killed, it goes on with --resume \(order.id)")
        }
        beginLanes()
        while queue.isBusy, !isInterrupted {
            guard stop.wait(milliseconds: 0) == nil else {
                isInterrupted = true
                break
            }
            for result in queue.turn() {
                take(result)
            }
            beginLanes()
            progress?.show(
                runCount,
                CountText.of(pageCount, "page") + ", \(plan.doneCount) of"
                    + " \(plan.places.count) lanes done"
            )
            try storeIfDue(isForced: false, state: .running)
        }
        let state: AuditState =
            isInterrupted ? .interrupted : troubles.isEmpty ? .finished : .stopped
        try storeIfDue(isForced: true, state: state)
        progress?.end()
        if isInterrupted, isReal {
            Console.say("go on with: tollway notifications backfill --resume \(order.id)")
        }
        let troubles = troubles.sorted { $0.key < $1.key }
        return BackfillEnding(
            runID: order.id,
            plan: plan,
            isReal: isReal,
            isInterrupted: isInterrupted,
            count: runCount,
            pageCount: pageCount,
            troubles: troubles.map { (plan.places[$0.key].lane, $0.value) }
        )
    }

    // MARK: Apple

    private func beginLanes() {
        while openLanes.count < Self.laneCountMax, nextLane < plan.places.count {
            if !plan.places[nextLane].isDone {
                ask(nextLane)
            }
            nextLane += 1
        }
    }

    private func ask(_ index: Int) {
        openLanes.insert(index)
        queue.add(
            Question(laneIndex: index, query: plan.query(ofLane: index)),
            in: plan.places[index].lane
        )
    }

    private func take(_ result: AppleRequestQueue<Question>.Result) {
        let index = result.subject.laneIndex
        pageCount += 1
        switch result.outcome {
        case .failure(let trouble): troubles[index] = trouble.failure
        case .success(let answer): take(answer, ofLane: index)
        }
        guard troubles[index] == nil, !plan.places[index].isDone else {
            openLanes.remove(index)
            return
        }
        ask(index)
    }

    private func take(_ answer: HTTPClientResponse.Answer, ofLane index: Int) {
        guard answer.status == 200 else {
            // A position of days ago may mean nothing to Apple any more: repeats are settled.
            let place = plan.places[index]
            if place.paginationToken != nil, restartedLanes.insert(index).inserted {
                Console.say(
                    "Apple does not know the position of app \(place.lane.appAppleID)"
                        + " (\(place.lane.environment.rawValue)) any more: it is fetched from"
                        + " --from again"
                )
                plan.restart(lane: index)
                return
            }
            let codes = AppleBody(answer.body).errors?.map { "\($0.code)" } ?? []
            let code = codes.isEmpty ? "" : ", error \(codes.joined(separator: ", "))"
            troubles[index] = CommandFailure(
                .failed,
                code: "backfill.refused",
                "Apple refuses the question: HTTP \(answer.status)\(code)"
            )
            return
        }
        guard !answer.isCut, let page = NotificationHistoryPage(answer.body) else {
            troubles[index] = CommandFailure(
                .failed,
                code: "backfill.bad_page",
                "Apple's page cannot be read: what follows it is not known"
            )
            return
        }
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        for payload in page.signedPayloads {
            append(NotificationReceived(signedPayload: payload, receivedAt: now))
        }
        plan.advance(lane: index, to: page.nextPaginationToken)
        runCount += page.signedPayloads.count
    }

    // MARK: Kafka

    private func append(_ notification: NotificationReceived) {
        guard isReal else {
            return
        }
        outputs.append(topic: 0, key: .absent) { notification.write(to: &$0) }
    }

    private func open() throws(CommandFailure) {
        guard isReal else {
            return
        }
        // A producer waits a minute for a Kafka that is away, and calls a missing topic a timeout.
        for topic in topics {
            _ = try TopicScan.places(of: topic, from: .earliest, configuration)
        }
        try KafkaQuestion.failing(configuration) { () throws(LogFault) in
            let made = try KafkaTransactor(
                settings: configuration.kafka,
                // Of this run alone: an older process that still has it is fenced.
                transactionalID: "\(configuration.topicPrefix)\(order.id)",
                targets: topics
            )
            transactor = made
            try made.takeOver()
        }
    }

    private func storeIfDue(
        isForced: Bool,
        state: AuditState
    ) throws(CommandFailure) {
        let now = WallClock.monotonicMilliseconds()
        let isFull =
            outputs.outputs.count >= Self.recordCountMax
            || outputs.arena.count >= Self.byteCountMax
            || now - partSince >= Self.partMilliseconds && !outputs.outputs.isEmpty
        guard isReal, isForced || isFull, let transactor else {
            return
        }
        part += 1
        let count = outputs.outputs.count
        let audit = BackfillAudit(
            plan: plan,
            order: order,
            part: part,
            state: state,
            at: WallClock.nowMilliseconds(),
            count: count,
            runCount: runCount,
            target: topics[0]
        )
        let key = outputs.place(order.id.utf8)
        outputs.append(topic: 1, key: key, audit.write)
        do throws(LogFault) {
            _ = try transactor.commit(outputs)
        } catch {
            let failure = KafkaQuestion.failure(error, configuration)
            throw CommandFailure(
                failure.exit,
                code: failure.code,
                "\(failure.message); go on with: tollway notifications backfill --resume \(order.id)"
            )
        }
        outputs = OutputBatch()
        partSince = now
    }

    // MARK: Going on

    /// Where a run ended, by its newest record in the audit topic.
    ///
    /// - Throws: exit 3 where the audit has no such run, or it has finished.
    static func resumed(
        _ order: HandOrder,
        _ configuration: Configuration
    ) throws(CommandFailure) -> Start {
        let topic = Topic.audit.name(prefix: configuration.topicPrefix)
        var newest: Start?
        var isFinished = false
        let scan = TopicScan(configuration: configuration, topics: [topic], isToHighWatermark: true)
        try scan.run { batch throws(CommandFailure) in
            for record in batch.records where !record.value.isAbsent {
                let value = batch.arena.span.extracting(record.value.indices)
                guard let json = JSONValue(value), json["runId"]?.text == order.id,
                    let plan = BackfillPlan(audit: json),
                    let part = json["part"]?.integer, part > newest?.part ?? 0
                else {
                    continue
                }
                newest = Start(
                    plan: plan,
                    order: order,
                    part: Int(part),
                    runCount: Int(json["runCount"]?.integer ?? 0)
                )
                isFinished = json["state"]?.text == AuditState.finished.rawValue
            }
            return true
        }
        guard let newest, !isFinished else {
            throw CommandFailure(
                .nothingMatched,
                code: newest == nil ? "backfill.unknown_run" : "backfill.finished",
                newest == nil
                    ? "the audit knows no backfill \(order.id): see tollway audit ls --action"
                        + " notifications"
                    : "\(order.id) has finished"
            )
        }
        return newest
    }
}
