import Foundation
import Kafka
import LocalKafka
import Synchronization
import Testing
import TokenDomain

/// A pipeline's topics of a test's own, on the one real Kafka that the suites share.
struct DeadLetterWorld {
    static let isKafkaThere = LocalCluster.homeFromEnvironment != nil
    static let skipped: Comment = "skipped: KAFKA_HOME names no Kafka, or there is no Java"

    let prefix: String
    let settings: KafkaSettings
    let environment: [String: String]

    /// Makes the topics under a prefix that nobody else has.
    init(partitionCount: Int = 4) throws {
        let servers = try Self.start()
        prefix = "t\(UUID().uuidString.prefix(8).lowercased())."
        settings = KafkaSettings(bootstrapServers: servers, clientID: "test")
        environment = [
            "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": servers, "TOLLWAY_TOPIC_PREFIX": prefix,
            "TOLLWAY_KAFKA_SINGLE_BROKER": "yes", "USER": "somebody",
        ]
        let made = try TollwayProcess.run(
            ["topics", "apply", "--yes", "--partitions", "\(partitionCount)"],
            environment: environment
        )
        try #require(made.exitCode == 0, "\(made.talk)")
    }

    /// `tollway dlq …`, as its user runs it.
    func dlq(_ arguments: String...) throws -> TollwayProcess {
        try TollwayProcess.run(["dlq"] + arguments, environment: environment)
    }

    /// Asks and orders longer than a machine was seen to take that runs several Kafkas at once.
    func openAdmin() throws -> KafkaAdmin {
        try KafkaAdmin(settings: settings, deadlineMilliseconds: 120_000)
    }

    /// One record, its bytes as texts.
    struct Record {
        var topic: String
        var partition: Int32
        var offset: Int64
        var key: String?
        var value: String?
        var headers: [String: String]

        func json() throws -> [String: Any] {
            let object = try JSONSerialization.jsonObject(with: Data((value ?? "").utf8))
            return try #require(object as? [String: Any])
        }
    }

    /// All that is committed in some topics, also what Kafka says was committed and has not shown
    /// yet: reads to the high watermark.
    func records(of topics: Topic...) throws -> [Record] {
        let names = topics.map { $0.name(prefix: prefix) }
        var marks: [TopicPartition: Int64] = [:]
        let admin = try openAdmin()
        defer { admin.close() }
        for name in names {
            for (number, end) in try admin.endOffsets(ofTopic: name).enumerated() where end > 0 {
                marks[TopicPartition(topic: name, partition: Int32(number))] = end
            }
        }
        let browser = try LogBrowser(settings: settings, topics: names)
        defer { browser.close() }
        try browser.start()
        var batch = RecordBatch()
        while !marks.isEmpty {
            let endStart = batch.ends.count
            _ = try browser.read(into: &batch, recordCountMax: 10_000, waitMilliseconds: 100)
            for end in batch.ends[endStart...] {
                let partition = TopicPartition(topic: names[end.topic], partition: end.partition)
                if let mark = marks[partition], end.offset >= mark {
                    marks[partition] = nil
                }
            }
        }
        func text(_ range: ByteRange) -> String? {
            range.isAbsent ? nil : String(decoding: batch.arena[range.indices], as: UTF8.self)
        }
        return batch.records.map { record in
            Record(
                topic: names[record.topic],
                partition: record.partition,
                offset: record.offset,
                key: text(record.key),
                value: text(record.value),
                headers: Dictionary(
                    HeaderList.entries(in: record.headers, of: batch.arena)
                        .map { ($0.name, text($0.value) ?? "") },
                    uniquingKeysWith: { first, _ in first }
                )
            )
        }
    }

    /// Holds the values of records against a schema of `Protocols/`.
    func expectValid(_ records: [Record], schema: String) throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent()
        let cases = records.map { record in
            #"{"name":"\#(record.topic)/\#(record.offset)","schema":"\#(schema)","isValid":true,"#
                + #""document":\#(record.value ?? "null")}"# + "\n"
        }
        #expect(!cases.isEmpty)
        let folder = try TemporaryFolder()
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "python3", root.appending(path: "Tests/ProtocolTests/validate.py").path(), "--some",
            root.appending(path: "Protocols").path(),
        ]
        process.standardInput = try FileHandle(
            forReadingFrom: try folder.file("cases", Data(cases.joined().utf8))
        )
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(String(decoding: text, as: UTF8.self))")
    }

    /// Records and markers in a topic so far, open transactions included.
    func recordCount(of topic: Topic) throws -> Int64 {
        let admin = try openAdmin()
        defer { admin.close() }
        return try admin.endOffsets(ofTopic: topic.name(prefix: prefix)).reduce(0, +)
    }

    // MARK: - The shared Kafka

    private static let bootstrapServers = Mutex<Result<String, any Error>?>(nil)

    private static func start() throws -> String {
        try bootstrapServers.withLock { known in
            if let known {
                return try known.get()
            }
            let result = Result { try launch() }
            known = result
            return try result.get()
        }
    }

    private static func launch() throws -> String {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-dlq-\(UUID().uuidString)").path
        let cluster = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder
        )
        try cluster.start()
        unsafe shared = cluster
        // The test program ends without a word to its objects.
        atexit { unsafe DeadLetterWorld.shared?.wipe() }
        return cluster.bootstrapServers
    }

    /// Written once, under the lock, and read when the process ends.
    nonisolated(unsafe) private static var shared: LocalCluster?
}
