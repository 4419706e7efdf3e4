import Foundation
import RecordLogContract

@testable import Kafka

/// Writes the transaction markers that Kafka has skipped, beside the workers, as an operator does it
/// with `tollway transactions repair`.
///
/// A single broker that is killed between a decision and its markers may skip them (KAFKA-20734);
/// its group's offsets then stay pending, and every worker that asks for them ends.
final class MarkerRepair: @unchecked Sendable {
    // The settings are constant, the semaphores are made for threads, and the fault is written before
    // `ended` is signalled and read after.
    private static let interval = DispatchTimeInterval.seconds(1)

    private let world: KafkaWorld
    private let topics: [String]
    private let stop = DispatchSemaphore(value: 0)
    private let ended = DispatchSemaphore(value: 0)
    private var fault: (any Error)?

    init(_ world: KafkaWorld, topics: [String]) {
        self.world = world
        self.topics = topics
        Thread { self.run() }.start()
    }

    /// Waits until the last repair is done.
    ///
    /// - Throws: why one could not be done, though Kafka was there.
    func end() throws {
        stop.signal()
        ended.wait()
        if let fault {
            throw fault
        }
    }

    private func run() {
        defer { ended.signal() }
        while stop.wait(timeout: .now() + Self.interval) == .timedOut {
            do {
                try repair()
            } catch LogFault.unavailable {
                // The broker is away, or not yet a leader again.
                continue
            } catch {
                fault = error
                return
            }
        }
    }

    private func repair() throws {
        let admin = try KafkaAdmin(settings: world.settings, deadlineMilliseconds: 5_000)
        defer { admin.close() }
        let hanging = try HangingTransactions(settings: world.settings, admin: admin)
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        let owed = try hanging.find(in: topics, now: now).transactions.filter(\.isOwed)
        // What a leader refuses is found again.
        _ = try hanging.repair(owed)
    }
}
