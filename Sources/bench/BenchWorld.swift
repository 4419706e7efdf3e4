internal import Crypto
internal import Foundation
internal import Glibc
internal import Kafka
internal import LocalKafka
internal import StageRuntime
internal import TokenDomain

/// What every measure of a bench stands on: a cluster, topics of its own, programs as processes.
final class BenchWorld {
    /// For decode and for ingest in batches, which have no state that grows with it: 300,000 are a
    /// second's work or half of it, in which a single pause of Kafka's is a tenth of the ratio and
    /// more.
    static let fastRunFactor = 4
    private static let readySeconds = 60.0
    /// Between two looks at what a group has committed.
    private static let lookMilliseconds = 10
    /// The same for what a worker counts itself: its metrics cost it more to tell.
    private static let askMilliseconds = 250
    /// Of what is to be settled, the last part.
    private static let nearEndShare = 20
    /// Nothing moved for so long: it will not come.
    static let stalledSeconds = 60.0

    let settings: KafkaSettings
    let prefix = "bench-\(UUID().uuidString.prefix(8).lowercased())."
    let folder: URL
    let http: BenchHTTP
    let ingestKey = RandomBytes.next(count: 24).map { String($0, radix: 16) }.joined()
    private let admin: KafkaAdmin
    private let programs: BenchPrograms
    private let kafkaEnvironment: [String: String]
    /// By the name of the process.
    private var ports: [String: (admin: Int, door: Int)] = [:]
    let tokens: BenchTokens
    private let appsFile: String
    private let keyFile: String
    private let keysFile: String
    private let customerKeyFile: String
    let notices: BenchNotices
    private let rootsFile: String

    init(
        cluster: BenchKafka,
        settings: KafkaSettings,
        options: BenchOptions,
        folder: URL,
        programs: BenchPrograms,
        http: BenchHTTP
    ) throws {
        self.settings = settings
        self.folder = folder
        self.programs = programs
        self.http = http
        admin = try KafkaAdmin(settings: settings)
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        tokens = BenchTokens(now: now, seed: options.seed)
        notices = try BenchNotices(now: now, tokens: tokens)
        rootsFile = try programs.write(notices.roots, as: "roots.pem")
        kafkaEnvironment = ProcessInfo.processInfo.environment
            .filter { $0.key.hasPrefix("TOLLWAY_KAFKA_") || $0.key == "PATH" }
            .merging([
                Setting.kafkaBootstrapServers: cluster.bootstrapServers,
                Setting.kafkaSingleBroker.fullName: "yes",
            ]) { $1 }
        keysFile = try programs.write(Array(ingestKey.utf8), as: "ingest-keys")
        customerKeyFile = try programs.write(RandomBytes.next(count: 32), as: "customer-key")
        keyFile = try programs.write(try P256PrivateKey.generate().pem, as: "key.p8")
        appsFile = try programs.write(
            try Self.apps(BenchTokens.apps, keyFile: keyFile, reportsPerSecond: nil),
            as: "apps.json"
        )
    }

    /// Writes a file of apps, each with so many reports a second in both environments.
    ///
    /// - Returns: its path.
    func write(
        _ apps: [(appAppleID: Int64, bundleID: String)],
        reportsPerSecond: Int,
        as name: String
    ) throws -> String {
        try write(
            try Self.apps(apps, keyFile: keyFile, reportsPerSecond: reportsPerSecond),
            as: name
        )
    }

    private static func apps(
        _ apps: [(appAppleID: Int64, bundleID: String)],
        keyFile: String,
        reportsPerSecond: Int?
    ) throws -> [UInt8] {
        let issuer = UUIDText.v4(random: RandomBytes.next(count: 16))
        let entries = apps.map { app in
            var entry: [String: Any] = [
                "appAppleId": app.appAppleID, "bundleId": app.bundleID, "issuerId": issuer,
                "keyId": "BENCHKEY00", "privateKeyFile": keyFile,
            ]
            entry["reportsPerSecond"] = reportsPerSecond
            return entry
        }
        return Array(try JSONSerialization.data(withJSONObject: ["apps": entries]))
    }

    /// Writes a file into the bench's folder.
    ///
    /// - Returns: its path.
    func write(_ bytes: [UInt8], as name: String) throws -> String {
        try programs.write(bytes, as: name)
    }

    /// Ends the programs of this measure, and takes its topics away.
    func end() {
        programs.stopAll()
        do {
            let names = try admin.topics().map(\.name)
            try admin.deleteTopics(names.filter { $0.contains(prefix) })
        } catch {
            Console.say("topics with the prefix \(prefix) could not be removed: \(error)")
        }
        admin.close()
    }

    func topic(_ topic: Topic) -> String { topic.name(prefix: prefix) }

    /// A topic of the bench's own, made like the pipeline's.
    func makeTopic(_ name: String) throws {
        let plan = TopicPlan(name: name, partitionCount: BenchKafka.partitionCount)
        try admin.create([plan])
        while try admin.topic(name)?.partitions.allSatisfy({ $0.leader >= 0 }) != true {
            try http.pause(milliseconds: Self.lookMilliseconds)
        }
    }

    func sales(customerCount: Int) -> BenchSales {
        BenchSales(tokens: tokens, customerCount: customerCount)
    }

    // MARK: - Programs

    /// Starts a worker as a deployment would: configured by environment.
    ///
    /// Its program lies beside this one, where `otherPrograms` names no other folder. Each instance
    /// has a state directory of its own.
    ///
    /// - Returns: the door's port, for ingest.
    @discardableResult
    func start(
        _ worker: Worker,
        instance: Int = 1,
        otherPrograms: URL? = nil,
        settings: [String: String] = [:]
    ) throws -> Int {
        let taken = try FreePorts.take(count: 2)
        let name = Self.name(worker, instance)
        ports[name] = (taken[0], taken[1])
        var environment = kafkaEnvironment
        environment[Setting.delivery.fullName] = KafkaDelivery.exactlyOnce.rawValue
        environment[Setting.topicPrefix.fullName] = prefix
        environment[Setting.instance.fullName] = "bench-\(instance)"
        environment[Setting.stateDirectory.fullName] = stateDirectory(instance).path
        environment[Setting.adminListen.fullName] = "127.0.0.1:\(taken[0])"
        environment[Setting.appsFile.fullName] = appsFile
        environment[Setting.ingestListen.fullName] = "127.0.0.1:\(taken[1])"
        environment[Setting.ingestKeysFile.fullName] = keysFile
        environment[Setting.ingestCustomerKeyFile.fullName] = customerKeyFile
        if worker == .notifications {
            environment[Setting.appleRootsFile.fullName] = rootsFile
        }
        try programs.start(
            "tollway-\(worker.rawValue)",
            name: name,
            environment: environment.merging(settings) { $1 },
            otherPrograms: otherPrograms
        )
        return taken[1]
    }

    /// What the process of an instance is known by.
    static func name(_ worker: Worker, _ instance: Int) -> String {
        instance == 1 ? worker.rawValue : "\(worker.rawValue)-\(instance)"
    }

    func stateDirectory(_ instance: Int) -> URL {
        folder.appendingPathComponent(instance == 1 ? "state" : "state-\(instance)")
    }

    func awaitReady(_ worker: Worker) throws {
        let deadline = Date().addingTimeInterval(Self.readySeconds)
        while try http.get(adminURL(worker, "readyz"))?.status != 200 {
            try refuseEnded()
            guard Date() < deadline else {
                throw BenchFailure(
                    code: "bench.start",
                    "\(worker.rawValue) is not ready after \(Int(Self.readySeconds)) s"
                )
            }
            try http.pause(milliseconds: 50)
        }
    }

    /// A page of a worker's admin port.
    func adminURL(_ worker: Worker, _ page: String, instance: Int = 1) -> String {
        "http://127.0.0.1:\(ports[Self.name(worker, instance)]?.admin ?? 0)/\(page)"
    }

    /// Starts one of the bench's own programs.
    func start(_ part: BenchPart, name: String, _ operands: [String]) throws -> FileHandle {
        let kafka =
            [("bootstrap.servers", settings.bootstrapServers)]
            + settings.extra.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        let passed = part.usesKafka ? kafka.map { "kafka.\($0.0)=\($0.1)" } : []
        return try programs.start(
            "tollway-bench",
            [part.rawValue] + operands + passed,
            name: name,
            environment: [:]
        )
    }

    /// Ends a program and waits for its end.
    func stop(_ name: String) {
        guard let process = programs.letGo(name) else {
            return
        }
        process.terminate()
        process.waitUntilExit()
    }

    /// Waits for the end of a program that ends by itself.
    func awaitEnd(_ name: String) throws {
        guard let process = programs.letGo(name) else {
            return
        }
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw BenchFailure(code: "bench.ended", programs.tail(name))
        }
    }

    func refuseEnded() throws {
        try programs.refuseEnded()
    }

    // MARK: - Measuring

    /// Seconds of processor time of all threads of a program so far.
    func cpuSeconds(_ name: String) -> Double {
        guard let process = programs.process(name) else {
            return 0
        }
        var clock = clockid_t()
        var time = timespec()
        guard unsafe clock_getcpuclockid(process.processIdentifier, &clock) == 0,
            unsafe clock_gettime(clock, &time) == 0
        else {
            return 0
        }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    func peakByteCount(_ name: String) -> Int { programs.peakResidentByteCount(name) }

    /// What a group has committed of a topic, all partitions together.
    func committedCount(group: String, topic: String) throws -> Int {
        do throws(LogFault) {
            let offsets = try admin.committedOffsets(ofGroup: "\(prefix)\(group)", topic: topic)
            return Int(offsets.reduce(0) { $0 + ($1 ?? 0) })
        } catch {
            guard case .unavailable = error else {
                throw error
            }
            // The group's coordinator is not known yet, as on a new cluster.
            return 0
        }
    }

    /// How many records there are in a topic that nobody writes in transactions.
    func endCount(_ topic: String) throws -> Int {
        Int(try admin.endOffsets(ofTopic: topic).reduce(0, +))
    }

    /// Where every partition of some topics ends.
    func ends(_ topics: [String]) throws -> [TopicPartition: LogBrowser.Start] {
        var ends: [TopicPartition: LogBrowser.Start] = [:]
        for topic in topics {
            for (partition, offset) in try admin.endOffsets(ofTopic: topic).enumerated() {
                ends[TopicPartition(topic: topic, partition: Int32(partition))] = .offset(offset)
            }
        }
        return ends
    }

    /// Waits until dedupe has committed so many records of a topic that decode writes: transaction
    /// markers take offsets there, so records are counted by dedupe itself.
    ///
    /// All instances together, since they started.
    func awaitDeduped(_ count: Int, topic: String, instanceCount: Int = 1) throws {
        var last = -1
        var movedAt = Date()
        let urls = (1...instanceCount).map { adminURL(.dedupe, "metrics", instance: $0) }
        while true {
            let judged = try urls.reduce(0) {
                try $0 + http.sum("tollway_records_completed_total", at: $1)
            }
            if judged >= count,
                try committedCount(group: Worker.dedupe.rawValue, topic: topic)
                    >= endCount(topic)
            {
                return
            }
            if judged != last {
                last = judged
                movedAt = Date()
            }
            try refuseEnded()
            guard Date().timeIntervalSince(movedAt) < Self.stalledSeconds else {
                throw lost("dedupe has seen \(judged) of \(count) tokens")
            }
            try http.pause(milliseconds: Self.lookMilliseconds)
        }
    }

    /// Waits until no transaction holds back what a topic has: the markers of one are written
    /// partition by partition, and those of the offsets may be there first.
    func awaitStable(_ topic: String) throws {
        let deadline = Date().addingTimeInterval(Self.stalledSeconds)
        while try admin.lastStableOffsets(ofTopic: topic) != admin.endOffsets(ofTopic: topic) {
            guard Date() < deadline else {
                throw lost("a transaction stays open on \(topic)")
            }
            try http.pause(milliseconds: Self.lookMilliseconds)
        }
    }

    /// Starts a program and times its group from the first commit beyond a place to the last.
    ///
    /// What was committed first is not counted: until then the program was starting. It writes to
    /// `target`. How many records the program is done with `settled` says, by its own count since it
    /// started; without it what the group has committed counts.
    func time(
        group: String,
        topic: String,
        target: String,
        program: String,
        from start: Int,
        to end: Int,
        settled: (() throws -> Int)? = nil,
        starting: () throws -> Void
    ) throws -> BenchSample {
        let targetStart = try endCount(target)
        let startedAt = ContinuousClock.now
        try starting()
        var movedAt = Date()
        // Only then there is a group to be asked for; librdkafka 2.0.2 crashes where none is.
        while try endCount(target) == targetStart {
            try refuseEnded()
            guard Date().timeIntervalSince(movedAt) < Self.stalledSeconds else {
                throw lost("group \(group) writes nothing to \(target)")
            }
            try http.pause(milliseconds: Self.lookMilliseconds)
        }
        let startSeconds = Self.seconds(since: startedAt)
        var count = start
        var first: (count: Int, at: ContinuousClock.Instant, cpu: Double)?
        while true {
            let now =
                try settled.map { start + (try $0()) }
                ?? committedCount(group: group, topic: topic)
            let instant = ContinuousClock.now
            let cpu = cpuSeconds(program)
            if now > count {
                count = now
                movedAt = Date()
                first = first ?? (now, instant, cpu)
            }
            if count >= end, let first {
                return BenchSample(
                    recordCount: count - first.count,
                    seconds: Self.seconds(instant - first.at),
                    cpuSeconds: cpu - first.cpu,
                    peakByteCount: peakByteCount(program),
                    startSeconds: startSeconds
                )
            }
            try refuseEnded()
            guard Date().timeIntervalSince(movedAt) < Self.stalledSeconds else {
                throw lost("group \(group) stands at \(count) of \(end) records of \(topic)")
            }
            // The end is met as exactly as that of a loop.
            let isNearEnd = end - count < (end - start) / Self.nearEndShare
            try http.pause(
                milliseconds: settled == nil || isNearEnd
                    ? Self.lookMilliseconds : Self.askMilliseconds
            )
        }
    }

    static func seconds(since start: ContinuousClock.Instant) -> Double {
        seconds(ContinuousClock.now - start)
    }

    static func seconds(_ duration: Duration) -> Double {
        let parts = duration.components
        return Double(parts.seconds) + Double(parts.attoseconds) / 1e18
    }

    func lost(_ sentence: String) -> BenchFailure {
        BenchFailure(code: "bench.count", sentence)
    }
}
