internal import Kafka
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Finds the token of every sale, compiles its line item, and asks `report` to send it.
///
/// A record that comes in changes the book; a sale finds its token at once. What is then due, for a
/// time that has come or for another record that changed, is found in the due table of the committed
/// store, decided, and goes out in the transaction that stores the decision.
final class PurchasesStage: TickingStage {
    /// Everything here is bounded; the sales themselves wait in the store.
    struct Limits {
        /// Items looked at in one tick for tokens of one partition that have a queue.
        var queuedCountMax = 10_000
        /// Items of one partition that are decided in one tick.
        var decisionCountMax = 500
        /// Tokens of one partition that get a report in one tick.
        var reportCountMax = 200
        /// The same of all partitions, where the queue grew since the last tick.
        var readyCountMax = 2_000
        /// Items looked at for one report.
        var candidateCountMax = 400
        /// Line items of one report: Apple publishes no limit (Q14).
        var itemCountMax = 100
        /// Bytes of one report, likewise; the envelope is counted in.
        var reportByteCountMax = 256 << 10
        /// Items that refer to one that is to be retracted, in one read of the store.
        var childCountMax = 200
        /// Bytes for the next transaction from which on a tick makes no more reports, and a batch
        /// from twice as many; from half of them on a tick looks for nothing that is due.
        var tickByteCountMax = 4 << 20
        /// Records of one partition forgotten in one tick.
        var forgottenCountMax = 256
        var forgettingInterval = Milliseconds.seconds(60)
        var measureInterval = Milliseconds.seconds(1)
        var ratesInterval = Milliseconds.seconds(5)
        /// Between two looks for reports whose answer does not come.
        var answersInterval = Milliseconds.minutes(10)

        init() {}
    }

    struct Policy {
        /// How much older than the sale a token without expiry may be.
        var tokenWindow = Milliseconds.days(7)
        /// How long a sale waits for a token.
        var tokenWait = Milliseconds.hours(24)
        /// So long a token that comes later reopens what was not owed.
        var reopening = Milliseconds.days(30)
        /// So long an item waits for one that it refers to and that nobody has sent.
        var referenceWait = Milliseconds.days(30)
        /// After that time an item whose buy is not settled looks again so often.
        var referenceLook = Milliseconds.days(1)
        /// Before a report is asked for again that `report` had no room for.
        var again = Milliseconds.minutes(1)
        /// After that time without an answer, and after each further one, a report is asked for again.
        ///
        /// Longer than an ordinary outage of Apple's: what is under way meanwhile is a record more each time.
        var answerWait = Milliseconds.days(2)

        init() {}
    }

    /// One transaction at most is under way while the next one is put together.
    static let commitsUnderWay = 2

    /// The envelope of a report around its line items.
    static let envelopeByteCount = 1_024

    let policy: Policy
    let limits: Limits
    let apps: any PurchaseApps
    let rates: any RateSource
    let metrics: PurchasesMetrics
    let log: Log
    let deadLetters: OwnDeadLetters
    /// Of each source; nil in a test that has sales wherever it likes.
    let partitionCount: Int?

    var state: StagedState?
    var partitions: [Int32] = []
    var sweeps: [Int32: Sweep] = [:]
    let recent = RecentChanges()
    let memory = BookMemory()
    let waiting = WaitingGroups()
    /// Tokens that the next tick makes a report for; where that is lost the due table names them.
    var ready: Set<BookPlace> = []
    /// The first of them that the last transaction had no room for, whose turn it is.
    var readyFrom: BookPlace?
    /// The same after the next commit: the store lacks what their items need to know.
    var later: Set<BookPlace> = []
    var forgetting = ForgettingClock()
    var heldCount = HeldCount()
    /// Partitions looked through so far: a tick begins where the one before it had no more room.
    private var sweepCount = 0
    private var nextMeasure = Timestamp(milliseconds: 0)
    private var nextRatesLook = Timestamp(milliseconds: 0)
    var nextTick: Timestamp?
    var clock = ClockWatch()

    /// What the last look at a partition's due table left to do.
    struct Sweep {
        /// Everything at first, as nobody knows what the table has; then what was put since, and the time
        /// of the next entry.
        var due = Sweep.everything
        /// Tokens with a queue are looked for from this entry on: nobody knows them at first.
        var queuesFrom: [UInt8]? = BookDue.start(.queued)
        var nextForgetting: Timestamp?
        /// Sales that wait for a rate are looked at again, from this entry on: at first all of them, as
        /// the file may have changed while nobody had the partition.
        var ratesFrom: [UInt8]? = BookDue.start(.rate)
        /// After so many commits once more: until then the store lacks what was decided by old rates.
        var ratesLooksLeft = 0
        var answers = AnswerLook()
        var setBack: SetBackLook
        let assignedAt: Timestamp

        static let everything = DueNote(
            hasWaking: true,
            time: Timestamp(milliseconds: 0)
        )
    }

    init(
        policy: Policy,
        apps: any PurchaseApps,
        rates: any RateSource,
        topicPrefix: String,
        partitionCount: Int? = nil,
        metrics: Metrics,
        log: Log,
        limits: Limits = Limits()
    ) {
        self.policy = policy
        self.apps = apps
        self.rates = rates
        self.limits = limits
        self.partitionCount = partitionCount
        self.metrics = PurchasesMetrics(metrics)
        self.log = log
        deadLetters = OwnDeadLetters(of: .purchases, topicPrefix: topicPrefix)
        self.metrics.expect(apps: apps.appAppleIDs)
    }

    let wakeDescriptor: Int32 = -1

    // MARK: Partitions

    func assigned(_ partitions: [Int32], isWhole: Bool, state: StagedState, now: Timestamp) {
        self.state = state
        self.partitions = partitions.sorted()
        for partition in partitions where sweeps[partition] == nil {
            sweeps[partition] = Sweep(setBack: SetBackLook(assignedAt: now), assignedAt: now)
            heldCount.add(partition)
        }
        nextMeasure = now
        nextTick = now
    }

    func revoked(_ partitions: [Int32]) {
        self.partitions.removeAll { partitions.contains($0) }
        for partition in partitions {
            sweeps[partition] = nil
        }
        ready = ready.filter { !partitions.contains($0.partition) }
        later = later.filter { !partitions.contains($0.partition) }
        // What was put is committed or dropped. Others may put to these partitions now.
        recent.dropAll()
        memory.dropAll()
        waiting.dropAll()
        heldCount.restart()
        if self.partitions.isEmpty {
            state = nil
            nextTick = nil
            metrics.noneHeld(heldCount.forgetAll())
        }
    }

    // MARK: Transactions

    func committed(now: Timestamp) {
        for (partition, note) in recent.committed() {
            sweeps[partition]?.due.merge(note)
        }
        ready.formUnion(later)
        later = []
        for partition in sweeps.keys {
            sweeps[partition]?.setBack.committed()
        }
        for (partition, sweep) in sweeps where sweep.ratesLooksLeft > 0 {
            sweeps[partition]?.ratesLooksLeft -= 1
            sweeps[partition]?.ratesFrom = BookDue.start(.rate)
        }
        nextTick = now
    }

    func aborted() {
        for partition in sweeps.keys {
            sweeps[partition]?.due = Sweep.everything
            sweeps[partition]?.queuesFrom = BookDue.start(.queued)
            sweeps[partition]?.nextForgetting = nil
            // What was asked for again was not.
            sweeps[partition]?.answers.restart()
            // What was woken may have been dropped, also by a look that has come to its end.
            sweeps[partition]?.ratesFrom = BookDue.start(.rate)
            sweeps[partition]?.setBack.aborted()
        }
        recent.dropAll()
        memory.dropAll()
        waiting.dropAll()
        ready = []
        later = []
        nextTick = Timestamp(milliseconds: 0)
    }

    // MARK: Ticks

    func tick(into plan: inout BatchPlan) {
        let now = plan.now
        noticeClock(now: now)
        lookAtRates(now: now)
        defer { metrics.settle(into: &plan) }
        do throws(StoreFault) {
            for _ in partitions.indices where hasRoomToDecide(plan) {
                let partition = partitions[sweepCount % partitions.count]
                sweepCount += 1
                var book = openBook(plan)
                try sweep(partition, &book, into: &plan)
                try close(&book, &plan)
            }
            try reportReady(into: &plan)
            try measure(now: now)
        } catch {
            plan.storeFault = error
        }
        nextTick = earliestWork(plan)
    }

    func openBook(_ plan: BatchPlan) -> Book {
        Book(state: plan.state, recent: recent, memory: memory, waiting: waiting)
    }

    /// Whether a tick, or a batch, may add reports to the next transaction.
    ///
    /// Ticks go on while a commit is under way, or waits to be tried again: what they add until
    /// then must have an end. Batches have twice their room, up to which the loop reads: a sale
    /// that is sent in the transaction that took it is written once.
    func hasRoomToReport(_ plan: BatchPlan, isTick: Bool = true) -> Bool {
        plan.outputs.arena.count < limits.tickByteCountMax * (isTick ? 1 : 2)
    }

    /// The same for what is due: the other half is for the reports of what was decided.
    private func hasRoomToDecide(_ plan: BatchPlan) -> Bool {
        plan.outputs.arena.count < limits.tickByteCountMax / 2
    }

    private func lookAtRates(now: Timestamp) {
        guard nextRatesLook <= now || nextRatesLook > now + limits.ratesInterval else {
            return
        }
        nextRatesLook = now + limits.ratesInterval
        if rates.refresh() {
            for partition in sweeps.keys {
                sweeps[partition]?.ratesFrom = BookDue.start(.rate)
            }
            for partition in recent.partitions {
                sweeps[partition]?.ratesLooksLeft = Self.commitsUnderWay
            }
        }
    }

    private func measure(now: Timestamp) throws(StoreFault) {
        guard nextMeasure <= now || nextMeasure > now + limits.measureInterval, let state else {
            return
        }
        nextMeasure = now + limits.measureInterval
        measureAnswers(now: now)
        if let held = try heldCount.count(in: partitions, state) {
            metrics.held(held)
        }
    }

    private func earliestWork(_ plan: BatchPlan) -> Timestamp? {
        guard !partitions.isEmpty else {
            return nil
        }
        let now = plan.now
        guard ready.isEmpty || !hasRoomToReport(plan) else {
            return now
        }
        var next = min(nextMeasure, nextRatesLook)
        guard hasRoomToDecide(plan) else {
            // The commit, or the next transaction, makes room.
            return next
        }
        for sweep in sweeps.values {
            if sweep.queuesFrom != nil || sweep.due.hasWaking || sweep.due.forgettable != nil
                || sweep.ratesFrom != nil || sweep.answers.from != nil
                || sweep.setBack.from != nil
            {
                return now
            }
            next = min(next, sweep.due.time ?? next, sweep.nextForgetting ?? next)
            next = min(next, sweep.answers.next)
        }
        return next
    }
}

/// The apps that sales may be of.
protocol PurchaseApps: AnyObject {
    var appAppleIDs: [Int64] { get }
    /// The app of an event: nil where neither name is one of ours, or they name two apps.
    func appAppleID(_ appAppleID: Int64?, bundleID: String?) -> Int64?
    func bundleID(of appAppleID: Int64) -> String?
}

/// Where exchange rates come from.
protocol RateSource: AnyObject {
    var rates: ExchangeRates { get }
    /// Reads them again where they may have changed.
    ///
    /// - Returns: whether they did.
    func refresh() -> Bool
}
