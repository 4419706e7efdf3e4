import AppStoreAPI
import AppleSimulator
import Crypto
import HTTPServer
import Kafka
import Simulation
import StateStore
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import decode
@testable import dedupe
@testable import ingest
@testable import notifications
@testable import purchases
@testable import report

/// The workers of tokens and sales, one to two instances each, in one thread and from one seed.
final class SimulatedPipeline {
    static let prefix = "tollway."
    private static let partitionCount = 3
    static let workers: [Worker] = [.decode, .dedupe, .notifications, .report, .purchases]
    /// Turns without anything done before the clock is moved on to the next thing due.
    private static let quietTurnCount = 3

    private final class Instance {
        let log: MemoryLog
        let loop: WorkerLoop
        let stage: any Stage

        init(log: MemoryLog, loop: WorkerLoop, stage: any Stage) {
            self.log = log
            self.loop = loop
            self.stage = stage
        }
    }

    private struct Place: Hashable {
        var worker: Worker
        var number: Int
    }

    let cluster: MemoryCluster
    let apple: SimulatedApple
    let ratesFile = SimulatedRates.File()
    let purchasesPolicy: PurchasesStage.Policy
    private var generator: TokenDomain.SeededGenerator
    private var inputs: SimulatedInputs
    private(set) var shop: SimulatedShop
    private var door: Door
    private let roots: TrustedRoots
    private(set) var now = Timestamp(milliseconds: 1_800_000_000_000)
    private var instances: [Place: Instance] = [:]
    private var disks: [Place: MemoryDisk] = [:]
    private(set) var owed: [String: Set<String>] = [:]
    /// Tokens that Apple never issued.
    private(set) var forged: Set<String> = []
    /// Of all workers but `purchases`.
    private(set) var deadLetterGoal = 0
    private var startCount: UInt64 = 0
    /// Requests at the door: every third has a `traceparent`, every third a bad one.
    var requestCount: UInt8 = 0

    /// How long sales wait, in a pipeline that lives for an hour.
    private static var hastyPolicy: PurchasesStage.Policy {
        var policy = PurchasesStage.Policy()
        policy.tokenWait = .seconds(15)
        policy.again = .seconds(5)
        return policy
    }

    init(seed: UInt64, purchasesPolicy: PurchasesStage.Policy? = nil) throws {
        self.purchasesPolicy = purchasesPolicy ?? Self.hastyPolicy
        cluster = MemoryCluster(seed: seed)
        apple = SimulatedApple(seed: seed ^ 0xa991e, bundleIDs: SimulatedInputs.apps)
        generator = TokenDomain.SeededGenerator(seed: seed ^ 0x57a6e)
        inputs = SimulatedInputs(seed: seed ^ 0x1259)
        shop = SimulatedShop(seed: seed ^ 0x5409, now: now)
        apple.answer = SimulatedShop.refusal
        roots = try TrustedRoots(pem: apple.world.rootPEM)
        door = Door(
            keys: nil,
            pseudonyms: nil,
            notifications: NotificationGate(
                roots: roots,
                sources: nil,
                now: now.milliseconds
            )
        )
        for topic in Topic.all {
            cluster.createTopic(
                topic.name(prefix: Self.prefix),
                partitionCount: Self.partitionCount
            )
        }
    }

    // MARK: Workers

    private func start(_ place: Place) throws {
        startCount += 1
        let worker = place.worker
        let disk = disks[place] ?? MemoryDisk()
        disks[place] = disk
        let log = MemoryLog(
            cluster: cluster,
            group: worker.group(prefix: Self.prefix),
            transactionalID: "\(worker.rawValue)-\(place.number)",
            sources: worker.sources.map { $0.name(prefix: Self.prefix) },
            targets: WorkerLoop.targets(of: worker).map { $0.name(prefix: Self.prefix) },
            clock: { [unowned self] in now.milliseconds }
        )
        let stage = try makeStage(worker, log: log)
        instances[place] = Instance(
            log: log,
            loop: WorkerLoop(
                worker: worker,
                group: log.group,
                log: log,
                stage: stage,
                provider: worker.changelog == nil ? nil : disk,
                telemetry: SilentTelemetry(),
                clock: { [unowned self] in now }
            ),
            stage: stage
        )
    }

    private func makeStage(_ worker: Worker, log: MemoryLog) throws -> any Stage {
        let apps = AppsFile(
            apps: SimulatedInputs.apps.map {
                AppsFile.App(appAppleID: $0.key, bundleID: $0.value, reportsPerSecond: 50)
            }
        )
        switch worker {
        case .decode: return DecodeStage(apps: apps)
        case .dedupe: return DedupeStage()
        case .notifications:
            return try NotificationsStage(load: { [roots] () throws(ConfigurationFault) in
                TrustFiles(apps: apps, roots: roots)
            })
        case .report:
            var limits = ReportLimits()
            // The clock leaps over what nothing happens in; no process stood still.
            limits.standstillMax = .days(100_000)
            return ReportStage(
                policy: ReportPolicy(
                    hold: .seconds(20),
                    unrecognizedGrace: .seconds(30),
                    requestIdentifier: ReportPolicy.identifier
                ),
                apple: SimulatedAppleClient(apple: apple, number: Int(startCount)),
                recordLog: log,
                topicPrefix: Self.prefix,
                rate: { _ in 50 },
                metrics: Metrics(),
                log: Log(worker: "report", format: .json, write: { _ in }),
                seed: startCount,
                limits: limits
            )
        case .ingest: preconditionFailure("the door is no stage")
        case .purchases: return makePurchases(policy: purchasesPolicy)
        }
    }

    private func crash(_ place: Place) {
        instances[place]?.log.crash()
        instances[place]?.log.expireSession()
        instances[place] = nil
    }

    private func step(_ place: Place) throws -> Bool {
        do throws(LogFault) {
            return try turn(place)
        } catch {
            guard case .unavailable = error else {
                throw error
            }
            // The cluster is down: the worker waits, and loses nothing.
            return false
        }
    }

    private func turn(_ place: Place) throws(LogFault) -> Bool {
        do {
            return try instances[place]?.loop.step(waitMilliseconds: 0) ?? false
        } catch let fault as LogFault {
            throw fault
        } catch {
            throw .unusable(message: "\(error)")
        }
    }

    // MARK: Storm

    func storm(stepCount: Int) throws {
        cluster.faults.abortOneIn = 10
        cluster.faults.skippedMarkersOneIn = 8
        cluster.faults.inquiryDelayOneIn = 3
        cluster.faults.outcomeDelayMax = 2
        apple.faultOneIn = 8
        for worker in Self.workers {
            try start(Place(worker: worker, number: 0))
        }
        for _ in 0..<stepCount {
            now = now + Milliseconds(Int64.random(in: 10...600, using: &generator))
            if Int.random(in: 0..<3, using: &generator) == 0 {
                try feed()
            }
            if Bool.random(using: &generator) {
                try feedShop()
            }
            try disturb()
            for place in orderedPlaces where Int.random(in: 0..<4, using: &generator) > 0 {
                _ = try step(place)
            }
        }
    }

    private var orderedPlaces: [Place] {
        instances.keys.sorted { ($0.worker.rawValue, $0.number) < ($1.worker.rawValue, $1.number) }
    }

    private func disturb() throws {
        let worker = Self.workers.randomElement(using: &generator) ?? .decode
        let place = Place(worker: worker, number: Int.random(in: 0...1, using: &generator))
        switch Int.random(in: 0..<40, using: &generator) {
        case 0, 1: crash(place)
        case 2, 3:
            crash(place)
            try start(place)
        case 4: instances[place]?.log.expireSession()
        case 5:
            crash(place)
            disks[place]?.loseEverything()
        case 6: cluster.isDown.toggle()
        case 7 where instances[place] == nil: try start(place)
        default: break
        }
    }

    // MARK: The door

    private func feed() throws {
        try feed(inputs.next(now: now))
    }

    /// A forged token among the real ones of its period, each some time after the one before.
    func feedForgedPeriod(forgedIndex: Int, gaps: [Milliseconds]) throws {
        let period = inputs.forgedPeriod(forgedIndex: forgedIndex, now: now)
        for (input, gap) in zip(period, gaps) {
            try feed(input)
            try rest(until: now + gap)
        }
    }

    private func feed(_ input: SimulatedInput) throws {
        for token in inputs.issued.suffix(3) {
            apple.world.register(token)
        }
        switch input.owed {
        case .report(let id, let status): owed[id] = [status]
        case .promotion(let id): owed[id] = ["NO_LINE_ITEM", "DUPLICATE_TOKEN"]
        case .refusal(let id):
            forged.insert(id)
            deadLetterGoal += 1
        case .deadLetter: deadLetterGoal += 1
        case .nothing: break
        }
        switch input.carrier {
        case .token(let text, let customer):
            try admit(text, customer)
            // Apps retry: the same token may come twice for no reason at all.
            if case .report = input.owed, Int.random(in: 0..<5, using: &generator) == 0 {
                try admit(text, customer)
            }
        case .notice(let token, let forgery):
            let payload = apple.world.signedNotification(
                token,
                subtype: Bool.random(using: &generator) ? .unreported : .reminder,
                now: now.milliseconds,
                forgery: forgery
            )
            let body = "{\"signedPayload\":\"\(payload)\"}"
            do throws(Problem) {
                try post(.notifications, body)
            } catch {
                // The door stores nothing that is forged; who writes the topic directly can.
                guard input.owed == .deadLetter else {
                    throw error
                }
                var value: [UInt8] = []
                NotificationReceived(signedPayload: payload, receivedAt: now).write(to: &value)
                cluster.append(
                    topic: Topic.notificationsReceived.name(prefix: Self.prefix),
                    key: nil,
                    value: value,
                    headers: nextTraceHeaders(),
                    timestampMilliseconds: now.milliseconds
                )
            }
        }
    }

    // MARK: The shop

    private func feedShop() throws {
        if let sent = try shop.next(now: now, reported: reportedItems) {
            try take(sent)
        }
    }

    /// Customers go on where nothing goes wrong and most of their sales are reported: what changes and
    /// takes back sales finds some.
    func sellOn(eventCount: Int) throws {
        for _ in 0..<eventCount {
            try feedShop()
            try rest(until: now + .seconds(1))
        }
    }

    private func reportedItems() throws -> Set<String> {
        try Set(outcomes().filter { $0.outcome == .reported }.map(\.lineItemID))
    }

    private func take(_ sent: SimulatedShop.Sent) throws {
        switch sent {
        case .sale(let event):
            try sell(event)
            // Platforms retry too; a refused sale that is sent again is refused again.
            let isGood = !SimulatedShop.isPoison(event.lineItemID)
            if isGood, event.kind == .buy || event.kind == .refund,
                Int.random(in: 0..<6, using: &generator) == 0
            {
                try sell(event)
            }
        case .token(let token, let customer, let isForged):
            if isForged {
                forged.insert(token.externalPurchaseID)
                deadLetterGoal += 1
            }
            try bring(token, of: customer, isForged: isForged)
        case .bad(let key, let value):
            append(.purchasesReceived, key: key, value: value)
        }
    }

    /// Tokens that come only now: what was not owed for want of them is.
    func feedLateTokens() throws {
        for sent in shop.restOfTokens() {
            try take(sent)
        }
    }

    /// With a customer as the platform writes it to the topic itself; without one by the door.
    func admit(_ text: String, _ customer: CustomerID?) throws {
        guard let customer else {
            return try post(.tokens, "{\"token\":\"\(text)\"}")
        }
        var value: [UInt8] = []
        TokenReceived(
            token: text,
            customer: customer,
            receivedAt: now,
            source: .kafka,
            bundleID: nil,
            requestID: "simulation"
        ).write(to: &value)
        cluster.append(
            topic: Topic.tokensReceived.name(prefix: Self.prefix),
            key: Array(customer.text.utf8),
            value: value,
            headers: nextTraceHeaders(),
            timestampMilliseconds: now.milliseconds
        )
    }

    /// A notification's turn is at once: how the line moves is the loop's, and tested there.
    func post(_ route: Route, _ body: String) throws(Problem) {
        var outputs = OutputBatch()
        let trace = nextTraceHeader()
        _ = try door.admit(
            HTTPRequest(
                id: HTTPRequest.ID(number: 1),
                method: "POST",
                path: route.rawValue,
                query: "",
                body: Array(body.utf8),
                remoteAddress: "127.0.0.1",
                headerBytes: Array("content-type\0application/json\0\(trace)".utf8)
            ),
            isBusy: nil,
            isTurn: route == .notifications,
            now: now.milliseconds,
            receivedAt: now,
            to: &outputs
        )
        for output in outputs.outputs {
            cluster.append(
                topic: Worker.ingest.targets[output.topic].name(prefix: Self.prefix),
                key: output.key.isAbsent ? nil : Array(outputs.arena[output.key.indices]),
                value: Array(outputs.arena[output.value.indices]),
                headers: Array(outputs.arena[output.headers.indices]),
                timestampMilliseconds: now.milliseconds
            )
        }
    }

    // MARK: Calm

    /// No more faults, one instance each; the clock goes on to the next thing due until nothing is.
    func calm() throws {
        cluster.faults = MemoryCluster.Faults()
        cluster.isDown = false
        cluster.repair { _ in true }
        apple.faultOneIn = 0
        ratesFile.write(try SimulatedInputs.rates(around: now))
        try startMissing()
        try rest(until: now + .minutes(30))
    }

    /// One instance of each worker runs.
    func startMissing() throws {
        for worker in Self.workers where instances[Place(worker: worker, number: 0)] == nil {
            try start(Place(worker: worker, number: 0))
        }
    }

    func rest(until end: Timestamp) throws {
        var quietTurns = 0
        while now < end {
            var isBusy = false
            for place in orderedPlaces {
                isBusy = try step(place) || isBusy
            }
            quietTurns = isBusy ? 0 : quietTurns + 1
            if quietTurns > Self.quietTurnCount || isBusy == false {
                let due =
                    orderedPlaces.compactMap {
                        (instances[$0]?.stage as? any TickingStage)?.nextTick
                    } + [apple.nextArrival].compactMap { $0 }
                    + orderedPlaces.compactMap { instances[$0]?.loop.nextAttempt }
                let next = due.filter { now < $0 }.min() ?? now + .minutes(1)
                now = min(next, now + .minutes(1))
            } else {
                now = now + Milliseconds(5)
            }
        }
    }
}
