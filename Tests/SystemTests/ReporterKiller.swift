import Foundation
import TokenDomain

@testable import tollway

/// Kills the reporter after Apple has said 200 and before its own commit, every time and not by luck.
///
/// Apple's side takes a report in and holds its answer back for a second. Meanwhile Kafka is stopped,
/// so that the answer, when it comes, cannot be committed. Then the reporter dies, and Kafka goes
/// on. The new reporter must ask Apple for the answer that was not committed: the ledger then says
/// `verified`, not `accepted`.
final class ReporterKiller {
    /// One report whose answer was delayed.
    struct Held: Hashable {
        var requestIdentifier: String
        var externalPurchaseID: String
    }

    private enum Phase {
        case resting
        /// Until a report is met.
        case armed(since: Date)
        /// Kafka stands still; the answer is given and read by this time.
        case holding(until: Date)
    }

    private static let holdSeconds = 1.0
    /// For the answer to be read and a transaction with it to be begun.
    private static let readSeconds = 0.5
    /// No report was sent for so long: there is none to be met.
    private static let armedSecondsMax = 10.0

    private let http: DemoHTTP
    private let workers: DemoWorkers
    private var phase = Phase.resting
    private var metCount = 0
    /// Every report that was met and whose 200 was given.
    private(set) var held: Set<Held> = []

    /// The client is the killer's own: answers of others must not come between.
    init(http: DemoHTTP, workers: DemoWorkers) {
        self.http = http
        self.workers = workers
    }

    var isUnderWay: Bool {
        if case .resting = phase { false } else { true }
    }

    /// It counts as a fault only once it struck, some rounds later.
    func begin(_ storm: Storm) throws {
        guard !storm.isKafkaDisturbed,
            storm.fleet.members(of: .report).contains(where: { storm.fleet.isRunning($0) })
        else {
            return
        }
        metCount = try countMet()
        let body = try JSONSerialization.data(
            withJSONObject: ["faults": ["slow:for=\(Int(Self.holdSeconds * 1_000))ms,times=1"]]
        )
        _ = try http.call("POST", workers.simulatorURL("/faults"), body: Array(body))
        phase = .armed(since: Date())
    }

    /// - Returns: what happened, where something did.
    func turn(_ storm: Storm) throws -> String? {
        switch phase {
        case .resting:
            return nil
        case .armed(let since):
            if try countMet() > metCount {
                try storm.fleet.freezeKafka()
                phase = .holding(
                    until: Date().addingTimeInterval(Self.holdSeconds + Self.readSeconds)
                )
                return "Apple holds a report's answer; Kafka: SIGSTOP"
            }
            guard Date().timeIntervalSince(since) > Self.armedSecondsMax else {
                return nil
            }
            // It strikes the next report, whenever that comes: a slow answer and no more.
            phase = .resting
            return "no report to be met"
        case .holding(let until):
            guard Date() >= until else {
                return nil
            }
            let heldCount = held.count
            try noteHeld()
            storm.killReporters()
            try storm.fleet.thawKafka()
            phase = .resting
            guard held.count > heldCount else {
                return "a reporter was killed that had been told nothing new; Kafka: SIGCONT"
            }
            storm.struck[.killReporter, default: 0] += 1
            return "the reporter was killed between Apple's 200 and its commit; Kafka: SIGCONT"
        }
    }

    /// How many reports met one of ours so far.
    private func countMet() throws -> Int {
        let answer = try http.json(workers.simulatorURL("/faults")) as? [String: Any]
        return (answer?["faults"] as? [[String: Any]] ?? [])
            .filter { ($0["fault"] as? String)?.hasPrefix("slow") == true }
            .reduce(0) { $0 + ($1["struck"] as? Int ?? 0) }
    }

    private func noteHeld() throws {
        let answer = try http.json(workers.simulatorURL("/requests?limit=100000")) as? [String: Any]
        for request in answer?["requests"] as? [[String: Any]] ?? [] {
            guard request["fault"] as? String == "slow",
                request["outcome"] as? String == "accepted",
                let identifier = request["requestIdentifier"] as? String,
                let token = request["externalPurchaseId"] as? String
            else {
                continue
            }
            held.insert(Held(requestIdentifier: identifier, externalPurchaseID: token))
        }
    }
}
