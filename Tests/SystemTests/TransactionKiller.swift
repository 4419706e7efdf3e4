import Foundation
import TokenDomain

@testable import tollway

/// Kills a worker in the middle of a transaction, every time and not by luck.
///
/// It is given work, and in the middle of that Kafka is stopped: whatever the worker has written by
/// then lies in sockets or at the broker, and no answer comes. Once the worker itself says that a
/// transaction is under way, it dies, and Kafka goes on with what it was sent: outputs whose
/// offsets nobody commits. Where they are not in one transaction, they are read twice.
final class TransactionKiller {
    private enum Phase {
        case resting
        /// The work was given; Kafka stops at this time.
        case armed(Fleet.Member, at: Date)
        /// Kafka stands still; by this time the worker's status shows its transaction.
        case frozen(Fleet.Member, until: Date)
    }

    /// Repeats that make a worker busy for a few transactions.
    private static let burstCount = 1_000
    private static let secondsToFreeze = 0.02...0.15
    /// A worker looks at itself once a second.
    private static let lookSeconds = 1.3
    private static let attemptCountMax = 5
    /// Whose turn it is: those that the bursts make busy come more often.
    private static let victims: [Worker] = [
        .decode, .decode, .dedupe, .report, .notifications, .purchases, .purchases,
    ]

    private let http: DemoHTTP
    private var phase = Phase.resting
    private var attemptCount = 0
    /// Writes so many repeats to Kafka, for a worker to be busy with.
    var burst: ((Int) throws -> Void)?

    /// The client is the killer's own: answers of others must not come between.
    init(http: DemoHTTP) {
        self.http = http
    }

    var isUnderWay: Bool {
        if case .resting = phase { false } else { true }
    }

    /// It counts as a fault only once it struck, some rounds later.
    func begin(_ storm: Storm) throws {
        guard !storm.isKafkaDisturbed,
            let worker = Self.victims.randomElement(using: &storm.generator)
        else {
            return
        }
        let free = storm.fleet.members(of: worker)
            .filter { storm.due[$0] == nil && storm.fleet.isRunning($0) }
        guard let member = free.randomElement(using: &storm.generator) else {
            return
        }
        attemptCount = 0
        try arm(member, storm)
    }

    private func arm(_ member: Fleet.Member, _ storm: Storm) throws {
        attemptCount += 1
        try burst?(Self.burstCount)
        let seconds = Double.random(in: Self.secondsToFreeze, using: &storm.generator)
        phase = .armed(member, at: Date().addingTimeInterval(seconds))
    }

    /// - Returns: what happened, where something did.
    func turn(_ storm: Storm) throws -> String? {
        switch phase {
        case .resting:
            return nil
        case .armed(let member, let at):
            guard Date() >= at else {
                return nil
            }
            try storm.fleet.freezeKafka()
            phase = .frozen(member, until: Date().addingTimeInterval(Self.lookSeconds))
            return nil
        case .frozen(let member, let until):
            guard Date() >= until else {
                return nil
            }
            return try conclude(member, storm)
        }
    }

    private func conclude(_ member: Fleet.Member, _ storm: Storm) throws -> String? {
        // Another fault may have met it meanwhile.
        let isFree = storm.due[member] == nil && storm.fleet.isRunning(member)
        let status = isFree ? try storm.fleet.status(member, http: http) : nil
        let transaction = status?["transaction"] as? [String: Any]
        let isInTransaction = transaction?["isUnderWay"] as? Bool == true
        if isInTransaction {
            storm.killAndRestart(member)
        }
        try storm.fleet.thawKafka()
        phase = .resting
        if isInTransaction {
            storm.struck[.killInTransaction, default: 0] += 1
            return "\(member.name) was killed in a transaction, with Kafka stopped; it goes on"
        }
        guard isFree, attemptCount < Self.attemptCountMax else {
            return "\(member.name) was not met in a transaction"
        }
        try arm(member, storm)
        return nil
    }
}
