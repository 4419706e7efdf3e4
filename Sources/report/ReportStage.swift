internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Works out what is owed to Apple, and reports it.
///
/// Its parts: the ``Absorber`` takes records into accounts and does nothing else; a debt that falls
/// due becomes an intent, stored before its first send; the ``Sender`` sends what the ``DueTable`` of
/// the committed store shows, and only where nothing is staged for the account, so nothing is ever
/// sent that is not durable; an answer of Apple's is settled in a transaction of its own; the
/// ``GuardRunner`` proves that nobody knows a token. This type is the wiring.
final class ReportStage: TickingStage {
    /// What the last look at a partition's due table found.
    struct Sweep {
        /// The store changed since.
        var isDue = true
        /// The lanes of what was ready when the partition came are open.
        var isDiscovered = false
        var nextWaiting: Timestamp?
        /// When the first fell due that was due when the table was last looked at: what follows from it
        /// may not be committed yet.
        var firstDue: Timestamp?
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

    static let forgettingInterval = Milliseconds.hours(1)

    let policy: ReportPolicy
    let limits: ReportLimits
    let log: Log
    let metrics: ReportMetrics
    let inquiry: LogInquiry
    let output: ReportOutput
    let cache = AccountCache()
    let sender: Sender
    let guardRunner: GuardRunner
    var absorber: Absorber
    /// Where keys and rates come from; a test hands both in and has none.
    var apps: AppBook?

    var state: StagedState?
    var partitions: [Int32] = []
    /// Of `distinct`; nil until the log knows it.
    private var partitionCount: Int? { absorber.partitionCount }
    var sweeps: [Int32: Sweep] = [:]
    /// Partitions whose due table has something earlier than it had, since the last commit and since
    /// the one before: the next look at the committed store may miss what is still under way.
    var changed: Set<Int32> = []
    private var changedBefore: Set<Int32> = []
    /// By how much retries of a partition were moved back, since the last commit and since the one before:
    /// an abort drops the moves.
    var movedBack: [Int32: Milliseconds] = [:]
    private var movedBackBefore: [Int32: Milliseconds] = [:]
    var inbox: AnswerInbox
    var forgetting = ForgettingClock()
    var counts = DueCounts()
    var deadlines = FirstDeadlines()
    var nextMeasure = Timestamp(milliseconds: 0)
    /// Looked at with each tick.
    var clock = ClockWatch()
    /// When the last tick since the partitions came was; nil before the first.
    var workedAt: Timestamp?
    private(set) var nextTick: Timestamp?

    init(
        policy: ReportPolicy,
        apple: any AppleClient,
        recordLog: any RecordLog,
        topicPrefix: String,
        partitionCount: Int? = nil,
        rate: @escaping (Lane) -> Double?,
        transactions: AccountTokenIntake = AccountTokenIntake(),
        orders: (any LaneOrderSource)? = nil,
        metrics: Metrics,
        log: Log,
        health: Health? = nil,
        seed: UInt64,
        limits: ReportLimits = ReportLimits()
    ) {
        self.policy = policy
        self.limits = limits
        self.log = log
        self.metrics = ReportMetrics(metrics)
        inquiry = LogInquiry(log: recordLog, prefix: topicPrefix)
        output = ReportOutput(topicPrefix: topicPrefix, metrics: self.metrics, log: log)
        sender = Sender(
            apple: apple,
            rate: rate,
            policy: policy,
            cache: cache,
            orders: orders,
            limits: limits,
            metrics: self.metrics,
            log: log,
            health: health,
            seed: seed
        )
        guardRunner = GuardRunner(inquiry: inquiry, limits: limits)
        absorber = Absorber(
            policy: policy,
            intake: transactions,
            output: output,
            cache: cache,
            metrics: self.metrics,
            log: log,
            partitionCount: partitionCount
        )
        inbox = AnswerInbox(limits: limits)
    }

    var wakeDescriptor: Int32 { sender.apple.wakeDescriptor }

    func restsUntil(now: Timestamp) -> Timestamp { sender.rounds.turn(now: now) }

    // MARK: State

    let derivesFromPrevious = true

    // MARK: Partitions

    func assigned(_ partitions: [Int32], isWhole: Bool, state: StagedState, now: Timestamp) {
        self.state = state
        sender.isWhole = isWhole
        self.partitions = partitions.sorted()
        for partition in partitions where sweeps[partition] == nil {
            sweeps[partition] = Sweep()
        }
        partitionsChanged()
        nextMeasure = now
        nextTick = now
    }

    func revoked(_ partitions: [Int32]) {
        let gone = Set(partitions)
        self.partitions.removeAll { gone.contains($0) }
        for partition in partitions {
            sweeps[partition] = nil
        }
        sender.revoke(gone)
        cache.forget(partitions: gone)
        inbox.forget(partitions: gone)
        partitionsChanged()
        if self.partitions.isEmpty {
            state = nil
            nextTick = nil
            workedAt = nil
            measureNothing()
        }
    }

    private func partitionsChanged() {
        // A token that was proven unknown was so for the partitions assigned then.
        guardRunner.end()
        counts.restart()
        deadlines.restart()
        sender.share(partitions, of: partitionCount)
    }

    /// Asks how many partitions there are until the log answers: the replica's share depends on it.
    private func learnPartitionCount() {
        guard partitionCount == nil, !partitions.isEmpty else {
            return
        }
        do throws(LogFault) {
            if let ends = try inquiry.endOffsets(of: .tokensDistinct) {
                absorber.partitionCount = ends.count
                sender.share(partitions, of: partitionCount)
            }
        } catch {
            // The loop gets the same error and handles it; the question is asked again.
        }
    }

    // MARK: Transactions

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        if let milliseconds = batch.oldestTimestampMilliseconds {
            forgetting.heard(recordTime: Timestamp(milliseconds: milliseconds))
        }
        touch(absorber.absorb(batch, into: &plan))
    }

    func committed(now: Timestamp) {
        for partition in changed.union(changedBefore) {
            sweeps[partition]?.isDue = true
        }
        (changedBefore, changed) = (changed, [])
        (movedBackBefore, movedBack) = (movedBack, [:])
        for partition in sweeps.keys {
            sweeps[partition]?.isServed = false
        }
        sender.committed(settled: inbox.committed(except: isStaged), isStaged: isStaged)
        nextTick = now
    }

    func aborted() {
        inbox.aborted()
        cache.aborted()
        for partition in sweeps.keys {
            sweeps[partition]?.isDue = true
            sweeps[partition]?.isServed = false
        }
        for (partition, setBack) in movedBack.merging(movedBackBefore, uniquingKeysWith: max) {
            let left = sweeps[partition]?.retries?.setBack ?? setBack
            sweeps[partition]?.retries = RetrySweep(setBack: max(setBack, left))
        }
        (movedBackBefore, movedBack) = ([:], [:])
        sender.aborted()
        nextTick = Timestamp(milliseconds: 0)
    }

    private func isStaged(_ place: AccountPlace) -> Bool {
        state.map { DueTable(state: $0).isStaged(place) } ?? false
    }

    // MARK: Ticks

    func tick(into plan: inout BatchPlan) {
        let now = plan.now
        let table = DueTable(state: plan.state)
        do throws(StoreFault) {
            try noticeClock(into: &plan)
            sender.followOrders(now: now)
            learnPartitionCount()
            inbox.add(sender.collect(now: now))
            try settleAnswers(table, into: &plan)
            try sweepDueTables(table, into: &plan)
            try runGuard(table, into: &plan)
            try sender.send(
                from: table,
                oldestDue: sweeps.values.compactMap(\.firstDue).min(),
                now: now
            )
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
            if let queue = debtor.queue, case .ready(_, let deadline) = debtor.attention {
                sender.touch(ReadyDebt(place: place, deadline: deadline), in: queue)
            }
        }
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
        for sweep in sweeps.values {
            if sweep.isDue || sweep.retries?.resumeAt != nil {
                return now
            }
            times += [sweep.nextWaiting].compactMap { $0 }
            if !guardRunner.isRunning {
                times += [sweep.nextGuarded].compactMap { $0 }
            }
        }
        if guardRunner.isRunning {
            times.append(guardRunner.nextInquiry)
        }
        if partitionCount == nil {
            times.append(now + limits.inquiryInterval)
        }
        let nextTaking = inbox.nextTaking(now: now, isMoreComing: sender.isExpectingAnswers)
        times += [nextTaking, sender.nextSend(now: now)].compactMap { $0 }
        return times.min()
    }
}
