import Crypto
import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `tollway doctor` {
    /// Settings of a machine on which everything is right; Kafka and Apple are not asked.
    private func settings(_ folder: TemporaryFolder) throws -> [String: String] {
        let key = try P256PrivateKey.generate().pem
        let file = try folder.file("k.p8", Data(key))
        let apps = """
            {"apps":[{"appAppleId":1,"bundleId":"com.example","issuerId":"i","keyId":"K",
            "privateKeyFile":"\(file.path)"}]}
            """
        try chmod(file, 0o600)
        let authority = try TestCertificateAuthority(validSeconds: 0...4_000_000_000)
        return [
            "TOLLWAY_APPS_FILE": try folder.file("apps.json", Data(apps.utf8)).path,
            "TOLLWAY_APPLE_ROOTS_FILE":
                try folder.file("roots.pem", Data(authority.rootPEM)).path,
            "TOLLWAY_STATE_DIR": folder.url.path,
        ]
    }

    private func chmod(_ file: URL, _ mode: Int) throws {
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: file.path)
    }

    private func run(_ environment: [String: String], _ options: [String] = []) throws
        -> (exitCode: Int32, findings: [[String: Any]])
    {
        let run = try TollwayProcess.run(
            ["doctor", "-o", "json"] + options,
            environment: environment
        )
        return (run.exitCode, try #require(try run.object()["findings"] as? [[String: Any]]))
    }

    private func failed(_ findings: [[String: Any]]) -> [[String: Any]] {
        findings.filter { $0["verdict"] as? String == "failed" }
    }

    @Test func `finds nothing where all is well`() throws {
        let folder = try TemporaryFolder()
        let (exit, findings) = try run(try settings(folder), ["--no-kafka", "--no-apple"])
        #expect(failed(findings).isEmpty, "\(findings)")
        #expect(exit == 0)
        let areas = Set(findings.compactMap { $0["area"] as? String })
        #expect(areas == ["configuration", "keys", "state", "kafka", "apple", "clock"])
    }

    @Test(arguments: [("report", 1), ("decode", 0), ("dedupe", 0), ("operator", 0)])
    func `looks at what one role has, and misses nothing that others want`(
        role: String,
        exitCode: Int32
    ) throws {
        let folder = try TemporaryFolder()
        let settings = try settings(folder)
        try FileManager.default.removeItem(at: folder.url.appending(path: "k.p8"))
        let options = ["--no-kafka", "--for", role] + (exitCode == 0 ? [] : ["--no-apple"])
        let (exit, findings) = try run(settings, options)
        #expect(exit == exitCode, "\(findings)")
        let configurations = findings.filter { $0["area"] as? String == "configuration" }
        #expect(configurations.count == 1)
        if exitCode == 0 {
            let apple = findings.filter { $0["area"] as? String == "apple" }
            #expect(apple.map { $0["verdict"] as? String } == ["skipped"])
        }
    }

    /// Every other verb of the operator refuses such settings.
    @Test func `fails for an operator whose settings are wrong`() throws {
        let folder = try TemporaryFolder()
        let settings = try settings(folder).merging(["TOLLWAY_TOPIC_PREFX": "x"]) { $1 }
        let (exit, findings) = try run(settings, ["--no-kafka", "--no-apple", "--for", "operator"])
        #expect(exit == 1)
        #expect(failed(findings).map { $0["area"] as? String } == ["configuration"])
        let sentence = failed(findings).first?["finding"] as? String
        #expect(sentence?.contains("TOLLWAY_TOPIC_PREFX is no setting") == true, "\(findings)")
        #expect((failed(findings).first?["repair"] as? String)?.isEmpty == false)
    }

    @Test(arguments: ["no JSON", nil] as [String?])
    func `fails for an operator whose apps file cannot be read`(text: String?) throws {
        let folder = try TemporaryFolder()
        let settings = try settings(folder)
        let options = ["--no-kafka", "--for", "operator"]
        let file = folder.url.appending(path: "apps.json")
        if let text {
            try Data(text.utf8).write(to: file)
        } else {
            try FileManager.default.removeItem(at: file)
        }
        let (exit, findings) = try run(settings, options)
        #expect(exit == 1)
        #expect(failed(findings).map { $0["area"] as? String } == ["configuration"], "\(findings)")
        // An operator's pod may not reach Apple, and would wait for it.
        let apple = findings.filter { $0["area"] as? String == "apple" }
        #expect(apple.map { $0["verdict"] as? String } == ["skipped"])
        let sentence = failed(findings).first?["finding"] as? String
        #expect(sentence?.contains(file.path) == true)
        // Who names no file wants none.
        let unset = settings.filter { $0.key != "TOLLWAY_APPS_FILE" }
        #expect(try run(unset, options).exitCode == 0)
    }

    @Test(
        arguments: [
            ([.ok(.notifications, "")], .ok), ([.failed(.notifications, "", "")], .failed),
            ([.skipped(.notifications, ""), .ok(.notifications, "")], .ok),
            ([.skipped(.notifications, "")], .failed), ([], .failed),
            ([.warning(.notifications, "", "")], .failed),
        ] as [([DoctorFinding], ExitCode)]
    )
    func `fails where no test notification has a result`(findings: [DoctorFinding], exit: ExitCode)
    {
        var report = DoctorCommand.Report(output: .json)
        report.addTest(findings)
        #expect(report.exit == exit)
        // What is wrong already says why.
        var away = DoctorCommand.Report(output: .json)
        away.add([.failed(.apple, "", "")])
        away.addTest([.skipped(.notifications, "")])
        #expect(away.exit == .noApple)
    }

    @Test func `fails where nobody can be asked for a test notification`() throws {
        let folder = try TemporaryFolder()
        let (exit, findings) = try run(
            ["TOLLWAY_STATE_DIR": folder.url.path],
            ["--no-kafka", "--no-apple", "--for", "dedupe", "--test-notification"]
        )
        #expect(exit == 1)
        #expect(failed(findings).map { $0["area"] as? String } == ["notifications"], "\(findings)")
    }

    @Test func `refuses a key that everybody can read, and says what to do`() throws {
        let folder = try TemporaryFolder()
        let settings = try settings(folder)
        try chmod(folder.url.appending(path: "k.p8"), 0o644)
        let (exit, findings) = try run(settings, ["--no-kafka", "--no-apple"])
        #expect(exit == 1)
        let keys = failed(findings).filter { $0["area"] as? String == "keys" }
        #expect(keys.count == 1)
        #expect((keys.first?["finding"] as? String)?.contains("everybody can read it") == true)
        #expect((keys.first?["repair"] as? String)?.isEmpty == false)
        // It never shows what is in it.
        #expect(!"\(findings)".contains("BEGIN"))
    }

    @Test func `finds a key that is none, roots that are none, and a folder that cannot be made`()
        throws
    {
        let folder = try TemporaryFolder()
        var settings = try settings(folder)
        let file = try folder.file("k.p8", Data("-----BEGIN nonsense of some length".utf8))
        try chmod(file, 0o600)
        try folder.file("roots.pem", Data("nonsense".utf8))
        settings["TOLLWAY_STATE_DIR"] = folder.url.appending(path: "roots.pem/b/c").path
        let (exit, findings) = try run(settings, ["--no-kafka", "--no-apple"])
        #expect(exit == 1)
        // Ingest, report and notifications read the roots; dedupe, report and purchases keep state.
        let areas =
            Array(repeating: "configuration", count: 5) + ["keys", "keys", "state"]
        #expect(failed(findings).map { $0["area"] as? String } == areas)
        #expect(failed(findings).allSatisfy { ($0["repair"] as? String)?.isEmpty == false })
    }

    /// Of what Apple signs nothing would be genuine.
    @Test func `finds roots that are intermediates alone, and says which root to put there`()
        throws
    {
        let folder = try TemporaryFolder()
        let settings = try settings(folder)
        let authority = try TestCertificateAuthority(validSeconds: 0...4_000_000_000)
        let intermediate = authority.intermediate.certificate.pem
        try folder.file("roots.pem", Data(intermediate))
        let (exit, findings) = try run(settings, ["--no-kafka", "--no-apple"])
        #expect(exit == 1)
        let sentences = failed(findings).compactMap { $0["finding"] as? String }
        // Ingest, report and notifications read them, and doctor itself.
        #expect(sentences.count == 4)
        for part in ["it holds no root", "put Apple Root CA - G3 there"] {
            #expect(sentences.allSatisfy { $0.contains(part) }, "\(sentences)")
        }
        try folder.file("roots.pem", Data(intermediate + authority.rootPEM))
        #expect(try run(settings, ["--no-kafka", "--no-apple"]).exitCode == 0)
    }

    @Test(arguments: ["a", "a/b/c", "a/", "a/b//", ""])
    func `takes a folder that a worker would make with all above it`(path: String) throws {
        let folder = try TemporaryFolder()
        var settings = try settings(folder)
        settings["TOLLWAY_STATE_DIR"] = folder.url.path + "/" + path
        let (_, findings) = try run(settings, ["--no-kafka", "--no-apple"])
        #expect(failed(findings).isEmpty, "\(findings)")
    }

    @Test func `exits 6 without Kafka and 7 without Apple`() throws {
        let folder = try TemporaryFolder()
        var settings = try settings(folder)
        settings["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS"] = "127.0.0.1:1"
        #expect(try run(settings, ["--no-apple"]).exitCode == 6)
        settings["TOLLWAY_APPLE_PRODUCTION_URL"] = "http://127.0.0.1:1"
        settings["TOLLWAY_APPLE_SANDBOX_URL"] = "http://127.0.0.1:1"
        let (exit, findings) = try run(settings, ["--no-kafka"])
        #expect(exit == 7)
        #expect(failed(findings).count == 2)
        #expect(findings.last?["verdict"] as? String == "skipped", "no clock to compare with")
    }

    /// It waited for its deadline of 10 s once more.
    @Test func `ends with the last answer of Apple's hosts`() throws {
        let configuration = try Configuration(
            environment: [
                "TOLLWAY_APPLE_PRODUCTION_URL": "http://127.0.0.1:1",
                "TOLLWAY_APPLE_SANDBOX_URL": "http://127.0.0.1:1",
            ],
            program: .tollway
        )
        let apple = DoctorApple(configuration: configuration, now: { 0 })
        var findings: [DoctorFinding] = []
        let duration = ContinuousClock().measure { findings = apple.findings() }
        #expect(findings.count == 3 && duration < .seconds(9), "\(duration)")
    }

    @Test(
        arguments: [
            (0, .ok), (30, .ok), (31, .warning), (-299, .warning), (300, .failed),
            (-4_000, .failed),
        ] as [(Int64, DoctorFinding.Verdict)]
    )
    func `compares the clock with Apple's`(seconds: Int64, verdict: DoctorFinding.Verdict) {
        #expect(DoctorApple.clock(skewSeconds: seconds).verdict == verdict)
    }

    @Test(
        arguments: [
            ([:], ["decode", "operator"], .ok, "as decode, operator must"),
            (["decode": ["write a"]], ["decode"], .failed, "may not write a, as decode must"),
            (["decode": ["write a"]], ["decode", "operator"], .ok, "as operator must"),
            (
                ["decode": ["write a", "read b"], "operator": ["read c"]], ["decode", "operator"],
                .failed, "may not read c, as operator must"
            ),
        ] as [([String: [String]], [String], DoctorFinding.Verdict, String)]
    )
    func `says whose rights the credentials have, and fails where they are nobody's`(
        refused: [String: [String]],
        names: [String],
        verdict: DoctorFinding.Verdict,
        part: String
    ) {
        let roles = DoctorRights.Role.all.filter { names.contains($0.name) }
        let findings = DoctorRights.findings(
            roles,
            Dictionary(uniqueKeysWithValues: roles.map { ($0, refused[$0.name] ?? []) })
        )
        #expect(findings.first?.verdict == verdict)
        #expect(findings.first?.sentence.contains(part) == true, "\(findings)")
        #expect(findings.dropFirst().allSatisfy { $0.verdict == .skipped })
    }

    @Test(
        arguments: [
            (400, 400, [.ok, .ok]), (401, 401, [.failed, .failed]),
            (401, 400, [.warning, .ok]), (400, 401, [.ok, .failed]), (403, 400, [.failed, .ok]),
            (429, 500, [.skipped, .skipped]), (400, nil, [.ok, .skipped]),
            // A proxy answers, or a wrong address: report stops the lane by that.
            (200, 400, [.failed, .ok]), (404, 400, [.failed, .ok]), (302, 400, [.failed, .ok]),
            (407, 400, [.failed, .ok]), (401, 404, [.failed, .failed]),
            (401, 200, [.failed, .failed]),
        ] as [(Int?, Int?, [DoctorFinding.Verdict])]
    )
    func `learns from Apple's answers whether a key is good in each world`(
        production: Int?,
        sandbox: Int?,
        verdicts: [DoctorFinding.Verdict]
    ) {
        let findings = DoctorApple.key(
            "the key K of app 1",
            [.production: production, .sandbox: sandbox]
        )
        #expect(findings.map(\.verdict) == verdicts)
        for finding in findings {
            #expect(finding.sentence.contains("the key K of app 1"))
            #expect((finding.repair != nil) == [.failed, .warning].contains(finding.verdict))
        }
    }

    @Test(
        arguments: [
            (401, .ok), (400, .ok), (403, .ok), (429, .ok), (500, .ok), (200, .failed),
            (204, .failed), (302, .failed), (404, .failed), (407, .failed),
        ] as [(Int, DoctorFinding.Verdict)],
        [false, true]
    )
    func `learns from Apple's answers whether it is Apple that answers`(
        answer: (httpStatus: Int, verdict: DoctorFinding.Verdict),
        isPage: Bool
    ) {
        let httpStatus = answer.httpStatus
        let verdict = isPage && httpStatus == 400 ? .failed : answer.verdict
        let finding = DoctorApple.host(
            "sandbox, URL",
            .sandbox,
            httpStatus: httpStatus,
            isPage: isPage
        )
        #expect(finding.verdict == verdict)
        #expect(finding.sentence.contains("sandbox, URL"))
        #expect(finding.sentence.contains("HTTP \(httpStatus)"))
        let names = finding.repair?.contains("TOLLWAY_APPLE_SANDBOX_URL") == true
        #expect(names == (verdict == .failed))
    }

    @Test func `says how many keys it did not ask Apple about`() throws {
        #expect(DoctorApple.unasked(keyCount: DoctorApple.signerCountMax) == nil)
        let finding = try #require(DoctorApple.unasked(keyCount: DoctorApple.signerCountMax + 7))
        #expect(finding.verdict == .warning)
        #expect(finding.sentence.contains("the other 7"))
    }

    @Test func `knows no other roles`() throws {
        let run = try TollwayProcess.run(["doctor", "--for", "nobody", "-o", "json"])
        #expect(run.exitCode == 2)
        #expect(try run.errorCode() == "usage.bad_value")
    }

    /// It asks for every right that there is, and no topic is longer for it.
    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `proves the rights to write, and writes nothing`() throws {
        let world = try DeadLetterWorld()
        let folder = try TemporaryFolder()
        let settings = try settings(folder).merging(world.environment) { $1 }
        let (exit, findings) = try run(settings, ["--no-apple"])
        #expect(exit == 0, "\(findings)")
        let rights = findings.filter { $0["area"] as? String == "rights" }
        #expect(rights.count == 1)
        for word in ["write", "ingest", "report", "operator"] {
            #expect((rights.first?["finding"] as? String)?.contains(word) == true, "\(rights)")
        }
        for topic in Topic.all {
            #expect(try world.recordCount(of: topic) == 0, "\(topic)")
        }
    }

    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `tells a trial from what loses tokens`() throws {
        let world = try DeadLetterWorld()
        let folder = try TemporaryFolder()
        var settings = try settings(folder).merging(world.environment) { $1 }
        func sentences(_ verdict: String, _ findings: [[String: Any]]) -> String {
            findings.filter { $0["verdict"] as? String == verdict }
                .compactMap { $0["finding"] as? String }.joined(separator: "\n")
        }
        let (exit, findings) = try run(settings, ["--no-apple"])
        #expect(exit == 0, "\(findings)")
        #expect(sentences("warning", findings).contains("this is a trial"))
        settings["TOLLWAY_KAFKA_SINGLE_BROKER"] = nil
        let (strictExit, strict) = try run(settings, ["--no-apple"])
        #expect(strictExit == 1)
        for part in ["replication factor 1 and need 3", "min.insync.replicas 1 and need 2"] {
            #expect(sentences("failed", strict).contains(part), "\(strict)")
        }
        // Once for all of them.
        #expect(failed(strict).count { $0["area"] as? String == "topics" } <= 6)
    }

    @Test(
        arguments: [
            ("__transaction_state", 3, "2", "false", []),
            ("__transaction_state", 1, "1", "true", [.failed, .failed, .failed]),
            ("__transaction_state", 3, "1", "false", [.failed]),
            ("__consumer_offsets", 3, "2", nil, []),
            ("__consumer_offsets", 3, "1", nil, [.warning]),
            ("__consumer_offsets", 2, "2", "false", [.failed]),
        ] as [(String, Int, String, String?, [DoctorFinding.Verdict])]
    )
    func `looks at what commits rest upon`(
        topic: String,
        replicationFactor: Int,
        inSync: String,
        unclean: String?,
        verdicts: [DoctorFinding.Verdict]
    ) {
        var configuration = ["min.insync.replicas": inSync]
        configuration["unclean.leader.election.enable"] = unclean
        let findings = DoctorInternalTopics.findings(
            of: topic,
            replicationFactor: replicationFactor,
            configuration
        )
        #expect(findings.map(\.verdict) == verdicts)
        #expect(findings.allSatisfy { $0.sentence.hasPrefix(topic) && $0.repair != nil })
    }

    @Test(
        arguments: [
            ("10080", true), ("43199", true), ("43200", false), ("525600", false), (nil, false),
            ("", false),
        ] as [(String?, Bool)]
    )
    func `wants positions kept for a month`(minutes: String?, warns: Bool) {
        var configuration = ["log.retention.hours": "168"]
        configuration["offsets.retention.minutes"] = minutes
        let finding = DoctorInternalTopics.retention(ofBroker: 3, configuration)
        #expect((finding?.verdict == .warning) == warns)
        #expect((finding?.sentence.contains("offsets.retention.minutes") == true) == warns)
        #expect((finding?.repair?.contains("offsets.retention.minutes=43200") == true) == warns)
    }

    @Test func `says that it could not see how long positions are kept`() {
        let refusal = LogFault.unavailable(
            code: "CLUSTER_AUTHORIZATION_FAILED",
            message: "not allowed"
        )
        let deaf = DoctorInternalTopics.retention(of: [1, 2]) { _ throws(LogFault) in
            throw refusal
        }
        #expect(deaf.map(\.verdict) == [.skipped])
        #expect(deaf.first?.sentence.contains("offsets.retention.minutes of broker 1 not") == true)
        // What a broker does say stands above it.
        let mixed = DoctorInternalTopics.retention(of: [1, 2]) { node throws(LogFault) in
            guard node == 2 else {
                throw refusal
            }
            return ["offsets.retention.minutes": "10080"]
        }
        #expect(mixed.map(\.verdict) == [.warning])
        let well = DoctorInternalTopics.retention(of: [1]) { _ throws(LogFault) in
            ["offsets.retention.minutes": "43200"]
        }
        #expect(well.isEmpty)
    }

    /// Asks a broker, and waits for half a second.
    private static func impatient(
        _ broker: MockBroker
    ) throws -> (configuration: Configuration, admin: KafkaAdmin) {
        let configuration = try Configuration(
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_DELIVERY": "at-least-once",
            ],
            program: .tollway
        )
        let admin = try KafkaAdmin(settings: configuration.kafka, deadlineMilliseconds: 500)
        return (configuration, admin)
    }

    /// NOT_COORDINATOR and its like come and go; what they have to do with rights is nothing.
    @Test func `takes a coordinator that is away for no missing right`() throws {
        let topic = "tollway.tokens.received.v1"
        let broker = try MockBroker(topics: [topic: 1])
        defer { broker.close() }
        // COORDINATOR_NOT_AVAILABLE
        broker.pushErrors(Array(repeating: 15, count: 10_000), for: .findCoordinator)
        let (configuration, admin) = try Self.impatient(broker)
        defer { admin.close() }
        let rights = DoctorRights(
            configuration: configuration,
            role: nil,
            now: 0,
            there: [topic],
            hidden: []
        )
        #expect(throws: LogFault.self) { try rights.mayAsk(.decode, admin) }
        let findings = DoctorStages(prefix: "tollway.", clusterID: "c", there: [topic])
            .findings(admin)
        #expect(findings.contains { $0.sentence.hasPrefix("decode was not looked at: ") })
        #expect(!findings.contains { $0.sentence.contains("may not ask") }, "\(findings)")
    }

    @Test func `knows the embedded broker, and what it is good for`() throws {
        let broker = try MockBroker()
        defer { broker.close() }
        let folder = try TemporaryFolder()
        var settings = try settings(folder)
        settings["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrapServers
        settings["TOLLWAY_DELIVERY"] = "at-least-once"
        let (exit, findings) = try run(settings, ["--no-apple"])
        #expect(exit == 0)
        let kafka = findings.filter { $0["area"] as? String == "kafka" }
        #expect(kafka.first?["verdict"] as? String == "warning", "\(findings)")
    }

    /// The embedded broker has no transactions: that nobody can look there is told instead.
    @Test func `looks for transactions in what groups have committed`() throws {
        let offsets = TopicPartition(topic: "__consumer_offsets", partition: 0)
        let broker = try MockBroker(topics: [offsets.topic: 1])
        defer { broker.close() }
        let (configuration, admin) = try Self.impatient(broker)
        defer { admin.close() }
        let doctor = DoctorKafka(configuration: configuration, role: nil, now: 0)
        #expect(doctor.transactions(admin, []).map(\.verdict) == [.ok])
        try broker.removeLeader(of: offsets)
        #expect(doctor.transactions(admin, []).map(\.verdict) == [.ok, .skipped])
    }

    /// Goal: brokers that are away while another goes on telling of them, as where most of three are
    /// lost, are found at once, and not after as many questions as doctor has, each waited for.
    ///
    /// Method: the second of two embedded brokers takes a minute for each answer.
    @Test func `names leaders that do not answer, and asks nothing more`() throws {
        let topic = "tollway.tokens.received.v1"
        let broker = try MockBroker(brokerCount: 2, topics: [topic: 4])
        defer { broker.close() }
        // Leaders are drawn at random: one in sixteen times the second broker had none.
        try broker.setLeader(of: TopicPartition(topic: topic, partition: 3), to: 2)
        try broker.setRoundTrip(ofBroker: 2, milliseconds: 60_000)
        let folder = try TemporaryFolder()
        var settings = try settings(folder)
        settings["TOLLWAY_KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrapServers
        settings["TOLLWAY_DELIVERY"] = "at-least-once"
        let (exit, findings) = try run(settings, ["--no-apple"])
        #expect(exit == 1)
        let sentence = try #require(failed(findings).first?["finding"] as? String)
        #expect(failed(findings).count == 1 && sentence.contains(topic), "\(findings)")
        #expect(!findings.contains { $0["area"] as? String == "topics" }, "\(findings)")
    }
}
