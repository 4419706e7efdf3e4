import Foundation
import Glibc
import Kafka
import TokenDomain

@testable import tollway

/// Faults on running workers, drawn from a seed: kills, pauses, restarts, damage.
///
/// It also is the supervisor: what ends with 75 is started again, what ends otherwise is a finding.
///
/// One thread: `turn` is called by whoever waits, does what is due, and never waits itself.
final class Storm {
    enum Fault: String, CaseIterable {
        case kill
        case killTwo
        case stop
        case pause
        case loseState
        case damageState
        /// Only where asked for: a single node killed while it ends a transaction was seen to leave
        /// one open for ever, which is Kafka's own (design section 8).
        case killBroker

        static let ofWorkers = allCases.filter { $0 != .killBroker }
    }

    private enum Step {
        case start
        case resume
        /// SIGTERM was sent at this time; the worker must be gone 10 s later.
        case awaitExit(since: Date)
    }

    /// A worker told to stop has gone by then: design section 7.
    static let stopSecondsMax = 10.0
    /// Past the session of 15 s, so that the group has given the worker up.
    static let pauseSeconds = 17.0
    /// A broker that is back is left alone for so long: one that never is tests nothing but itself.
    static let brokerRestSeconds = 30.0
    /// Restarts after exit 75 without a fault of ours before it is a finding.
    static let restartCountMax = 40

    private let workers: DemoWorkers
    private let cluster: DemoCluster
    private let processes: DemoProcesses
    private let stateFolder: URL
    private let startedAt = Date()
    private let faultCountMax: Int
    private let faults: [Fault]
    private var generator: SeededGenerator
    private var due: [Worker: (at: Date, step: Step)] = [:]
    private var nextFaultAt = Date()
    private var isInTurn = false
    private var brokerRestartedAt = Date.distantPast
    private var isStopping = false

    private(set) var struck: [Fault: Int] = [:]
    private(set) var restartCount = 0
    private(set) var journal: [String] = []
    private(set) var findings: [String] = []

    init(
        workers: DemoWorkers,
        cluster: DemoCluster,
        processes: DemoProcesses,
        stateFolder: URL,
        faults: [Fault],
        faultCountMax: Int,
        seed: UInt64
    ) {
        self.workers = workers
        self.cluster = cluster
        self.processes = processes
        self.stateFolder = stateFolder
        self.faults = faults
        self.faultCountMax = faultCountMax
        generator = SeededGenerator(seed: seed)
        processes.isSupervised = true
    }

    /// How many faults struck.
    var faultCount: Int {
        struck.reduce(0) { $0 + ($1.key == .killTwo ? 2 : 1) * $1.value }
    }

    /// Whether every fault has struck and every worker runs again.
    var isOver: Bool { faultCount >= faultCountMax && due.isEmpty }

    /// Whether every worker has gone after `stopAll`.
    var isStopped: Bool {
        isStopping && due.isEmpty
            && Worker.allCases.allSatisfy {
                processes.process($0.rawValue) == nil
            }
    }

    /// SIGTERM to every worker; none starts again.
    func stopAll() {
        isStopping = true
        for worker in Worker.allCases where due[worker] == nil {
            terminate(worker)
        }
    }

    private func terminate(_ worker: Worker) {
        note("\(worker.rawValue): SIGTERM")
        signal(worker, SIGTERM)
        due[worker] = (Date(), .awaitExit(since: Date()))
    }

    func turn() throws {
        guard !isInTurn else {
            return
        }
        isInTurn = true
        defer { isInTurn = false }
        for worker in Worker.allCases {
            try supervise(worker)
        }
        let now = Date()
        if faultCount < faultCountMax, now >= nextFaultAt {
            try strike()
            // From here on, not from its beginning: a broker takes long to come back.
            nextFaultAt = Date().addingTimeInterval(Double.random(in: 0.1...2.5, using: &generator))
        }
    }

    // MARK: The supervisor

    private func supervise(_ worker: Worker) throws {
        let name = worker.rawValue
        if let (at, step) = due[worker] {
            switch step {
            case .start where Date() >= at:
                due[worker] = nil
                try workers.start(worker, cluster)
                note("\(name) starts")
            case .resume where Date() >= at:
                due[worker] = nil
                signal(worker, SIGCONT)
                note("\(name) goes on")
            case .awaitExit(let since):
                awaitExit(worker, since: since)
            default: break
            }
            return
        }
        guard let process = processes.process(name), !process.isRunning else {
            return
        }
        let code = process.terminationStatus
        note("\(name) ended by itself with \(code)")
        restartCount += 1
        if process.terminationReason != .exit || code != 75 {
            find("\(name) ended by itself with \(code): \(processes.tail(name))")
        } else if restartCount > Self.restartCountMax {
            find("\(name) ends again and again: \(processes.tail(name))")
            throw StormFault(sentence: "\(name) cannot be kept running")
        }
        processes.letGo(name)
        due[worker] = (Date().addingTimeInterval(0.2), .start)
    }

    private func awaitExit(_ worker: Worker, since: Date) {
        let name = worker.rawValue
        let seconds = Date().timeIntervalSince(since)
        guard let process = processes.process(name) else {
            return
        }
        if process.isRunning {
            guard seconds > Self.stopSecondsMax else {
                return
            }
            find("\(name) still runs \(Int(seconds)) s after SIGTERM: \(processes.tail(name))")
            end(worker)
        } else if process.terminationReason != .exit || process.terminationStatus != 0 {
            find(
                "\(name) answers SIGTERM with \(process.terminationStatus) after \(seconds) s: "
                    + processes.tail(name)
            )
        }
        note("\(name) is gone \(Int(seconds * 1_000)) ms after SIGTERM")
        processes.letGo(name)
        due[worker] = isStopping ? nil : (Date(), .start)
    }

    // MARK: Faults

    private func strike() throws {
        let free = Worker.allCases.filter {
            due[$0] == nil && processes.process($0.rawValue)?.isRunning == true
        }
        guard let worker = free.randomElement(using: &generator),
            let fault = faults.randomElement(using: &generator)
        else {
            return
        }
        switch fault {
        case .kill:
            killAndRestart(worker)
        case .killTwo:
            guard let other = free.filter({ $0 != worker }).randomElement(using: &generator) else {
                return
            }
            killAndRestart(worker)
            killAndRestart(other)
        case .stop:
            terminate(worker)
        case .pause:
            note("\(worker.rawValue): SIGSTOP")
            signal(worker, SIGSTOP)
            due[worker] = (Date().addingTimeInterval(Self.pauseSeconds), .resume)
        case .killBroker:
            guard case .local(let kafka) = cluster,
                Date().timeIntervalSince(brokerRestartedAt) > Self.brokerRestSeconds
            else {
                return
            }
            note("the broker: SIGKILL")
            try kafka.kill(node: 0)
            // Until it answers again: everything waits for it, and so does the storm.
            try kafka.restart(node: 0)
            note("the broker answers again")
            brokerRestartedAt = Date()
        case .loseState, .damageState:
            guard let keeper = free.filter({ $0.changelog != nil }).randomElement(using: &generator)
            else {
                return
            }
            killAndRestart(keeper)
            try harm(keeper, isWhole: fault == .loseState)
        }
        struck[fault, default: 0] += 1
    }

    private func killAndRestart(_ worker: Worker) {
        note("\(worker.rawValue): SIGKILL")
        end(worker)
        processes.letGo(worker.rawValue)
        let wait = Double.random(in: 0...1.5, using: &generator)
        due[worker] = (Date().addingTimeInterval(wait), .start)
    }

    private func end(_ worker: Worker) {
        signal(worker, SIGKILL)
        processes.process(worker.rawValue)?.waitUntilExit()
    }

    private func signal(_ worker: Worker, _ number: Int32) {
        if let process = processes.process(worker.rawValue), process.isRunning {
            kill(process.processIdentifier, number)
        }
    }

    /// Takes a dead worker's state away, or spoils one file of it.
    private func harm(_ worker: Worker, isWhole: Bool) throws {
        let files = try stateFiles(of: worker)
        if isWhole {
            let folders = Set(files.map { $0.deletingLastPathComponent() })
            for folder in folders.sorted(by: { $0.path < $1.path })
            where Bool.random(using: &generator) {
                try FileManager.default.removeItem(at: folder)
                note("\(worker.rawValue): lost \(folder.lastPathComponent)")
            }
            return
        }
        guard let file = files.randomElement(using: &generator) else {
            return
        }
        var bytes = try Data(contentsOf: file)
        let manner: String
        switch Int.random(in: 0..<3, using: &generator) {
        case 0:
            manner = "cut"
            bytes = bytes.prefix(bytes.count / 2)
        case 1 where !bytes.isEmpty:
            manner = "one bit turned"
            let index = Int.random(in: 0..<bytes.count, using: &generator)
            bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        default:
            note("\(worker.rawValue): removed \(file.path)")
            return try FileManager.default.removeItem(at: file)
        }
        try bytes.write(to: file)
        note("\(worker.rawValue): \(manner): \(file.path)")
    }

    private func stateFiles(of worker: Worker) throws -> [URL] {
        let all = FileManager.default.enumerator(
            at: stateFolder,
            includingPropertiesForKeys: [.isRegularFileKey]
        )
        var files: [URL] = []
        while let file = all?.nextObject() as? URL {
            let isFile = try file.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile
            if isFile == true, file.pathComponents.contains(worker.rawValue) {
                files.append(file)
            }
        }
        return files.sorted { $0.path < $1.path }
    }

    // MARK: What happened

    private func note(_ sentence: String) {
        let seconds = Date().timeIntervalSince(startedAt)
        journal.append("\((seconds * 1_000).rounded() / 1_000) s: \(sentence)")
    }

    private func find(_ sentence: String) {
        note("FOUND: \(sentence)")
        findings.append(sentence)
    }
}

/// Why a storm cannot go on.
struct StormFault: Error {
    var sentence: String
}
