import Foundation
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import Kafka
@testable import tollway

/// The demo's pipeline on a Kafka of its own, under a storm, up to the account.
final class StormRun {
    /// The account closed: so long it must stay closed.
    private static let quietSeconds = 4.0
    private static let lookSeconds = 1.5
    /// Kafka ends what its producer left after 40 s.
    private static let openSeconds = 60.0
    /// More lost answers than a demo has: each makes a report that Apple has and whose result is
    /// unknown.
    private static let moreLostAnswers = ["reset-after:every=23", "torn:every=41"]
    /// Requests that Apple's side remembers: all of them.
    private static let requestLogCount = 100_000
    /// Longer than decode is ever down: what waits for a token that is on its way is owed.
    private static let tokenWait = "120s"
    static let prefix = "storm."

    let storm: Storm
    let folder: URL
    let run: DemoRun
    let fleet: Fleet
    let killer: ReporterKiller
    let repair: TransactionRepair
    let startedAt = Date()
    private let settings: StormSettings
    private let processes: DemoProcesses
    private let http: DemoHTTP
    private let kafka: LocalCluster
    private let misplaced: MisplacedSales

    /// Starts everything, with its files in a folder that is there.
    init(_ settings: StormSettings, folder: URL) throws {
        self.settings = settings
        self.folder = folder
        processes = DemoProcesses(
            folder: folder,
            programs: try settings.programs
                ?? #require(Bundle.main.executableURL).deletingLastPathComponent()
        )
        let stop = StopSignal()
        http = try DemoHTTP(stop: stop)
        kafka = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder.appendingPathComponent("kafka").path,
            nodeCount: settings.nodeCount,
            // Leaders go back to a node soon after it is back, not within five minutes.
            properties: [
                "leader.imbalance.check.interval.seconds": "5",
                "leader.imbalance.per.broker.percentage": "0",
            ]
        )
        let cluster = DemoCluster.local(kafka)
        var workers = try DemoWorkers(
            folder: folder,
            processes: processes,
            topicPrefix: Self.prefix,
            setup: DemoWorkers.Setup(
                environment: [Setting.purchasesTokenWait.fullName: Self.tokenWait]
            )
        )
        try kafka.start()
        let client = KafkaSettings(bootstrapServers: kafka.bootstrapServers, clientID: "storm")
        try cluster.createTopics(prefix: Self.prefix, settings: client)
        try workers.startSimulator(
            seed: settings.seed,
            faults: DemoWorkers.faults + Self.moreLostAnswers,
            requestLogCount: Self.requestLogCount,
            http: http
        )
        let now = WallClock.now
        var sales = DemoSales(
            roundCount: settings.saleRoundCount,
            seed: settings.seed,
            now: now
        )
        misplaced = MisplacedSales(sales)
        sales.sales += misplaced.sales
        try workers.writeRates(sales.rates)
        try workers.startWorkers(cluster, http: http)
        fleet = try Fleet(
            workers: workers,
            cluster: cluster,
            processes: processes,
            folder: folder
        )
        killer = ReporterKiller(
            http: try DemoHTTP(stop: stop),
            workers: workers
        )
        repair = try TransactionRepair(
            bootstrapServers: kafka.bootstrapServers,
            prefix: Self.prefix,
            programs: settings.programs
        )
        storm = Storm(
            fleet: fleet,
            killer: killer,
            transactionKiller: TransactionKiller(http: try DemoHTTP(stop: stop)),
            repair: repair,
            settings: settings
        )
        run = DemoRun(
            stream: DemoStream(
                tokenCount: settings.tokenCount,
                seed: settings.seed,
                now: now,
                noticesAmongTokens: true,
                sales: sales
            ),
            workers: workers,
            cluster: cluster,
            topicPrefix: Self.prefix,
            http: http,
            pauseMilliseconds: settings.pauseMilliseconds
        )
        run.door = fleet.door
    }

    static func makeFolder(_ settings: StormSettings) throws -> URL {
        let parent = settings.keptFolder ?? FileManager.default.temporaryDirectory
        let folder = parent.appendingPathComponent(
            "tollway-storm-\(settings.seed)-\(UUID().uuidString.prefix(8).lowercased())"
        )
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        return folder
    }

    /// Streams the input in while faults strike, and goes on until all have struck.
    func blow() throws {
        try run.register()
        try misplaced.write(settings: run.settings, prefix: Self.prefix)
        let repeats = try RepeatWriter(
            settings: run.settings,
            prefix: Self.prefix,
            stream: run.stream
        )
        storm.transactionKiller.burst = { count in
            try repeats.write(count: count)
        }
        http.turn = { [storm, settings] in
            try storm.turn()
            if !storm.isSatisfied {
                try repeats.write(count: settings.repeatsPerTurn)
            }
        }
        let sales = SaleSender(run: run)
        run.delivered = sales.delivered
        try run.deliver()
        try sales.finish()
        while !storm.isOver {
            try http.pause(milliseconds: 100)
        }
        http.turn = storm.turn
        storm.transactionKiller.burst = nil
        try repeats.close()
    }

    /// Waits until the account closes and stays so, or nothing changes any more.
    ///
    /// - Returns: what is wrong, one sentence each; empty where all is well.
    func reckon() throws -> [String] {
        var last: [String] = ["not looked yet"]
        var changedAt = Date()
        var mayHaveLostNotices = true
        while true {
            if mayHaveLostNotices {
                mayHaveLostNotices = try sendLostNoticesAgain()
            }
            let found = try differencesOnceKafkaAnswers()
            if try found != last || storm.repairHangingTransactions() {
                last = found
                changedAt = Date()
            }
            let quiet = Date().timeIntervalSince(changedAt)
            let patience = found.isEmpty ? Self.quietSeconds : Double(settings.patienceSeconds)
            guard quiet < patience else {
                return found
            }
            try wait(seconds: Self.lookSeconds)
        }
    }

    /// Every request that reached Apple's side.
    func requestsSeen() throws -> [SalesEvidence.Request] {
        let url = run.workers.simulatorURL("/requests?limit=\(Self.requestLogCount)")
        return SalesEvidence.requests(try http.json(url))
    }

    /// What Apple's side has of every line item.
    func lineItemsHeld() throws -> [String: SalesEvidence.AppleItem] {
        let url = run.workers.simulatorURL("/line-items?limit=\(Self.requestLogCount)")
        return SalesEvidence.appleItems(try http.json(url))
    }

    /// What can be seen only when every worker has gone: the topics, record by record, the stores
    /// against their changelogs, and transactions that are still open.
    func audit() throws -> [String] {
        let deadline = Date().addingTimeInterval(Self.openSeconds)
        while true {
            _ = try storm.repairHangingTransactions()
            let open = try repair.list()
            guard !open.isEmpty else {
                break
            }
            guard Date() < deadline else {
                return ["transactions stay open: \(open)"]
            }
            try wait(seconds: 1)
        }
        let audit = try StormAudit(self)
        storm.note(audit.sentence)
        print(audit.sentence)
        return try audit.differences + LogAudit(folder: folder).findings
    }

    /// SIGTERM to all: the storm says what did not answer it with 0 in time.
    func stop() throws {
        storm.stopAll()
        while !storm.isStopped {
            try http.pause(milliseconds: 20)
        }
        http.turn = nil
    }

    /// Ends everything, and leaves its folder.
    func end() throws {
        http.turn = nil
        _ = processes.stopAll()
        kafka.stop()
        try storm.journal.joined(separator: "\n")
            .write(
                to: folder.appendingPathComponent("journal"),
                atomically: true,
                encoding: .utf8
            )
    }

    private func wait(seconds: Double) throws {
        let deadline = Date().addingTimeInterval(seconds)
        while Date() < deadline {
            try http.pause(milliseconds: 100)
        }
    }

    /// Apple sends again what no 200 answered, hours later or never: here at once.
    ///
    /// - Returns: whether there was any; the door may not have been open for it either.
    private func sendLostNoticesAgain() throws -> Bool {
        let forged = Set(
            run.stream.deliveries.compactMap { delivery in
                if case .forgedNotice(let id) = delivery { id } else { nil }
            }
        )
        let page = try http.json(run.workers.simulatorURL("/notifications?limit=10000"))
        let all = (page as? [String: Any])?["notifications"] as? [[String: Any]] ?? []
        var isHeard: [String: Bool] = [:]
        for notice in all {
            let attempts = notice["sendAttempts"] as? [[String: Any]] ?? []
            if let id = notice["externalPurchaseId"] as? String {
                let isAnswered = attempts.last?["sendAttemptResult"] as? String == "SUCCESS"
                isHeard[id] = isHeard[id, default: false] || isAnswered
            }
        }
        // What is forged is never answered with 200.
        let lost = isHeard.filter { !$0.value && !forged.contains($0.key) }.keys.sorted()
        for id in lost {
            try run.notify(id, forged: nil)
        }
        return !lost.isEmpty
    }

    // MARK: The account

    private func differencesOnceKafkaAnswers() throws -> [String] {
        do {
            return try differences()
        } catch LogFault.unavailable(let code, _) {
            // Leaders move for a while after a node came back; it is asked again.
            return ["Kafka does not answer: \(code)"]
        }
    }

    private func differences() throws -> [String] {
        let deadLetters = try run.deadLetters().filter { !$0.key.hasPrefix("purchases ") }
        var truth = run.stream.truth
        for (kind, count) in deadLetters where truth.deadLetters[kind] != nil {
            // What the door did not answer was sent again, and may be stored twice: more dead
            // letters are no fault as long as each is of a record of its own, which is seen below.
            truth.deadLetters[kind] = max(truth.deadLetters[kind] ?? 0, count)
        }
        let account = DemoAccount(
            truth: truth,
            apple: try run.appleSide(),
            ledger: try run.ledger(),
            deadLetters: deadLetters
        )
        return account.differences + (try salesAccount()?.differences ?? [])
    }
}
