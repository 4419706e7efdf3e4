import Foundation
import Testing
import TokenDomain
import TokenWire

@testable import Kafka
@testable import tollway

/// The demo's pipeline on a Kafka of its own, under a storm, up to the account.
final class StormRun {
    /// Nothing changed for so long after the storm: what is missing will not come.
    private static let stalledSeconds = 100.0
    /// The account closed: so long it must stay closed.
    private static let quietSeconds = 4.0
    /// Pace of the door, so that the stream lasts about as long as the storm.
    private static let pauseMilliseconds = 120
    /// More lost answers than a demo has: each makes a report that was told and not known.
    private static let moreLostAnswers = ["reset-after:every=23", "torn:every=41"]
    private static let prefix = "storm."

    let storm: Storm
    private let settings: StormSettings
    private let folder: URL
    private let processes: DemoProcesses
    private let http: DemoHTTP
    private let cluster: DemoCluster
    private let workers: DemoWorkers
    private let run: DemoRun

    init(_ settings: StormSettings) throws {
        self.settings = settings
        folder = try Self.makeFolder(settings)
        processes = DemoProcesses(
            folder: folder,
            programs: try settings.programs
                ?? #require(Bundle.main.executableURL).deletingLastPathComponent()
        )
        http = try DemoHTTP(stop: StopSignal())
        cluster = .local(
            try LocalCluster(
                home: LocalCluster.homeFromEnvironment ?? "",
                folder: folder.appendingPathComponent("kafka").path
            )
        )
        var workers = try DemoWorkers(
            folder: folder,
            processes: processes,
            topicPrefix: Self.prefix
        )
        if case .local(let kafka) = cluster {
            try kafka.start()
        }
        try cluster.createTopics(
            prefix: Self.prefix,
            settings: KafkaSettings(
                bootstrapServers: cluster.bootstrapServers,
                clientID: "storm"
            )
        )
        try workers.startSimulator(
            seed: settings.seed,
            faults: DemoWorkers.faults + Self.moreLostAnswers,
            http: http
        )
        try workers.startWorkers(cluster, http: http)
        self.workers = workers
        storm = Storm(
            workers: workers,
            cluster: cluster,
            processes: processes,
            stateFolder: folder.appendingPathComponent("state"),
            faults: settings.faults,
            faultCountMax: settings.faultCount,
            seed: settings.seed
        )
        run = DemoRun(
            stream: DemoStream(
                tokenCount: settings.tokenCount,
                seed: settings.seed,
                now: Int64(Date().timeIntervalSince1970 * 1_000)
            ),
            workers: workers,
            cluster: cluster,
            topicPrefix: Self.prefix,
            http: http,
            pauseMilliseconds: Self.pauseMilliseconds
        )
    }

    private static func makeFolder(_ settings: StormSettings) throws -> URL {
        let parent = settings.keptFolder ?? FileManager.default.temporaryDirectory
        let folder = parent.appendingPathComponent(
            "tollway-storm-\(settings.seed)-\(UUID().uuidString.prefix(8).lowercased())"
        )
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        return folder
    }

    /// Streams the input in while faults strike, and goes on until all have struck.
    func blow() throws {
        try run.register()
        http.turn = storm.turn
        try run.deliver()
        while !storm.isOver {
            try http.pause(milliseconds: 100)
        }
    }

    /// Waits until the account closes and stays so, or nothing changes any more.
    ///
    /// - Returns: what is wrong, one sentence each; empty where all is well.
    func reckon() throws -> [String] {
        try sendLostNoticesAgain()
        var last: [String] = ["not looked yet"]
        var changedAt = Date()
        while true {
            let found = try differences()
            if found != last {
                last = found
                changedAt = Date()
            }
            let quiet = Date().timeIntervalSince(changedAt)
            guard quiet < (found.isEmpty ? Self.quietSeconds : Self.stalledSeconds) else {
                return found
            }
            try wait(seconds: 1)
        }
    }

    /// SIGTERM to all: the storm says what did not answer it with 0 in time.
    func stop() throws {
        storm.stopAll()
        while !storm.isStopped {
            try http.pause(milliseconds: 20)
        }
        http.turn = nil
    }

    /// Ends everything and takes it away; what failed may be kept for the reader.
    func cleanUp(isFailed: Bool) throws {
        http.turn = nil
        _ = processes.stopAll()
        if case .local(let kafka) = cluster {
            kafka.stop()
        }
        if isFailed || settings.keptFolder != nil {
            try storm.journal.joined(separator: "\n")
                .write(
                    to: folder.appendingPathComponent("journal"),
                    atomically: true,
                    encoding: .utf8
                )
            print("kept: \(folder.path)")
        } else {
            try FileManager.default.removeItem(at: folder)
        }
    }

    private func wait(seconds: Double) throws {
        let deadline = Date().addingTimeInterval(seconds)
        while Date() < deadline {
            try http.pause(milliseconds: 100)
        }
    }

    /// Apple sends again what no 200 answered, hours later or never: here at once.
    private func sendLostNoticesAgain() throws {
        let forged = Set(
            run.stream.deliveries.compactMap { delivery in
                if case .forgedNotice(let id) = delivery { id } else { nil }
            }
        )
        let page = try http.json(workers.simulatorURL("/notifications?limit=10000"))
        let all = (page as? [String: Any])?["notifications"] as? [[String: Any]] ?? []
        for notice in all {
            let attempts = notice["sendAttempts"] as? [[String: Any]] ?? []
            guard attempts.last?["sendAttemptResult"] as? String != "SUCCESS",
                let id = notice["externalPurchaseId"] as? String
            else {
                continue
            }
            try run.notify(id, forged: forged.contains(id) ? "wrong-root" : nil)
        }
    }

    // MARK: The account

    private func differences() throws -> [String] {
        let deadLetters = try run.deadLetters()
        var truth = run.stream.truth
        for (kind, count) in deadLetters where truth.deadLetters[kind] != nil {
            // What the door did not answer was sent again, and may be stored twice: more dead
            // letters are no fault as long as each is of a record of its own, which is seen below.
            truth.deadLetters[kind] = max(truth.deadLetters[kind] ?? 0, count)
        }
        let account = DemoAccount(
            truth: truth,
            apple: try run.appleSide(),
            ledger: try run.ledger(),
            deadLetters: deadLetters
        )
        return account.differences + (try flowDifferences()) + (try heldBackTopics())
    }

    /// No record lost and none made twice between two topics, read committed.
    private func flowDifferences() throws -> [String] {
        var found: [String] = []
        let received = try run.records(of: [.tokensReceived]) { _, _ in 1 }.count
        let decoded = try run.records(of: [.tokensDecoded]) { _, _ in 1 }.count
        let origins = try run.records(of: [.deadLetters(.decode)]) { batch, record in
            var origin = ""
            for (name, value) in HeaderList.entries(in: record.headers, of: batch.arena)
            where name == "__dlq.errors.partition" || name == "__dlq.errors.offset" {
                origin += "/" + String(decoding: batch.arena[value.indices], as: UTF8.self)
            }
            return origin
        }
        if Set(origins).count != origins.count {
            found.append("\(origins.count - Set(origins).count) records are dead letters twice")
        }
        if received != decoded + origins.count {
            found.append(
                "received \(received), decoded \(decoded), dead letters \(origins.count)"
            )
        }
        let distinct = try run.records(of: [.tokensDistinct]) { batch, record in
            let token = try TokenDistinct(
                reading: batch.arena.span.extracting(record.value.indices)
            )
            // The same id from another customer is for report to settle.
            return "\(token.externalPurchaseID.text) \(token.customer?.text ?? "") \(token.role)"
        }
        for (token, count) in Dictionary(distinct.map { ($0, 1) }, uniquingKeysWith: +)
        where count > 1 && !token.hasSuffix("seen") {
            found.append("distinct holds \(token) \(count) times")
        }
        return found.sorted()
    }

    /// Topics with a transaction that nobody ended: their last stable offset stays behind.
    private func heldBackTopics() throws -> [String] {
        let committed = try LogClient(settings: run.settings.reader(isolation: .readCommitted))
        let uncommitted = try LogClient(settings: run.settings.reader(isolation: .readUncommitted))
        defer {
            committed.close()
            uncommitted.close()
        }
        var found: [String] = []
        for topic in Topic.all.map({ $0.name(prefix: Self.prefix) }) {
            let stable = try committed.offsets(
                ofTopic: topic,
                at: -1,
                deadlineMilliseconds: 10_000
            )
            let ends = try uncommitted.offsets(
                ofTopic: topic,
                at: -1,
                deadlineMilliseconds: 10_000
            )
            for partition in ends.indices where stable[partition] < ends[partition] {
                found.append("\(topic)/\(partition) is held back by an open transaction")
            }
        }
        return found
    }
}
