import Foundation
import TokenDomain

@testable import tollway

/// Restarts the six workers one after another, as a deployment does, each in the middle of work.
///
/// The storm's supervisor holds each of them to its 10 s.
final class RollingRestart {
    /// Repeats that keep a worker busy while it gets its signal to stop.
    private static let burstCount = 1_000

    private var left: [Worker] = []
    private var current: Fleet.Member?

    var isUnderWay: Bool { current != nil || !left.isEmpty }

    /// It counts as a fault only once it reached every worker, some rounds later.
    func begin() {
        if !isUnderWay {
            left = Worker.allCases
        }
    }

    /// - Returns: what happened, where something did.
    func turn(_ storm: Storm) throws -> String? {
        if let current {
            guard isFree(current, storm) else {
                return nil
            }
            self.current = nil
            if left.isEmpty {
                storm.struck[.roll, default: 0] += 1
                return "a rolling restart has reached every worker"
            }
        }
        guard let worker = left.first else {
            return nil
        }
        let member = Fleet.Member(worker: worker, number: 0)
        // Another fault may have it just now; and before it has begun it has no work to end.
        guard isFree(member, storm), !storm.fleet.wasYoung(member, at: Date()) else {
            return nil
        }
        left.removeFirst()
        current = member
        try storm.transactionKiller.burst?(Self.burstCount)
        storm.terminate(member, isLast: false)
        return nil
    }

    private func isFree(_ member: Fleet.Member, _ storm: Storm) -> Bool {
        storm.due[member] == nil && storm.fleet.isRunning(member)
    }
}
