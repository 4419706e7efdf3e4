import Foundation
import Glibc
import Kafka
import LocalKafka
import TokenDomain

@testable import tollway

/// The workers as processes: up to four replicas of each, and for a while the older of two twins.
///
/// Replica 0 is the one that the demo's workers started; it is never scaled away.
final class Fleet {
    static let replicaCountMax = 4
    private static let youngSeconds = 1.0

    struct Member: Hashable, Comparable {
        var worker: Worker
        var number: Int

        /// `INSTANCE`: the same in every life, so that Kafka knows it again.
        var instance: String { number == 0 ? "demo" : "demo-\(number)" }
        var name: String { number == 0 ? worker.rawValue : "\(worker.rawValue)-\(number)" }

        static func < (left: Member, right: Member) -> Bool { left.name < right.name }
    }

    /// How a member runs; a twin takes its place with another name, port and perhaps folder.
    struct Seat {
        /// Of the process and its log.
        var processName: String
        var adminPort: Int
        var stateFolder: URL
    }

    let workers: DemoWorkers
    let cluster: DemoCluster
    let processes: DemoProcesses
    private let folder: URL
    private var seats: [Member: Seat] = [:]
    private var ingestPorts: [Member: Int] = [:]
    private var freePorts: [Int]
    private var twinCount = 0
    private var doorTurn = 0
    private var startedAt: [Member: Date] = [:]
    /// Every folder that any life of a worker used as `STATE_DIR`.
    private(set) var stateFolders: [Worker: Set<URL>] = [:]

    /// Takes over the workers that were started, one of each, and what they run on.
    init(
        workers: DemoWorkers,
        cluster: DemoCluster,
        processes: DemoProcesses,
        folder: URL
    ) throws {
        self.workers = workers
        self.cluster = cluster
        self.processes = processes
        self.folder = folder
        try FileManager.default.createDirectory(
            at: folder.appendingPathComponent("copies"),
            withIntermediateDirectories: true
        )
        freePorts = try FreePorts.take(count: 80)
        for worker in Worker.allCases {
            let first = Member(worker: worker, number: 0)
            let state = folder.appendingPathComponent("state")
            seats[first] = Seat(
                processName: first.name,
                adminPort: workers.adminPorts[worker] ?? 0,
                stateFolder: state
            )
            stateFolders[worker] = [state]
        }
        processes.isSupervised = true
    }

    /// Those that run or are to be started again, in order.
    var members: [Member] { seats.keys.sorted() }

    func members(of worker: Worker) -> [Member] { members.filter { $0.worker == worker } }

    func seat(_ member: Member) -> Seat? { seats[member] }

    func isRunning(_ member: Member) -> Bool { process(member)?.isRunning == true }

    func process(_ member: Member) -> Process? {
        seats[member].flatMap { processes.process($0.processName) }
    }

    func tail(_ member: Member) -> String {
        seats[member].map { processes.tail($0.processName) } ?? ""
    }

    /// Whether its process had hardly begun: before it takes signals as it wants to, they end it as
    /// they end any process, and there is nothing yet to be left in order.
    func wasYoung(_ member: Member, at time: Date) -> Bool {
        startedAt[member].map { time.timeIntervalSince($0) < Self.youngSeconds } ?? false
    }

    /// The last line of its log.
    func lastWords(_ member: Member) -> String {
        tail(member).split(separator: "\n").last.map { String($0) } ?? ""
    }

    /// Whether the last line of its log says that it ends, and was written before `date`.
    func wasEnding(_ member: Member, at date: Date) -> Bool {
        let line = lastWords(member)
        guard line.contains("\"message\":\"the worker ends\""),
            let time = line.split(separator: "\"").drop(while: { $0 != "time" }).dropFirst(2).first
        else {
            return false
        }
        do {
            let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
            return try style.parse(String(time)) < date
        } catch {
            return false
        }
    }

    /// Starts a member in its seat.
    func start(_ member: Member) throws {
        guard let seat = seats[member] else {
            throw StormFault(sentence: "\(member.name) has no seat")
        }
        stateFolders[member.worker, default: []].insert(seat.stateFolder)
        startedAt[member] = Date()
        var changes = [
            "TOLLWAY_ADMIN_LISTEN": "127.0.0.1:\(seat.adminPort)",
            "TOLLWAY_INSTANCE": member.instance,
            "TOLLWAY_STATE_DIR": seat.stateFolder.path,
        ]
        if let port = ingestPorts[member] {
            changes["TOLLWAY_INGEST_LISTEN"] = "127.0.0.1:\(port)"
        }
        try workers.start(member.worker, cluster, as: seat.processName, changing: changes)
    }

    /// Starts a twin, a second process with the member's name at Kafka, which has the seat from here
    /// on.
    ///
    /// With `sharesState` both have one `STATE_DIR`, as two pods on one volume would.
    ///
    /// - Returns: the older one's process name.
    func startTwin(of member: Member, sharesState: Bool) throws -> String {
        guard let old = seats[member] else {
            throw StormFault(sentence: "\(member.name) has no seat")
        }
        twinCount += 1
        seats[member] = Seat(
            processName: "\(member.name)-twin-\(twinCount)",
            adminPort: try takePort(),
            stateFolder: sharesState
                ? old.stateFolder : folder.appendingPathComponent("state-twin-\(twinCount)")
        )
        try start(member)
        return old.processName
    }

    /// Where copies of state are kept: no worker looks there.
    var copiesFolder: URL { folder.appendingPathComponent("copies") }

    /// A dead member's process is forgotten; its seat stays.
    func letGo(_ member: Member) {
        if let seat = seats[member] {
            processes.letGo(seat.processName)
        }
    }

    /// Scaled away: it is not started again.
    func remove(_ member: Member) {
        letGo(member)
        seats[member] = nil
    }

    func signal(_ member: Member, _ number: Int32) {
        if let process = process(member), process.isRunning {
            kill(process.processIdentifier, number)
        }
    }

    /// SIGKILL, and gone when it returns.
    func end(_ member: Member) {
        signal(member, SIGKILL)
        process(member)?.waitUntilExit()
        letGo(member)
    }

    /// SIGSTOP to every node of Kafka that runs: what is in its sockets stays there.
    func freezeKafka() throws {
        try forEachNode { kafka, node in try kafka.pause(node: node) }
    }

    /// SIGCONT.
    func thawKafka() throws {
        try forEachNode { kafka, node in try kafka.resume(node: node) }
    }

    private func forEachNode(_ act: (LocalCluster, Int) throws -> Void) throws {
        guard case .local(let kafka) = cluster else {
            return
        }
        for node in 0..<kafka.nodeCount where kafka.isRunning(node: node) {
            try act(kafka, node)
        }
    }

    /// What a member's `/debug/status` says; nil where nobody answers.
    func status(_ member: Member, http: DemoHTTP) throws -> [String: Any]? {
        guard let seat = seats[member] else {
            return nil
        }
        return try http.json("http://127.0.0.1:\(seat.adminPort)/debug/status") as? [String: Any]
    }

    /// The door of an ingest that runs, in turn; the first one's where none does.
    func door() -> String {
        let open = members(of: .ingest).filter { isRunning($0) }
        doorTurn += 1
        guard !open.isEmpty, let port = ingestPorts[open[doorTurn % open.count]] else {
            return workers.ingestURL
        }
        return "http://127.0.0.1:\(port)"
    }

    /// Regular files of a member's state; it does not run, or they come and go.
    func stateFiles(of member: Member) throws -> [URL] {
        guard let seat = seats[member] else {
            return []
        }
        let all = FileManager.default.enumerator(
            at: seat.stateFolder,
            includingPropertiesForKeys: [.isRegularFileKey]
        )
        var files: [URL] = []
        // Workers with the same number share the folder, and the others of them run.
        while let file = all?.nextObject() as? URL {
            guard file.pathComponents.contains(member.worker.rawValue) else {
                continue
            }
            if try file.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile == true {
                files.append(file)
            }
        }
        return files.sorted { $0.path < $1.path }
    }

    /// Gives a further replica its seat; it is not started yet.
    func reserve(_ member: Member) throws {
        if member.worker == .ingest, ingestPorts[member] == nil {
            ingestPorts[member] = try takePort()
        }
        // The older of two twins waits a minute for its end, and has the name as long.
        var processName = member.name
        while processes.process(processName) != nil {
            processName += "-again"
        }
        seats[member] = Seat(
            processName: processName,
            adminPort: try takePort(),
            stateFolder: folder.appendingPathComponent("state-\(member.number)")
        )
    }

    private func takePort() throws -> Int {
        if freePorts.isEmpty {
            freePorts = try FreePorts.take(count: 20)
        }
        return freePorts.removeLast()
    }
}
