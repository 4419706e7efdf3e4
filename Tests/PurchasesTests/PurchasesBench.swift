import Kafka
import Simulation
import StageRuntime
import StateStore
import Telemetry
import TokenDomain
import TokenWire

@testable import purchases

/// One or more instances of `purchases` on a cluster in memory, with a `report` and an Apple of our
/// own and a clock that the test sets.
final class PurchasesBench {
    static let prefix = "tollway."
    static let start = Timestamp(milliseconds: 1_768_003_200_000)

    final class Instance {
        let log: MemoryLog
        let loop: WorkerLoop
        let stage: PurchasesStage

        init(log: MemoryLog, loop: WorkerLoop, stage: PurchasesStage) {
            self.log = log
            self.loop = loop
            self.stage = stage
        }
    }

    final class Clock {
        var now = PurchasesBench.start
    }

    /// Rates that a test changes.
    final class Rates: RateSource {
        var rates = ExchangeRates.none
        var isChanged = false

        func refresh() -> Bool {
            defer { isChanged = false }
            return isChanged
        }
    }

    final class Apps: PurchaseApps {
        let appAppleIDs: [Int64] = [1, 2]

        func appAppleID(_ appAppleID: Int64?, bundleID: String?) -> Int64? {
            let byBundle = bundleID.flatMap {
                ["com.example.1": 1, "com.example.2": 2][$0] as Int64?
            }
            let byID = appAppleID.flatMap { [1, 2].contains($0) ? $0 : nil }
            guard appAppleID != nil, bundleID != nil else {
                return byID ?? byBundle
            }
            return byID == byBundle ? byID : nil
        }

        func bundleID(of appAppleID: Int64) -> String? { "com.example.\(appAppleID)" }
    }

    let cluster: MemoryCluster
    let clock = Clock()
    let rates = Rates()
    let metrics = Metrics()
    let partitionCount: Int
    /// Of the instances that are launched next.
    var limits = PurchasesStage.Limits()
    var apple = AppleBook()
    /// What `report` answers beside Apple's errors.
    struct Reply {
        var errors: [AppleError] = []
        var reason: String?
        var verified: [String] = []
        var primary: TokenID?
    }

    /// What Apple says to a report, where the test decides it: errors; nil asks ``apple``.
    var script: (ReportRequested, [String]) -> [AppleError]? = { _, _ in nil }
    /// A rejection by `report`, where the test decides it.
    var rejection: (ReportRequested, [String]) -> Reply? = { _, _ in nil }
    var instances: [Int: Instance] = [:]
    private var disks: [Int: MemoryDisk] = [:]
    private var answered: Set<String> = []
    private var reportCount = 0
    /// Line items of each report, in the order in which they were answered.
    private(set) var reports: [[String]] = []
    /// What Apple refused.
    private(set) var refusals: [String] = []

    init(seed: UInt64 = 1, partitionCount: Int = 3) {
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
            group: "\(Self.prefix)purchases",
            transactionalID: "purchases-\(number)",
            sources: Worker.purchases.sources.map { $0.name(prefix: Self.prefix) },
            targets: WorkerLoop.targets(of: .purchases).map { $0.name(prefix: Self.prefix) },
            clock: { [clock] in clock.now.milliseconds }
        )
        let stage = PurchasesStage(
            policy: PurchasesStage.Policy(),
            apps: Apps(),
            rates: rates,
            topicPrefix: Self.prefix,
            partitionCount: partitionCount,
            metrics: metrics,
            log: Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in }),
            limits: limits
        )
        let disk = disks[number] ?? MemoryDisk()
        disks[number] = disk
        let loop = WorkerLoop(
            worker: .purchases,
            group: "\(Self.prefix)purchases",
            log: log,
            stage: stage,
            provider: disk,
            telemetry: SilentTelemetry(),
            clock: { [clock] in clock.now }
        )
        let instance = Instance(log: log, loop: loop, stage: stage)
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

    /// Steps all instances until none has anything to do now; `report` answers nothing.
    func settleAlone() throws {
        var quiet = 0
        var steps = 0
        while quiet < 4 {
            steps += 1
            guard steps < 3_000 else {
                throw Restless(records: try records())
            }
            quiet = try step() ? 0 : quiet + 1
        }
    }

    /// One step of each instance.
    ///
    /// - Returns: whether any had something to do.
    func step() throws -> Bool {
        var isBusy = false
        for number in instances.keys.sorted() {
            guard let instance = instances[number] else { continue }
            isBusy = try instance.loop.step(waitMilliseconds: 0) || isBusy
            if let next = instance.stage.nextTick, next <= clock.now,
                !instance.loop.isRestoring, instance.loop.nextAttempt == nil
            {
                isBusy = true
            }
        }
        return isBusy
    }

    /// Until nothing is to be done and no report waits for its answer.
    func settle() throws {
        repeat {
            try settleAlone()
        } while try answerReports()
    }

    func pass(_ span: Milliseconds) throws {
        try settle()
        clock.now = clock.now + span
        try settle()
    }

    // MARK: Apple and `report`

    /// Answers every report that was asked for since.
    ///
    /// - Returns: whether there was any.
    @discardableResult
    func answerReports() throws -> Bool {
        var isAny = false
        let topic = Topic.reportsRequested.name(prefix: Self.prefix)
        for record in cluster.committedRecords(of: topic)
        where answered.insert("\(record.partition)/\(record.offset)").inserted {
            isAny = true
            let value = record.value ?? []
            try answer(try ReportRequested(reading: value.span))
        }
        return isAny
    }

    private func answer(_ request: ReportRequested) throws {
        reportCount += 1
        let items = request.lineItems ?? "[]"
        let ids = items.split(separator: "\"lineItemId\":\"").dropFirst().map {
            String($0.prefix { $0 != "\"" })
        }
        reports.append(ids)
        let id = request.externalPurchaseID
        let reply = rejection(request, ids)
        let errors =
            try reply?.errors ?? script(request, ids)
            ?? apple.put(items, under: id.text, now: clock.now.milliseconds).map {
                AppleError(code: $0.code, fieldName: $0.field, lineItemID: $0.lineItemID)
            }
        if !errors.isEmpty {
            refusals.append(
                "\(id.text) \(ids): "
                    + errors.map { "\($0.code) \($0.fieldName ?? "") \($0.lineItemID ?? "")" }
                    .joined(separator: "; ")
            )
        }
        let key = request.purchaseKey?.text ?? id.text
        if errors.contains(where: { $0.code == 3 && $0.fieldName == "externalPurchaseId" }) {
            let refused = TokenRefused(
                externalPurchaseID: id,
                customer: key.hasPrefix("c1.") ? CustomerID(key) : nil,
                refusedAt: clock.now
            )
            append(.tokensRefused, key: key) { refused.write(to: &$0) }
        }
        let answer = PurchaseAnswered(
            requestIdentifier: "report-\(reportCount)",
            externalPurchaseID: id,
            lineItemIDs: ids,
            outcome: errors.isEmpty && reply == nil ? .accepted : .rejected,
            errors: errors,
            reason: reply?.reason,
            verifiedLineItemIDs: reply?.verified ?? [],
            verifiedRequestIdentifiers: reply?.verified.map { "holds \($0)" } ?? [],
            primaryExternalPurchaseID: reply?.primary,
            askedAt: request.askedAt,
            settledAt: clock.now
        )
        append(.purchasesAnswered, key: key) { answer.write(to: &$0) }
    }

    /// The worker never comes to rest; what its book holds then.
    struct Restless: Error {
        var records: [String]
    }

    /// Every record of the book.
    func records() throws -> [String] {
        var records: [String] = []
        for instance in instances.values {
            for partition in instance.loop.state.partitions {
                try instance.loop.state.scan(.state, partition: partition, from: []) { key, value in
                    records.append(
                        String(decoding: key, as: UTF8.self) + " "
                            + String(decoding: value, as: UTF8.self)
                    )
                    return true
                }
            }
        }
        return records
    }

    /// How many entries the book and its due table have.
    func entryCount() throws -> Int {
        var count = try records().count
        for instance in instances.values {
            for partition in instance.loop.state.partitions {
                try instance.loop.state.scan(.due, partition: partition, from: []) { _, _ in
                    count += 1
                    return true
                }
            }
        }
        return count
    }

    /// Of all apps: how many sales ended so.
    func count(_ outcome: PurchasesMetrics.Outcome) -> Int {
        String(decoding: metrics.render(), as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix("tollway_purchases_total{") }
            .filter { $0.contains("outcome=\"\(outcome.rawValue)\"") }
            .compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }
            .reduce(0, +)
    }

    /// How many sales `report` sent back, by reason.
    func sentBack() -> [String: Int] {
        var counts: [String: Int] = [:]
        for line in String(decoding: metrics.render(), as: UTF8.self).split(separator: "\n")
        where line.hasPrefix("tollway_purchases_sent_back_total{") {
            let reason = line.split(separator: "reason=\"").last?.prefix { $0 != "\"" }
            let count = line.split(separator: " ").last.flatMap { Int($0) }
            counts[String(reason ?? ""), default: 0] += count ?? 0
        }
        return counts
    }

    /// ``PurchasesMetrics`` has the longest wait for an answer; nil where it tells none.
    var answerWaitSeconds: Double? {
        String(decoding: metrics.render(), as: UTF8.self).split(separator: "\n")
            .first { $0.hasPrefix("tollway_purchases_answer_wait_seconds ") }
            .flatMap { $0.split(separator: " ").last.flatMap { Double($0) } }
    }

    // MARK: Records in

    func append(_ topic: Topic, key: String, _ write: (inout [UInt8]) -> Void) {
        var value: [UInt8] = []
        write(&value)
        append(topic, key: key, value: value)
    }

    func append(_ topic: Topic, key: String, value: [UInt8], headers: [UInt8] = []) {
        cluster.append(
            topic: topic.name(prefix: Self.prefix),
            key: Array(key.utf8),
            value: value,
            headers: headers,
            timestampMilliseconds: clock.now.milliseconds
        )
    }

    func customer(_ number: Int) -> CustomerID {
        CustomerID(
            "c1." + String(repeating: "A", count: 42) + String(Array("AEIMQUYcgkosw048")[number])
        )
    }

    /// Every answer so far comes once more.
    func repeatAnswers() {
        for record in cluster.committedRecords(
            of: Topic.purchasesAnswered.name(prefix: Self.prefix)
        ) {
            append(
                .purchasesAnswered,
                key: String(decoding: record.key ?? [], as: UTF8.self),
                value: record.value ?? []
            )
        }
    }

    /// A token comes in; Apple knows it unless it is forged.
    func token(
        _ id: String,
        _ type: KnownTokenType? = .services,
        from creation: Timestamp = PurchasesBench.start + .days(-1),
        days: Int64? = 365,
        customer: CustomerID?,
        app: Int64 = 1,
        isForged: Bool = false
    ) {
        let expiration = days.map { creation + .days($0) }
        if !isForged {
            apple.issue(
                id,
                app: app,
                type: type?.rawValue,
                from: creation.milliseconds,
                until: expiration?.milliseconds
            )
        }
        let decoded = TokenDecoded(
            token: ExternalPurchaseToken(
                externalPurchaseID: TokenID(id),
                appAppleID: app,
                bundleID: "com.example.\(app)",
                tokenType: type.map { TokenType($0) },
                tokenCreationDate: creation,
                tokenExpirationDate: expiration
            ),
            customer: customer,
            receivedAt: clock.now,
            text: "x"
        )
        append(.tokensDecoded, key: customer?.text ?? id) { decoded.write(to: &$0) }
    }

    func sale(_ event: PurchaseEvent) {
        var event = event
        event.receivedAt = event.receivedAt ?? clock.now
        append(.purchasesReceived, key: event.purchaseKey ?? "") { event.write(to: &$0) }
    }

    func buy(
        _ id: String,
        _ customer: CustomerID?,
        exclusive: Int64 = 10_000,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        var event = PurchaseEvent(lineItemID: id)
        event.customer = customer
        event.appAppleID = 1
        event.creationDate = clock.now
        event.productIdentifier = "coins"
        event.taxCountry = AlphaCode("DEU")
        event.pricingCurrency = AlphaCode("EUR")
        event.taxAmount = Milliunits(exclusive / 5)
        event.amountTaxExclusive = Milliunits(exclusive)
        change(&event)
        return event
    }

    /// A period of the subscription `s` of customer 1 that begins so many days after the clock began.
    func period(_ id: String, _ event: SubscriptionEvent, day: Int64) -> PurchaseEvent {
        buy(id, customer(1)) {
            $0.creationDate = Self.start + .days(day)
            $0.subscriptionID = "s"
            $0.subscriptionEvent = event
            $0.subscriptionStartDate = Self.start + .days(day)
            $0.subscriptionEndDate = Self.start + .days(day + 30)
        }
    }

    func refund(
        _ id: String,
        of buy: String,
        _ customer: CustomerID?,
        exclusive: Int64,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        var event = PurchaseEvent(lineItemID: id)
        event.kind = .refund
        event.customer = customer
        event.appAppleID = 1
        event.creationDate = clock.now
        event.referenceLineItemID = buy
        event.taxAmount = Milliunits(exclusive / 5)
        event.amountTaxExclusive = Milliunits(exclusive)
        change(&event)
        return event
    }

    func change(
        _ id: String,
        _ customer: CustomerID?,
        _ kind: PurchaseEvent.Kind,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        var event = PurchaseEvent(lineItemID: id)
        event.kind = kind
        event.customer = customer
        event.appAppleID = 1
        change(&event)
        return event
    }

    // MARK: Records out

    func outcomes() throws -> [PurchaseOutcome] {
        let topic = Topic.purchasesOutcomes.name(prefix: Self.prefix)
        return try cluster.committedRecords(of: topic).map {
            let value = $0.value ?? []
            return try PurchaseOutcome(reading: value.span)
        }
    }

    /// `lineItemId outcome` of every outcome, in order of partition and offset.
    func words() throws -> [String] {
        try outcomes().map { "\($0.lineItemID) \($0.outcome.rawValue)" }
    }

    /// Value and reason of the dead letters.
    func deadLetters() -> [(value: [UInt8], code: String, message: String)] {
        let topic = Topic.deadLetters(.purchases).name(prefix: Self.prefix)
        return cluster.committedRecords(of: topic).map { record in
            let range = ByteRange(start: 0, count: record.headers.count)
            let headers = HeaderList.entries(in: range, of: record.headers)
            func text(_ name: String) -> String {
                headers.first { $0.name == name }
                    .map { String(decoding: record.headers[$0.value.indices], as: UTF8.self) } ?? ""
            }
            return (
                record.value ?? [], text("tollway.dlq.code"), text("__dlq.errors.message")
            )
        }
    }
}
