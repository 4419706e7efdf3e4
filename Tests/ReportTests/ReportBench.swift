import AppStoreAPI
import Crypto
import Kafka
import Simulation
import StageRuntime
import StateStore
import Synchronization
import Telemetry
import TokenDomain
import TokenWire

@testable import report

/// One or more instances of `report` on a cluster in memory, with an Apple of our own and a clock
/// that the test sets.
final class ReportBench {
    static let prefix = "tollway."
    /// So often at least a worker looks around, though nothing is due: `WorkerRun` does.
    static let idleWait = Milliseconds(200)
    static let start = Timestamp(milliseconds: 1_768_003_200_000)

    final class Instance {
        let log: MemoryLog
        let loop: WorkerLoop
        let stage: ReportStage
        let apple: ScriptedApple

        init(log: MemoryLog, loop: WorkerLoop, stage: ReportStage, apple: ScriptedApple) {
            self.log = log
            self.loop = loop
            self.stage = stage
            self.apple = apple
        }
    }

    /// The time, shared with every instance.
    final class Clock {
        var now = ReportBench.start
    }

    /// What the workers log, one JSON object a line.
    final class LogLines: Sendable {
        private let lines = Mutex<[String]>([])

        func append(_ line: String) {
            lines.withLock { $0.append(line) }
        }

        func with(_ message: String) -> [String] {
            lines.withLock { $0 }.filter { $0.contains("\"\(message)\"") }
        }
    }

    let cluster: MemoryCluster
    let clock = Clock()
    let appleStore = ScriptedApple.Store()
    let tally = Tally()
    /// Of all instances together.
    let metrics = Metrics()
    let health = Health()
    let logLines = LogLines()
    let partitionCount: Int
    var script: (ScriptedApple.Call) -> ScriptedApple.Fate = { _ in .answered }
    var latency = Milliseconds(0)
    var failure: TransportFailure?
    var rate = 1_000.0
    /// Those that signed transactions go back to; nil: none is configured.
    var roots: TrustedRoots?
    /// Whether the worker knows from its start how many partitions there are.
    var knowsPartitions = false
    var limits = WorkerLoop.Limits()
    var reportLimits = ReportLimits()
    var policy = ReportPolicy(
        requestIdentifier: ReportPolicy.identifier,
        contentHash: ReportPolicy.lineItemsHash
    )
    /// Whether `report` follows the orders for lanes, and why it cannot at first.
    var followsOrders = false
    var ordersFault: LogFault?
    var orders: [Int: MemoryOrders] = [:]
    var instances: [Int: Instance] = [:]
    private var disks: [Int: MemoryDisk] = [:]
    private var readers: [String: MemoryLog] = [:]
    private var offset = 0
    /// What writers of records say, where it is not the time of this machine.
    var recordTime: Timestamp?
    /// The header `traceparent` of what comes in from now on.
    var trace: TraceParent?

    init(seed: UInt64 = 1, partitionCount: Int = 3) {
        // The clock leaps over what nothing happens in; no process stood still.
        reportLimits.standstillMax = .days(100_000)
        cluster = MemoryCluster(seed: seed)
        self.partitionCount = partitionCount
        for topic in Topic.all {
            cluster.createTopic(topic.name(prefix: Self.prefix), partitionCount: partitionCount)
        }
    }

    // MARK: Instances

    @discardableResult
    func launch(_ number: Int = 0) -> Instance {
        let log = MemoryLog(
            cluster: cluster,
            group: "\(Self.prefix)report",
            transactionalID: "report-\(number)",
            sources: Worker.report.sources.map { $0.name(prefix: Self.prefix) },
            targets: WorkerLoop.targets(of: .report).map { $0.name(prefix: Self.prefix) },
            clock: { [clock] in clock.now.milliseconds }
        )
        let apple = ScriptedApple(store: appleStore)
        apple.script = { [unowned self] call in self.script(call) }
        apple.latency = latency
        apple.failure = failure
        if followsOrders {
            orders[number] = MemoryOrders(
                cluster: cluster,
                topic: Topic.laneOrders.name(prefix: Self.prefix)
            )
            orders[number]?.fault = ordersFault
        }
        let stage = ReportStage(
            policy: policy,
            apple: apple,
            recordLog: log,
            topicPrefix: Self.prefix,
            partitionCount: knowsPartitions ? partitionCount : nil,
            rate: { [rate] _ in rate },
            transactions: AccountTokenIntake(
                verifier: { [roots] in roots.map { SignedDataVerifier(roots: $0) } },
                appAppleID: { ["com.example.1": 1, "com.example.2": 2][$0] }
            ),
            orders: orders[number],
            metrics: metrics,
            log: Log(
                worker: "report",
                format: .json,
                now: { 0 },
                write: { [logLines] in logLines.append($0) }
            ),
            health: health,
            seed: UInt64(number) + 7,
            limits: reportLimits
        )
        let disk = disks[number] ?? MemoryDisk()
        disks[number] = disk
        let loop = WorkerLoop(
            worker: .report,
            group: "\(Self.prefix)report",
            log: log,
            stage: stage,
            provider: disk,
            limits: limits,
            telemetry: tally,
            clock: { [clock] in clock.now }
        )
        let instance = Instance(log: log, loop: loop, stage: stage, apple: apple)
        instances[number] = instance
        return instance
    }

    /// The process is gone at this instruction; its session in the group expires.
    func crash(_ number: Int = 0) {
        instances[number]?.log.crash()
        instances[number]?.log.expireSession()
        instances[number] = nil
    }

    func loseDisk(_ number: Int = 0) {
        disks[number] = nil
    }

    // MARK: Time

    /// Steps all instances until none has anything to do now.
    func settle() throws {
        var quiet = 0
        var steps = 0
        while quiet < 4 {
            steps += 1
            precondition(steps < 200_000, "the worker never comes to rest")
            var isBusy = false
            for number in instances.keys.sorted() {
                guard let instance = instances[number] else {
                    continue
                }
                isBusy = try instance.loop.step(waitMilliseconds: 0) || isBusy
                if let next = instance.stage.nextTick, next <= clock.now,
                    !instance.loop.isRestoring, instance.loop.nextAttempt == nil
                {
                    isBusy = true
                }
            }
            quiet = isBusy ? 0 : quiet + 1
        }
    }

    /// Lets time pass in steps small enough for every timer on the way.
    func pass(_ span: Milliseconds) throws {
        let end = clock.now + span
        try settle()
        while clock.now < end {
            let next =
                instances.values
                .flatMap { [$0.stage.nextTick, $0.loop.nextAttempt] }
                .compactMap { $0 }.min() ?? end
            // A worker without anything due looks around all the same: for orders, among others.
            let look = followsOrders ? min(next, clock.now + Self.idleWait) : next
            clock.now = min(max(look, clock.now + Milliseconds(1)), end)
            try settle()
        }
    }

    // MARK: Records in

    func id(_ number: Int, sandbox: Bool = false) -> TokenID {
        let digits = String(number)
        let uuid =
            "00000000-0000-4000-8000-\(String(repeating: "0", count: 12 - digits.count))\(digits)"
        return TokenID(sandbox ? "SANDBOX_\(uuid)" : uuid)
    }

    func token(_ id: TokenID, app: Int64 = 1) -> ExternalPurchaseToken {
        ExternalPurchaseToken(
            externalPurchaseID: id,
            appAppleID: app,
            bundleID: "com.example.\(app)",
            tokenType: .services,
            tokenCreationDate: Self.start,
            tokenExpirationDate: Self.start + .days(365)
        )
    }

    /// A primary has a year; a duplicate stands within the margin of its deadline, so that it is due
    /// at once, unless `expiration` says otherwise.
    func distinct(
        _ id: TokenID,
        _ role: TokenRole = .primary,
        app: Int64 = 1,
        expiration: Timestamp? = nil,
        customer: String? = nil,
        promotedFrom: TokenID? = nil,
        receivedAt: Timestamp? = nil
    ) {
        var token = token(id, app: app)
        var cameAt = clock.now
        if case .duplicate = role {
            token.tokenCreationDate = Self.start + .days(-365)
            if expiration == nil {
                // Due at once: so long ago that its primary has been heard.
                token.tokenExpirationDate = clock.now + .hours(-23)
                cameAt = cameAt + .hours(-72) + -ReportPolicy.primaryLagMax
            }
        }
        token.tokenExpirationDate = expiration ?? token.tokenExpirationDate
        let message = TokenDistinct(
            externalPurchaseID: id,
            appAppleID: token.appAppleID,
            bundleID: token.bundleID,
            tokenType: token.tokenType,
            tokenCreationDate: token.tokenCreationDate,
            tokenExpirationDate: token.tokenExpirationDate,
            customer: customer.map(CustomerID.init),
            receivedAt: receivedAt ?? cameAt,
            role: role,
            promotedFrom: promotedFrom
        )
        append(.tokensDistinct, id) { message.write(to: &$0) }
    }

    func notice(
        _ id: TokenID,
        _ subtype: String = "UNREPORTED",
        uuid: String? = nil,
        app: Int64 = 1
    ) {
        offset += 1
        let message = NotificationVerified(
            notificationUUID: uuid ?? "notice-\(offset)",
            subtype: subtype,
            signedDate: clock.now,
            token: token(id, app: app),
            receivedAt: clock.now
        )
        append(.notificationsVerified, id) { message.write(to: &$0) }
    }

    func request(
        _ id: TokenID,
        _ status: ReportStatus,
        identifier: String? = nil,
        lineItems: String? = nil,
        app: Int64 = 1,
        purchaseKey: String? = nil,
        token: ExternalPurchaseToken? = nil
    ) {
        let message = ReportRequested(
            externalPurchaseID: id,
            appAppleID: app,
            bundleID: "com.example.1",
            status: status,
            requestIdentifier: identifier,
            lineItems: lineItems,
            purchaseKey: purchaseKey.map { PurchaseKey($0) },
            tokenCreationDate: token?.tokenCreationDate,
            tokenExpirationDate: token?.tokenExpirationDate
        )
        append(.reportsRequested, id) { message.write(to: &$0) }
    }

    /// An order for a lane, by hand.
    func order(_ state: LaneOrder.State, resetAt: Timestamp? = nil, lane: Lane) {
        let order = LaneOrder(
            lane: lane,
            state: state,
            resetAt: resetAt,
            by: "ann@host",
            why: "asked to",
            at: clock.now
        )
        var value: [UInt8] = []
        order.write(to: &value)
        append(.laneOrders, key: Array(order.key.utf8), value: value)
    }

    func append(_ topic: Topic, _ id: TokenID, _ write: (inout [UInt8]) -> Void) {
        var value: [UInt8] = []
        write(&value)
        append(topic, key: Array(id.text.utf8), value: value)
    }

    func append(
        _ topic: Topic,
        key: [UInt8]?,
        value: [UInt8]?,
        headers: [String: String] = [:]
    ) {
        var arena: [UInt8] = []
        for (name, value) in headers {
            HeaderList.append(name: name.utf8, value: value.utf8, to: &arena)
        }
        _ = TraceHeader.append(trace, to: &arena)
        cluster.append(
            topic: topic.name(prefix: Self.prefix),
            key: key,
            value: value,
            headers: arena,
            timestampMilliseconds: (recordTime ?? clock.now).milliseconds
        )
    }

    func requestAccountToken(
        _ token: String,
        transaction: String = "2000000000000001",
        app: Int64 = 1,
        sandbox: Bool = false,
        ahead: Milliseconds = Milliseconds(0)
    ) {
        let message = AccountTokenRequested(
            appAccountToken: token,
            subject: .original(
                transactionID: transaction,
                bundleID: "com.example.\(app)",
                environment: sandbox ? .sandbox : .production
            ),
            requestedAt: clock.now + ahead,
            requestID: "r"
        )
        var value: [UInt8] = []
        message.write(to: &value)
        append(.accountTokensRequested, key: Array(transaction.utf8), value: value)
    }

    // MARK: Records out

    func accountTokenOutcomes() throws -> [AccountTokenOutcome] {
        let topic = Topic.accountTokensOutcomes.name(prefix: Self.prefix)
        return try cluster.committedRecords(of: topic).map {
            let value = $0.value ?? []
            return try AccountTokenOutcome(reading: value.span)
        }
    }

    func outcomes() throws -> [ReportOutcome] {
        try cluster.committedRecords(of: Topic.reportsOutcomes.name(prefix: Self.prefix)).map {
            let value = $0.value ?? []
            return try ReportOutcome(reading: value.span)
        }
    }

    /// The answers that `purchases` reads, with the keys.
    func answers() throws -> [(key: String, answer: PurchaseAnswered)] {
        try cluster.committedRecords(of: Topic.purchasesAnswered.name(prefix: Self.prefix)).map {
            let value = $0.value ?? []
            return (
                String(decoding: $0.key ?? [], as: UTF8.self),
                try PurchaseAnswered(reading: value.span)
            )
        }
    }

    /// Tokens that Apple does not know, with the keys.
    func refusedTokens() throws -> [(key: String, refused: TokenRefused)] {
        try cluster.committedRecords(of: Topic.tokensRefused.name(prefix: Self.prefix)).map {
            let value = $0.value ?? []
            return (
                String(decoding: $0.key ?? [], as: UTF8.self),
                try TokenRefused(reading: value.span)
            )
        }
    }

    /// The value of a series whose line begins so; nil where there is none.
    func metric(_ start: String) -> Double? {
        let text = String(decoding: metrics.render(), as: UTF8.self)
        return text.split(separator: "\n").first { $0.hasPrefix("tollway_\(start)") }?
            .split(separator: " ").last.flatMap { Double($0) }
    }

    /// Value and headers of the dead letters.
    func deadLetters() -> [(value: [UInt8], headers: [String: String])] {
        cluster.committedRecords(of: Topic.deadLetters(.report).name(prefix: Self.prefix)).map {
            let range = ByteRange(start: 0, count: $0.headers.count)
            var headers: [String: String] = [:]
            for (name, value) in HeaderList.entries(in: range, of: $0.headers) {
                headers[name] = String(decoding: $0.headers[value.indices], as: UTF8.self)
            }
            return ($0.value ?? [], headers)
        }
    }

    /// Another worker commits that it has read a topic to its end, or to so many records before that.
    func commitToEnd(_ worker: Worker, _ topic: Topic, but unreadCount: Int64 = 0) throws {
        let name = topic.name(prefix: Self.prefix)
        let group = worker.group(prefix: Self.prefix)
        let log =
            readers[group]
            ?? MemoryLog(
                cluster: cluster,
                group: group,
                transactionalID: group,
                sources: [name],
                targets: [],
                clock: { 0 }
            )
        readers[group] = log
        var batch = RecordBatch()
        var isAssigned = false
        while !isAssigned {
            switch try log.poll(into: &batch, recordCountMax: 0, waitMilliseconds: 0) {
            case .assigning?:
                _ = try log.completeAssignment()
                isAssigned = true
            case .revoking?, .lost?:
                try log.completeRevocation()
            case nil:
                isAssigned =
                    try log.committedOffsets(ofGroup: group, topic: name)?.first != .some(nil)
            }
        }
        let ends = try log.endOffsets(ofTopic: name) ?? []
        var positions: [TopicPartition: Int64] = [:]
        for (partition, end) in ends.enumerated() {
            positions[TopicPartition(topic: name, partition: Int32(partition))] =
                end - unreadCount
        }
        try log.submit(OutputBatch(), positions: positions)
        while try log.takeCommitResult(waitMilliseconds: 0) == nil {}
    }
}

/// Counts dead letters only: tests check the rest in the log and at Apple.
final class Tally: LoopTelemetry {
    /// The code of each dead letter, in order.
    private(set) var deadLetterCodes: [String] = []
    private(set) var committed = TokenTally()

    func instant() -> UInt64 { 0 }
    func judged(recordCount: Int, since instant: UInt64) {}
    func received(_ batch: RecordBatch) {}
    func completed(_ outcome: String, recordCount: Int) {}
    func wroteDeadLetter(_ deadLetter: WrittenDeadLetter) {
        deadLetterCodes.append(deadLetter.fault.code)
    }
    func committed(_ tally: TokenTally) { committed.merge(tally) }
    func aborted(code: String) {}
    func assigned(_ partitions: [TopicPartition]) {}
    func lost(partitionCount: Int) {}
    func wiped(partition: Int32, because reason: String) {}
    func locked(partition: Int32, because reason: String) {}
    func unwritten(partition: Int32, because reason: String) {}
    func restoring(partitionCount: Int) {}
    func restoring(partition: Int32, progress: (next: Int64, end: Int64)) {}
    func restored(partition: Int32, recordCount: Int) {}
}
