import Foundation
import Glibc
import Kafka
import LocalKafka
import TokenDomain

@testable import tollway

/// Faults on running workers and on their Kafka, drawn from a seed.
///
/// It also is the supervisor: what ends with 75 is started again, what ends otherwise is a finding.
///
/// One thread: `turn` is called by whoever waits, does what is due, and never waits itself.
final class Storm {
    typealias Member = Fleet.Member

    enum Step {
        case start
        case resume
        /// Its transactional id is taken from it before it goes on.
        case fence
        /// SIGTERM was sent at this time; the worker must be gone 10 s later, and where it was
        /// scaled away it stays so.
        case awaitExit(since: Date, isLast: Bool)
    }

    /// The older of two with one name: it must find out by itself, wait a minute, and end with 75.
    struct Elder {
        var member: Member
        var processName: String
        var since: Date
        var isToldToStop = false
    }

    /// A worker that got a signal to stop has ended by then: design section 7.
    static let stopSecondsMax = 10.0
    /// Past the session of 15 s, so that the group has given the worker up.
    static let pauseSeconds = 17.0
    /// Long enough for new records to come in, well within the session.
    static let fencePauseSeconds = 1.5
    static let fenceMillisecondsMax = 5_000
    /// The older of two twins is fenced at its next heartbeat or transaction, waits 60 s and ends;
    /// the rest is for a busy machine.
    static let elderSecondsMax = 120.0
    /// A broker that is back is left alone for so long: one that never is tests nothing but itself.
    static let brokerRestSeconds = 20.0
    /// Up to long past the 9 s after which the controller gives a silent node's partitions to others.
    static let brokerPauseSeconds = 1.0...40.0
    /// Of the only node: no other takes over.
    static let onlyBrokerPauseSeconds = 1.0...20.0
    /// Faults that may leave a transaction without its end (KAFKA-20734).
    private static let brokerDeaths: Set<StormFaultKind> = [
        .killBroker, .killMachine, .loseBroker, .killTwoBrokers, .pauseBroker, .rollBrokers,
    ]
    /// Restarts after exit 75 without a fault of ours before it is a finding.
    static let restartCountMax = 60
    static let secondsBetweenFaults = 0.1...2.0

    let fleet: Fleet
    let killer: ReporterKiller
    let transactionKiller: TransactionKiller
    let rollingRestart = RollingRestart()
    private let repair: TransactionRepair
    let faultCountMax: Int
    let killCountMin: Int
    private let faults: [StormFaultKind]
    private let startedAt = Date()
    var generator: SeededGenerator
    var due: [Member: (at: Date, step: Step)] = [:]
    var elders: [Elder] = []
    /// Of state folders: what was in them when their worker was killed first.
    var copies: [URL: URL] = [:]
    var brokerRestartedAt = Date.distantPast
    /// Nodes of Kafka to which something was done, and what is to happen to them.
    var nodeSteps: [Int: NodeStep] = [:]
    /// Nodes that a rolling restart of Kafka has not reached.
    var nodesToRoll: [Int] = []
    /// A node that died for good.
    var lostNode: Int?
    /// The only node is back: so long hanging transactions are repaired before anything else happens.
    ///
    /// No fault strikes and no worker starts: an abort before the repair would take what hangs with it.
    var repairsUntil: Date?
    private var nextFaultAt = Date()
    private var isInTurn = false
    private var isStopping = false

    var struck: [StormFaultKind: Int] = [:]
    /// SIGKILLs, of whatever process.
    var killCount = 0
    private(set) var restartCount = 0
    /// The slowest answer to SIGTERM.
    private(set) var stopSecondsSeen = 0.0
    private(set) var journal: [String] = []
    private(set) var findings: [String] = []

    init(
        fleet: Fleet,
        killer: ReporterKiller,
        transactionKiller: TransactionKiller,
        repair: TransactionRepair,
        settings: StormSettings
    ) {
        self.fleet = fleet
        self.killer = killer
        self.transactionKiller = transactionKiller
        self.repair = repair
        faults = settings.faults
        faultCountMax = settings.faultCount
        killCountMin = settings.killCountMin
        generator = SeededGenerator(seed: settings.seed)
    }

    /// How many faults struck.
    var faultCount: Int { struck.values.reduce(0, +) }

    /// Whether every fault has struck; some may still go on.
    var isSatisfied: Bool { faultCount >= faultCountMax && killCount >= killCountMin }

    /// Whether something is done to Kafka itself just now.
    var isKafkaDisturbed: Bool {
        !nodeSteps.isEmpty || !nodesToRoll.isEmpty || repairsUntil != nil || killer.isUnderWay
            || transactionKiller.isUnderWay
    }

    /// Whether every fault has struck, every worker runs again, alone, and Kafka is whole.
    var isOver: Bool {
        isSatisfied && due.isEmpty && elders.isEmpty && !isKafkaDisturbed
            && !rollingRestart.isUnderWay && fleet.members.allSatisfy { $0.number == 0 }
    }

    /// Whether every worker has gone after `stopAll`.
    var isStopped: Bool {
        isStopping && due.isEmpty
            && fleet.members.allSatisfy { fleet.process($0) == nil }
    }

    /// SIGTERM to every worker; none starts again.
    func stopAll() {
        isStopping = true
        for member in fleet.members where due[member] == nil {
            terminate(member, isLast: false)
        }
    }

    func terminate(_ member: Member, isLast: Bool) {
        note("\(member.name): SIGTERM")
        fleet.signal(member, SIGTERM)
        due[member] = (Date(), .awaitExit(since: Date(), isLast: isLast))
    }

    func turn() throws {
        guard !isInTurn else {
            return
        }
        isInTurn = true
        defer { isInTurn = false }
        for member in fleet.members {
            try supervise(member)
        }
        superviseElders()
        try superviseNodes()
        for sentence in [
            try killer.turn(self), try transactionKiller.turn(self), try rollingRestart.turn(self),
        ] {
            sentence.map(note)
        }
        let now = Date()
        guard now >= nextFaultAt, !isStopping, !rollingRestart.isUnderWay, repairsUntil == nil
        else {
            return
        }
        if !isSatisfied {
            try strike()
        } else {
            scaleInAll()
        }
        // From here on, not from its beginning: some faults take their time.
        nextFaultAt = Date().addingTimeInterval(
            Double.random(in: Self.secondsBetweenFaults, using: &generator)
        )
    }

    private func strike() throws {
        // Chance may leave it out; in the middle of a storm there is work.
        guard !faults.contains(.roll) || struck[.roll] != nil || faultCount < faultCountMax / 2
        else {
            return rollingRestart.begin()
        }
        guard let kind = faults.randomElement(using: &generator) else {
            return
        }
        if try strike(kind) {
            struck[kind, default: 0] += 1
        }
    }

    // MARK: The supervisor

    private func supervise(_ member: Member) throws {
        if let (at, step) = due[member] {
            switch step {
            case .start where isStopping:
                due[member] = nil
            case .start where Date() >= at && repairsUntil == nil:
                due[member] = nil
                try fleet.start(member)
                note("\(member.name) starts")
            case .resume where Date() >= at:
                due[member] = nil
                fleet.signal(member, SIGCONT)
                note("\(member.name) goes on")
            case .fence where Date() >= at:
                due[member] = nil
                try fence(member)
            case .awaitExit(let since, let isLast):
                awaitExit(member, since: since, isLast: isLast)
            default: break
            }
            return
        }
        guard let process = fleet.process(member), !process.isRunning else {
            // One that was still starting when all got a signal to stop.
            if isStopping, fleet.isRunning(member) {
                terminate(member, isLast: false)
            }
            return
        }
        let code = process.terminationStatus
        note("\(member.name) ended by itself with \(code): \(fleet.lastWords(member))")
        restartCount += 1
        if process.terminationReason != .exit || code != 75 {
            find("\(member.name) ended by itself with \(code): \(fleet.tail(member))")
        } else if fleet.lastWords(member).contains("fenced"),
            !elders.contains(where: { $0.member == member })
        {
            find("\(member.name) was fenced and has no twin: \(fleet.tail(member))")
        } else if restartCount > Self.restartCountMax {
            find("\(member.name) ends again and again: \(fleet.tail(member))")
            throw StormFault(sentence: "\(member.name) cannot be kept running")
        }
        fleet.letGo(member)
        due[member] = (Date().addingTimeInterval(0.2), .start)
    }

    private func awaitExit(_ member: Member, since: Date, isLast: Bool) {
        let seconds = Date().timeIntervalSince(since)
        guard let process = fleet.process(member) else {
            return
        }
        if process.isRunning {
            guard seconds > Self.stopSecondsMax else {
                return
            }
            find("\(member.name) runs \(Int(seconds)) s after SIGTERM: \(fleet.tail(member))")
            fleet.end(member)
        } else if fleet.wasYoung(member, at: since), process.terminationStatus == SIGTERM {
            note("\(member.name) was told to go before it had begun")
        } else if process.terminationReason == .exit, process.terminationStatus == 75,
            fleet.wasEnding(member, at: since)
        {
            // The signal met it on its way out: it ended by itself.
            restartCount += 1
            note("\(member.name) was ending with 75 when it was told to go")
        } else if process.terminationReason != .exit || process.terminationStatus != 0 {
            find(
                "\(member.name) answers SIGTERM with \(process.terminationStatus) after"
                    + " \(seconds) s: \(fleet.tail(member))"
            )
        }
        stopSecondsSeen = max(stopSecondsSeen, seconds)
        note("\(member.name) is gone \(Int(seconds * 1_000)) ms after SIGTERM")
        due[member] = nil
        if isLast {
            stopElderUnlessFenced(of: member)
            fleet.remove(member)
        } else {
            fleet.letGo(member)
            if !isStopping {
                due[member] = (Date(), .start)
            }
        }
    }

    /// A twin that got a signal to stop before it had joined fences nobody, and is not started
    /// again: the older one gets a signal to stop as well.
    private func stopElderUnlessFenced(of member: Member) {
        for index in elders.indices where elders[index].member == member {
            let name = elders[index].processName
            guard let process = fleet.processes.process(name), process.isRunning,
                !fleet.processes.tail(name).contains("a newer instance has this name")
            else {
                continue
            }
            note("\(name), whose twin never joined: SIGTERM")
            kill(process.processIdentifier, SIGTERM)
            elders[index].isToldToStop = true
        }
    }

    private func superviseElders() {
        elders.removeAll { elder in
            guard let process = fleet.processes.process(elder.processName) else {
                return true
            }
            let seconds = Int(Date().timeIntervalSince(elder.since))
            if process.isRunning {
                guard Double(seconds) > Self.elderSecondsMax else {
                    return false
                }
                find(
                    "\(elder.processName), the older of two twins, still runs after \(seconds) s: "
                        + fleet.processes.tail(elder.processName)
                )
                kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            } else if process.terminationReason != .exit
                || process.terminationStatus != (elder.isToldToStop ? 0 : 75)
            {
                find(
                    "\(elder.processName), the older of two twins, ends with"
                        + " \(process.terminationStatus): "
                        + fleet.processes.tail(elder.processName)
                )
            }
            note("\(elder.processName), the older twin, is gone after \(seconds) s")
            fleet.processes.letGo(elder.processName)
            return true
        }
    }

    /// - Returns: whether one was ended, or Kafka does not say: readers then go on.
    func repairHangingTransactions() throws -> Bool {
        let repaired: [TransactionRepair.Held]
        do {
            repaired = try repair.repair()
        } catch is TransactionRepair.Unanswered {
            return true
        }
        for held in repaired {
            note("a hanging transaction was repaired: \(held.place): \(held.verdict)")
            if Set(struck.keys).isDisjoint(with: Self.brokerDeaths) {
                find("a transaction hangs although no broker died: \(held.place)")
            }
        }
        return !repaired.isEmpty
    }

    // MARK: What happened

    /// The count of faults survived, for whoever reads the end of a long run.
    var sentence: String {
        let list = struck.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { "\($0.key.rawValue) \($0.value)" }
        return "survived \(faultCount) faults (\(list.joined(separator: ", "))),"
            + " \(killCount) kills, \(restartCount) exits with 75, \(repair.repairedCount) markers of"
            + " hanging transactions written, SIGTERM answered within"
            + " \(Int((stopSecondsSeen * 1_000).rounded())) ms"
    }

    func note(_ sentence: String) {
        let seconds = Date().timeIntervalSince(startedAt)
        journal.append("\((seconds * 1_000).rounded() / 1_000) s: \(sentence)")
    }

    func find(_ sentence: String) {
        note("FOUND: \(sentence)")
        findings.append(sentence)
    }
}

/// Why a storm cannot go on.
struct StormFault: Error {
    var sentence: String
}
