import Crypto
import Foundation
import Glibc
import Kafka
import LocalKafka
import StageRuntime
import TokenDomain
import TokenWire

@testable import tollway

/// Real `report` processes on a Kafka of their own, with Apple's simulator on the other side; what
/// `decode` and `dedupe` would write is written straight into their topics.
final class ReportRig {
    static let app: Int64 = 1_234_567_890
    static let bundleID = "com.example.rig"
    private static let prefix = "rig."
    private static let startSeconds = 40.0

    let http: DemoHTTP
    let processes: DemoProcesses
    let folder: URL
    private let kafka: LocalCluster
    private var simulator: [String: Int] = [:]
    private var adminPorts: [Int: Int] = [:]
    private var tokenCount = 0

    /// Starts Kafka and the simulator.
    ///
    /// - Parameters:
    ///   - reportsPerSecond: of the one app, as its apps file says.
    ///   - arguments: more of `tollway sim`.
    /// - Throws: what could not be started.
    init(reportsPerSecond: Double, simulator arguments: [String] = []) throws {
        folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-rig-\(UUID().uuidString.prefix(8).lowercased())")
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        let programs = ProcessInfo.processInfo.environment["PACE_PROGRAMS"]
            .map { URL(fileURLWithPath: $0) }
        processes = DemoProcesses(
            folder: folder,
            programs: programs ?? Bundle.main.executableURL?.deletingLastPathComponent()
        )
        http = try DemoHTTP(stop: StopSignal())
        kafka = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder.appendingPathComponent("kafka").path
        )
        try kafka.start()
        try DemoCluster.local(kafka).createTopics(prefix: Self.prefix, settings: settings)
        try write("key-1.p8", P256PrivateKey.generate().pem)
        try writeApps(keyID: "RIGKEY0001", keyFile: "key-1.p8", reportsPerSecond: reportsPerSecond)
        try startSimulator(arguments)
    }

    private var settings: KafkaSettings {
        KafkaSettings(bootstrapServers: kafka.bootstrapServers, clientID: "rig")
    }

    func write(_ name: String, _ bytes: [UInt8], mode: Int = 0o600) throws {
        let file = folder.appendingPathComponent(name)
        try Data(bytes).write(to: file, options: .atomic)
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
    }

    func writeApps(keyID: String, keyFile: String, reportsPerSecond: Double) throws {
        let app: [String: Any] = [
            "appAppleId": Self.app, "bundleId": Self.bundleID, "keyId": keyID,
            "issuerId": "57246542-96fe-1a63-e053-0824d011072a",
            "privateKeyFile": folder.appendingPathComponent(keyFile).path,
            "reportsPerSecond": reportsPerSecond,
        ]
        try write("apps.json", Array(JSONSerialization.data(withJSONObject: ["apps": [app]])))
    }

    private func startSimulator(_ arguments: [String]) throws {
        let output = try processes.start(
            "tollway",
            [
                "sim", "--port", "0", "-o", "json", "--request-log", "1000000",
                "--apps", folder.appendingPathComponent("apps.json").path,
            ] + arguments,
            name: "sim",
            environment: [:]
        )
        let line = DemoCluster.firstLine(of: output)
        simulator = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Int] ?? [:]
    }

    // MARK: Workers

    /// Starts one replica, with an instance, an admin port and a state of its own; a twin has the
    /// instance of another.
    func start(_ number: Int, instance: Int? = nil) throws {
        let port = try adminPorts[number] ?? FreePorts.take(count: 1)[0]
        adminPorts[number] = port
        try processes.start(
            "tollway-report",
            name: "report-\(number)",
            environment: [
                Setting.kafkaBootstrapServers: kafka.bootstrapServers,
                Setting.kafkaSingleBroker.fullName: "yes",
                "TOLLWAY_TOPIC_PREFIX": Self.prefix,
                "TOLLWAY_INSTANCE": "rig-\(instance ?? number)",
                "TOLLWAY_STATE_DIR": folder.appendingPathComponent("state-\(number)").path,
                "TOLLWAY_ADMIN_LISTEN": "127.0.0.1:\(port)",
                "TOLLWAY_APPS_FILE": folder.appendingPathComponent("apps.json").path,
                "TOLLWAY_APPLE_PRODUCTION_URL": "http://127.0.0.1:\(simulator["production"] ?? 0)",
                "TOLLWAY_APPLE_SANDBOX_URL": "http://127.0.0.1:\(simulator["sandbox"] ?? 0)",
            ]
        )
    }

    func awaitReady(_ numbers: [Int]) throws {
        try wait(seconds: Self.startSeconds, for: "the replicas are ready") {
            try numbers.allSatisfy { number in
                let url = "http://127.0.0.1:\(adminPorts[number] ?? 0)/readyz"
                return try http.call("GET", url)?.status == 200
            }
        }
    }

    /// What `/readyz` answers; nil where nobody does.
    func readiness(_ number: Int) throws -> Int? {
        try http.call("GET", "http://127.0.0.1:\(adminPorts[number] ?? 0)/readyz")?.status
    }

    func isReadyInStatus(_ number: Int) throws -> Bool? {
        let url = "http://127.0.0.1:\(adminPorts[number] ?? 0)/debug/status"
        return (try http.json(url) as? [String: Any])?["isReady"] as? Bool
    }

    func signal(_ number: Int, _ signal: Int32) {
        if let process = processes.process("report-\(number)"), process.isRunning {
            kill(process.processIdentifier, signal)
        }
    }

    /// What a replica has logged so far.
    func log(_ number: Int) -> String {
        let file = folder.appendingPathComponent("report-\(number).log")
        return String(
            decoding: FileManager.default.contents(atPath: file.path) ?? Data(),
            as: UTF8.self
        )
    }

    func metric(_ number: Int, _ start: String) throws -> Double? {
        let url = "http://127.0.0.1:\(adminPorts[number] ?? 0)/metrics"
        guard let answer = try http.call("GET", url) else {
            return nil
        }
        return String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
            .first { $0.hasPrefix(start) }?.split(separator: " ").last.flatMap { Double($0) }
    }

    /// What a replica has used of the processor since it was started.
    func processorSeconds(_ number: Int) throws -> Double {
        guard let process = processes.process("report-\(number)") else {
            throw RigFault(sentence: "replica \(number) does not run")
        }
        let path = "/proc/\(process.processIdentifier)/stat"
        let fields =
            try String(contentsOfFile: path, encoding: .utf8).split(separator: ")")
            .last?.split(separator: " ") ?? []
        guard fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12])
        else {
            throw RigFault(sentence: "\(path) reads otherwise")
        }
        return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    // MARK: Tokens

    /// Makes tokens that are due at once, known to Apple, and hands them to `report`.
    func deliver(_ count: Int) throws {
        let numbers = tokenCount..<tokenCount + count
        tokenCount += count
        let ids = numbers.map { number in
            let digits = String(number, radix: 16)
            let padded = String(repeating: "0", count: 12 - digits.count) + digits
            return TokenID("00000000-0000-4000-8000-\(padded)")
        }
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        for start in stride(from: 0, to: count, by: 5_000) {
            let tokens: [[String: Any]] = ids[start..<min(start + 5_000, count)].map { id in
                [
                    "externalPurchaseId": id.text, "appAppleId": Self.app,
                    "bundleId": Self.bundleID, "tokenCreationDate": now, "tokenType": "SERVICES",
                    "tokenExpirationDate": now + 31_536_000_000,
                ]
            }
            let body = try JSONSerialization.data(withJSONObject: ["register": tokens])
            let answer = try http.call("POST", admin("/tokens"), body: Array(body))
            guard answer?.status == 200 else {
                throw RigFault(sentence: "the simulator takes no tokens")
            }
        }
        let producer = try KafkaProducer(
            settings: settings,
            targets: [Topic.tokensDistinct.name(prefix: Self.prefix)]
        )
        defer { producer.close(deadlineMilliseconds: 2_000) }
        for id in ids {
            var outputs = OutputBatch()
            let key = outputs.place(id.text.utf8)
            let start = outputs.arena.count
            distinct(id, now: now).write(to: &outputs.arena)
            let value = ByteRange(start: start, count: outputs.arena.count - start)
            outputs.outputs.append(OutputBatch.Output(topic: 0, key: key, value: value))
            try producer.produce(outputs, tags: [0])
        }
        guard producer.flush(deadlineMilliseconds: 30_000) else {
            throw RigFault(sentence: "Kafka does not take the records")
        }
    }

    /// Due at once: so long ago that its primary has been heard.
    private func distinct(_ id: TokenID, now: Int64) -> TokenDistinct {
        let now = Timestamp(milliseconds: now)
        return TokenDistinct(
            externalPurchaseID: id,
            appAppleID: Self.app,
            bundleID: Self.bundleID,
            tokenType: .services,
            tokenCreationDate: now + .days(-365),
            tokenExpirationDate: now + .hours(-23),
            customer: nil,
            receivedAt: now + .hours(-72) + -ReportPolicy.primaryLagMax,
            role: .duplicate(of: TokenID("first"))
        )
    }

    // MARK: Apple's side

    func admin(_ path: String) -> String { "http://127.0.0.1:\(simulator["admin"] ?? 0)\(path)" }

    func reportedCount() throws -> Int {
        let page = try http.json(admin("/reports?limit=1")) as? [String: Any]
        return page?["count"] as? Int ?? 0
    }

    /// One request as the simulator saw it.
    struct Seen {
        /// Real time, UNIX milliseconds.
        var at: Int64
        var isReport: Bool
        var status: Int
        var errorCodes: [Int]
    }

    /// Every request so far.
    func requests() throws -> [Seen] {
        var requests: [Seen] = []
        while true {
            let url = admin("/requests?limit=50000&from=\(requests.count)")
            let page = try http.json(url) as? [String: Any]
            let records = page?["requests"] as? [[String: Any]] ?? []
            guard !records.isEmpty else {
                return requests
            }
            requests += records.map { record in
                Seen(
                    at: (record["at"] as? NSNumber)?.int64Value ?? 0,
                    isReport: record["method"] as? String == "PUT",
                    status: record["status"] as? Int ?? 0,
                    errorCodes: record["errorCodes"] as? [Int] ?? []
                )
            }
        }
    }

    // MARK: Time

    func wait(seconds: Double, for condition: String, until isTrue: () throws -> Bool) throws {
        let deadline = Date().addingTimeInterval(seconds)
        while try !isTrue() {
            try processes.refuseEnded(code: "rig.ended")
            guard Date() < deadline else {
                let logs = adminPorts.keys.sorted().map { processes.tail("report-\($0)") }
                throw RigFault(
                    sentence: "not within \(Int(seconds)) s: \(condition)\n"
                        + logs.joined(separator: "\n")
                )
            }
            try http.pause(milliseconds: 50)
        }
    }

    func stop() {
        processes.stopAll(removing: folder, of: kafka)
    }
}

/// Why a rig cannot go on.
struct RigFault: Error {
    var sentence: String
}
