internal import Crypto
internal import Foundation
internal import Glibc
internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// All workers and Apple's simulator on this machine, configured as a deployment would be: by
/// environment, with keys in files.
struct DemoWorkers {
    /// What a pipeline that stays has otherwise than a demo.
    struct Setup {
        /// Names what goes wrong, and the instance.
        var command = "demo"
        /// Nil: free ones.
        var ports: LocalPorts?
        /// Without it everybody on this machine may send.
        var hasDoorKey = true
        /// Keys that lie in the folder are used again.
        var keepsKeys = false
        /// Of every worker; settings that the pipeline makes itself stand above it.
        var environment: [String: String] = [:]
    }

    static let hold = "2s"
    static let grace = "3s"
    /// Longer than a token takes from the door to the book.
    static let tokenWait = "15s"
    private static let startSeconds = 30.0
    /// Some requests are refused, some fail, some 200s are lost on the way.
    static let faults = [
        "429:every=61,retry-after=1s", "500:every=83", "reset-after:every=97",
        "reset-before:every=211",
    ]

    let ingestURL: String
    let ingestKey: String
    private(set) var simulator: (production: Int, sandbox: Int, admin: Int) = (0, 0, 0)
    let adminPorts: [Worker: Int]
    private let processes: DemoProcesses
    private let setup: Setup
    private(set) var environment: [String: String]

    init(
        folder: URL,
        processes: DemoProcesses,
        topicPrefix: String,
        setup: Setup = Setup()
    ) throws {
        self.processes = processes
        self.setup = setup
        let ports = try setup.ports ?? LocalPorts.free()
        ingestURL = "http://127.0.0.1:\(ports.ingest)"
        ingestKey = RandomBytes.next(count: 24).map { String($0, radix: 16) }.joined()
        adminPorts = ports.admin
        environment = [
            "TOLLWAY_REPORT_HOLD": Self.hold,
            "TOLLWAY_REPORT_UNRECOGNIZED_GRACE": Self.grace,
            "TOLLWAY_PURCHASES_TOKEN_WAIT": Self.tokenWait,
        ]
        environment.merge(setup.environment) { $1 }
        environment["TOLLWAY_TOPIC_PREFIX"] = topicPrefix
        environment["TOLLWAY_STATE_DIR"] = folder.appendingPathComponent("state").path
        environment["TOLLWAY_INGEST_LISTEN"] = "127.0.0.1:\(ports.ingest)"
        environment["PATH"] = ProcessInfo.processInfo.environment["PATH"]
        try writeSecrets()
    }

    /// Keys, as a deployment has them: in files that only their reader may read.
    private mutating func writeSecrets() throws {
        if setup.hasDoorKey {
            environment["TOLLWAY_INGEST_KEYS_FILE"] = try write(
                "ingest-keys",
                Array(ingestKey.utf8)
            )
        }
        // Another key would make other customers of the same people.
        environment["TOLLWAY_INGEST_CUSTOMER_KEY_FILE"] = try kept("customer-key") {
            RandomBytes.next(count: 32)
        }
        var apps: [[String: Any]] = []
        for (number, app) in DemoStream.apps.enumerated() {
            let file = try kept("key-\(number).p8") { try P256PrivateKey.generate().pem }
            apps.append([
                "appAppleId": app.appAppleID,
                "bundleId": app.bundleID,
                "issuerId": UUIDText.v4(random: RandomBytes.next(count: 16)),
                "keyId": "DEMOKEY00\(number)",
                "privateKeyFile": file,
                "reportsPerSecond": 1_000,
            ])
        }
        environment["TOLLWAY_APPS_FILE"] = try write(
            "apps.json",
            Array(JSONSerialization.data(withJSONObject: ["apps": apps]))
        )
    }

    /// Exchange rates for sales abroad; before the workers start.
    mutating func writeRates(_ text: String) throws {
        environment[Setting.exchangeRatesFile.fullName] = try write("rates.csv", Array(text.utf8))
    }

    private func write(_ name: String, _ bytes: [UInt8]) throws -> String {
        try processes.write(bytes, as: name, command: setup.command)
    }

    /// A file that outlives the run, where runs are to go on from each other.
    private func kept(_ name: String, _ bytes: () throws -> [UInt8]) throws -> String {
        if setup.keepsKeys, let path = processes.file(name) {
            return path
        }
        return try write(name, try bytes())
    }

    /// The simulator's first line, `{"production":9500,…}`; nil where it is none.
    private static func ports(in line: String) -> [String: Int]? {
        do {
            return try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Int]
        } catch {
            // The line itself stands in the caller's error.
            return nil
        }
    }

    /// Starts Apple's side and fetches its roots.
    ///
    /// With strict duplicates it has to know the customer of each token.
    mutating func startSimulator(
        seed: UInt64,
        faults: [String] = Self.faults,
        requestLogCount: Int = 1_000,
        hasStrictDuplicates: Bool = false,
        http: DemoHTTP
    ) throws {
        var arguments = ["sim", "--port", String(setup.ports?.simulator ?? 0), "-o", "json"]
        arguments += ["--request-log", String(requestLogCount)]
        arguments += ["--seed", String(seed), "--apps", environment["TOLLWAY_APPS_FILE"] ?? ""]
        arguments += faults.flatMap { ["--fault", $0] }
        arguments += hasStrictDuplicates ? ["--strict-duplicates"] : []
        let output = try processes.start("tollway", arguments, name: "sim", environment: [:])
        let line = DemoCluster.firstLine(of: output)
        guard
            let ports = Self.ports(in: line), let production = ports["production"],
            let sandbox = ports["sandbox"],
            let admin = ports["admin"]
        else {
            throw CommandFailure(
                .failed,
                code: "\(setup.command).sim",
                "the simulator did not start: \(line.isEmpty ? processes.tail("sim") : line)"
            )
        }
        simulator = (production, sandbox, admin)
        environment["TOLLWAY_APPLE_PRODUCTION_URL"] = "http://127.0.0.1:\(production)"
        environment["TOLLWAY_APPLE_SANDBOX_URL"] = "http://127.0.0.1:\(sandbox)"
        guard let (status, roots) = try http.call("GET", simulatorURL("/roots.pem")), status == 200
        else {
            throw CommandFailure(
                .failed,
                code: "\(setup.command).sim",
                "the simulator gives no roots"
            )
        }
        environment["TOLLWAY_APPLE_ROOTS_FILE"] = try write("roots.pem", roots)
    }

    func simulatorURL(_ path: String) -> String {
        "http://127.0.0.1:\(simulator.admin)\(path)"
    }

    /// Starts every worker and waits until all are ready.
    func startWorkers(_ cluster: DemoCluster, http: DemoHTTP) throws {
        for worker in Worker.allCases {
            try start(worker, cluster)
        }
        try awaitReady(http: http)
    }

    /// Starts one worker; each start of it has the same instance name.
    ///
    /// Another replica, or a twin, has a process name of its own and changes what it must not share.
    func start(
        _ worker: Worker,
        _ cluster: DemoCluster,
        as name: String? = nil,
        changing changes: [String: String] = [:]
    ) throws {
        var environment = environment
        environment[Setting.kafkaBootstrapServers] = cluster.bootstrapServers
        environment[Setting.delivery.fullName] = cluster.delivery.rawValue
        environment[Setting.kafkaSingleBroker.fullName] = cluster.isTrial ? "yes" : "no"
        environment[Setting.adminListen.fullName] = "127.0.0.1:\(adminPorts[worker] ?? 0)"
        environment[Setting.instance.fullName] = setup.command
        environment.merge(changes) { $1 }
        try processes.start(
            "tollway-\(worker.rawValue)",
            name: name ?? worker.rawValue,
            environment: environment
        )
    }

    func awaitReady(http: DemoHTTP) throws {
        let start = Date()
        for worker in Worker.allCases {
            try processes.awaitReady(
                worker.rawValue,
                probe: adminURL(worker, "/readyz"),
                http: http,
                since: start,
                secondsMax: Self.startSeconds,
                command: setup.command
            )
        }
    }

    /// - Throws: which process ended although nobody asked it to.
    func refuseEnded() throws {
        try processes.refuseEnded(code: "demo.ended")
    }

    /// What the stages say of themselves.
    func counts(http: DemoHTTP, reported: Int) throws -> DemoCounts {
        var counts = DemoCounts(reported: reported)
        for worker in Worker.allCases {
            guard let answer = try http.call("GET", adminURL(worker, "/metrics")) else {
                continue
            }
            let text = String(decoding: answer.body, as: UTF8.self)
            guard worker != .purchases else {
                // Of sales: tokens that it reads again are not counted as repeats.
                for outcome in ["repeat", "reported", "not_owed", "dead_letter"] {
                    counts.settledSales += DemoCounts.sum(
                        text,
                        "tollway_purchases_total",
                        ["outcome=\"\(outcome)\""]
                    )
                }
                continue
            }
            counts.deadLetters += DemoCounts.sum(text, "tollway_dlq_records_total")
            counts.repeats += DemoCounts.sum(
                text,
                "tollway_records_completed_total",
                ["outcome=\"repeat\""]
            )
            switch worker {
            case .ingest:
                counts.refusedNotices = DemoCounts.sum(
                    text,
                    "tollway_ingest_notifications_refused_total",
                    ["code=\"jws."]
                )
            case .decode:
                counts.received = DemoCounts.sum(text, "tollway_records_received_total")
                counts.decoded = DemoCounts.sum(
                    text,
                    "tollway_records_completed_total",
                    ["outcome=\"forwarded\""]
                )
            case .dedupe:
                counts.distinct = DemoCounts.sum(
                    text,
                    "tollway_records_completed_total",
                    ["outcome=\"forwarded\""]
                )
            default: break
            }
        }
        return counts
    }

    func metricsPages(http: DemoHTTP) throws -> [String] {
        try Worker.allCases.compactMap { worker in
            try http.call("GET", adminURL(worker, "/metrics")).map {
                String(decoding: $0.body, as: UTF8.self)
            }
        }
    }

    func adminURL(_ worker: Worker, _ path: String) -> String {
        "http://127.0.0.1:\(adminPorts[worker] ?? 0)\(path)"
    }
}
