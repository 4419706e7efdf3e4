import AppleSimulator
import Kafka
import Simulation
import StageRuntime
import Telemetry
import TokenDomain
import TokenWire

@testable import ingest
@testable import purchases

/// One process's view of the file of rates, which it reads when it starts and when that changes.
final class SimulatedRates: RateSource {
    final class File {
        private(set) var rates = ExchangeRates.none
        private(set) var version = 0

        func write(_ rates: ExchangeRates) {
            self.rates = rates
            version += 1
        }
    }

    private let file: File
    private var version: Int
    private(set) var rates: ExchangeRates

    init(_ file: File) {
        self.file = file
        version = file.version
        rates = file.rates
    }

    func refresh() -> Bool {
        guard version != file.version else {
            return false
        }
        version = file.version
        rates = file.rates
        return true
    }
}

/// The apps that the whole pipeline has.
final class SimulatedApps: PurchaseApps {
    var appAppleIDs: [Int64] { SimulatedInputs.apps.keys.sorted() }

    func appAppleID(_ appAppleID: Int64?, bundleID: String?) -> Int64? {
        SimulatedInputs.apps.first { id, bundle in
            (appAppleID ?? id) == id && (bundleID ?? bundle) == bundle
        }?.key
    }

    func bundleID(of appAppleID: Int64) -> String? { SimulatedInputs.apps[appAppleID] }
}

/// Sales on their way in, and what must hold of them at the end.
extension SimulatedPipeline {
    func makePurchases(policy: PurchasesStage.Policy) -> PurchasesStage {
        // What only measures need not wake a pipeline that is at rest.
        var limits = PurchasesStage.Limits()
        limits.measureInterval = .minutes(1)
        limits.ratesInterval = .seconds(20)
        return PurchasesStage(
            policy: policy,
            apps: SimulatedApps(),
            rates: SimulatedRates(ratesFile),
            topicPrefix: Self.prefix,
            metrics: Metrics(),
            log: Log(worker: "purchases", format: .json, now: { 0 }, write: { _ in }),
            limits: limits
        )
    }

    // MARK: The way in

    /// With a customer as the platform writes it to the topic itself; without one by the door.
    func sell(_ event: PurchaseEvent) throws {
        guard let customer = event.customer else {
            var body: [UInt8] = []
            event.write(to: &body)
            return try post(.purchases, String(decoding: body, as: UTF8.self))
        }
        let value = SimulatedShop.value(event, receivedAt: now)
        append(.purchasesReceived, key: customer.text, value: value)
    }

    func append(_ topic: Topic, key: String, value: [UInt8]) {
        cluster.append(
            topic: topic.name(prefix: Self.prefix),
            key: Array(key.utf8),
            value: value,
            headers: nextTraceHeaders(),
            timestampMilliseconds: now.milliseconds
        )
    }

    /// A token comes in; Apple knows it unless it is forged.
    func bring(_ token: IssuedToken, of customer: CustomerID?, isForged: Bool = false) throws {
        if !isForged {
            apple.world.register(token)
        }
        try admit(token.text(isPadded: true), customer)
    }

    // MARK: The end

    func outcomes() throws -> [PurchaseOutcome] {
        try cluster.committedRecords(of: Topic.purchasesOutcomes.name(prefix: Self.prefix)).map {
            let value = $0.value ?? []
            return try PurchaseOutcome(reading: value.span)
        }
    }

    /// What happened to sales, in words.
    func ends() throws -> Set<String> {
        let outcomes = try outcomes()
        var ends: Set<String> = []
        var notOwed: Set<String> = []
        var tokens: [String: Set<String>] = [:]
        for outcome in outcomes {
            let item = outcome.item ?? ""
            let isPeriod = outcome.lineItemID.hasPrefix("month")
            let isStart = item.contains("SUBSCRIPTION_START")
            let kind =
                outcome.type == .buy && isPeriod
                ? (isStart ? "START" : "RENEWAL") : outcome.type.rawValue
            ends.insert("\(kind) \(outcome.outcome.rawValue)")
            ends.insert(outcome.reason)
            if outcome.type == .retract, outcome.lineItemID.hasPrefix("refund") {
                ends.insert("refund retracted")
            }
            switch outcome.outcome {
            case .notOwed: notOwed.insert(outcome.lineItemID)
            case .reported where notOwed.contains(outcome.lineItemID): ends.insert("reopened")
            case .reported, .rejected: break
            }
            if let token = outcome.externalPurchaseID?.text, outcome.outcome == .reported {
                let customer = shop.lives.sales[outcome.lineItemID]?.customer ?? -1
                tokens["\(customer)", default: []].insert(token)
            }
        }
        if tokens.values.contains(where: { $0.count == 3 }) {
            ends.insert("several tokens")
        }
        let isRefused = apple.refusals.contains { refusal in
            !refusal.lineItemIDs.isEmpty && forged.contains(refusal.token)
        }
        if isRefused {
            ends.insert("a refused token")
        }
        return ends
    }

    /// Value and code of a worker's dead letters.
    func deadLetters(of worker: Worker) -> [(value: [UInt8], code: String)] {
        guard let topic = worker.deadLetters?.name(prefix: Self.prefix) else {
            return []
        }
        return cluster.committedRecords(of: topic).map { record in
            let range = ByteRange(start: 0, count: record.headers.count)
            let code = HeaderList.value(
                named: "tollway.dlq.code",
                in: range,
                of: record.headers
            ).map { String(decoding: record.headers[$0.indices], as: UTF8.self) }
            return (record.value ?? [], code ?? "")
        }
    }

    /// Our book beside Apple's, item by item, and both beside the model.
    func differencesOfSales(in shop: SimulatedShop, told: [String: [String]]) throws -> [String] {
        let outcomes = try outcomes()
        let parked = shop.parkedCustomers(told: told)
        var differences = apple.world.differences(from: Self.book(outcomes))
        let ofModel = shop.lives.differences(
            isOwed: { SimulatedShop.isOwed($0.customer) && !parked.contains($0.customer) },
            held: { [apple] id in
                apple.world.heldSale(id).map {
                    SalesLives.Held(
                        exclusive: $0.exclusive,
                        country: $0.country,
                        isRetracted: $0.isRetracted
                    )
                }
            }
        )
        differences += ofModel
        for id in shop.lives.sales.keys.sorted()
        where ofModel.contains(where: { $0.hasPrefix("\(id) ") || $0.hasPrefix("\(id):") }) {
            let words = outcomes.filter { $0.lineItemID == id }.map { "\($0.type) \($0.reason)" }
            differences.append("\(id): our ledger has \(words)")
        }
        differences += differencesOfLedger(outcomes, in: shop)
        for (token, id) in apple.world.acceptedItems {
            guard let customer = shop.lives.sales[id]?.customer,
                shop.carriers[customer]?.contains(token) == true
            else {
                differences.append("\(id) went under \(token)")
                continue
            }
        }
        let deadLetters = deadLetters(of: .purchases).filter { deadLetter in
            !parked.contains { shop.isParked(deadLetter.value, deadLetter.code, of: $0) }
        }
        let values = deadLetters.map(\.value).sorted(by: Self.isBefore)
        if values != shop.badValues.sorted(by: Self.isBefore) {
            let others = deadLetters.filter { !shop.badValues.contains($0.value) }
                .map { "\($0.code) \(String(decoding: $0.value, as: UTF8.self))" }
            differences.append(
                "\(deadLetters.count) dead letters of \(shop.badValues.count) bad sales: \(others)"
            )
        }
        return differences
    }

    private func differencesOfLedger(
        _ outcomes: [PurchaseOutcome],
        in shop: SimulatedShop
    ) -> [String] {
        var differences: [String] = []
        for (id, sale) in shop.lives.sales.sorted(by: { $0.key < $1.key }) {
            let own = outcomes.filter { $0.lineItemID == id }
            let revisions = own.filter { $0.outcome == .reported }.map(\.revision).sorted()
            if revisions != Array(1..<revisions.count + 1) {
                differences.append("\(id): our ledger has the revisions \(revisions)")
            }
            let isNotOwed = own.last?.outcome == .notOwed && revisions.isEmpty
            if !SimulatedShop.isOwed(sale.customer), !isNotOwed {
                differences.append("\(id): no token, and it is not settled as not owed")
            }
        }
        return differences
    }

    private static func isBefore(_ left: [UInt8], _ right: [UInt8]) -> Bool {
        left.lexicographicallyPrecedes(right)
    }

    /// The newest version of each item, as our ledger has it.
    private static func book(
        _ outcomes: [PurchaseOutcome]
    ) -> [String: (item: String, versionCount: Int)] {
        let reported = outcomes.filter { $0.outcome == .reported }
        return Dictionary(grouping: reported, by: \.lineItemID).compactMapValues { versions in
            versions.max { $0.revision < $1.revision }.map { ($0.item ?? "{}", versions.count) }
        }
    }

    /// What Apple heard of the tokens that carry sales.
    func differencesOfCarriers(
        in shop: SimulatedShop,
        told: [String: [String]],
        ledger: [String: [ReportOutcome]]
    ) -> [String] {
        var differences: [String] = []
        for (id, owed) in shop.owed.sorted(by: { $0.key < $1.key }) where shop.brought.contains(id)
        {
            let statuses = told[id] ?? []
            let first = statuses.first ?? ""
            let isRight =
                switch owed {
                case .duplicate: statuses == ["DUPLICATE_TOKEN"]
                case .primary: ["NO_LINE_ITEM", "LINE_ITEM"].contains(first)
                case .promotion: !statuses.isEmpty
                }
            if !isRight || statuses.dropFirst().contains(where: { $0 != "LINE_ITEM" }) {
                differences.append("\(id): Apple has \(statuses)")
            }
            let outcomes = (ledger[id] ?? []).filter { $0.outcome != .rejected }
            if outcomes.map(\.status.rawValue).sorted() != statuses.sorted() {
                differences.append("\(id): Apple has \(statuses), the ledger has \(outcomes)")
            }
        }
        return differences
    }
}
