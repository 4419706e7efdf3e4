import Crypto
import Foundation
import Kafka
import LocalKafka
import StageRuntime
import TokenDomain

@testable import tollway

/// The pipeline on a Kafka that asks every client who it is, over TLS, with the rights that
/// `Deploy/acls.sh` gives and no others.
final class GuardedRig {
    static let prefix = "guarded."
    private static let keyStorePassword = "the-key-store-of-a-test"
    private static let users = Worker.allCases.map(\.rawValue) + ["operator"]
    private static let endSeconds = 60.0

    let folder: URL
    let http: DemoHTTP
    let processes: DemoProcesses
    let kafka: LocalCluster
    private(set) var workers: DemoWorkers
    let sales = DemoSales(roundCount: 1, seed: 1, now: WallClock.now)
    let passwords: [String: String]
    private let cluster: DemoCluster
    private let programs: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-guarded-\(UUID().uuidString.prefix(8).lowercased())")
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        guard let executable = Bundle.main.executableURL else {
            throw StormFault(sentence: "the test program has no place")
        }
        programs = executable.deletingLastPathComponent()
        processes = DemoProcesses(folder: folder, programs: programs)
        processes.isSupervised = true
        http = try DemoHTTP(stop: StopSignal())
        passwords = Dictionary(
            uniqueKeysWithValues: Self.users.map { user in
                let bytes = RandomBytes.next(count: 12)
                return ("tollway-\(user)", bytes.map { String($0, radix: 16) }.joined())
            }
        )
        kafka = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder.appendingPathComponent("kafka").path,
            guarded: GuardedListener(
                keyStore: folder.appendingPathComponent("node.p12").path,
                keyStorePassword: Self.keyStorePassword,
                passwords: passwords
            )
        )
        cluster = .local(kafka)
        workers = try DemoWorkers(
            folder: folder,
            processes: processes,
            topicPrefix: Self.prefix
        )
        for (user, password) in passwords {
            let file = folder.appendingPathComponent(user).path
            guard
                FileManager.default.createFile(
                    atPath: file,
                    contents: Data("\(password)\n".utf8),
                    attributes: [.posixPermissions: 0o600]
                )
            else {
                throw StormFault(sentence: "\(file) cannot be written")
            }
        }
        try makeCertificate("node")
        try makeCertificate("stranger")
        try kafka.start()
        try workers.startSimulator(seed: 1, http: http)
        try workers.writeRates(sales.rates)
    }

    /// A key for 127.0.0.1 and its certificate, which is its own authority, as `NAME.pem`.
    private func makeCertificate(_ name: String) throws {
        let store = [
            "-alias", "k", "-storetype", "PKCS12", "-storepass", Self.keyStorePassword,
            "-keystore", folder.appendingPathComponent("\(name).p12").path,
        ]
        try run(
            "keytool",
            ["-genkeypair", "-keyalg", "EC", "-groupname", "secp256r1", "-dname", "CN=127.0.0.1"]
                + ["-ext", "san=ip:127.0.0.1"] + store
        )
        try run(
            "keytool",
            ["-exportcert", "-rfc", "-file", folder.appendingPathComponent("\(name).pem").path]
                + store
        )
    }

    /// Gives the rights, as an operator would.
    func giveRights() throws {
        let script = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../Deploy/acls.sh").standardizedFileURL.path
        let home = LocalCluster.homeFromEnvironment ?? ""
        try run(
            script,
            ["--bootstrap-server", kafka.bootstrapServers, "--prefix", Self.prefix, "--yes"],
            environment: [
                "KAFKA_ACLS": "java -XX:TieredStopAtLevel=1 -Xshare:auto -cp \(home)/libs/*"
                    + " org.apache.kafka.tools.AclCommand"
            ]
        )
    }

    /// Runs a program to its end.
    ///
    /// - Throws: where it ends with another status than 0, with what it said.
    @discardableResult
    func run(
        _ program: String,
        _ arguments: [String],
        environment: [String: String] = [:]
    ) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [program] + arguments
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let said = folder.appendingPathComponent("said-\(UUID().uuidString)")
        try Data().write(to: said)
        process.standardOutput = try FileHandle(forWritingTo: said)
        process.standardError = process.standardOutput
        process.standardInput = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        let text = String(decoding: try Data(contentsOf: said), as: UTF8.self)
        guard process.terminationStatus == 0 else {
            throw StormFault(sentence: "\(program) ends with \(process.terminationStatus): \(text)")
        }
        return text
    }

    /// What a client needs to come in as a user: a password by PLAIN or SCRAM, and the authority.
    func environment(
        as user: String,
        password: String? = nil,
        mechanism: String = "PLAIN",
        authority: String = "node"
    ) -> [String: String] {
        [
            Setting.kafkaBootstrapServers: kafka.guardedServers,
            Setting.kafkaSingleBroker.fullName: "yes",
            "TOLLWAY_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
            "TOLLWAY_KAFKA_SASL_MECHANISM": mechanism,
            "TOLLWAY_KAFKA_SASL_USERNAME": "tollway-\(user)",
            "TOLLWAY_KAFKA_SASL_PASSWORD_FILE":
                folder.appendingPathComponent("tollway-\(password ?? user)").path,
            "TOLLWAY_KAFKA_SSL_CA_LOCATION": folder.appendingPathComponent("\(authority).pem").path,
        ]
    }

    /// The operator's command, as the operator.
    func tollway(_ arguments: [String]) throws -> String {
        try run(
            programs.appendingPathComponent("tollway").path,
            arguments,
            environment: environment(as: "operator").merging([
                "TOLLWAY_TOPIC_PREFIX": Self.prefix
            ]) { $1 }
        )
    }

    /// All of them under their own names.
    func startWorkers() throws {
        for worker in Worker.allCases {
            try workers.start(worker, cluster, changing: environment(as: worker.rawValue))
        }
        do {
            try workers.awaitReady(http: http)
        } catch {
            let tails = Worker.allCases.map { "\($0): \(processes.tail($0.rawValue))" }
            throw StormFault(sentence: "\(error): \(tails.joined(separator: "\n"))")
        }
    }

    /// All of them again, each with what the one before it has committed.
    func restartWorkers() throws {
        for worker in Worker.allCases {
            let process = processes.process(worker.rawValue)
            process?.terminate()
            process?.waitUntilExit()
            processes.letGo(worker.rawValue)
        }
        try startWorkers()
    }

    /// A decode that will not be let in.
    func startRefused(_ name: String, _ environment: [String: String]) throws {
        var changes = environment
        changes["TOLLWAY_ADMIN_LISTEN"] = "127.0.0.1:0"
        changes["TOLLWAY_INSTANCE"] = name
        try workers.start(.decode, cluster, as: name, changing: changes)
    }

    /// - Returns: its exit code, and what it said.
    func awaitEnd(_ name: String) throws -> (code: Int32, said: String) {
        let process = processes.process(name)
        let deadline = Date().addingTimeInterval(Self.endSeconds)
        while process?.isRunning == true, Date() < deadline {
            try http.pause(milliseconds: 50)
        }
        guard let process, !process.isRunning else {
            throw StormFault(sentence: "\(name) does not end: \(processes.tail(name))")
        }
        return (process.terminationStatus, processes.tail(name))
    }

    func makeRun(tokenCount: Int) -> DemoRun {
        DemoRun(
            stream: DemoStream(
                tokenCount: tokenCount,
                seed: 1,
                now: WallClock.now,
                noticesAmongTokens: true,
                sales: sales
            ),
            workers: workers,
            cluster: cluster,
            topicPrefix: Self.prefix,
            http: http
        )
    }

    /// Every file that a program wrote.
    func logs() throws -> [(name: String, text: String)] {
        try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
            .filter { $0.pathExtension == "log" || $0.lastPathComponent.hasPrefix("said-") }
            .map {
                ($0.lastPathComponent, String(decoding: try Data(contentsOf: $0), as: UTF8.self))
            }
    }

    func end() throws {
        _ = processes.stopAll()
        kafka.stop()
        try FileManager.default.removeItem(at: folder)
    }
}
