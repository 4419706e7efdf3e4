import Crypto
import Foundation
import Testing

@Suite struct `tollway config` {
    @Test func `says for each worker whether it could start`() throws {
        let run = try TollwayProcess.run(["config", "check", "-o", "json"])
        #expect(run.exitCode == 1)
        let workers = try #require(try run.object()["workers"] as? [[String: Any]])
        let answers = workers.map { "\($0["worker"] ?? "") \($0["setting"] ?? "ok")" }
        #expect(
            answers == [
                "ingest ok", "decode TOLLWAY_APPS_FILE", "dedupe ok", "report TOLLWAY_APPS_FILE",
                "notifications TOLLWAY_APPS_FILE", "purchases TOLLWAY_APPS_FILE",
            ]
        )
        let one = try TollwayProcess.run(["config", "check", "--worker", "dedupe"])
        #expect(one.exitCode == 0)
        #expect(one.output == "dedupe: ok\n")
    }

    @Test func `finds settings of the client library that do not go together`() throws {
        let run = try TollwayProcess.run(
            ["config", "check", "--worker", "dedupe", "-o", "json"],
            environment: ["TOLLWAY_KAFKA_SECURITY_PROTOCOL": "sasl_plaintext"]
        )
        #expect(run.exitCode == 1)
        let worker = try #require((try run.object()["workers"] as? [[String: Any]])?.first)
        #expect(worker["setting"] as? String == "TOLLWAY_KAFKA_*")
        #expect(worker["starts"] as? Bool == false)
    }

    @Test func `reads the files that the workers would read`() throws {
        let folder = try TemporaryFolder()
        let apps = try folder.file("apps.json", Data(#"{"apps":[{"appAppleId":1}]}"#.utf8))
        let environment = ["TOLLWAY_APPS_FILE": apps.path]
        let run = try TollwayProcess.run(
            ["config", "check", "--worker", "decode"],
            environment: environment
        )
        #expect(run.exitCode == 1)
        #expect(run.output.contains("app 1 needs a bundleId"))
    }

    @Test(arguments: ["ingest", "report", "notifications"])
    func `refuses roots that are intermediates alone, and says what to put there`(
        worker: String
    ) throws {
        let folder = try TemporaryFolder()
        let authority = try TestCertificateAuthority(validSeconds: 0...1)
        let key = try folder.file("k.p8", Data(try P256PrivateKey.generate().pem))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key.path)
        let apps = """
            {"apps":[{"appAppleId":1,"bundleId":"b","issuerId":"i","keyId":"K",
            "privateKeyFile":"\(key.path)"}]}
            """
        let environment = [
            "TOLLWAY_APPS_FILE": try folder.file("apps.json", Data(apps.utf8)).path,
            "TOLLWAY_APPLE_ROOTS_FILE": folder.url.appending(path: "roots.pem").path,
        ]
        let intermediate = authority.intermediate.certificate.pem
        for (pem, exit) in [(intermediate, 1), (intermediate + authority.rootPEM, 0)] {
            try folder.file("roots.pem", Data(pem))
            let run = try TollwayProcess.run(
                ["config", "check", "--worker", worker],
                environment: environment
            )
            #expect(run.exitCode == exit, "\(run.output)")
            for part in ["it holds no root", "put Apple Root CA - G3 there"] {
                #expect(run.output.contains(part) == (exit == 1), "\(run.output)")
            }
        }
    }

    @Test func `reads the exchange rates that purchases would read`() throws {
        let folder = try TemporaryFolder()
        let apps = try folder.file(
            "apps.json",
            Data(#"{"apps":[{"appAppleId":1,"bundleId":"b"}]}"#.utf8)
        )
        for (text, exit) in [
            ("date,from,to,rate\n2026-03-01,UYU,EUR,0.0215\n", 0),
            ("date,from,to,rate\n2026-03-01,UYU,EUR\n", 1),
        ] {
            let rates = try folder.file("rates.csv", Data(text.utf8))
            let run = try TollwayProcess.run(
                ["config", "check", "--worker", "purchases"],
                environment: [
                    "TOLLWAY_APPS_FILE": apps.path, "TOLLWAY_EXCHANGE_RATES_FILE": rates.path,
                ]
            )
            #expect(run.exitCode == exit, "\(run.output)")
            #expect(exit == 0 || run.output.contains("rates.csv") && run.output.contains("line 2"))
            #expect(exit == 0 || run.output.contains("purchases: would start without rates"))
        }
    }

    @Test func `looks into keys for Apple, and for certificates that are not there`() throws {
        let folder = try TemporaryFolder()
        let key = try folder.file("k.p8", Data("no key, but of sixteen bytes".utf8))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key.path)
        let apps = try folder.file(
            "apps.json",
            Data(
                (#"{"apps":[{"appAppleId":1,"bundleId":"b","issuerId":"i","keyId":"k","#
                    + #""privateKeyFile":"k.p8","reportsPerSecond":1}]}"#).utf8
            )
        )
        let report = try TollwayProcess.run(
            ["config", "check", "--worker", "report"],
            environment: ["TOLLWAY_APPS_FILE": apps.path]
        )
        #expect(report.exitCode == 1)
        #expect(report.output.contains("it holds no P-256 private key in PEM"), "\(report.output)")
        let dedupe = try TollwayProcess.run(
            ["config", "check", "--worker", "dedupe"],
            environment: ["TOLLWAY_KAFKA_SSL_CA_LOCATION": "/nowhere/ca.pem"]
        )
        #expect(dedupe.exitCode == 1)
        #expect(dedupe.output.contains("TOLLWAY_KAFKA_SSL_CA_LOCATION"), "\(dedupe.output)")
    }

    /// The worker starts, and signs with the other.
    @Test func `warns of a key that cannot be read beside one that can`() throws {
        let folder = try TemporaryFolder()
        let key = try folder.file("new.p8", Data(try P256PrivateKey.generate().pem))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key.path)
        let apps = try folder.file(
            "apps.json",
            Data(
                (#"{"apps":[{"appAppleId":1,"bundleId":"b","keys":["#
                    + #"{"issuerId":"i","keyId":"NEW","privateKeyFile":"new.p8"},"#
                    + #"{"issuerId":"i","keyId":"OLD","privateKeyFile":"old.p8"}]}]}"#).utf8
            )
        )
        let environment = ["TOLLWAY_APPS_FILE": apps.path]
        let command = ["config", "check", "--worker", "report"]
        let run = try TollwayProcess.run(command, environment: environment)
        #expect(run.exitCode == 0)
        #expect(run.output.hasPrefix("report: ok\nreport: warning, "), "\(run.output)")
        #expect(run.output.contains("old.p8"))
        let document = try TollwayProcess.run(command + ["-o", "json"], environment: environment)
        let worker = try #require(try document.object()["workers"] as? [[String: Any]]).first
        #expect(worker?["ok"] as? Bool == true && worker?["starts"] as? Bool == true)
        #expect((worker?["warnings"] as? [[String: Any]])?.count == 1)
        let doctor = try TollwayProcess.run(
            ["doctor", "--for", "report", "--no-kafka", "--no-apple"],
            environment: environment
        )
        #expect(!doctor.output.contains("would not start"), "\(doctor.output)")
        #expect(doctor.output.contains("report would start, and the app's other key signs"))
    }

    @Test(arguments: [("dedupe", 1), ("decode", 1), ("ingest", 0)])
    func `looks whether a worker that keeps state can write it`(
        worker: String,
        exitCode: Int32
    ) throws {
        let folder = try TemporaryFolder()
        let file = try folder.file("file", Data())
        let run = try TollwayProcess.run(
            ["config", "check", "--worker", worker],
            environment: ["TOLLWAY_STATE_DIR": file.path + "/state"]
        )
        #expect(run.exitCode == exitCode)
        #expect(run.output.contains("TOLLWAY_STATE_DIR") == (worker == "dedupe"), "\(run.output)")
        let deep = try TollwayProcess.run(
            ["config", "check", "--worker", "dedupe"],
            environment: ["TOLLWAY_STATE_DIR": folder.url.path + "/a/b/c/"]
        )
        #expect(deep.exitCode == 0, "\(deep.output)")
    }

    @Test func `hides no duration for the word token in its name`() throws {
        let run = try TollwayProcess.run(["config", "print", "--worker", "purchases"])
        #expect(run.output.contains { $0 == "h" } && !run.output.contains("***"), "\(run.output)")
    }

    @Test func `prints every setting and where it came from`() throws {
        let run = try TollwayProcess.run(
            ["config", "print", "--worker", "report", "-o", "ndjson"],
            environment: ["TOLLWAY_INSTANCE": "here", "TOLLWAY_KAFKA_LINGER_MS": "5"]
        )
        #expect(run.exitCode == 0)
        let settings = try run.objects().map { setting in
            let value = setting["value"] as? String ?? "-"
            return "\(setting["name"] ?? "")=\(value) \(setting["source"] ?? "")"
        }
        #expect(settings.contains("TOLLWAY_INSTANCE=here environment"))
        #expect(settings.contains("TOLLWAY_KAFKA_LINGER_MS=5 environment"))
        #expect(settings.contains("TOLLWAY_ADMIN_LISTEN=127.0.0.1:9404 default"))
        #expect(settings.contains("TOLLWAY_APPS_FILE=- default"))
    }

    @Test func `shows no secret, whatever it is asked to print`() throws {
        let run = try TollwayProcess.run(
            ["config", "print"],
            environment: ["TOLLWAY_KAFKA_SASL_OAUTHBEARER_CONFIG": "canary-0123"]
        )
        #expect(run.exitCode == 0)
        #expect(!run.output.contains("canary"))
        let refused = try TollwayProcess.run(
            ["config", "print"],
            environment: ["TOLLWAY_KAFKA_SASL_PASSWORD": "canary-0123"]
        )
        #expect(refused.exitCode == 2)
        #expect(!refused.output.contains("canary") && !refused.talk.contains("canary"))
    }

    @Test func `names a setting that nobody knows`() throws {
        let run = try TollwayProcess.run(
            ["config", "print", "-o", "json"],
            environment: ["TOLLWAY_TOPIC_PREFX": "a."]
        )
        #expect(run.exitCode == 2)
        #expect(try run.errorCode() == "config.unknown_name")
        #expect(run.output.contains("did you mean TOLLWAY_TOPIC_PREFIX?"))
    }

    @Test func `finds what librdkafka would refuse at the worker's start`() throws {
        let run = try TollwayProcess.run(
            ["config", "check", "--worker", "dedupe"],
            environment: ["TOLLWAY_KAFKA_BOOTSTRAP_SERVER": "a:1"]
        )
        #expect(run.exitCode == 1)
        #expect(run.output.contains("did you mean TOLLWAY_KAFKA_BOOTSTRAP_SERVERS?"))
    }
}
