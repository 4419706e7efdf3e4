internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Works out what is owed to Apple, and reports it.
///
/// Absorbing a record changes an account and nothing else; a debt that falls due becomes an intent,
/// stored before its first send; an answer of Apple's is settled in a transaction of its own. What
/// may be sent is read from the due table of the committed store only, and only where nothing is
/// staged for the account: so nothing is ever sent that is not durable.
final class ReportStage: TickingStage {
    /// Everything here is bounded; the debts themselves wait in the store.
    struct Limits {
        /// Debts of one partition that fall due in one tick.
        var dueCountMax = 1_000
        /// Ready debts of one partition and queue read at once.
        var readyCountMax = 128
        /// Notices of one partition that the guard serves in one tick, and that are counted.
        var guardedCountMax = 1_000
        /// Accounts of one partition forgotten in one tick.
        var forgottenCountMax = 256
        /// Requests of one queue under way: one that Apple leaves without answers must not take the
        /// room of the others.
        var flightCountMax = 32
        /// Requests to one of Apple's two hosts under way, likewise.
        var hostFlightCountMax = 256
        /// Answers settled in one tick.
        var answerCountMax = 2_000
        /// Answers that come one soon after another are settled in one transaction: what a commit
        /// costs, on the broker too, is shared by them.
        var settleInterval = Milliseconds(100)
        var inquiryInterval = Milliseconds(100)
        /// Until the guard asks again about a worker that has not read far enough.
        var behindInterval = Milliseconds.seconds(1)
        var measureInterval = Milliseconds.seconds(1)
        /// So long after it was written at most, an order for a lane holds for its next request.
        var orderInterval = Milliseconds(100)
        /// So often orders are looked for while a lane waits for nothing else.
        var orderWait = Milliseconds.seconds(1)

        init() {}
    }

    /// One request under way.
    struct Flight {
        var place: AccountPlace
        var queue: SendQueue
        var errand: Errand
        /// `PUT` or `GET`.
        var method: String
        var sentAt: Timestamp
        /// It was started while the key's gate was stopped, or its endpoint's.
        var isKeyProbe: Bool
        var isEndpointProbe: Bool
    }

    /// What a request is about, to know its answer by.
    enum Errand {
        case report(number: Int, requestCount: Int, ReportRequest, of: SentReport)
        case accountToken(String, attempts: Int)

        /// Requests ended before it.
        var failureCount: Int {
            switch self {
            case .report(_, let requestCount, _, _): requestCount
            case .accountToken(_, let attempts): attempts
            }
        }
    }

    /// A report as far as the meaning of an answer hangs on it.
    struct SentReport {
        var identifier: String
        /// Of its line items.
        var newestDate: Timestamp?
        var lineItemCount: Int
    }

    /// An answer, and the account it is for.
    struct PlacedAnswer {
        var place: AccountPlace
        var answer: Answer
    }

    enum Answer {
        case report(AnsweredReport)
        case accountToken(AnsweredAccountToken)
    }

    /// What the last look at a partition's due table found.
    struct Sweep {
        /// The store changed since.
        var isDue = true
        /// The lanes of what was ready when the partition came are open.
        var isDiscovered = false
        var nextWaiting: Timestamp?
        var nextGuarded: Timestamp?
        /// The guard has served what it may until the next commit.
        var isServed = false
        var nextForgetting: Timestamp?
        /// The clock was set, or may have been before this process began.
        var retries: RetrySweep? = RetrySweep()

        /// A clock that was set back must not put it off for as long.
        func isForgettingDue(now: Timestamp) -> Bool {
            nextForgetting.map { $0 <= now || $0 > now + ReportStage.forgettingInterval } ?? true
        }
    }

    let policy: ReportPolicy
    let apple: any AppleClient
    let inquiry: LogInquiry
    /// Full names of the sources, for the origin of a dead letter.
    let sources: [String]
    let group: String
    /// Reports per second of a lane, over all replicas; nil for an app that is not configured.
    let rate: (Lane) -> Double?
    /// Turns a request for an account token into what is owed.
    let desk: TransactionDesk
    let metrics: ReportMetrics
    let log: Log
    /// Shows that Apple does not answer; nothing fails for it.
    let health: Health?
    let limits: Limits
    let backoff = Backoff()
    /// What was ordered for lanes by hand; nil in a test that orders nothing.
    let orderReader: LaneOrderReader?
    /// Where keys and rates come from; a test hands both in and has none.
    var apps: AppBook?
    var generator: SeededGenerator

    var state: StagedState?
    var partitions: [Int32] = []
    /// Of `distinct`; nil until the log has told it, and then nothing is sent.
    var partitionCount: Int?
    var sweeps: [Int32: Sweep] = [:]
    var lanes: [SendQueue: SendLane] = [:]
    /// What Apple thinks of an app's key: a 401 at one endpoint holds every other of the lane.
    var keyGates: [Lane: LaneGate] = [:]
    /// Those of ``lanes`` in the order in which they were opened: each gets its turns in it.
    var queues: [SendQueue] = []
    /// Queues that an account became ready for, since the last commit and since the one before: the
    /// next look at the committed store may miss what is still under way.
    var touched: Set<SendQueue> = []
    var touchedBefore: Set<SendQueue> = []
    /// The same of partitions whose due table has something earlier than it had.
    var changed: Set<Int32> = []
    var changedBefore: Set<Int32> = []

    var flights: [UInt64: Flight] = [:]
    var nextTag: UInt64 = 1
    private var hostFlightCounts: [AppleEnvironment: Int] = [:]
    /// Under way, or answered and not yet committed: one report in flight for a token.
    var busy: Set<AccountPlace> = []
    /// Answers not yet taken in, and when some were last.
    var inbox: [PlacedAnswer] = []
    var settledAt = Timestamp(milliseconds: 0)
    /// Taken in, not yet known to be committed.
    var unconfirmed: [PlacedAnswer] = []

    var proof = UnrecognizedGuard()
    var nextInquiry = Timestamp(milliseconds: 0)
    var nextMeasure = Timestamp(milliseconds: 0)
    var nextOrderLook = Timestamp(milliseconds: 0)
    var forgetting = ForgettingClock()
    /// When the last tick was; nil before the first.
    var tickedAt: Timestamp?
    var view = LaneView()
    var heldCount = LaneCount.held()
    var dueCount = LaneCount.due()
    var monthDueCount = LaneCount.monthDue()
    /// Where Apple fails what is sent; no entry where it never did.
    var spells: [SendQueue: FailureSpell] = [:]
    private(set) var nextTick: Timestamp?

    init(
        policy: ReportPolicy,
        apple: any AppleClient,
        recordLog: any RecordLog,
        topicPrefix: String,
        rate: @escaping (Lane) -> Double?,
        transactions desk: TransactionDesk = TransactionDesk(),
        orders: (any LaneOrderSource)? = nil,
        metrics: Metrics,
        log: Log,
        health: Health? = nil,
        seed: UInt64,
        limits: Limits = Limits()
    ) {
        self.policy = policy
        self.apple = apple
        inquiry = LogInquiry(log: recordLog, prefix: topicPrefix)
        sources = Worker.report.sources.map { $0.name(prefix: topicPrefix) }
        group = "\(topicPrefix)\(Worker.report.rawValue)"
        self.rate = rate
        self.desk = desk
        orderReader = orders.map { LaneOrderReader($0, log: log) }
        self.metrics = ReportMetrics(metrics)
        self.log = log
        self.health = health
        self.limits = limits
        generator = SeededGenerator(seed: seed)
    }

    var wakeDescriptor: Int32 { apple.wakeDescriptor }

    // MARK: State

    let derivesFromPrevious = true

    // MARK: Partitions

    func assigned(_ partitions: [Int32], state: StagedState, now: Timestamp) {
        self.state = state
        self.partitions = partitions.sorted()
        for partition in partitions where sweeps[partition] == nil {
            sweeps[partition] = Sweep()
        }
        // Whoever was proven unknown was so for the partitions of then.
        proof.end()
        restartCounts()
        share()
        nextTick = now
    }

    func revoked(_ partitions: [Int32]) {
        let gone = Set(partitions)
        self.partitions.removeAll { gone.contains($0) }
        for partition in partitions {
            sweeps[partition] = nil
        }
        for (tag, flight) in flights where gone.contains(flight.place.partition) {
            apple.abandon(tag: tag)
            flights[tag] = nil
            countFlight(flight.queue, -1)
            if flight.isKeyProbe {
                keyGates[flight.queue.lane]?.forgotProbe(now: flight.sentAt)
            }
            if flight.isEndpointProbe {
                lanes[flight.queue]?.gate.forgotProbe(now: flight.sentAt)
            }
        }
        for queue in lanes.keys {
            lanes[queue]?.forget(partitions: gone)
        }
        busy = busy.filter { !gone.contains($0.partition) }
        inbox.removeAll { gone.contains($0.place.partition) }
        unconfirmed.removeAll { gone.contains($0.place.partition) }
        proof.end()
        restartCounts()
        share()
        if self.partitions.isEmpty {
            state = nil
            nextTick = nil
            measureNothing()
        }
    }

    /// This replica's part of every rate: its partitions of all.
    func share() {
        for queue in lanes.keys {
            lanes[queue]?.pace.share(partitions, of: partitionCount ?? 0)
        }
    }

    // MARK: Transactions

    func committed(now: Timestamp) {
        for partition in changed.union(changedBefore) {
            sweeps[partition]?.isDue = true
        }
        (changedBefore, changed) = (changed, [])
        for partition in sweeps.keys {
            sweeps[partition]?.isServed = false
        }
        for queue in touched.union(touchedBefore) {
            lanes[queue]?.needsRefill = true
        }
        (touchedBefore, touched) = (touched, [])
        unconfirmed.removeAll { placed in
            guard !isStaged(placed.place) else {
                return false
            }
            busy.remove(placed.place)
            return true
        }
        nextTick = now
    }

    func aborted() {
        // Apple's answers stand, whatever became of our transaction.
        inbox = unconfirmed + inbox
        unconfirmed = []
        for partition in sweeps.keys {
            sweeps[partition]?.isDue = true
            sweeps[partition]?.isServed = false
        }
        for queue in lanes.keys {
            lanes[queue]?.needsRefill = true
        }
        nextTick = Timestamp(milliseconds: 0)
    }

    /// Whether something was put for an account that is not known to be committed.
    func isStaged(_ place: AccountPlace) -> Bool {
        state?.stagedValue(forKey: place.key, partition: place.partition) != nil
    }

    // MARK: Ticks

    func tick(into plan: inout BatchPlan) {
        let now = plan.now
        noticeClock(now: now)
        followOrders(now: now)
        do throws(StoreFault) {
            learnPartitionCount()
            hearApple(now: now)
            try settleAnswers(into: &plan)
            try sweepDueTables(into: &plan)
            try runGuard(into: &plan)
            try send(now: now)
        } catch {
            plan.storeFault = error
        }
        measure(now: now)
        nextTick = earliestWork(now: now)
    }

    /// The queue that an account became ready for must be looked at after the commit, and the due
    /// table of its partition where what is known of that no longer holds.
    func touch(_ put: [(place: AccountPlace, debtor: Debtor)]) {
        for (place, debtor) in put {
            let sweep = sweeps[place.partition]
            let isEarlier =
                switch debtor.attention {
                case .ready, .forgotten: false
                case .waiting(let time): sweep?.nextWaiting.map { time < $0 } ?? true
                case .guarded: true
                }
            if isEarlier || sweep?.nextGuarded != nil {
                changed.insert(place.partition)
            }
            if let queue = debtor.queue {
                touched.insert(queue)
                openLane(queue)
            }
        }
    }

    func openLane(_ queue: SendQueue) {
        guard lanes[queue] == nil else {
            return
        }
        // An app that is no longer configured has no key: its lane stops at its first turn.
        var pace = Pace(
            rate: requestsPerSecond(of: queue),
            keeping: queue.endpoint == .accountTokens ? .hour : .second
        )
        pace.share(partitions, of: partitionCount ?? 0)
        lanes[queue] = SendLane(pace: pace)
        queues.append(queue)
    }

    /// Of all replicas together.
    func requestsPerSecond(of queue: SendQueue) -> Double {
        switch queue.endpoint {
        case .reports: rate(queue.lane) ?? 1
        case .accountTokens: TransactionDesk.requestsPerSecond(queue.lane.environment)
        }
    }

    /// When a queue may send next; nil where nothing but an answer or an order lets it go on.
    func nextTurn(of lane: SendLane, _ queue: SendQueue, now: Timestamp) -> Timestamp? {
        let flightCount = hostFlightCounts[queue.lane.environment] ?? 0
        guard flightCount < limits.hostFlightCountMax, maySend(queue.lane) else {
            return nil
        }
        return lane.nextTurn(
            now: now,
            flightCountMax: limits.flightCountMax,
            keyGate: keyGates[queue.lane] ?? LaneGate()
        )
    }

    /// A request of a queue started (1) or ended (-1).
    func countFlight(_ queue: SendQueue, _ change: Int) {
        lanes[queue]?.flightCount += change
        hostFlightCounts[queue.lane.environment, default: 0] += change
    }

    /// Something outside the log changed: the next tick is now.
    func wake() {
        nextTick = partitions.isEmpty ? nil : Timestamp(milliseconds: 0)
    }

    private func earliestWork(now: Timestamp) -> Timestamp? {
        guard !partitions.isEmpty else {
            return nil
        }
        var times: [Timestamp] = []
        if !inbox.isEmpty {
            times.append(nextSettling(now: now))
        }
        for sweep in sweeps.values {
            if sweep.isDue || sweep.retries?.resumeAt != nil {
                return now
            }
            times += [sweep.nextWaiting].compactMap { $0 }
            if !proof.isRunning {
                times += [sweep.nextGuarded].compactMap { $0 }
            }
        }
        if proof.isRunning {
            times.append(nextInquiry)
        }
        if partitionCount == nil || orderReader?.isWhole == false {
            times.append(now + limits.inquiryInterval)
        }
        if orderReader != nil, lanes.values.contains(where: \.isWaiting) {
            // An order may open what is closed, and nothing wakes the loop for it.
            times.append(now + limits.orderWait)
        }
        times += [apple.nextAnswer].compactMap { $0 }
        times += lanes.compactMap { nextTurn(of: $1, $0, now: now) }
        return times.min()
    }
}
