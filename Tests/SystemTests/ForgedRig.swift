import Foundation
import Kafka
import LocalKafka
import StageRuntime
import TokenDomain
import TokenWire

@testable import tollway

/// The six workers on a Kafka of their own, and customers of whom somebody forges a token.
final class ForgedRig {
    /// What comes in of a customer.
    enum Arrival: String {
        case forged, real, sale
    }

    struct Customer: CustomStringConvertible {
        var order: [Arrival]
        /// Whether Apple has refused a forged token before the next thing comes.
        var isPaused: Bool
        var name: String
        var forged: DemoToken
        var real: DemoToken
        /// Of the same period, after the others.
        var second: DemoToken
        var lineItemID: String
        var saleLine: String

        /// Whether the forged token is the first of its period.
        var hides: Bool {
            order.firstIndex(of: .forged) ?? 0 < order.firstIndex(of: .real) ?? 0
        }

        var description: String {
            order.map(\.rawValue).joined(separator: ", ") + (isPaused ? ", with pauses" : "")
        }
    }

    /// A duplicate is told after twice as long: time for a refusal to make another one the primary.
    static let holdMilliseconds: Int64 = 6_000
    private static let prefix = "forged."
    private static let day: Int64 = 86_400_000
    private static let secondsMax = 180.0

    let run: DemoRun
    private let folder: URL
    private let processes: DemoProcesses
    private let http: DemoHTTP
    private let kafka: LocalCluster
    private let now = WallClock.now
    private var customerCount = 0
    /// When the second token of a period was sent, UNIX milliseconds.
    private var sentAt: [String: Int64] = [:]

    /// Starts Kafka, Apple's side and the workers.
    init() throws {
        folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-forged-\(UUID().uuidString.prefix(8).lowercased())")
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        processes = DemoProcesses(
            folder: folder,
            programs: Bundle.main.executableURL?.deletingLastPathComponent()
        )
        http = try DemoHTTP(stop: StopSignal())
        kafka = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder.appendingPathComponent("kafka").path
        )
        var workers = try DemoWorkers(
            folder: folder,
            processes: processes,
            topicPrefix: Self.prefix,
            setup: DemoWorkers.Setup(
                environment: [
                    Setting.reportHold.fullName: "\(Self.holdMilliseconds)ms",
                    Setting.purchasesTokenWait.fullName: "300s",
                ]
            )
        )
        try kafka.start()
        let cluster = DemoCluster.local(kafka)
        try cluster.createTopics(
            prefix: Self.prefix,
            settings: KafkaSettings(bootstrapServers: kafka.bootstrapServers, clientID: "test")
        )
        try workers.startSimulator(seed: 1, faults: [], requestLogCount: 10_000, http: http)
        try workers.startWorkers(cluster, http: http)
        run = DemoRun(
            stream: DemoStream(tokenCount: 40, seed: 1, now: now),
            workers: workers,
            cluster: cluster,
            topicPrefix: Self.prefix,
            http: http
        )
    }

    func stop() {
        processes.stopAll(removing: folder, of: kafka)
    }

    // MARK: Customers

    /// Makes a customer; Apple issued both of their tokens that are real.
    func customer(_ order: [Arrival], isPaused: Bool) throws -> Customer {
        customerCount += 1
        let (forged, real, second) = (token("f"), token("a"), token("b"))
        let body = try JSONSerialization.data(
            withJSONObject: ["register": [real.registration, second.registration]]
        )
        let answer = try http.call("POST", run.workers.simulatorURL("/tokens"), body: Array(body))
        guard answer?.status == 200 else {
            throw RigFault(sentence: "the simulator takes no tokens")
        }
        let id = "sale-\(customerCount)"
        return Customer(
            order: order,
            isPaused: isPaused,
            name: "customer-\(customerCount)",
            forged: forged,
            real: real,
            second: second,
            lineItemID: id,
            saleLine: """
                {"lineItemId":"\(id)","customer":"customer-\(customerCount)",\
                "appAppleId":\(real.appAppleID),"creationDate":\(now - Self.day),\
                "productIdentifier":"demo.coins","taxCountry":"DEU","pricingCurrency":"EUR",\
                "amountTaxInclusive":4990,"taxAmount":797}
                """
        )
    }

    /// Of the customer's one period.
    private func token(_ word: String) -> DemoToken {
        let app = DemoStream.apps[0]
        let created = now - 10 * Self.day
        let digits = String(customerCount)
        return DemoToken(
            externalPurchaseID: "00000000-0000-4000-8000-\(word)"
                + String(repeating: "0", count: 11 - digits.count) + digits,
            appAppleID: app.appAppleID,
            bundleID: app.bundleID,
            tokenType: "SERVICES",
            created: created,
            expires: created + 365 * Self.day
        )
    }

    // MARK: Sending

    /// Sends all of the customers without pauses at once, and each step of the others at a time.
    func send(_ customers: [Customer]) throws {
        for customer in customers where !customer.isPaused {
            for arrival in customer.order {
                try send(arrival, of: customer)
            }
            try sendSecond(of: customer)
        }
        for step in 0..<3 {
            for customer in customers where customer.isPaused {
                try send(customer.order[step], of: customer)
            }
            try awaitRefused(
                customers.filter { $0.isPaused && $0.order[...step].contains(.forged) }
            )
        }
        for customer in customers where customer.isPaused {
            try sendSecond(of: customer)
        }
    }

    private func send(_ arrival: Arrival, of customer: Customer) throws {
        switch arrival {
        case .forged: try send(customer.forged, of: customer)
        case .real: try send(customer.real, of: customer)
        case .sale:
            var lines = [customer.saleLine]
            try run.post(&lines, to: "/v1/purchases")
        }
    }

    private func sendSecond(of customer: Customer) throws {
        sentAt[customer.second.externalPurchaseID] = WallClock.now
        try send(customer.second, of: customer)
    }

    private func send(_ token: DemoToken, of customer: Customer) throws {
        let form = DemoToken.Form(
            isPretty: false,
            hasTrailingLineFeed: false,
            isPadded: true,
            usesStandardAlphabet: true
        )
        var lines = ["{\"token\":\"\(token.text(form))\",\"customer\":\"\(customer.name)\"}"]
        try run.post(&lines)
    }

    // MARK: Waiting

    private func awaitRefused(_ customers: [Customer]) throws {
        try wait(for: "Apple refuses what is forged") {
            let refused = Set(
                try requests().filter { $0.errorCodes.contains(3) }.map(\.externalPurchaseID)
            )
            return customers.allSatisfy { refused.contains($0.forged.externalPurchaseID) }
        }
    }

    /// Waits until every sale and every duplicate is accepted, and every refusal is on record.
    func awaitEnd(_ customers: [Customer]) throws {
        try wait(for: "every sale and every duplicate is accepted") {
            let apple = try run.appleSide()
            return customers.allSatisfy { customer in
                apple[customer.real.externalPurchaseID]?.contains("LINE_ITEM") == true
                    && apple[customer.second.externalPurchaseID] != nil
            }
        }
        try wait(for: "every refusal is a dead letter, and every sale in the ledger") {
            try run.deadLetters().values.reduce(0, +) >= customers.count
                && outcomes().count >= customers.count
        }
    }

    private func wait(for condition: String, until isTrue: () throws -> Bool) throws {
        let deadline = Date().addingTimeInterval(Self.secondsMax)
        while try !isTrue() {
            try processes.refuseEnded(code: "rig.ended")
            guard Date() < deadline else {
                let logs = Worker.allCases.map { processes.tail($0.rawValue) }
                throw RigFault(
                    sentence: "not within \(Int(Self.secondsMax)) s: \(condition)\n"
                        + logs.joined(separator: "\n")
                )
            }
            try http.pause(milliseconds: 200)
        }
    }

    // MARK: What is there in the end

    func requests() throws -> [SalesEvidence.Request] {
        SalesEvidence.requests(
            try http.json(run.workers.simulatorURL("/requests?limit=10000"))
        )
    }

    /// The outcomes of each sale: accepted, owed or not, and under which token.
    func outcomes() throws -> [String: [String]] {
        try run.records(of: [.purchasesOutcomes]) { batch, record in
            try PurchaseOutcome(reading: batch.arena.span.extracting(record.value.indices))
        }.reduce(into: [:]) { outcomes, outcome in
            outcomes[outcome.lineItemID, default: []].append(
                "\(outcome.outcome.rawValue) \(outcome.externalPurchaseID?.text ?? "")"
            )
        }
    }

    /// How long after it was sent each second token was accepted as a duplicate, in milliseconds.
    func duplicatesAccepted(_ customers: [Customer]) throws -> [String: Int64] {
        let page = try http.json(run.workers.simulatorURL("/reports?limit=10000"))
        var waits: [String: Int64] = [:]
        for report in (page as? [String: Any])?["reports"] as? [[String: Any]] ?? [] {
            if let id = report["externalPurchaseId"] as? String, let sent = sentAt[id],
                let accepted = (report["acceptedAt"] as? NSNumber)?.int64Value
            {
                waits[id] = accepted - sent
            }
        }
        return waits
    }
}
