internal import Kafka
internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Finds the token of every sale, compiles its line item, and asks `report` to send it.
///
/// A record that comes in changes the book and nothing else; what is then due is found in the due
/// table of the committed store, decided, and goes out in the transaction that stores the decision.
final class PurchasesStage: TickingStage {
    /// Everything here is bounded; the sales themselves wait in the store.
    struct Limits {
        /// Items of one partition that are decided in one tick.
        var decisionCountMax = 500
        /// Tokens of one partition that get a report in one tick.
        var reportCountMax = 200
        /// Items looked at for one report.
        var candidateCountMax = 400
        /// Line items of one report: Apple publishes no limit (Q14).
        var itemCountMax = 100
        /// Bytes of one report, likewise; the envelope is counted in.
        var reportByteCountMax = 256 << 10
        /// Items that are retracted with the one that they refer to, in one tick.
        var childCountMax = 200
        /// Records of one partition forgotten in one tick.
        var forgottenCountMax = 256
        var forgettingInterval = Milliseconds.seconds(60)
        var measureInterval = Milliseconds.seconds(1)
        var ratesInterval = Milliseconds.seconds(5)

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
        /// Before a report is asked for again that `report` had no room for.
        var again = Milliseconds.minutes(1)

        init() {}
    }

    /// One transaction at most is under way while the next one is put together.
    private static let commitsUnderWay = 2

    /// The envelope of a report around its line items.
    static let envelopeByteCount = 1_024

    let policy: Policy
    let limits: Limits
    let apps: any PurchaseApps
    let rates: any RateSource
    let metrics: PurchasesMetrics
    let log: Log
    /// Full names of the sources, for the origin of a dead letter.
    let sources: [String]
    let group: String

    var state: StagedState?
    var partitions: [Int32] = []
    var sweeps: [Int32: Sweep] = [:]
    /// Partitions in which something was put, since the last commit and since the one before: the
    /// next look at the committed store may miss what is still under way.
    private var changed: Set<Int32> = []
    private var changedBefore: Set<Int32> = []
    /// Items that were decided without a token, and how many more commits they are looked at after: a
    /// token that was taken in and not committed is in no scan of the store, and by the time it is, the
    /// item may not be among those that wait for it.
    private var tokenless: [BookPlace: Int] = [:]
    private var lookingAgain: Set<BookPlace> = []
    private var isLookingAgain = false
    var forgetting = ForgettingClock()
    var heldCount = HeldCount()
    private var nextMeasure = Timestamp(milliseconds: 0)
    private var nextRatesLook = Timestamp(milliseconds: 0)
    private(set) var nextTick: Timestamp?

    /// What the last look at a partition's due table left to do.
    struct Sweep {
        /// The store changed since.
        var isDue = true
        var nextWaiting: Timestamp?
        var nextForgetting: Timestamp?
        /// Sales that wait for a rate are looked at again, from this entry on: at first all of them, as
        /// the file may have changed while nobody had the partition.
        var ratesFrom: [UInt8]? = BookDue.start(.rate)
        /// After so many commits once more: until then the store lacks what was decided by old rates.
        var ratesLooksLeft = 0
    }

    init(
        policy: Policy,
        apps: any PurchaseApps,
        rates: any RateSource,
        topicPrefix: String,
        metrics: Metrics,
        log: Log,
        limits: Limits = Limits()
    ) {
        self.policy = policy
        self.apps = apps
        self.rates = rates
        self.limits = limits
        self.metrics = PurchasesMetrics(metrics)
        self.log = log
        sources = Worker.purchases.sources.map { $0.name(prefix: topicPrefix) }
        group = "\(topicPrefix)\(Worker.purchases.rawValue)"
    }

    let wakeDescriptor: Int32 = -1

    // MARK: Partitions

    func assigned(_ partitions: [Int32], state: StagedState, now: Timestamp) {
        self.state = state
        self.partitions = partitions.sorted()
        for partition in partitions where sweeps[partition] == nil {
            sweeps[partition] = Sweep()
        }
        heldCount.restart()
        nextTick = now
    }

    func revoked(_ partitions: [Int32]) {
        self.partitions.removeAll { partitions.contains($0) }
        for partition in partitions {
            sweeps[partition] = nil
        }
        tokenless = tokenless.filter { !partitions.contains($0.key.partition) }
        lookingAgain = lookingAgain.filter { !partitions.contains($0.partition) }
        changed.subtract(partitions)
        changedBefore.subtract(partitions)
        heldCount.restart()
        if self.partitions.isEmpty {
            state = nil
            nextTick = nil
            metrics.held(heldCount.forgetAll())
        }
    }

    // MARK: Transactions

    func committed(now: Timestamp) {
        for partition in changed.union(changedBefore) {
            sweeps[partition]?.isDue = true
        }
        lookingAgain.formUnion(tokenless.keys)
        tokenless = tokenless.compactMapValues { $0 > 1 ? $0 - 1 : nil }
        for (partition, sweep) in sweeps where sweep.ratesLooksLeft > 0 {
            sweeps[partition]?.ratesLooksLeft -= 1
            sweeps[partition]?.ratesFrom = BookDue.start(.rate)
        }
        (changedBefore, changed) = (changed, [])
        nextTick = now
    }

    func aborted() {
        for partition in sweeps.keys {
            sweeps[partition]?.isDue = true
            sweeps[partition]?.nextForgetting = nil
            // What was woken may have been dropped.
            if sweeps[partition]?.ratesFrom != nil {
                sweeps[partition]?.ratesFrom = BookDue.start(.rate)
            }
        }
        changed = []
        changedBefore = []
        nextTick = Timestamp(milliseconds: 0)
    }

    func noteChanges(_ partitions: Set<Int32>) {
        changed.formUnion(partitions)
    }

    /// An item found no token: those that are under way to the store may fit.
    func noteTokenless(_ place: BookPlace) {
        if !isLookingAgain {
            tokenless[place] = Self.commitsUnderWay
        }
    }

    private func lookAgain(
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        isLookingAgain = true
        defer { isLookingAgain = false }
        for place in lookingAgain.sorted(by: {
            $0.key.bytes.lexicographicallyPrecedes($1.key.bytes)
        }) {
            try decide(place, isWoken: true, &book, into: &plan)
        }
        lookingAgain = []
    }

    // MARK: Ticks

    func tick(into plan: inout BatchPlan) {
        let now = plan.now
        lookAtRates(now: now)
        var book = Book(state: plan.state)
        do throws(StoreFault) {
            for partition in partitions {
                try sweep(partition, &book, into: &plan)
            }
            try lookAgain(&book, into: &plan)
            noteChanges(book.flush())
            try measure(now: now)
        } catch {
            plan.storeFault = error
        }
        nextTick = earliestWork(now: now)
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
            for partition in changed.union(changedBefore) {
                sweeps[partition]?.ratesLooksLeft = Self.commitsUnderWay
            }
        }
    }

    private func measure(now: Timestamp) throws(StoreFault) {
        guard nextMeasure <= now || nextMeasure > now + limits.measureInterval, let state else {
            return
        }
        nextMeasure = now + limits.measureInterval
        if let held = try heldCount.count(in: partitions, state) {
            metrics.held(held)
        }
    }

    private func earliestWork(now: Timestamp) -> Timestamp? {
        guard !partitions.isEmpty else {
            return nil
        }
        var next = min(nextMeasure, nextRatesLook)
        for sweep in sweeps.values {
            if sweep.isDue || sweep.ratesFrom != nil {
                return now
            }
            next = min(next, sweep.nextWaiting ?? next, sweep.nextForgetting ?? next)
        }
        return next
    }
}

/// The apps that sales may be of.
protocol PurchaseApps: AnyObject {
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
