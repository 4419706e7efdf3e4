internal import Crypto
internal import Foundation
internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// `tollway demo`: the whole pipeline on this machine, and an account that must close.
enum DemoCommand {
    static let verb = Verb(
        words: ["demo"],
        summary: "the whole pipeline on this machine, with an account at the end",
        options: [
            .value("--tokens", "N", "how many tokens to stream in (5000)"),
            .value("--seed", "N", "of the input (1)"),
            .flag("--keep", "leave the folder with logs, keys and state where it is"),
        ],
        details: """
            Starts a broker, Apple's simulator and the six workers as processes of their
            own, streams in tokens of every kind, notices and sales, and compares the
            reports that Apple received with what was owed and with the ledgers. One token
            missing, reported twice or with the wrong status, or one sale, is exit 1.

            The broker is the embedded one; with KAFKA_HOME (and Java) a one-node Kafka of
            the demo's own; with TOLLWAY_KAFKA_BOOTSTRAP_SERVERS that cluster, under a
            topic prefix of the demo's own. The last two run exactly-once.
            """,
        run: run
    )

    static let tokenCountMax = 1_000_000
    /// Each kind of sale goes in once for so many tokens.
    private static let tokensPerRound = 500

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let tokenCount = try invocation.integer("--tokens", default: 5_000, in: 10...tokenCountMax)
        let seed = UInt64(try invocation.integer("--seed", default: 1, in: 0...Int.max))
        let servers = ProcessInfo.processInfo.environment[Setting.kafkaBootstrapServers]
        return try DemoInterrupted.ending("demo", kafka: servers) {
            try run(invocation, tokenCount: tokenCount, seed: seed)
        }
    }

    private static func run(
        _ invocation: Invocation,
        tokenCount: Int,
        seed: UInt64
    ) throws -> ExitCode {
        let startedAt = Date()
        let stop = StopSignal()
        let runFolder = try RunFolder(of: "demo")
        let folder = runFolder.url
        defer { runFolder.end(isKept: invocation.has("--keep")) }
        let prefix = "demo-\(UUID().uuidString.prefix(8).lowercased())."
        let processes = DemoProcesses(folder: folder)
        defer { stopAll(processes) }
        let http = try DemoHTTP(stop: stop)
        let environment = ProcessInfo.processInfo.environment
        var setup = DemoWorkers.Setup()
        if environment[Setting.kafkaBootstrapServers] != nil {
            setup.environment = environment.filter { $0.key.hasPrefix(Setting.prefix + "KAFKA_") }
        }
        var workers = try DemoWorkers(
            folder: folder,
            processes: processes,
            topicPrefix: prefix,
            setup: setup
        )
        let cluster = try DemoCluster.start(
            environment: environment,
            folder: folder,
            topicPrefix: prefix,
            processes: processes,
            http: http
        )
        let settings = try cluster.settings(clientID: "\(prefix)demo")
        defer {
            stopAll(processes)
            cleanUp(cluster, prefix: prefix, settings: settings)
        }
        try cluster.createTopics(prefix: prefix, settings: settings)
        try workers.startSimulator(seed: seed, hasStrictDuplicates: true, http: http)
        let now = Int64(startedAt.timeIntervalSince1970 * 1_000)
        let sales = DemoSales(
            roundCount: max(tokenCount / tokensPerRound, 1),
            seed: seed,
            now: now
        )
        try workers.writeRates(sales.rates)
        try workers.startWorkers(cluster, http: http)
        Console.say("\(cluster.sentence); six workers and Apple's simulator run")
        let stream = DemoStream(
            tokenCount: tokenCount,
            seed: seed,
            now: now,
            sales: sales
        )
        let run = DemoRun(
            stream: stream,
            workers: workers,
            cluster: cluster,
            topicPrefix: prefix,
            http: http,
            settings: settings
        )
        try run.register()
        try run.deliver()
        try run.sell()
        try run.awaitEnd()
        let memory = Worker.allCases.map {
            ($0.rawValue, processes.peakResidentByteCount($0.rawValue) ?? 0)
        }
        let account = try run.account()
        print(
            account,
            faults: try run.faults(),
            memory: memory,
            seconds: Date().timeIntervalSince(startedAt),
            invocation: invocation,
            seed: seed
        )
        return account.agrees ? .ok : .failed
    }

    private static func stopAll(_ processes: DemoProcesses) {
        for name in processes.stopAll() {
            Console.say("\(name) did not stop in time and was killed")
        }
    }

    private static func cleanUp(_ cluster: DemoCluster, prefix: String, settings: KafkaSettings) {
        do {
            try cluster.cleanUp(prefix: prefix, settings: settings)
        } catch {
            Console.say("topics with the prefix \(prefix) could not be removed: \(error)")
        }
    }

    // MARK: Output

    private static func print(
        _ account: DemoAccount,
        faults: [(fault: String, count: Int)],
        memory: [(worker: String, byteCount: Int)],
        seconds: TimeInterval,
        invocation: Invocation,
        seed: UInt64
    ) {
        guard invocation.output == .table else {
            var data = account.json
            data["seed"] = seed
            data["seconds"] = (seconds * 10).rounded() / 10
            data["faults"] = faults.map {
                ["fault": $0.fault, "struck": $0.count] as [String: Any]
            }
            data["peakResidentBytes"] = Dictionary(
                memory.map { ($0.worker, $0.byteCount) },
                uniquingKeysWith: { first, _ in first }
            )
            write(data)
            return
        }
        var text = "\n" + account.table() + "\n"
        if let sales = account.sales {
            text += sales.table() + "\n"
        }
        text += account.closing + "\n" + account.appLines
        if let sales = account.sales {
            text += sales.closing + "\n" + sales.appLines
        }
        let statuses = account.statusCounts.sorted { $0.key < $1.key }
            .map { "\($0.key) \($0.value)" }
        text += "reported: " + statuses.joined(separator: ", ") + "\n"
        let struck = faults.map { "\($0.fault) " + CountText.of(Int($0.count), "time") }
        text += "on the way: " + struck.joined(separator: ", ") + "\n"
        text +=
            "settled after a retry: \(account.retriedCount), of these by asking Apple what it"
            + " holds after a lost answer: \(account.verifiedCount)\n"
        let peaks = memory.map { "\($0.worker) \($0.byteCount >> 20) MB" }
        text += "peak memory: " + peaks.joined(separator: ", ") + "\n"
        for difference in account.differences {
            text += "DIFFERS  \(difference)\n"
        }
        for difference in account.sales?.differences.prefix(20) ?? [] {
            text += "DIFFERS  \(difference)\n"
        }
        if account.differenceCount > account.differences.count {
            text += "and \(account.differenceCount - account.differences.count) more\n"
        }
        text +=
            account.agrees
            ? "every token once: Apple's side, the ledger and the input agree"
            : "THE ACCOUNT DOES NOT CLOSE: " + CountText.of(account.differenceCount, "difference")
                + " (seed \(seed))"
        Console.write(text + " (\(Int(seconds)) s)\n")
    }

    private static func write(_ data: [String: Any]) {
        do {
            let json = try JSONSerialization.data(withJSONObject: data, options: [.sortedKeys])
            Console.write(Array(json) + [UInt8(ascii: "\n")])
        } catch {
            preconditionFailure("the account is plain JSON")
        }
    }
}
