internal import AppStoreAPI
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain

/// Sends to Apple what is due, each lane at its rate and as far as its circuit breakers let it.
///
/// It knows what is in flight, and nothing of why a report is owed: it reads what may be sent from the
/// due table of the committed store, and hands on what Apple answers.
final class Sender {
    let apple: any AppleClient
    /// Reports per second of a lane, over all replicas; nil for an app that is not configured.
    private let rate: (Lane) -> Double?
    let policy: ReportPolicy
    let cache: AccountCache
    let limits: ReportLimits
    let metrics: ReportMetrics
    let log: Log
    /// Shows that Apple does not answer; nothing fails for it.
    let health: Health?
    /// What was ordered for lanes by hand; nil in a test that orders nothing.
    let orderReader: LaneOrderReader?
    let backoff = Backoff()
    var generator: SeededGenerator

    private(set) var partitions: [Int32] = []
    /// Of `distinct`; nil until the log knows it, and until then nothing is sent.
    private var partitionCount: Int?
    var lanes: [SendQueue: SendLane] = [:]
    /// What Apple thinks of an app's key: a 401 at one endpoint holds every other of the lane.
    var keyBreakers: [Lane: CircuitBreaker] = [:]
    /// Those of ``lanes`` in the order in which they were opened.
    private(set) var queues: [SendQueue] = []
    /// Whose turn is first in the next round, so that none always finds the host's room taken.
    private var firstTurn = 0
    private(set) var rounds: SendRounds
    /// Debts that are ready for a queue and are not known to be committed.
    private var touched: [(queue: SendQueue, debt: ReadyDebt)] = []

    var flights: [UInt64: Flight] = [:]
    private var nextTag: UInt64 = 1
    private var hostFlightCounts: [AppleEnvironment: Int] = [:]
    /// In flight, or answered and not yet committed: one report in flight for a token.
    private(set) var busy: Set<AccountPlace> = []

    var view = LaneView()
    /// Where Apple fails what is sent; no entry where it never did.
    var spells: [SendQueue: FailureSpell] = [:]
    var nextOrderLook = Timestamp(milliseconds: 0)
    /// Nothing is sent before: the process stood still.
    private var standstillEnd = Timestamp(milliseconds: 0)

    init(
        apple: any AppleClient,
        rate: @escaping (Lane) -> Double?,
        policy: ReportPolicy,
        cache: AccountCache = AccountCache(),
        orders: (any LaneOrderSource)? = nil,
        limits: ReportLimits,
        metrics: ReportMetrics,
        log: Log,
        health: Health? = nil,
        seed: UInt64
    ) {
        self.apple = apple
        self.rate = rate
        self.policy = policy
        self.cache = cache
        orderReader = orders.map { LaneOrderReader($0, log: log) }
        self.limits = limits
        self.metrics = metrics
        self.log = log
        self.health = health
        generator = SeededGenerator(seed: seed)
        rounds = SendRounds(span: limits.roundInterval)
    }

    // MARK: Partitions

    /// Whether all partitions of ours are here: those to come may have primaries that were not sent.
    var isWhole = false

    /// This replica's part of every rate: its partitions of all.
    func share(_ partitions: [Int32], of partitionCount: Int?) {
        self.partitions = partitions
        self.partitionCount = partitionCount
        if partitions.isEmpty {
            standstillEnd = Timestamp(milliseconds: 0)
        }
        // The requests of all replicas come in the same rounds.
        let isShared = partitions.count * 2 <= partitionCount ?? 0
        rounds = SendRounds(
            span: isShared ? limits.sharedRoundInterval : limits.roundInterval
        )
        for queue in lanes.keys {
            lanes[queue]?.limiter.share(partitions, of: partitionCount ?? 0)
            // What came along may wait behind much, and may be the most urgent.
            lanes[queue]?.clearedAt = nil
            lanes[queue]?.needsRefill = true
        }
    }

    /// Abandons the requests of partitions that are another's now.
    func revoke(_ gone: Set<Int32>) {
        for (tag, flight) in flights where gone.contains(flight.place.partition) {
            apple.abandon(tag: tag)
            flights[tag] = nil
            countFlight(flight.queue, -1)
            if flight.isKeyProbe {
                keyBreakers[flight.queue.lane]?.abandonProbe(now: flight.sentAt)
            }
            if flight.isEndpointProbe {
                lanes[flight.queue]?.breaker.abandonProbe(now: flight.sentAt)
            }
        }
        for queue in lanes.keys {
            lanes[queue]?.forget(partitions: gone)
        }
        busy = busy.filter { !gone.contains($0.partition) }
        touched.removeAll { gone.contains($0.debt.place.partition) }
    }

    // MARK: Transactions

    /// A debt became ready for a queue: it may be sent after the commit.
    func touch(_ debt: ReadyDebt, in queue: SendQueue) {
        touched.append((queue, debt))
        open(queue)
    }

    /// Hands what is committed now to its lane: the due table is not read for it.
    ///
    /// - Parameters:
    ///   - settled: accounts whose answers are committed now.
    ///   - isStaged: whether something is put for an account that is not known to be committed.
    func committed(settled: [AccountPlace], isStaged: (AccountPlace) -> Bool) {
        busy.subtract(settled)
        var staged: [(queue: SendQueue, debt: ReadyDebt)] = []
        for (queue, debt) in touched {
            if isStaged(debt.place) {
                staged.append((queue, debt))
            } else {
                lanes[queue]?.add(debt, countMax: limits.readyCountMax)
            }
        }
        touched = staged
    }

    func aborted() {
        touched = []
        refillAll()
    }

    /// The account may be sent for again, though nothing of it changed.
    func release(_ place: AccountPlace) {
        busy.remove(place)
        refillAll()
    }

    private func refillAll() {
        for queue in queues {
            lanes[queue]?.needsRefill = true
        }
    }

    // MARK: Lanes

    func open(_ queue: SendQueue) {
        guard lanes[queue] == nil else {
            return
        }
        // An app that is no longer configured has no key: its lane stops at its first turn.
        var limiter = RateLimiter(
            rate: requestsPerSecond(of: queue),
            keeping: queue.endpoint == .accountTokens ? .hour : .second
        )
        limiter.share(partitions, of: partitionCount ?? 0)
        lanes[queue] = SendLane(limiter: limiter)
        queues.append(queue)
    }

    /// Rates and keys are as configured now, and every lane uses them for its next request.
    func reload() {
        for queue in queues {
            lanes[queue]?.limiter.rate = requestsPerSecond(of: queue)
            lanes[queue]?.breaker.probeSoon()
            keyBreakers[queue.lane]?.probeSoon()
        }
    }

    /// Sends nothing before `end`, for the partitions may be another's by now; those that are
    /// assigned after that are not.
    func stoodStill(until end: Timestamp) {
        standstillEnd = end
    }

    func clockWasSetBack(by setBack: Milliseconds, now: Timestamp) {
        standstillEnd = standstillEnd + -setBack
        flights = flights.mapValues { flight in
            var flight = flight
            flight.sentAt = flight.sentAt + -setBack
            return flight
        }
        for queue in queues {
            lanes[queue]?.clockWasSetBack(by: setBack)
        }
        for lane in keyBreakers.keys {
            keyBreakers[lane]?.clockWasSetBack(by: setBack)
        }
        for queue in spells.keys {
            spells[queue]?.clockWasSetBack(by: setBack)
        }
        nextOrderLook = now
    }

    /// Of all replicas together.
    func requestsPerSecond(of queue: SendQueue) -> Double {
        switch queue.endpoint {
        case .reports: rate(queue.lane) ?? 1
        case .accountTokens: AccountTokenIntake.requestsPerSecond(queue.lane.environment)
        }
    }

    // MARK: Sending

    /// When something here wants a tick; nil where only an answer or a commit does.
    func nextSend(now: Timestamp) -> Timestamp? {
        let turn = rounds.turn(now: now)
        var times = queues.compactMap { nextSend(of: $0, now: now).map { max($0, turn) } }
        if orderReader?.isWhole == false {
            times.append(now + limits.orderInterval)
        }
        if orderReader != nil, lanes.values.contains(where: \.isWaiting) {
            // An order may open what is closed, and nothing wakes the loop for it.
            times.append(now + limits.orderWait)
        }
        times += [apple.nextAnswer].compactMap { $0 }
        return times.min()
    }

    /// When a queue may send next; nil where nothing but an answer or an order lets it go on.
    private func nextSend(of queue: SendQueue, now: Timestamp) -> Timestamp? {
        let flightCount = hostFlightCounts[queue.lane.environment] ?? 0
        guard flightCount < limits.hostFlightCountMax, busy.count < limits.unsettledCountMax,
            maySend(queue.lane)
        else {
            return nil
        }
        return lanes[queue]?.nextSend(
            now: now,
            flightCountMax: limits.flightCountMax,
            keyBreaker: keyBreakers[queue.lane] ?? CircuitBreaker()
        )
        .map { max($0, standstillEnd) }
    }

    /// Sends from every queue what its rate limiter allows, where it is time for a round.
    ///
    /// `oldestDue` is when the first fell due that is no committed report yet.
    func send(
        from table: DueTable,
        oldestDue: Timestamp? = nil,
        now: Timestamp
    ) throws(StoreFault) {
        guard rounds.turn(now: now) <= now else {
            return
        }
        let before = nextTag
        var isCrowded = false
        try lookUpNext(table, now: now)
        firstTurn = firstTurn + 1 < queues.count ? firstTurn + 1 : 0
        for index in queues.indices {
            let queue = queues[(firstTurn + index) % queues.count]
            while let debt = try nextDebt(queue, table, now: now) {
                guard lanes[queue]?.limiter.take(now: now) == true else {
                    lanes[queue]?.putBack(debt)
                    break
                }
                if let debtor = try table.debtor(at: debt.place, cache), debtor.queue == queue,
                    let (purpose, action) = nextRequest(of: debtor)
                {
                    start(purpose, action, of: debtor, at: debt.place, queue, now: now)
                }
            }
            if isWhole, lanes[queue]?.isWaiting == false {
                lanes[queue]?.clearedAt = min(now, oldestDue ?? now)
            }
            isCrowded = isCrowded || self.isCrowded(queue)
        }
        if isCrowded {
            rounds.isCrowded(now: now)
        } else if nextTag != before {
            rounds.started(now: now)
        }
    }

    /// Has the accounts looked up together that the queues may send for next.
    private func lookUpNext(_ table: DueTable, now: Timestamp) throws(StoreFault) {
        var places: [AccountPlace] = []
        for queue in queues {
            guard let turn = nextSend(of: queue, now: now), turn <= now, let lane = lanes[queue]
            else {
                continue
            }
            places += lane.ready.suffix(limits.flightCountMax - lane.flightCount).lazy.map(\.place)
                .filter {
                    !self.cache.has($0) && !self.busy.contains($0) && !table.isStaged($0)
                }
        }
        if places.count > 1 {
            try cache.load(places, table.state)
        }
    }

    /// Whether a queue has more to send, and as much under way as may be.
    private func isCrowded(_ queue: SendQueue) -> Bool {
        let flightCount = hostFlightCounts[queue.lane.environment] ?? 0
        guard let lane = lanes[queue], lane.isWaiting else {
            return false
        }
        return flightCount >= limits.hostFlightCountMax || lane.flightCount >= limits.flightCountMax
    }

    /// The most urgent debt of a queue that may send now.
    private func nextDebt(
        _ queue: SendQueue,
        _ table: DueTable,
        now: Timestamp
    ) throws(StoreFault) -> ReadyDebt? {
        while let turn = nextSend(of: queue, now: now), turn <= now {
            if lanes[queue]?.needsRefill == true {
                let (debts, isWhole) = try table.ready(
                    queue,
                    in: partitions,
                    except: busy,
                    countMax: limits.readyCountMax
                )
                lanes[queue]?.refill(debts, isWhole: isWhole)
            }
            guard let debt = lanes[queue]?.popMostUrgent() else {
                return nil
            }
            // What is in flight or staged comes back after its commit.
            if !busy.contains(debt.place), !table.isStaged(debt.place) {
                return debt
            }
        }
        return nil
    }

    private func start(
        _ purpose: Flight.Purpose,
        _ action: AppleRequest.Action,
        of debtor: Debtor,
        at place: AccountPlace,
        _ queue: SendQueue,
        now: Timestamp
    ) {
        let isKeyProbe = keyBreakers[queue.lane]?.isProbe == true
        let isEndpointProbe = lanes[queue]?.breaker.isProbe == true
        if isKeyProbe || isEndpointProbe {
            apple.reloadKey(appAppleID: queue.lane.appAppleID)
        }
        keyBreakers[queue.lane, default: CircuitBreaker()].started(now: now)
        lanes[queue]?.breaker.started(now: now)
        countFlight(queue, 1)
        lanes[queue]?.startedCount += 1
        busy.insert(place)
        let tag = nextTag
        nextTag += 1
        flights[tag] = Flight(
            place: place,
            queue: queue,
            purpose: purpose,
            method: action.method,
            sentAt: now,
            isKeyProbe: isKeyProbe,
            isEndpointProbe: isEndpointProbe
        )
        apple.submit(
            AppleRequest(tag: tag, lane: queue.lane, action: action, trace: debtor.trace),
            now: now
        )
    }

    /// A request of a queue started (1) or ended (-1).
    func countFlight(_ queue: SendQueue, _ change: Int) {
        lanes[queue]?.flightCount += change
        hostFlightCounts[queue.lane.environment, default: 0] += change
    }
}
