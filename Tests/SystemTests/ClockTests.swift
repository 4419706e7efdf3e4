import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing

@testable import tollway

@Suite struct `A clock that is set back` {
    /// The client library waits until a time of day.
    ///
    /// Its main thread, which sends the heartbeats, would wait an hour longer, and Kafka gives a member
    /// up after 15 s.
    @Test(
        .enabled(
            if: LocalCluster.homeFromEnvironment != nil && ClockRig.compiler != nil,
            "skipped: KAFKA_HOME names no Kafka, or there is no Java, or no clang"
        )
    )
    func `leaves an idle worker in its group`() throws {
        let rig = try ClockRig()
        defer { rig.stop() }
        try rig.awaitMember()
        try rig.setClock(secondsAhead: -3_600)
        for _ in 1...25 {
            try rig.http.pause(milliseconds: 1_000)
            #expect(try rig.memberCount() == 1)
        }
    }
}

/// A `dedupe` without anything to do, on a Kafka of its own, under a wall clock of its own.
private final class ClockRig {
    private static let prefix = "clock."

    /// The one that builds the package, or nil where it is not in the PATH.
    static let compiler: URL? =
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { URL(fileURLWithPath: String($0)).appendingPathComponent("clang") }
        .first { FileManager.default.isExecutableFile(atPath: $0.path) }

    let http: DemoHTTP
    private let folder: URL
    private let kafka: LocalCluster
    private let processes: DemoProcesses
    private let settings: KafkaSettings

    init() throws {
        folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-clock-\(UUID().uuidString.prefix(8).lowercased())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        kafka = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder.appendingPathComponent("kafka").path
        )
        http = try DemoHTTP(stop: StopSignal())
        processes = DemoProcesses(
            folder: folder,
            programs: Bundle.main.executableURL?.deletingLastPathComponent()
        )
        try kafka.start()
        settings = KafkaSettings(bootstrapServers: kafka.bootstrapServers, clientID: "clock")
        try DemoCluster.local(kafka).createTopics(prefix: Self.prefix, settings: settings)
        try Data(count: 8).write(to: clock)
        try compile()
        try processes.start(
            "tollway-dedupe",
            name: "dedupe",
            environment: [
                Setting.kafkaBootstrapServers: kafka.bootstrapServers,
                Setting.kafkaSingleBroker.fullName: "yes",
                "TOLLWAY_TOPIC_PREFIX": Self.prefix,
                "TOLLWAY_INSTANCE": "clock",
                "TOLLWAY_STATE_DIR": folder.appendingPathComponent("state").path,
                "TOLLWAY_ADMIN_LISTEN": "127.0.0.1:\(try FreePorts.take(count: 1)[0])",
                "LD_PRELOAD": library.path,
                "CLOCK_FILE": clock.path,
            ]
        )
    }

    private var clock: URL { folder.appendingPathComponent("clock") }
    private var library: URL { folder.appendingPathComponent("clock.so") }

    private func compile() throws {
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("clock.c")
        let process = Process()
        process.executableURL = Self.compiler
        process.arguments = ["-O1", "-shared", "-fPIC", "-o", library.path, source.path]
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }

    /// In place, for the worker has the file in its memory.
    func setClock(secondsAhead seconds: Int64) throws {
        let file = try FileHandle(forWritingTo: clock)
        let bytes = (0..<8).map { UInt8(truncatingIfNeeded: seconds >> (8 * $0)) }
        try file.write(contentsOf: Data(bytes))
        try file.close()
    }

    func memberCount() throws -> Int {
        try KafkaAdmin(settings: settings).group("\(Self.prefix)dedupe").members.count
    }

    /// Until it has its partitions and has been idle for a while.
    func awaitMember() throws {
        let deadline = Date(timeIntervalSinceNow: 40)
        while try KafkaAdmin(settings: settings).group("\(Self.prefix)dedupe").members
            .allSatisfy({ $0.partitions.isEmpty })
        {
            try #require(Date() < deadline, "the worker does not join")
            try http.pause(milliseconds: 500)
        }
        try http.pause(milliseconds: 5_000)
    }

    func stop() {
        processes.stopAll(removing: folder, of: kafka)
    }
}
