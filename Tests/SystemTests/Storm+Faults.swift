import Foundation
import Glibc
import Kafka
import LocalKafka
import TokenDomain

@testable import tollway

/// What can happen to a worker, to its disk, and to Kafka.
enum StormFaultKind: String, CaseIterable {
    /// SIGKILL, and started again at once or a moment later.
    case kill
    /// Two workers at the same time.
    case killTwo
    /// SIGTERM: gone within 10 s with 0, and started again.
    case stop
    /// SIGTERM to each of the six workers in turn.
    case roll
    /// SIGSTOP past the group's session: a zombie wakes up.
    case pause
    /// Killed, and its state gone or spoilt when it comes back.
    case loseState
    case damageState
    /// A second process with the same INSTANCE: the older one must end.
    case twin
    /// One replica becomes four, or four one.
    case scale
    /// The reporter dies between Apple's 200 and its own commit.
    case killReporter
    /// A worker dies while a transaction of its own is open.
    case killInTransaction
    /// Its transactional id is taken by somebody else, while it keeps its partitions: what it has
    /// under way is aborted, and it has to do it again.
    case fence
    /// One Kafka node of those there are; the only one, where there is one.
    case killBroker
    /// SIGSTOP to a Kafka node, up to long past its session: its connections stay, and are silent.
    case pauseBroker
    /// Two of three Kafka nodes die and come back: meanwhile nothing can be acknowledged.
    case killTwoBrokers
    /// SIGTERM to each of three Kafka nodes in turn, as for a new version of Kafka.
    case rollBrokers
    /// One of three Kafka nodes dies and stays dead: the account closes with the two that are left.
    case loseBroker
    /// Everything at once, where all of it is on one machine: every worker, and the one Kafka node.
    case killMachine

    /// What a storm is made of: workers die more often than machines.
    static let usual: [StormFaultKind] =
        Array(repeating: .kill, count: 7) + Array(repeating: .killTwo, count: 4)
        + [.stop, .stop, .roll, .pause, .loseState, .damageState, .damageState, .twin]
        + [.scale, .scale, .scale, .killReporter, .killReporter, .killBroker, .killMachine]
        + [.killInTransaction, .killInTransaction, .killInTransaction, .fence, .fence]

    /// What takes too long for a storm that is run for every change.
    static let slow: [StormFaultKind] = [.pauseBroker, .pauseBroker, .killTwoBrokers, .rollBrokers]
}

extension Storm {
    /// - Returns: whether it struck; some need a victim that is not there.
    func strike(_ kind: StormFaultKind) throws -> Bool {
        let free = fleet.members.filter { due[$0] == nil && fleet.isRunning($0) }
        guard let member = free.randomElement(using: &generator) else {
            return false
        }
        switch kind {
        case .kill:
            killAndRestart(member)
        case .killTwo:
            guard let other = free.filter({ $0 != member }).randomElement(using: &generator) else {
                return false
            }
            killAndRestart(member)
            killAndRestart(other)
        case .stop:
            terminate(member, isLast: false)
        case .roll:
            rollingRestart.begin()
            return false
        case .pause:
            note("\(member.name): SIGSTOP")
            fleet.signal(member, SIGSTOP)
            due[member] = (Date().addingTimeInterval(Self.pauseSeconds), .resume)
        case .loseState, .damageState:
            let keepers = free.filter { $0.worker.changelog != nil }
            guard let keeper = keepers.randomElement(using: &generator) else {
                return false
            }
            killAndRestart(keeper)
            try copyState(of: keeper)
            try harm(keeper, isWhole: kind == .loseState)
        case .twin:
            return try startTwin(free)
        case .scale:
            return try scale()
        case .killReporter:
            try killer.begin(self)
            return false
        case .killInTransaction:
            try transactionKiller.begin(self)
            return false
        case .fence:
            beginFence(free)
            return false
        case .killBroker:
            return try killBroker()
        case .pauseBroker:
            return try pauseBroker()
        case .killTwoBrokers:
            return try killBroker(count: 2)
        case .rollBrokers:
            return beginBrokerRoll()
        case .loseBroker:
            return try loseBroker()
        case .killMachine:
            return try killMachine()
        }
        return true
    }

    func killAndRestart(_ member: Member) {
        note("\(member.name): SIGKILL")
        fleet.end(member)
        killCount += 1
        let wait = Double.random(in: 0...1.5, using: &generator)
        due[member] = (Date().addingTimeInterval(wait), .start)
    }

    /// Of the reporters, whichever of them it is that waits for Apple.
    func killReporters() {
        for member in fleet.members(of: .report) where fleet.isRunning(member) {
            if due[member] == nil {
                killAndRestart(member)
            }
        }
    }

    /// It counts only once it struck.
    private func beginFence(_ free: [Member]) {
        let possible = free.filter { $0.worker != .ingest }
        guard let member = possible.randomElement(using: &generator) else {
            return
        }
        // Meanwhile the stream goes on: it wakes with new records to take.
        note("\(member.name): SIGSTOP")
        fleet.signal(member, SIGSTOP)
        due[member] = (Date().addingTimeInterval(Self.fencePauseSeconds), .fence)
    }

    /// Well within its session it goes on: the group knows nothing of it.
    func fence(_ member: Member) throws {
        defer { fleet.signal(member, SIGCONT) }
        guard !isKafkaDisturbed else {
            return note("\(member.name) goes on")
        }
        do throws(LogFault) {
            let thief = try KafkaTransactor(
                settings: KafkaSettings(
                    bootstrapServers: fleet.cluster.bootstrapServers,
                    clientID: "storm"
                ),
                transactionalID:
                    "\(StormRun.prefix)\(member.worker.rawValue)-\(member.instance)",
                targets: []
            )
            defer { thief.close() }
            try thief.takeOver(deadlineMilliseconds: Self.fenceMillisecondsMax)
        } catch {
            return note("\(member.name) goes on; its transactional id is not to be had: \(error)")
        }
        note("\(member.name) goes on without its transactional id")
        struck[.fence, default: 0] += 1
    }

    /// One that listens cannot have a twin on one machine: its port is taken.
    private func startTwin(_ free: [Member]) throws -> Bool {
        let possible = free.filter { $0.worker != .ingest }
        guard elders.isEmpty, let member = possible.randomElement(using: &generator) else {
            return false
        }
        let sharesState = Bool.random(using: &generator)
        let elder = try fleet.startTwin(of: member, sharesState: sharesState)
        elders.append(Elder(member: member, processName: elder, since: Date()))
        note("\(member.name): a twin starts" + (sharesState ? ", with the same state" : ""))
        return true
    }

    // MARK: Scaling

    private func scale() throws -> Bool {
        guard let worker = Worker.allCases.randomElement(using: &generator) else {
            return false
        }
        let members = fleet.members(of: worker)
        guard members.count == 1 else {
            return scaleIn(worker)
        }
        note("\(worker.rawValue): from 1 to \(Fleet.replicaCountMax)")
        for number in 1..<Fleet.replicaCountMax {
            let member = Member(worker: worker, number: number)
            try fleet.reserve(member)
            due[member] = (Date(), .start)
        }
        return true
    }

    /// - Returns: whether any process got a signal to stop.
    @discardableResult
    private func scaleIn(_ worker: Worker) -> Bool {
        let spare = fleet.members(of: worker).filter { $0.number > 0 && due[$0] == nil }
        guard !spare.isEmpty else {
            return false
        }
        note("\(worker.rawValue): back to 1")
        for member in spare {
            terminate(member, isLast: true)
        }
        return true
    }

    func scaleInAll() {
        for worker in Worker.allCases {
            scaleIn(worker)
        }
    }

    // MARK: State

    /// Takes a dead worker's state away, or spoils some of it.
    private func harm(_ member: Member, isWhole: Bool) throws {
        let files = try fleet.stateFiles(of: member)
        let folders = Set(files.map { $0.deletingLastPathComponent() })
            .sorted { $0.path < $1.path }
        if isWhole {
            for folder in folders where Bool.random(using: &generator) {
                try FileManager.default.removeItem(at: folder)
                note("\(member.name): lost \(folder.lastPathComponent)")
            }
            return
        }
        guard let file = files.randomElement(using: &generator) else {
            return
        }
        var bytes = try Data(contentsOf: file)
        let manner: String
        switch Int.random(in: 0..<5, using: &generator) {
        case 3:
            return try putBack(folders, of: member)
        case 4:
            return try exchange(folders, of: member)
        case 0:
            manner = "cut"
            bytes = bytes.prefix(bytes.count / 2)
        case 1 where !bytes.isEmpty:
            manner = "one bit turned"
            let index = Int.random(in: 0..<bytes.count, using: &generator)
            bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        default:
            note("\(member.name): removed \(file.path)")
            return try FileManager.default.removeItem(at: file)
        }
        try bytes.write(to: file)
        note("\(member.name): \(manner): \(file.path)")
    }

    /// Some partitions are what they were when their worker was killed first, as from a backup.
    private func putBack(_ folders: [URL], of member: Member) throws {
        for folder in folders where Bool.random(using: &generator) {
            guard let copy = copies[folder] else {
                continue
            }
            try FileManager.default.removeItem(at: folder)
            try FileManager.default.copyItem(at: copy, to: folder)
            note("\(member.name): an older copy of \(folder.lastPathComponent) is back")
        }
    }

    /// Two partitions have each other's state, as from a backup that was put back in the wrong place.
    private func exchange(_ folders: [URL], of member: Member) throws {
        guard let one = folders.randomElement(using: &generator),
            let other = folders.filter({ $0 != one }).randomElement(using: &generator)
        else {
            return
        }
        let aside = one.appendingPathExtension("aside")
        try FileManager.default.moveItem(at: one, to: aside)
        try FileManager.default.moveItem(at: other, to: one)
        try FileManager.default.moveItem(at: aside, to: other)
        note(
            "\(member.name): \(one.lastPathComponent) and \(other.lastPathComponent) have"
                + " changed places"
        )
    }

    /// Keeps a copy of a dead worker's state as it is first seen.
    private func copyState(of member: Member) throws {
        let folders = Set(
            try fleet.stateFiles(of: member).map { $0.deletingLastPathComponent() }
        )
        for folder in folders where copies[folder] == nil {
            let copy = fleet.copiesFolder.appendingPathComponent("copy-\(copies.count)")
            try FileManager.default.copyItem(at: folder, to: copy)
            copies[folder] = copy
        }
    }
}
