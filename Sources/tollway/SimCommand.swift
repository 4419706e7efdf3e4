internal import AppleSimulator
internal import Crypto
internal import Foundation
internal import StageRuntime
internal import TokenDomain

/// `tollway sim`: Apple's side on this machine.
enum SimCommand {
    static let verb = Verb(
        words: ["sim"],
        summary: "Apple's simulator: production, sandbox and admin ports; faults by switch",
        options: [
            .value("--port", "P", "production on P, sandbox P+1, admin P+2 (9500; 0: any three)"),
            .value("--host", "ADDRESS", "where to listen (127.0.0.1)"),
            .value("--apps", "FILE", "register the API keys of this TOLLWAY_APPS_FILE"),
            .value("--roots", "FILE", "write the root that signs notifications there, PEM"),
            .value("--notify", "URL", "send production's notifications there"),
            .value("--notify-sandbox", "URL", "send the sandbox's notifications there"),
            .value(
                "--fault",
                "FAULT",
                "something that goes wrong, see above; repeatable",
                isRepeatable: true
            ),
            .value("--reports-limit", "N", "reports per second and app, by --rate-window (none)"),
            .value(
                "--rate-window",
                "TIME",
                "by what Apple's limits are kept (1h); repeatable: each is",
                isRepeatable: true
            ),
            .value("--rate-answer", "FORM", "429 to reports: full, no-header or bare (full)"),
            .flag(
                "--strict-duplicates",
                "DUPLICATE_TOKEN only beside another of the period, and for good"
            ),
            .value("--clock", "TIME", "the simulated time at start, UNIX ms (now)"),
            .value("--clock-rate", "R", "simulated seconds per second (1)"),
            .value("--request-log", "N", "requests remembered (10000)"),
            .value("--seed", "N", "of minted identifiers (another one at each start)"),
        ],
        details: """
            Stands for api.storekit.apple.com on port 9500 and for its sandbox on 9501:
            External Purchase reports, Set App Account Token, notification history and
            test notifications, with Apple's rules, errors and limits. Any client will
            do: give it http://127.0.0.1:9500 for a host. The admin port says who may
            ask and what exists; curl http://127.0.0.1:9502/ lists all of it.
              curl localhost:9502/keys -d '{"keyId":"K","issuerId":"I","publicKey":PEM}'
              curl localhost:9502/tokens -d '{"mint":{"event":"install","appAppleId":1,
                    "bundleId":"com.example","customer":"mia"}}'
              curl localhost:9502/reports                   the reports that it received
              curl localhost:9502/clock -X PUT -d '{"advance":"10d"}'   notices go to --notify
            For Tollway: --apps takes the keys of its apps, and the workers take
            TOLLWAY_APPLE_PRODUCTION_URL and _SANDBOX_URL. SIGINT or SIGTERM ends it.

            FAULT is KIND[:NAME=VALUE,...], for example 429:every=50,retry-after=2s
              kinds   500 500-retryable 500-empty 503 429 429-no-header 429-bare 401 26
                      404-retryable reset-before reset-after (a lost 200) torn slow
              when    every=N probability=0.05,seed=7 after=N times=N
              which   on=report|report-get|account-token|history|test|any (report)
                      environment=production|sandbox app=BUNDLE token=ID
              more    retry-after=2s (429: 1s) for=500ms (slow: 1s)
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let options = try options(invocation)
        let clock = try clock(invocation)
        let simulator: AppleSimulator
        do {
            simulator = try AppleSimulator(options: options)
        } catch {
            throw CommandFailure(.failed, code: "sim.cannot_start", error.description)
        }
        if let clock {
            let real = Int64(Date().timeIntervalSince1970 * 1000)
            simulator.withWorld {
                $0.clock.set(now: clock.start ?? real, rate: clock.rate, real: real)
            }
        }
        if let path = invocation.value("--roots") {
            let pem = simulator.withWorld { Data($0.rootPEM) }
            do { try pem.write(to: URL(fileURLWithPath: path), options: .atomic) } catch {
                throw .usage("bad_value", "--roots \(path) cannot be written: \(error)")
            }
        }
        let signal = StopSignal()
        announce(simulator, asJSON: invocation.output != .table)
        simulator.run(untilReadable: signal.descriptor)
        simulator.stop()
        return signal.wait(milliseconds: 0) ?? .ok
    }

    /// The simulated time at start, nil for now, and its pace; nil where neither is asked for.
    private static func clock(
        _ invocation: Invocation
    ) throws(CommandFailure) -> (start: Int64?, rate: Double)? {
        let (startText, rateText) = (invocation.value("--clock"), invocation.value("--clock-rate"))
        guard startText != nil || rateText != nil else {
            return nil
        }
        let start = startText.flatMap { Int64($0) }
        if let startText, !(start.map(WorldClock.settable.contains) ?? false) {
            throw .usage(
                "bad_value",
                "--clock is \"\(startText)\": it must be UNIX milliseconds up to the year 9999"
            )
        }
        guard let rate = Double(rateText ?? "1"), (0...10_000_000).contains(rate) else {
            throw .usage(
                "bad_value",
                "--clock-rate is \"\(rateText ?? "")\": it must be a number from 0 to 10000000"
            )
        }
        return (start, rate)
    }

    /// The ports on standard output: with `--port 0` there is no other way to learn them.
    private static func announce(_ simulator: AppleSimulator, asJSON: Bool) {
        let ports = simulator.ports
        if asJSON {
            Console.write(
                "{\"production\":\(ports.production),\"sandbox\":\(ports.sandbox),"
                    + "\"admin\":\(ports.admin)}\n"
            )
            return
        }
        Console.write(
            """
            production  \(simulator.baseURL(.production))
            sandbox     \(simulator.baseURL(.sandbox))
            admin       \(simulator.adminURL)

            """
        )
    }

    private static func options(
        _ invocation: Invocation
    ) throws(CommandFailure) -> AppleSimulator.Options {
        var options = AppleSimulator.Options()
        options.host = invocation.value("--host") ?? options.host
        options.port = UInt16(
            try invocation.integer("--port", default: 9500, in: 0...Int(UInt16.max) - 2)
        )
        for text in invocation.values("--fault") {
            do { options.faults.append(try FaultRule(text)) } catch {
                throw .usage("bad_value", "--fault \(text): \(error.description)")
            }
        }
        if let path = invocation.value("--apps") { options.keys = try keys(in: path) }
        options.world.requiresSiblingForDuplicate = invocation.has("--strict-duplicates")
        options.world.requestLogCapacity = try invocation.integer(
            "--request-log",
            default: 10_000,
            in: 0...10_000_000
        )
        // The same identifiers once more would be repeats to a platform that has them.
        options.world.seed = UInt64(
            try invocation.integer("--seed", default: .random(in: 1...Int.max), in: 0...Int.max)
        )
        options.notificationURLs[.production] = try url("--notify", invocation)
        options.notificationURLs[.sandbox] = try url("--notify-sandbox", invocation)
        try readLimits(invocation, into: &options.world)
        return options
    }

    private static func url(
        _ option: String,
        _ invocation: Invocation
    ) throws(CommandFailure) -> String? {
        guard let text = invocation.value(option) else { return nil }
        guard text.hasPrefix("http://") || text.hasPrefix("https://") else {
            throw .usage("bad_value", "\(option) is \"\(text)\": it is no http or https URL")
        }
        return text
    }

    private static func readLimits(
        _ invocation: Invocation,
        into world: inout AppleWorld.Settings
    ) throws(CommandFailure) {
        if let text = invocation.value("--reports-limit") {
            guard let limit = Double(text), limit > 0, limit <= 1_000_000 else {
                throw .usage("bad_value", "--reports-limit is \"\(text)\": it must be above 0")
            }
            world.limitPerSecond[.report] = limit
        }
        let windows = try invocation.durations("--rate-window")
        if !windows.isEmpty {
            world.rateWindowsMilliseconds = windows.map { max(1, $0.count) }
        }
        if let text = invocation.value("--rate-answer") {
            guard let answer = RateLimitAnswer(rawValue: text) else {
                throw .usage(
                    "bad_value",
                    "--rate-answer is \"\(text)\": it must be full, no-header or bare"
                )
            }
            world.rateLimitAnswer = answer
        }
    }

    /// The public halves of the keys that Tollway signs with.
    private static func keys(
        in path: String
    ) throws(CommandFailure) -> [AppleSimulator.RegisteredKey] {
        let apps: [AppsFile.App]
        do {
            apps = try AppsFile.load(path, needsKeys: true).apps
        } catch {
            throw .usage("bad_apps_file", error.sentence)
        }
        var keys: [String: AppleSimulator.RegisteredKey] = [:]
        for (app, key) in apps.flatMap({ app in app.keys.map { (app, $0) } }) {
            if keys[key.keyID]?.bundleIDs.append(app.bundleID) != nil { continue }
            do {
                let bytes = Array(try Data(contentsOf: URL(fileURLWithPath: key.privateKeyFile)))
                keys[key.keyID] = AppleSimulator.RegisteredKey(
                    keyID: key.keyID,
                    issuerID: key.issuerID,
                    publicKeyPEM: try P256PrivateKey(pem: bytes).publicKeyPEM,
                    bundleIDs: [app.bundleID]
                )
            } catch {
                throw .usage("bad_apps_file", "\(key.privateKeyFile) is no usable key: \(error)")
            }
        }
        return keys.values.sorted { $0.keyID < $1.keyID }
    }
}
