internal import Foundation
internal import Glibc
internal import Kafka
internal import LocalKafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The processes of `tollway up`: started in the order in which they need each other, and started
/// again when one ends although nobody asked.
final class UpRun {
    /// How long a token waits for a purchase; a person who tries it waits for its report.
    static let hold = "10s"
    static let grace = "10s"
    private static let lookMilliseconds = 250
    private static let startSeconds = 60.0
    /// For each question about the transactions of the last run.
    private static let repairMilliseconds = 10_000
    /// Until a node that was started leads its partitions.
    private static let leaderSeconds = 20.0

    /// One process that is to run.
    private struct Child {
        var name: String
        /// Asks whether it is ready; nil: it says so itself.
        var probe: String?
        var start: () throws -> Void
        var restart = UpRestart()
    }

    let folder: URL
    let isKept: Bool
    let prefix: String
    let ports: LocalPorts
    let http: DemoHTTP
    private(set) var workers: DemoWorkers
    private let counts: [Worker: Int]
    private let processes: DemoProcesses
    private let environment: [String: String]
    private var children: [Child] = []
    /// Of Kafka's nodes that have ended once.
    private var nodeRestarts: [Int: UpRestart] = [:]
    private var running: DemoCluster?
    private var lock: RunLock?

    init(
        folder: URL,
        isKept: Bool,
        counts: [Worker: Int],
        environment: [String: String],
        http: DemoHTTP
    ) throws {
        self.folder = folder
        self.isKept = isKept
        self.counts = counts
        self.environment = environment
        self.http = http
        prefix = try KafkaQuestion.configuration().topicPrefix
        ports = try LocalPorts.usual()
        processes = DemoProcesses(folder: folder)
        var setup = DemoWorkers.Setup(
            command: "up",
            ports: ports,
            hasDoorKey: false,
            keepsKeys: isKept
        )
        setup.environment = environment.filter { $0.key.hasPrefix(Setting.prefix) }
        setup.environment.merge(
            ["TOLLWAY_REPORT_HOLD": Self.hold, "TOLLWAY_REPORT_UNRECOGNIZED_GRACE": Self.grace]
        ) { given, _ in given }
        workers = try DemoWorkers(
            folder: folder,
            processes: processes,
            topicPrefix: prefix,
            setup: setup
        )
    }

    var cluster: DemoCluster {
        guard let running else {
            preconditionFailure("Kafka is started first")
        }
        return running
    }

    // MARK: - Start

    /// Starts everything and waits until all of it is ready.
    func start() throws {
        try startKafka()
        try workers.startSimulator(seed: UInt64.random(in: 1...(1 << 40)), faults: [], http: http)
        children.append(
            Child(name: "sim", start: { [unowned self] in try restartSimulator() })
        )
        for worker in Worker.allCases {
            for number in 1...counts[worker, default: 1] {
                try add(worker, number: number)
            }
        }
        for child in children {
            try child.probe.map { try awaitReady(child.name, $0) }
        }
        try awaitLeaders()
        try addConsole()
    }

    /// Workers wait for the partitions that they read; a command may read any: a node that has just
    /// started leads some of them a moment later.
    private func awaitLeaders() throws {
        guard case .local = cluster else {
            return
        }
        let admin = try KafkaAdmin(
            settings: try cluster.settings(clientID: "tollway-up"),
            deadlineMilliseconds: Int(Self.leaderSeconds * 1_000)
        )
        defer { admin.close() }
        do throws(LogFault) {
            for topic in Topic.all {
                _ = try admin.endOffsets(ofTopic: topic.name(prefix: prefix))
            }
        } catch {
            Console.say(
                "not every partition has its leader yet: \(error.sentence);"
                    + " a first command may have to wait"
            )
        }
    }

    var consoleURL: String { "http://127.0.0.1:\(ports.console)" }

    /// The page, which asks the workers that run now.
    private func addConsole() throws {
        var environment = workers.environment
        environment[Setting.kafkaBootstrapServers] = cluster.bootstrapServers
        environment[Setting.kafkaSingleBroker.fullName] = cluster.isTrial ? "yes" : "no"
        environment["USER"] = self.environment["USER"]
        let addresses = adminAddresses.flatMap { ["--admin", $0.address] }
        let child = Child(
            name: "console",
            start: { [unowned self] in
                try processes.start(
                    "tollway",
                    ["console", "--listen", "127.0.0.1:\(ports.console)"] + addresses,
                    name: "console",
                    environment: environment
                )
            }
        )
        try child.start()
        children.append(child)
    }

    private func startKafka() throws {
        let cluster = try DemoCluster.start(
            environment: environment,
            folder: folder,
            topicPrefix: prefix,
            processes: processes,
            http: http,
            firstPort: UInt16(ports.kafka),
            isKept: isKept
        )
        running = cluster
        let settings = try cluster.settings(clientID: "tollway-up")
        if case .given = cluster {
            lock = try GivenKafka.refuseOthers(prefix: prefix, settings: settings, http: http)
        }
        try cluster.createTopics(prefix: prefix, settings: settings)
        if case .local = cluster, isKept {
            try repairTransactions(settings)
        }
    }

    /// A node that stops between a commit and its markers never writes them (KAFKA-20734), and
    /// ``end()`` stops the node right after the workers: what they read next would wait for ever.
    private func repairTransactions(_ settings: KafkaSettings) throws {
        let deadline = Date().addingTimeInterval(Self.leaderSeconds)
        while true {
            do throws(LogFault) {
                return try writeMarkers(settings)
            } catch {
                // A node that has just started leads none of its partitions for a moment.
                guard case .unavailable = error, Date() < deadline else {
                    return Console.say(
                        "the transactions of the last run were not checked:"
                            + " \(error.sentence); where a worker is not ready, see"
                            + " tollway transactions list"
                    )
                }
            }
            try http.pause(milliseconds: Self.lookMilliseconds)
        }
    }

    private func writeMarkers(_ settings: KafkaSettings) throws(LogFault) {
        let admin = try KafkaAdmin(
            settings: settings,
            deadlineMilliseconds: Self.repairMilliseconds
        )
        defer { admin.close() }
        let hanging = try HangingTransactions(settings: settings, admin: admin)
        let topics = Topic.all.map { $0.name(prefix: prefix) }
        let found = try hanging.find(in: topics, now: WallClock.nowMilliseconds())
        let owed = found.transactions.filter(\.isOwed)
        if !owed.isEmpty {
            let refused = try hanging.repair(owed)
            Console.say(
                "the last run ended before the markers of "
                    + CountText.of(owed.count, "transaction") + " could be written; "
                    + CountText.of(owed.count - refused.count, "is", "are") + " written now"
            )
        }
        guard found.unanswered.isEmpty else {
            throw .unavailable(
                code: "LEADER_NOT_AVAILABLE",
                message: "no answer about \(NameList.text(found.unanswered.map(\.description)))"
            )
        }
    }

    /// The first instance has the names and ports that everybody expects; others have their own.
    private func add(_ worker: Worker, number: Int) throws {
        var name = worker.rawValue
        var port = workers.adminPorts[worker] ?? 0
        var changes: [String: String] = [:]
        if number > 1 {
            name += "-\(number)"
            let free = try FreePorts.take(count: 2)
            port = free[0]
            changes = [
                Setting.instance.fullName: "up-\(number)",
                Setting.adminListen.fullName: "127.0.0.1:\(port)",
                Setting.ingestListen.fullName: "127.0.0.1:\(free[1])",
                Setting.stateDirectory.fullName:
                    folder.appendingPathComponent("state-\(number)").path,
            ]
        }
        let child = Child(
            name: name,
            probe: "http://127.0.0.1:\(port)/readyz",
            start: { [unowned self] in
                try workers.start(worker, cluster, as: name, changing: changes)
            }
        )
        try child.start()
        children.append(child)
    }

    private func awaitReady(_ name: String, _ probe: String) throws {
        try processes.awaitReady(
            name,
            probe: probe,
            http: http,
            since: Date(),
            secondsMax: Self.startSeconds,
            command: "up"
        )
    }

    /// Where each worker's instances say how they are.
    var adminAddresses: [(name: String, address: String)] {
        children.compactMap { child in
            child.probe.map { probe in
                (child.name, String(probe.dropFirst("http://".count).prefix { $0 != "/" }))
            }
        }
    }

    // MARK: - Until the end

    /// Looks after everything; never returns.
    ///
    /// - Throws: ``DemoInterrupted`` on the first signal.
    func supervise() throws -> Never {
        while true {
            try lookAtKafka()
            let all = processes.takeEnded()
            if let (_, how) = all.first(where: { $0.name == "broker" }) {
                // Whatever else has ended begins anew with it.
                try beginAnew(how)
            } else {
                for (name, how) in all {
                    ended(name, how)
                }
            }
            for index in children.indices {
                try restart(index)
            }
            try http.pause(milliseconds: Self.lookMilliseconds)
        }
    }

    private func ended(_ name: String, _ how: String) {
        guard let index = children.firstIndex(where: { $0.name == name }) else {
            return
        }
        let pause = children[index].restart.ended(at: Date())
        let tail = processes.tail(name).split(separator: "\n").last.map { ": \($0)" } ?? ""
        Console.say("\(name) \(how), and is started again in \(Int(pause)) s\(tail)")
    }

    private func restart(_ index: Int) throws {
        guard children[index].restart.takeDue(at: Date()) else {
            return
        }
        do {
            try children[index].start()
        } catch let failure as CommandFailure {
            ended(children[index].name, "cannot be started: \(failure.message)")
            return
        }
        Console.say("\(children[index].name) runs again")
    }

    /// Its roots are new, and so is all that it knows.
    private func restartSimulator() throws {
        try workers.startSimulator(seed: UInt64.random(in: 1...(1 << 40)), faults: [], http: http)
        // Only workers read their files again: SIGHUP ends the console.
        for worker in children where worker.probe != nil {
            processes.signal(worker.name, SIGHUP)
        }
        Console.say(
            "Apple's simulator has forgotten the tokens it issued and the reports it received"
        )
    }

    private func lookAtKafka() throws {
        guard case .local(let kafka) = cluster else {
            return
        }
        for node in 0..<kafka.nodeCount where !kafka.isRunning(node: node) {
            var restart = nodeRestarts[node] ?? UpRestart()
            if restart.dueAt == nil {
                let pause = restart.ended(at: Date())
                Console.say(
                    "Kafka ended, and is started again in \(Int(pause)) s; its data is kept"
                )
            }
            if restart.takeDue(at: Date()) {
                // The workers wait for it, and say so themselves.
                try kafka.beginRestart(node: node)
            }
            nodeRestarts[node] = restart
        }
    }

    /// The embedded broker forgets everything and comes back elsewhere: so does all that stood on
    /// it.
    private func beginAnew(_ how: String) throws {
        Console.say("the embedded broker \(how): everything in it is lost, and all is started anew")
        for name in processes.stopAll() {
            Console.say("\(name) did not stop in time and was killed")
        }
        children = []
        try FileManager.default.removeItem(at: folder.appendingPathComponent("state"))
        try start()
        Console.say("all runs again; Kafka is at \(cluster.bootstrapServers) now")
    }

    /// Stops everything; data is kept where a folder was named.
    func end() {
        for name in processes.stopAll() {
            Console.say("\(name) did not stop in time and was killed")
        }
        if case .local(let kafka)? = running {
            if isKept { kafka.stop() } else { kafka.wipe() }
        }
        running = nil
        lock?.release()
        lock = nil
    }
}
