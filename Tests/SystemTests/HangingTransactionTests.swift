import Foundation
import Kafka
import KafkaFaults
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A hanging transaction before a worker` {
    private static let prefix = "hanging."
    private static let waitSeconds = 200.0
    /// As in `Deploy/prometheus/alerts.yaml`.
    private static let alertSeconds = 75.0

    /// Goal: what a single node leaves that was killed at the wrong instant is seen by the metric of the
    /// worker behind it, which ends with 75 and names it; `tollway transactions` lists and repairs it;
    /// every token is reported once.
    ///
    /// Method: the demo's pipeline and stream, dedupe stopped meanwhile; all that decode has written
    /// last loses its markers with the killed node.
    @Test(
        .enabled(
            if: LocalCluster.homeFromEnvironment != nil,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java"
        )
    )
    func `is seen, named, listed and repaired, and every token is reported once`() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-hanging-\(UUID().uuidString.prefix(8).lowercased())")
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        let processes = DemoProcesses(
            folder: folder,
            programs: Bundle.main.executableURL?.deletingLastPathComponent()
        )
        processes.isSupervised = true
        let http = try DemoHTTP(stop: StopSignal())
        let kafkaFolder = folder.appendingPathComponent("kafka").path
        let kafka = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: kafkaFolder
        )
        defer {
            _ = processes.stopAll()
            // Its logs, and the workers', stay where the test fails.
            kafka.stop()
        }
        try kafka.start()
        let cluster = DemoCluster.local(kafka)
        let settings = KafkaSettings(bootstrapServers: kafka.bootstrapServers, clientID: "test")
        try cluster.createTopics(prefix: Self.prefix, settings: settings)
        var workers = try DemoWorkers(
            folder: folder,
            processes: processes,
            topicPrefix: Self.prefix
        )
        try workers.startSimulator(seed: 1, http: http)
        try workers.startWorkers(cluster, http: http)
        let run = DemoRun(
            stream: DemoStream(tokenCount: 400, seed: 1, now: WallClock.now),
            workers: workers,
            cluster: cluster,
            topicPrefix: Self.prefix,
            http: http
        )
        try run.register()
        try stop(.dedupe, processes)
        try run.deliver()
        try wait(http, "decode is done") {
            try lag(of: .decode, workers, http) == 0
                && SkippedMarkers.isNothingUnderWay(settings)
        }

        let decoded = Topic.tokensDecoded.name(prefix: Self.prefix)
        try kafka.kill(node: 0)
        let markerCount = try SkippedMarkers(folder: kafkaFolder).cut(topic: decoded)
        #expect(markerCount > 0)
        try kafka.restart(node: 0)

        let repair = try TransactionRepair(
            bootstrapServers: kafka.bootstrapServers,
            prefix: Self.prefix
        )
        try expectEnd(ofWorkerBehind: decoded, workers, cluster, processes, http)
        let listed = try repair.list()
        #expect(listed.count == markerCount, "\(listed)")
        #expect(listed.allSatisfy { $0.verdict == "commit" && $0.place.hasPrefix(decoded) })
        #expect(try repair.repair() == listed)
        #expect(try repair.list().isEmpty)

        try workers.start(.dedupe, cluster)
        try run.awaitEnd()
        let account = DemoAccount(
            truth: run.stream.truth,
            apple: try run.appleSide(),
            ledger: try run.ledger(),
            deadLetters: try run.deadLetters(),
            refusedNoticeCount: try workers.counts(http: http, reported: 0).refusedNotices
        )
        #expect(account.differences == [])
        // Only now: a broker that runs still puts files where files are being removed.
        processes.stopAll(removing: folder, of: kafka)
    }

    /// dedupe counts up to where the alert fires, and ends with 75.
    private func expectEnd(
        ofWorkerBehind topic: String,
        _ workers: DemoWorkers,
        _ cluster: DemoCluster,
        _ processes: DemoProcesses,
        _ http: DemoHTTP
    ) throws {
        try workers.start(.dedupe, cluster)
        let process = try #require(processes.process(Worker.dedupe.rawValue))
        var seen = 0.0
        try wait(http, "dedupe ends by itself") {
            if let stuck = try stuckSeconds(of: topic, workers, http) {
                seen = max(seen, stuck)
            }
            return !process.isRunning
        }
        #expect(seen > Self.alertSeconds)
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == 75)
        let said = processes.tail(Worker.dedupe.rawValue)
        #expect(said.contains("a hanging transaction holds back \(topic)/"), "\(said)")
        #expect(said.contains("`tollway transactions list`"), "\(said)")
        processes.letGo(Worker.dedupe.rawValue)
    }

    private func stop(_ worker: Worker, _ processes: DemoProcesses) throws {
        let process = try #require(processes.process(worker.rawValue))
        process.terminate()
        process.waitUntilExit()
        processes.letGo(worker.rawValue)
    }

    /// The largest of its partitions of a topic; nil while it does not answer or shows none.
    private func stuckSeconds(
        of topic: String,
        _ workers: DemoWorkers,
        _ http: DemoHTTP
    ) throws -> Double? {
        try values("tollway_last_stable_offset_stuck_seconds{", of: .dedupe, workers, http)
            .filter { $0.series.contains("topic=\"\(topic)\"") }.map(\.value).max()
    }

    private func lag(
        of worker: Worker,
        _ workers: DemoWorkers,
        _ http: DemoHTTP
    ) throws -> Double? {
        let lags = try values("tollway_consumer_lag_records{", of: worker, workers, http)
        return lags.isEmpty ? nil : lags.map(\.value).reduce(0, +)
    }

    private func values(
        _ start: String,
        of worker: Worker,
        _ workers: DemoWorkers,
        _ http: DemoHTTP
    ) throws -> [(series: Substring, value: Double)] {
        guard let answer = try http.call("GET", workers.adminURL(worker, "/metrics")) else {
            return []
        }
        return String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix(start) }
            .compactMap { line in
                line.split(separator: " ").last.flatMap { Double($0) }.map { (line, $0) }
            }
    }

    private func wait(
        _ http: DemoHTTP,
        _ goal: String,
        until isTrue: () throws -> Bool
    ) throws {
        let deadline = Date().addingTimeInterval(Self.waitSeconds)
        while try !isTrue() {
            try #require(Date() < deadline, "not within \(Self.waitSeconds) s: \(goal)")
            try http.pause(milliseconds: 200)
        }
    }
}
