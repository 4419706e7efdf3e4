import AppStoreAPI
import Foundation
import Kafka
import Simulation
import StateStore
import Telemetry
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import decode
@testable import dedupe
@testable import report

/// A year of tokens through decode, dedupe and report, in a time that the simulation turns.
///
/// 100 million tokens a year stand behind it: `tokenCount` is the part of them that is played, and
/// Apple's limit of each app is the same part of its own, so debts and waits are those of the whole.
final class YearOfTokens {
    /// A year of the whole, and what Apple takes of each app, per second.
    private static let tokensOfYear = 100_000_000.0
    private static let limitOfApp = 5.0
    static let start = Timestamp(milliseconds: 1_767_225_600_000)
    private static let dayCount: Int64 = 365
    /// App id, bundle id, and its share of the tokens.
    private static let apps: [(id: Int64, bundleID: String, share: Double)] = [
        (1, "com.example.games", 0.5), (2, "com.example.music", 0.3), (3, "com.example.books", 0.2),
    ]
    private static let prefix = "tollway."
    private static let turnCountMax = 10_000
    /// Tokens come, and what is shown is measured, so often.
    private static let stretch = Milliseconds.minutes(5)

    /// What happened in a month of the clock's 30 days and 10 hours.
    struct Month {
        var tokenCount = 0
        var reportCount = 0
        var duplicateCount = 0
        var failureCount = 0
        /// The most whenever it was measured: records that wait for a worker, and tokens that came
        /// and were not reported yet, in the hold and after.
        var waitingMax: [Worker: Int] = [:]
        var debtMax = 0
        /// Least time between a report and its deadline, in seconds; nil without a report.
        var slackMin: Int64?
        var lateCount = 0
    }

    /// What is counted of a ``ReportOutcome``.
    private struct Outcome {
        var status: String?
        var outcome: String?
        var deadline: Timestamp?
        var settledAt: Timestamp?

        /// Nil where the value is no JSON.
        init?(_ value: Span<UInt8>) {
            var read = Self()
            do throws(WireFault) {
                try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                    switch key {
                    case "status": try scanner.fill(&read.status)
                    case "outcome": try scanner.fill(&read.outcome)
                    case "deadline": try scanner.fill(&read.deadline)
                    case "settledAt": try scanner.fill(&read.settledAt)
                    default: try scanner.skip()
                    }
                }
            } catch {
                return nil
            }
            self = read
        }

        private init() {}
    }

    private struct Member {
        var worker: Worker
        var loop: WorkerLoop
    }

    private(set) var now = YearOfTokens.start
    private(set) var months = Array(repeating: Month(), count: 13)
    private(set) var issuedCount = 0
    private(set) var outcomes: [String: Int] = [:]
    let apple: YearOfApple
    private let scale: Double
    private let folder: String
    private var generator: TokenDomain.SeededGenerator
    private var members: [Member] = []
    /// Report, which acts by itself.
    private var ticking: (any TickingStage)?
    private var cluster: QueueCluster?
    /// Where the tokens come in.
    private var received: [QueueCluster.Partition] = []
    private var arrivals = 0.0
    private var periods: [(app: Int, customer: Int, created: Timestamp)] = []

    init(tokenCount: Int, seed: UInt64, folder: String) throws {
        scale = Double(tokenCount) / Self.tokensOfYear
        self.folder = folder
        generator = TokenDomain.SeededGenerator(seed: seed)
        apple = YearOfApple(limit: Self.limitOfApp * scale, seed: seed)
        let outcomes = Topic.reportsOutcomes.name(prefix: Self.prefix)
        let cluster = QueueCluster(
            partitionCount: 3,
            observing: { $0 == outcomes || $0.contains("dlq.") },
            { [unowned self] topic, value in observe(value, isOutcome: topic == outcomes) }
        )
        self.cluster = cluster
        received = cluster.partitions(of: Topic.tokensReceived.name(prefix: Self.prefix))
        for worker in [Worker.decode, .dedupe, .report] {
            try start(worker, cluster)
        }
    }

    private func start(_ worker: Worker, _ cluster: QueueCluster) throws {
        let log = QueueLog(
            cluster: cluster,
            sources: worker.sources.map { $0.name(prefix: Self.prefix) },
            targets: WorkerLoop.targets(of: worker).map { $0.name(prefix: Self.prefix) },
            clock: { [unowned self] in now }
        )
        let stage = makeStage(worker, log)
        let directory = try StateDirectory(
            root: folder,
            clusterID: "year",
            topicPrefix: Self.prefix,
            worker: worker.rawValue,
            // As `WorkerRun` opens them, but for more blocks in memory.
            shared: StoreShared(
                cacheByteCount: 64 << 20,
                writeBufferByteCount: WorkerSizes(of: worker).writeBufferByteCount,
                groups: (stage as? any StatefulStage)?.storeGroups ?? StoreGroups()
            ),
            clockMilliseconds: { [unowned self] in now.milliseconds }
        )
        let provider: any StoreProvider =
            worker == .report
            ? YearStoreProvider(directory, clock: { [unowned self] in now }) : directory
        let loop = WorkerLoop(
            worker: worker,
            group: Self.prefix + worker.rawValue,
            log: log,
            stage: stage,
            provider: worker.changelog == nil ? nil : provider,
            telemetry: SilentTelemetry(),
            clock: { [unowned self] in now }
        )
        members.append(Member(worker: worker, loop: loop))
        ticking = ticking ?? stage as? any TickingStage
    }

    private func makeStage(_ worker: Worker, _ log: QueueLog) -> any Stage {
        let rate = Self.limitOfApp * scale
        switch worker {
        case .dedupe: return DedupeStage()
        case .report:
            // What is done once a second in life would be most of what the year takes to play.
            var limits = ReportLimits()
            limits.measureInterval = .hours(6)
            // The clock leaps over what nothing happens in; no process stood still.
            limits.standstillMax = .days(100_000)
            limits.settleInterval = .seconds(10)
            // Of the tokens that come at once, and fall due at once.
            limits.readyCountMax = 1_000
            return ReportStage(
                policy: ReportPolicy(requestIdentifier: ReportPolicy.identifier),
                apple: apple,
                recordLog: log,
                topicPrefix: Self.prefix,
                rate: { _ in rate },
                metrics: Metrics(),
                log: Log(worker: "report", format: .json, write: { _ in }),
                seed: 1,
                limits: limits
            )
        default:
            let apps = Self.apps.map {
                AppsFile.App(appAppleID: $0.id, bundleID: $0.bundleID, reportsPerSecond: 5)
            }
            return DecodeStage(apps: AppsFile(apps: apps))
        }
    }

    // MARK: Time

    /// Plays the year, and eleven days more in which nothing comes.
    ///
    /// - Parameter isStopped: whether a worker is not running at a time.
    /// - Throws: what ends a worker, which nothing here should.
    func play(isStopped: (Worker, Timestamp) -> Bool) throws {
        let end = Self.start + .days(Self.dayCount)
        // Not shorter than an app's turn to send: a part of the year has nothing more often.
        let turn = Milliseconds(Int64(1_000 / (Self.limitOfApp * scale)))
        let stretch = max(turn, Self.stretch)
        // The year's last tokens have eleven days until their deadlines.
        while now < end + .days(11) {
            if now < end {
                feed(for: stretch)
            }
            try work(Worker.allCases, isStopped: isStopped)
            measure()
            let next = now + stretch
            // As its loop does: when it wants to be called.
            while let tick = ticking?.nextTick, tick < next, !isStopped(.report, now) {
                now = max(tick, now + Milliseconds(1))
                try work([.report], isStopped: isStopped)
            }
            now = next
        }
    }

    private func work(_ workers: [Worker], isStopped: (Worker, Timestamp) -> Bool) throws {
        for _ in 0..<Self.turnCountMax {
            var isBusy = false
            for member in members
            where workers.contains(member.worker) && !isStopped(member.worker, now) {
                isBusy = try member.loop.step(waitMilliseconds: 0) || isBusy
            }
            if !isBusy {
                return
            }
        }
        throw LogFault.unusable(message: "never at rest at \(now)")
    }

    // MARK: What comes

    /// Most come in the evening, a third more at the weekend, five times as many from the 20th to the
    /// 30th of November.
    private func feed(for span: Milliseconds) {
        let day = (now - Self.start).count / 86_400_000
        let hour = Double((now - Self.start).count % 86_400_000) / 3_600_000
        let ofDay = [0.4, 0.3, 0.6, 1.0, 1.1, 1.3, 1.9, 1.4][Int(hour / 3)]
        let ofWeek = day % 7 < 2 ? 1.3 : 0.9
        let isSale = (323..<333).contains(day)
        let perSecond = Self.tokensOfYear / Double(Self.dayCount * 86_400) * scale / 1.1
        arrivals += perSecond * ofDay * ofWeek * (isSale ? 5 : 1) * Double(span.count) / 1_000
        var tokens = OutputBatch()
        while arrivals >= 1 {
            arrivals -= 1
            issue(to: &tokens)
        }
        cluster?.append(tokens, to: [received], now: now)
    }

    private func issue(to tokens: inout OutputBatch) {
        issuedCount += 1
        var draw = Double.random(in: 0..<1, using: &generator)
        var app = 0
        while app < 2, draw >= Self.apps[app].share {
            draw -= Self.apps[app].share
            app += 1
        }
        var (customer, created) = (issuedCount, now)
        let hasPeriod = issuedCount.isMultiple(of: 2)
        if issuedCount.isMultiple(of: 10),
            let period = periods.randomElement(using: &generator),
            now < period.created + .days(3)
        {
            (app, customer, created) = period
        } else if hasPeriod {
            // The latest periods: a second token comes within three days, if at all.
            let place = issuedCount / 2 % 64
            if periods.count <= place {
                periods.append((app, customer, created))
            } else {
                periods[place] = (app, customer, created)
            }
        }
        var token = JSONWriter()
        token.beginObject()
        token.field("externalPurchaseId", Self.id(issuedCount))
        token.field("appAppleId", Self.apps[app].id)
        token.field("bundleId", Self.apps[app].bundleID)
        token.field("tokenType", hasPeriod ? "SERVICES" : nil)
        token.field("tokenCreationDate", created.milliseconds)
        token.field(
            "tokenExpirationDate",
            hasPeriod ? (created + .days(30)).milliseconds : nil
        )
        token.endObject()
        send(token.bytes, customer: Self.customer(customer), to: &tokens)
        months[monthIndex].tokenCount += 1
    }

    private func send(_ token: [UInt8], customer: CustomerID, to tokens: inout OutputBatch) {
        let key = tokens.place(customer.text.utf8)
        let start = tokens.arena.count
        TokenReceived(
            token: Data(token).base64EncodedString(),
            customer: customer,
            receivedAt: now,
            source: .kafka,
            bundleID: nil,
            requestID: "year"
        ).write(to: &tokens.arena)
        tokens.outputs.append(
            OutputBatch.Output(topic: 0, key: key, value: tokens.placed(from: start))
        )
    }

    private static func digits(_ number: Int, count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: count - text.utf8.count) + text
    }

    private static func id(_ number: Int) -> String {
        "00000000-0000-4000-8000-" + digits(number, count: 12)
    }

    private static func customer(_ number: Int) -> CustomerID {
        CustomerID("c1." + digits(number, count: 42) + "0")
    }

    // MARK: Results

    private var monthIndex: Int {
        Int((now - Self.start).count / (Self.dayCount * 86_400_000 / 12))
    }

    private func measure() {
        guard let cluster else {
            return
        }
        let month = monthIndex
        for member in members {
            let count = member.worker.sources.reduce(0) {
                $0 + cluster.waitingCount(in: $1.name(prefix: Self.prefix))
            }
            months[month].waitingMax[member.worker] =
                max(count, months[month].waitingMax[member.worker] ?? 0)
        }
        months[month].debtMax = max(months[month].debtMax, issuedCount - apple.acceptedCount)
        months[month].failureCount += apple.takeFailureCount()
    }

    /// Counts a dead letter or an outcome.
    private func observe(_ value: Span<UInt8>, isOutcome: Bool) {
        guard isOutcome else {
            outcomes["dead letter", default: 0] += 1
            return
        }
        guard let outcome = Outcome(value), let deadline = outcome.deadline,
            let settledAt = outcome.settledAt
        else {
            outcomes["unreadable", default: 0] += 1
            return
        }
        outcomes["\(outcome.status ?? "") \(outcome.outcome ?? "")", default: 0] += 1
        let month = monthIndex
        months[month].reportCount += 1
        let isDuplicate = outcome.status == ReportStatus.duplicateToken.rawValue
        months[month].duplicateCount += isDuplicate ? 1 : 0
        let slack = (deadline - settledAt).count / 1_000
        months[month].slackMin = min(slack, months[month].slackMin ?? slack)
        months[month].lateCount += slack < 0 ? 1 : 0
    }
}
