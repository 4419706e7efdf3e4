import Kafka
import StageRuntime
import TokenDomain
import Testing

@Suite struct `A configuration` {
    private func read(
        _ environment: [String: String],
        _ program: Program = .worker(.dedupe)
    ) throws(ConfigurationFault) -> Configuration {
        try Configuration(environment: environment, program: program, hostName: "host-1")
    }

    @Test func `holds the defaults where nothing is set`() throws {
        let configuration = try read([:])
        #expect(configuration.kafka.bootstrapServers == "127.0.0.1:9092")
        #expect(configuration.kafka.clientID == "tollway.dedupe-host-1")
        #expect(configuration.topicPrefix == "tollway.")
        #expect(configuration.delivery == .exactlyOnce)
        #expect(configuration.instance == "host-1")
        #expect(configuration.stateDirectory == "./state")
        #expect(configuration.adminListen == "127.0.0.1:9403")
        #expect(configuration.ingestListen == "127.0.0.1:8080")
        #expect(configuration.appleProductionURL == "https://api.storekit.apple.com")
        #expect(configuration.appleSandboxURL == "https://api.storekit-sandbox.apple.com")
        #expect(configuration.reportHold == .hours(24))
        #expect(configuration.reportUnrecognizedGrace == .minutes(15))
        #expect(configuration.reportDeadlineDays == 10)
        #expect(configuration.purchasesTokenWindow == .days(7))
        #expect(configuration.purchasesTokenWait == .hours(24))
        #expect(configuration.exchangeRatesFile == nil)
        #expect(configuration.entries.allSatisfy { $0.source == .default })
    }

    @Test(arguments: zip(Worker.allCases, 9401...9406))
    func `gives each worker an admin port of its own`(worker: Worker, port: Int) throws {
        let environment = ["TOLLWAY_APPS_FILE": "a", "TOLLWAY_APPLE_ROOTS_FILE": "b"]
        let configuration = try read(environment, .worker(worker))
        #expect(configuration.adminListen == "127.0.0.1:\(port)")
    }

    @Test func `passes settings of librdkafka through under their own names`() throws {
        let configuration = try read([
            "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": "a:1,b:2",
            "TOLLWAY_KAFKA_SASL_USERNAME": "u",
            "TOLLWAY_KAFKA_QUEUED_MAX_MESSAGES_KBYTES": "1024",
            "PATH": "/bin",
        ])
        #expect(configuration.kafka.bootstrapServers == "a:1,b:2")
        #expect(
            configuration.kafka.extra == [
                "sasl.username": "u", "queued.max.messages.kbytes": "1024",
            ]
        )
    }

    @Test(arguments: [
        // 0 would freeze lag; a lower limit would make good records dead letters; and so on.
        "STATISTICS_INTERVAL_MS", "MESSAGE_MAX_BYTES", "TRANSACTION_TIMEOUT_MS", "ACKS",
        "MESSAGE_COPY_MAX_BYTES", "QUEUING_STRATEGY", "LOG_QUEUE",
        "SOCKET_TIMEOUT_MS", "DELIVERY_REPORT_ONLY_ERROR",
    ])
    func `keeps what a promise rests on out of reach`(name: String) {
        let fault = #expect(throws: ConfigurationFault.self) {
            try read(["TOLLWAY_KAFKA_\(name)": "1"])
        }
        #expect(fault?.setting == "TOLLWAY_KAFKA_\(name)")
        #expect(fault?.code == "config.refused")
    }

    @Test(arguments: [
        ("TOLLWAY_TOPIC_PREFX", "TOLLWAY_TOPIC_PREFIX"),
        ("TOLLWAY_REPORT_HODL", "TOLLWAY_REPORT_HOLD"),
        ("TOLLWAY_INGEST_KEY_FILE", "TOLLWAY_INGEST_KEYS_FILE"),
        ("TOLLWAY_KAKFA_BOOTSTRAP_SERVERS", "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS"),
        ("TOLLWAY_KAFKA_BOOTSTRAP_SERVER", "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS"),
        ("TOLLWAY_KAFKA_FETCH_MAXBYTES", "TOLLWAY_KAFKA_FETCH_MAX_BYTES"),
        ("TOLLWAY_KAFKA_SASL_PASWORD_FILE", "TOLLWAY_KAFKA_SASL_PASSWORD_FILE"),
        ("TOLLWAY_KAFKA_SSL_CA_LOCATON", "TOLLWAY_KAFKA_SSL_CA_LOCATION"),
        ("TOLLWAY_KAFKA_NOTHING_OF_THE_KIND_AT_ALL", nil),
        ("TOLLWAY_topic_prefix", nil),
        ("TOLLWAY_ENTIRELY_ELSEWHERE_AND_LONG", nil),
        ("TOLLWAY_", nil),
    ])
    func `names an unknown setting and its nearest neighbour`(name: String, nearest: String?) {
        #expect(throws: ConfigurationFault.unknownName(name, nearest: nearest)) {
            try read([name: "x"])
        }
    }

    @Test(arguments: [
        ("FETCH_MAX_BYTES", "much", "fetch.max.bytes"),
        // The library names what it is an alias of.
        ("LINGER_MS", "-1", "queue.buffering.max.ms"),
        ("SECURITY_PROTOCOL", "tls", "security.protocol"),
    ])
    func `refuses a value that librdkafka does not take`(name: String, value: String, key: String) {
        let fault = #expect(throws: ConfigurationFault.self) {
            try read(["TOLLWAY_KAFKA_\(name)": value])
        }
        #expect(fault?.code == "config.refused")
        #expect(fault?.setting == "TOLLWAY_KAFKA_\(name)")
        #expect(fault?.sentence.contains(key) == true)
    }

    /// The client library takes some of them, and the handles of one process must not differ.
    @Test(arguments: ["CLIENT_ID", "CLIENT_RACK", "SSL_CA_LOCATION", "SASL_PASSWORD_FILE"])
    func `refuses an empty setting of librdkafka`(name: String) {
        let fault = #expect(throws: ConfigurationFault.self) {
            try read(["TOLLWAY_KAFKA_\(name)": ""])
        }
        #expect(fault?.setting == "TOLLWAY_KAFKA_\(name)")
        #expect(fault?.sentence.contains("leave it out") == true)
    }

    @Test func `reads host names by commas, without case`() throws {
        let configuration = try read([
            "TOLLWAY_ADMIN_HOSTS": "Decode,decode.tollway.svc", "TOLLWAY_INGEST_HOSTS": "door-1",
        ])
        #expect(configuration.adminHosts == ["decode", "decode.tollway.svc"])
        #expect(configuration.ingestHosts == ["door-1"])
        #expect(try read([:]).adminHosts.isEmpty)
    }

    @Test func `lets a setting of another worker pass`() throws {
        _ = try read([
            "TOLLWAY_REPORT_HOLD": "1h", "TOLLWAY_INGEST_LISTEN": "0.0.0.0:8080",
        ])
    }

    @Test(arguments: [
        ("TOLLWAY_TOPIC_PREFIX", "a b"), ("TOLLWAY_TOPIC_PREFIX", "ä"),
        ("TOLLWAY_TOPIC_PREFIX", String(repeating: "a", count: 101)),
        ("TOLLWAY_TOPIC_PREFIX", ""), ("TOLLWAY_INSTANCE", "a/b"), ("TOLLWAY_STATE_DIR", ""),
        ("TOLLWAY_DELIVERY", "exactly_once"), ("TOLLWAY_DELIVERY", "EXACTLY-ONCE"),
        ("TOLLWAY_ADMIN_LISTEN", "9401"), ("TOLLWAY_ADMIN_LISTEN", "127.0.0.1"),
        ("TOLLWAY_ADMIN_LISTEN", "127.0.0.1:65536"), ("TOLLWAY_ADMIN_LISTEN", "1.2.3:80"),
        ("TOLLWAY_ADMIN_LISTEN", "::1:80"), ("TOLLWAY_ADMIN_LISTEN", "[127.0.0.1]:80"),
        ("TOLLWAY_ADMIN_LISTEN", "example.com:80"), ("TOLLWAY_ADMIN_LISTEN", "127.0.0.1:+1"),
        ("TOLLWAY_ADMIN_HOSTS", ""), ("TOLLWAY_ADMIN_HOSTS", "a,,b"),
        ("TOLLWAY_ADMIN_HOSTS", "a:1"),
        ("TOLLWAY_INGEST_HOSTS", "a, b"), ("TOLLWAY_INGEST_HOSTS", "*"),
        ("TOLLWAY_INGEST_LISTEN", ":8080"), ("TOLLWAY_INGEST_LISTEN", "[::1]:"),
        ("TOLLWAY_APPLE_PRODUCTION_URL", "api.storekit.apple.com"),
        ("TOLLWAY_APPLE_PRODUCTION_URL", "ftp://a"), ("TOLLWAY_APPLE_SANDBOX_URL", "http://"),
        ("TOLLWAY_APPLE_SANDBOX_URL", "http://a/path"),
        ("TOLLWAY_APPLE_SANDBOX_URL", "http://user@a"), ("TOLLWAY_APPLE_SANDBOX_URL", "http://a b"),
        ("TOLLWAY_REPORT_HOLD", "24"), ("TOLLWAY_REPORT_HOLD", "1d"),
        ("TOLLWAY_REPORT_HOLD", "-1h"), ("TOLLWAY_REPORT_HOLD", "1.5h"),
        ("TOLLWAY_REPORT_HOLD", "9601h"), ("TOLLWAY_REPORT_HOLD", "99999999999999999999h"),
        ("TOLLWAY_REPORT_UNRECOGNIZED_GRACE", "15M"), ("TOLLWAY_REPORT_DEADLINE_DAYS", "0"),
        ("TOLLWAY_REPORT_DEADLINE_DAYS", "366"), ("TOLLWAY_REPORT_DEADLINE_DAYS", "ten"),
        ("TOLLWAY_REPORT_DEADLINE_DAYS", "+10"), ("TOLLWAY_REPORT_MONTHLY_REPEAT", "yes"),
        ("TOLLWAY_REPORT_UNKNOWN_REMINDERS", "on"),
        ("TOLLWAY_PURCHASES_TOKEN_WINDOW", "7"), ("TOLLWAY_PURCHASES_TOKEN_WINDOW", "401d"),
        ("TOLLWAY_PURCHASES_TOKEN_WAIT", "1w"), ("TOLLWAY_EXCHANGE_RATES_FILE", ""),
        ("TOLLWAY_KAFKA_BOOTSTRAP_SERVERS", ""), ("TOLLWAY_KAFKA_BOOTSTRAP_SERVERS", "a:1,,b:2"),
        ("TOLLWAY_KAFKA_BOOTSTRAP_SERVERS", "a:1, b:2"),
        ("TOLLWAY_KAFKA_SINGLE_BROKER", "true"), ("TOLLWAY_KAFKA_SINGLE_BROKER", ""),
    ])
    func `says which value is wrong`(name: String, value: String) throws {
        let fault = #expect(throws: ConfigurationFault.self) { try read([name: value]) }
        #expect(fault?.code == "config.invalid")
        #expect(fault?.setting == name)
        let sentence = try #require(fault?.sentence)
        #expect(sentence.hasPrefix("\(name) is \"") && sentence.contains("it must be"))
        #expect(!sentence.contains("\n") && sentence.utf8.count < 400)
    }

    @Test(arguments: [(nil, Durability.promised), ("no", .promised), ("yes", .trial)])
    func `takes a single broker for a trial only, and does not pass it through`(
        text: String?,
        durability: Durability
    ) throws {
        var environment: [String: String] = [:]
        environment["TOLLWAY_KAFKA_SINGLE_BROKER"] = text
        let configuration = try read(environment)
        #expect(configuration.durability == durability)
        #expect(configuration.kafka.extra.isEmpty)
        let entries = configuration.entries.filter { $0.name == "TOLLWAY_KAFKA_SINGLE_BROKER" }
        #expect(entries.map(\.value) == [text ?? "no"])
    }

    @Test(arguments: [
        ("https://apple.example", false), ("HTTPS://10.0.0.1:9500", false),
        ("http://127.0.0.1:9500", false), ("http://127.9.9.9", false),
        ("HTTP://LOCALHOST:1", false),
        ("http://localhost", false), ("http://[::1]:9500/", false), ("http://[::1]", false),
        ("http://apple.example", true), ("http://10.0.0.1:9500", true), ("http://sim:9500", true),
        ("http://127.0.0.1.example:80", true), ("http://localhost.example", true),
        ("http://127.1:80", true), ("http://[::]:80", true), ("http://0.0.0.0", true),
        ("http://::1:80", true), ("http://[::ffff:127.0.0.1]:80", true),
    ])
    func `lets Apple be asked in plain text on this machine only`(url: String, isRefused: Bool)
        throws
    {
        for name in ["TOLLWAY_APPLE_PRODUCTION_URL", "TOLLWAY_APPLE_SANDBOX_URL"] {
            guard isRefused else {
                _ = try read([name: url])
                continue
            }
            let fault = #expect(throws: ConfigurationFault.self) { try read([name: url]) }
            #expect(fault?.code == "config.refused")
            #expect(fault?.setting == name)
            #expect(fault?.sentence.contains("write https://") == true)
        }
    }

    @Test(arguments: [
        ("", UnknownReminders.report), ("report", .report), ("note", .note),
    ])
    func `reads what a reminder about an unknown token asks for`(
        text: String,
        choice: UnknownReminders
    ) throws {
        let environment = text.isEmpty ? [:] : ["TOLLWAY_REPORT_UNKNOWN_REMINDERS": text]
        #expect(try read(environment).reportUnknownReminders == choice)
    }

    @Test(arguments: [
        ("300ms", Milliseconds(300)), ("30s", .seconds(30)), ("15m", .minutes(15)),
        ("24h", .hours(24)), ("0s", Milliseconds(0)), ("9600h", .days(400)),
    ])
    func `reads durations`(text: String, duration: Milliseconds) throws {
        #expect(try read(["TOLLWAY_REPORT_HOLD": text]).reportHold == duration)
    }

    /// Sales and their tokens are days apart.
    @Test(arguments: [
        ("7d", Milliseconds.days(7)), ("400d", .days(400)), ("0d", Milliseconds(0)),
        ("36h", .hours(36)), ("300ms", Milliseconds(300)),
    ])
    func `reads durations of sales in days, too`(text: String, duration: Milliseconds) throws {
        for name in ["WINDOW", "WAIT"] {
            let configuration = try read(["TOLLWAY_PURCHASES_TOKEN_\(name)": text])
            #expect(
                (name == "WAIT"
                    ? configuration.purchasesTokenWait : configuration.purchasesTokenWindow)
                    == duration
            )
        }
    }

    @Test(arguments: [
        (Worker.decode, ["TOLLWAY_APPS_FILE"]),
        (.report, ["TOLLWAY_APPS_FILE"]),
        (.purchases, ["TOLLWAY_APPS_FILE"]),
        (.notifications, ["TOLLWAY_APPS_FILE", "TOLLWAY_APPLE_ROOTS_FILE"]),
    ])
    func `says what a worker cannot do without`(worker: Worker, names: [String]) {
        for name in names {
            let others = names.filter { $0 != name }.map { ($0, "x") }
            let fault = #expect(throws: ConfigurationFault.self) {
                try read(Dictionary(uniqueKeysWithValues: others), .worker(worker))
            }
            #expect(fault?.code == "config.missing")
            #expect(fault?.setting == name)
        }
    }

    @Test(arguments: [
        ("127.0.0.1:0", false), ("127.9.9.9:80", false), ("[::1]:80", false),
        ("localhost:80", false), ("0.0.0.0:80", true), ("10.0.0.1:80", true), ("[::]:80", true),
    ])
    func `refuses a door to everybody without keys`(listen: String, isRefused: Bool) throws {
        let environment = ["TOLLWAY_INGEST_LISTEN": listen]
        if isRefused {
            let fault = #expect(throws: ConfigurationFault.self) {
                try read(environment, .worker(.ingest))
            }
            #expect(fault?.code == "config.refused")
            #expect(fault?.setting == "TOLLWAY_INGEST_LISTEN")
        } else {
            _ = try read(environment, .worker(.ingest))
        }
        let keys = environment.merging(["TOLLWAY_INGEST_KEYS_FILE": "keys"]) { $1 }
        _ = try read(keys, .worker(.ingest))
    }

    @Test(arguments: ["SASL_PASSWORD", "SSL_KEY_PASSWORD", "SSL_KEY_PEM"])
    func `takes a secret of librdkafka from a file only`(name: String) throws {
        let secret = "correct-horse"
        let fault = #expect(throws: ConfigurationFault.self) {
            try read(["TOLLWAY_KAFKA_\(name)": secret])
        }
        #expect(fault?.code == "config.refused")
        #expect(fault?.sentence.contains(secret) == false)
        #expect(fault?.sentence.contains("TOLLWAY_KAFKA_\(name)_FILE") == true)
        let file = try TemporaryFile("\(secret)\n")
        let configuration = try read(["TOLLWAY_KAFKA_\(name)_FILE": file.path])
        let key = name.lowercased().split(separator: "_").joined(separator: ".")
        #expect(configuration.kafka.extra == [key: secret])
        #expect(!configuration.entries.contains { $0.value?.contains(secret) == true })
    }

    @Test func `tells what was set from what holds by default`() throws {
        let entries = try Configuration.entries(
            environment: ["TOLLWAY_INSTANCE": "a", "TOLLWAY_KAFKA_LINGER_MS": "5"],
            program: .worker(.notifications)
        )
        let set = entries.filter { $0.source == .environment }.map(\.name)
        #expect(set == ["TOLLWAY_INSTANCE", "TOLLWAY_KAFKA_LINGER_MS"])
        #expect(entries.contains { $0.value == "127.0.0.1:9405" })
    }
}

@Suite struct `A misspelt word` {
    @Test(arguments: [
        ("tokne", "token"), ("brokr", "broker"), ("dlq", "dlq"), ("xyzzy", nil), ("", nil),
        (String(repeating: "q", count: 100_000), nil),
    ])
    func `finds what was probably meant`(word: String, meant: String?) {
        #expect(Spelling.nearest(to: word, among: ["token", "broker", "dlq"]) == meant)
    }
}
