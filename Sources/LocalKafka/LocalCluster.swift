internal import Glibc
internal import Kafka

/// A real Apache Kafka on this machine, for tests, the demo and chaos runs: KRaft, every node
/// broker and controller, on loopback.
///
/// About 330 MB a node.
package final class LocalCluster {
    /// What went wrong with a process of ours.
    package enum Fault: Error, Equatable, Sendable {
        /// No `libs` folder in the home, or no Java.
        case notInstalled(message: String)
        case failed(message: String)
        /// Whoever started it was told to stop before it ran.
        case interrupted
    }

    /// How long a node may take to answer; a busy machine needs a good part of it.
    static let startSecondsMax = 90
    static let stopSecondsMax = 10
    /// Of a node's log, in the fault that says that it does not start.
    private static let lastLineCount = 3

    /// `KAFKA_HOME`, where it is set and holds a distribution, and Java is there.
    package static var homeFromEnvironment: String? {
        guard let home = ChildProcess.environment("KAFKA_HOME"), !home.isEmpty,
            ChildProcess.isFolder("\(home)/libs"), ChildProcess.java != nil
        else {
            return nil
        }
        return home
    }

    package let nodeCount: Int
    private let home: String
    private let folder: String
    private let java: String
    private let ports: [(client: UInt16, quorum: UInt16, guarded: UInt16)]
    private let guarded: GuardedListener?
    private let properties: [String: String]
    private var nodes: [ChildProcess?]

    /// Prepares the nodes of a Kafka in `home`, a folder with `libs/`.
    ///
    /// `folder` is for data and logs; made where missing. Data that is there is used again. Node n
    /// listens for clients on `firstPort + 3n`, for its quorum on the next one, and where there is a
    /// guarded listener for its clients on the one after; 0 takes free ports. `properties` are
    /// further lines of `server.properties`.
    package init(
        home: String,
        folder: String,
        nodeCount: Int = 1,
        firstPort: UInt16 = 0,
        guarded: GuardedListener? = nil,
        properties: [String: String] = [:]
    ) throws(Fault) {
        precondition((1...5).contains(nodeCount), "a local cluster has 1 to 5 nodes")
        guard ChildProcess.isFolder("\(home)/libs") else {
            throw Fault.notInstalled(message: "\(home) holds no Kafka: there is no libs folder")
        }
        guard let java = ChildProcess.java else {
            throw Fault.notInstalled(message: "there is no Java in JAVA_HOME or PATH")
        }
        self.home = home
        self.folder = folder
        self.java = java
        self.nodeCount = nodeCount
        self.guarded = guarded
        self.properties = properties
        nodes = Array(repeating: nil, count: nodeCount)
        var free = firstPort == 0 ? try FreePorts.take(count: 3 * nodeCount).map(UInt16.init) : []
        if firstPort > 0 {
            free = (0..<UInt16(3 * nodeCount)).map { firstPort + $0 }
        }
        ports = (0..<nodeCount).map { (free[3 * $0], free[3 * $0 + 1], free[3 * $0 + 2]) }
    }

    deinit {
        stop()
    }

    package var bootstrapServers: String {
        ports.map { "127.0.0.1:\($0.client)" }.joined(separator: ",")
    }

    /// Where clients come in that say who they are.
    package var guardedServers: String {
        precondition(guarded != nil, "the cluster was made without a guarded listener")
        return ports.map { "127.0.0.1:\($0.guarded)" }.joined(separator: ",")
    }

    /// Whether the process of a node is there; a paused one is.
    package func isRunning(node: Int) -> Bool { nodes[node]?.isRunning ?? false }

    /// Starts every node that does not run, and waits until all answer (about 3 s for one node).
    ///
    /// `isInterrupted` is asked while it waits.
    ///
    /// - Throws: ``Fault/interrupted`` where it says yes, `failed` with the last lines of a node's
    ///   log where that node does not start; nodes that were started go on running.
    package func start(isInterrupted: () -> Bool = { false }) throws(Fault) {
        try ChildProcess.makeFolder(folder)
        let clusterID = try readOrMakeClusterID()
        for node in 0..<nodeCount where !isRunning(node: node) {
            try prepare(node: node, clusterID: clusterID, isInterrupted: isInterrupted)
            try launch(node: node)
        }
        for node in 0..<nodeCount {
            try awaitAnswer(node: node, isInterrupted: isInterrupted)
        }
        try awaitMetadata(isInterrupted: isInterrupted)
    }

    /// SIGKILL.
    package func kill(node: Int) throws(Fault) {
        try process(of: node).end(signal: SIGKILL, secondsMax: Self.stopSecondsMax)
        nodes[node] = nil
    }

    /// SIGTERM, and does not wait: ``isRunning(node:)`` says when it has gone.
    package func beginStop(node: Int) throws(Fault) {
        try process(of: node).send(SIGTERM)
    }

    /// Starts a killed node again and waits until it answers.
    package func restart(node: Int) throws(Fault) {
        try beginRestart(node: node)
        try awaitAnswer(node: node, isInterrupted: { false })
    }

    /// Starts a killed node again and does not wait: ``isAnswering(node:)`` says when it is there.
    package func beginRestart(node: Int) throws(Fault) {
        guard !isRunning(node: node) else {
            throw Fault.failed(message: "node \(node) runs")
        }
        try launch(node: node)
    }

    /// Whether a node takes connections.
    package func isAnswering(node: Int) -> Bool {
        isRunning(node: node) && FreePorts.isListening(port: ports[node].client)
    }

    /// SIGSTOP; nothing of the node runs any more when this returns.
    package func pause(node: Int) throws(Fault) {
        try process(of: node).pause()
    }

    /// SIGCONT.
    package func resume(node: Int) throws(Fault) {
        try process(of: node).send(SIGCONT)
    }

    /// SIGTERM to all, SIGKILL after 10 s; the data stays.
    package func stop() {
        for case let node? in nodes where node.isRunning {
            // A node that ended by itself needs no signal; a paused one must receive this one.
            _ = Result { () throws(Fault) in try node.send(SIGCONT) }
            _ = Result { () throws(Fault) in try node.send(SIGTERM) }
        }
        for case let node? in nodes {
            node.awaitEnd(secondsMax: Self.stopSecondsMax)
        }
        nodes = Array(repeating: nil, count: nodeCount)
    }

    /// Where a node has its logs, a folder for each partition.
    package func dataFolder(node: Int) -> String { "\(folder)/\(node)/data" }

    /// Stops, and removes the folder.
    package func wipe() {
        stop()
        ChildProcess.removeFolder(folder)
    }

    // MARK: Nodes

    private func process(of node: Int) throws(Fault) -> ChildProcess {
        guard let process = nodes[node], process.isRunning else {
            throw Fault.failed(message: "node \(node) does not run; see \(folder)/\(node)/log")
        }
        return process
    }

    private func readOrMakeClusterID() throws(Fault) -> String {
        let path = "\(folder)/cluster-id"
        if let known = ChildProcess.read(path) {
            return known
        }
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
        var id = "L"
        for _ in 1..<22 {
            id.append(alphabet[Int.random(in: alphabet.indices)])
        }
        try ChildProcess.write(id, to: path)
        return id
    }

    private func arguments(maximumHeap: String, _ rest: [String]) -> [String] {
        [
            java, "-cp", "\(home)/libs/*", "-Dlog4j2.configurationFile=\(folder)/log4j2.properties",
            "-Xms96m", "-Xmx\(maximumHeap)", "-XX:+UseSerialGC", "-Xshare:auto",
        ] + rest
    }

    /// Writes a node's properties, and formats its data folder where there is none.
    private func prepare(
        node: Int,
        clusterID: String,
        isInterrupted: () -> Bool
    ) throws(Fault) {
        let own = "\(folder)/\(node)"
        try ChildProcess.makeFolder(own)
        try ChildProcess.write(Self.logging, to: "\(folder)/log4j2.properties")
        try ChildProcess.write(serverProperties(node: node), to: "\(own)/server.properties")
        guard !ChildProcess.isFolder("\(own)/data") else {
            return
        }
        let format = try ChildProcess(
            arguments: arguments(
                maximumHeap: "128m",
                [
                    "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format",
                    "--ignore-formatted", "-t", clusterID, "-c", "\(own)/server.properties",
                ] + (guarded?.formatArguments ?? [])
            ),
            log: "\(own)/log"
        )
        let status = format.awaitEnd(secondsMax: Self.startSecondsMax, unless: isInterrupted)
        guard status == 0 else {
            // A folder that is there is not formatted again, and half of one starts no node.
            ChildProcess.removeFolder("\(own)/data")
            try refuseInterrupted(isInterrupted)
            throw Fault.failed(
                message: "node \(node) could not be formatted: \(lastWords(of: node))"
            )
        }
    }

    private func launch(node: Int) throws(Fault) {
        let own = "\(folder)/\(node)"
        nodes[node] = try ChildProcess(
            arguments: arguments(
                maximumHeap: "384m",
                ["kafka.Kafka", "\(own)/server.properties"]
            ),
            log: "\(own)/log"
        )
    }

    private func refuseInterrupted(_ isInterrupted: () -> Bool) throws(Fault) {
        guard !isInterrupted() else {
            throw Fault.interrupted
        }
    }

    /// The end of a node's log: whoever reads the fault may find the folder removed.
    private func lastWords(of node: Int) -> String {
        let lines = ChildProcess.lastLines("\(folder)/\(node)/log", countMax: Self.lastLineCount)
        return lines.isEmpty ? "its log is empty" : lines.joined(separator: " | ")
    }

    private func awaitAnswer(node: Int, isInterrupted: () -> Bool) throws(Fault) {
        let start = ContinuousClock.now
        while ContinuousClock.now - start < .seconds(Self.startSecondsMax) {
            try refuseInterrupted(isInterrupted)
            if FreePorts.isListening(port: ports[node].client) {
                return
            }
            guard isRunning(node: node) else {
                break
            }
            ChildProcess.pause(milliseconds: 50)
        }
        throw Fault.failed(message: "node \(node) did not start: \(lastWords(of: node))")
    }

    /// A port is open before the broker knows its cluster, and the cluster all of its brokers.
    private func awaitMetadata(isInterrupted: () -> Bool) throws(Fault) {
        let start = ContinuousClock.now
        let settings = KafkaSettings(bootstrapServers: bootstrapServers, clientID: "launcher")
        var last = ""
        while ContinuousClock.now - start < .seconds(Self.startSecondsMax) {
            try refuseInterrupted(isInterrupted)
            do throws(LogFault) {
                let admin = try KafkaAdmin(settings: settings, deadlineMilliseconds: 2000)
                defer { admin.close() }
                let brokerCount = try admin.brokerCount()
                if brokerCount == nodeCount {
                    return
                }
                last = "it counts \(brokerCount) of its \(nodeCount) brokers"
            } catch {
                last = "\(error)"
            }
            ChildProcess.pause(milliseconds: 50)
        }
        throw Fault.failed(message: "the cluster does not come up: \(last)")
    }

    private func serverProperties(node: Int) -> String {
        let replicas = nodeCount < 3 ? 1 : 3
        let inSync = nodeCount < 3 ? 1 : 2
        let voters = ports.enumerated().map { "\($0)@127.0.0.1:\($1.quorum)" }
        let own = ports[node]
        let extra = guarded.map { _ in ",\(GuardedListener.name)://127.0.0.1:\(own.guarded)" } ?? ""
        var lines = [
            "process.roles=broker,controller",
            "node.id=\(node)",
            "controller.quorum.voters=\(voters.joined(separator: ","))",
            "listeners=PLAINTEXT://127.0.0.1:\(own.client),CONTROLLER://127.0.0.1:\(own.quorum)"
                + extra,
            "advertised.listeners=PLAINTEXT://127.0.0.1:\(own.client)\(extra)",
            "controller.listener.names=CONTROLLER",
            "log.dirs=\(dataFolder(node: node))",
            "num.network.threads=2",
            "num.io.threads=4",
            "num.partitions=4",
            "auto.create.topics.enable=false",
            "default.replication.factor=\(replicas)",
            "min.insync.replicas=\(inSync)",
            "offsets.topic.replication.factor=\(replicas)",
            "offsets.topic.num.partitions=8",
            "transaction.state.log.replication.factor=\(replicas)",
            "transaction.state.log.min.isr=\(inSync)",
            "transaction.state.log.num.partitions=8",
            "group.initial.rebalance.delay.ms=0",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms=1000",
            "log.segment.bytes=67108864",
            "log.retention.check.interval.ms=5000",
        ]
        lines += guarded?.properties ?? []
        lines += properties.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        return lines.joined(separator: "\n") + "\n"
    }

    private static let logging = """
        status = error
        appender.out.type = Console
        appender.out.name = out
        appender.out.layout.type = PatternLayout
        appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
        rootLogger.level = warn
        rootLogger.appenderRef.out.ref = out

        """
}
