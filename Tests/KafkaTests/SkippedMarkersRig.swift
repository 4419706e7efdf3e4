import Foundation
import Kafka
import KafkaFaults
import LocalKafka
import RecordLogContract
import Testing

/// One node, and a worker that reads one topic and writes another and a changelog.
final class SkippedMarkersRig {
    let world: KafkaWorld
    let target: String
    let state: TopicPartition
    private var member: Member
    private let cluster: LocalCluster
    private let place: TopicPartition
    private let folder: String

    /// The changelog takes no larger record.
    private static let stateByteCountMax = 1_000

    init() throws {
        folder =
            FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-kafka-\(UUID().uuidString)").path
        cluster = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder
        )
        try cluster.start()
        world = KafkaWorld(
            bootstrapServers: cluster.bootstrapServers,
            delivery: .exactlyOnce,
            // These tests are not about sessions.
            sessionMilliseconds: 35_000
        )
        let source = try world.makeTopic(partitionCount: 1)
        target = try world.makeTopic(partitionCount: 2)
        place = TopicPartition(topic: source, partition: 0)
        state = TopicPartition(topic: "\(source).state", partition: 0)
        let admin = try world.openAdmin()
        defer { admin.close() }
        try admin.create([
            TopicPlan(
                name: state.topic,
                partitionCount: 1,
                configuration: ["max.message.bytes": "\(Self.stateByteCountMax)"]
            )
        ])
        try world.write(
            (0..<10).map { OutsideRecord(partition: 0, key: nil, value: [UInt8($0)]) },
            to: source
        )
        member = try Self.begin(world, place, target, state)
    }

    private static func begin(
        _ world: KafkaWorld,
        _ place: TopicPartition,
        _ target: String,
        _ state: TopicPartition
    ) throws -> Member {
        try Member(
            world,
            group: "skipped-markers",
            sources: [place.topic],
            targets: [target, state.topic],
            changelog: state.topic
        )
    }

    func endMember() {
        member.close()
    }

    func beginMember() throws {
        member = try Self.begin(world, place, target, state)
    }

    func close() {
        member.close()
        cluster.wipe()
    }

    func commit(_ number: UInt8) throws {
        _ = try member.commit(
            Self.outputs(number, state: [number]),
            positions: [place: Int64(number) + 1]
        )
    }

    /// Writes to the target and aborts, for the changelog refuses its record.
    func abort(_ number: UInt8) throws {
        // What a broker holds against its limit is compressed.
        let large = (0..<2 * Self.stateByteCountMax).map { _ in UInt8.random(in: 0...255) }
        try member.log.submit(
            Self.outputs(number, state: large),
            positions: [place: Int64(number) + 1]
        )
        let outcome = try until(world, "no outcome came") {
            try member.log.takeCommitResult(waitMilliseconds: 50)
        }
        guard case .aborted("MSG_SIZE_TOO_LARGE", _) = outcome else {
            throw BrokenPromise("\(outcome)")
        }
    }

    /// Kills the node, takes the last markers of these topics out of its files, and starts it.
    ///
    /// Without the coordinator's own last record Kafka would do that itself, in some runs; in others it
    /// writes them after all.
    func crash(withoutMarkersOf topics: [String]) throws {
        try until(world, "the coordinator does not complete it") {
            try SkippedMarkers.isNothingUnderWay(world.settings) ? true : nil
        }
        try cluster.kill(node: 0)
        let markers = SkippedMarkers(folder: folder)
        for topic in topics {
            try expect(markers.cut(topic: topic) == 1, "\(topic) ends otherwise")
        }
        try cluster.restart(node: 0)
    }

    /// All that hangs in these topics, once a marker is owed to each.
    func findHanging(in topics: [String]) throws -> [HangingTransaction] {
        try withHanging { hanging in
            try until(world, "nothing is owed") {
                let found = try hanging.find(
                    in: topics,
                    now: Int64(Date().timeIntervalSince1970 * 1_000)
                ).transactions
                return found.count == topics.count && found.allSatisfy(\.isOwed) ? found : nil
            }
        }
    }

    /// What a log says of the ends of both topics while the second transaction hangs in them: that of
    /// the last record, not of the last that readers may see.
    ///
    /// A guard that asked for the latter would not wait for what is held back, and a restore would end
    /// without it.
    func expectEndsBehindWhatHangs() throws {
        // Another group's: the worker's own name is not taken over.
        let watcher = try Member(
            world,
            group: "watcher",
            sources: [place.topic],
            targets: [target, state.topic],
            changelog: state.topic
        )
        defer { watcher.close() }
        let end = try until(world, "the ends are not known") {
            try watcher.log.endOffsets(ofTopic: target)?[0]
        }
        let reader = try until(world, "the changelog does not answer") {
            try watcher.log.changelogReader(state, from: 0)
        }
        defer { reader.close() }
        // A record, its marker, a record.
        try expect(
            end == 3 && reader.endOffset == 3,
            "the target ends at \(end), the changelog at \(reader.endOffset)"
        )
        var batch = RecordBatch()
        var isComplete = false
        func read() throws {
            isComplete = try reader.read(into: &batch, recordCountMax: 10, waitMilliseconds: 50)
        }
        try until(world, "the changelog has no record") {
            try read()
            return batch.records.isEmpty ? nil : true
        }
        for _ in 0..<10 where !isComplete {
            try read()
        }
        try expect(!isComplete && batch.records.count == 1, "\(batch.records.count) were all")
    }

    /// Writes the markers, and finds that none is missing any more.
    func repair(_ found: [HangingTransaction]) throws {
        try withHanging { hanging in
            let refused = try hanging.repair(found)
            try expect(refused.isEmpty, "\(refused)")
            let left = try hanging.find(in: found.map(\.partition.topic), now: .max)
            try expect(left.transactions.isEmpty && left.unanswered.isEmpty, "\(left)")
        }
    }

    private func withHanging<Value>(
        _ body: (HangingTransactions) throws -> Value
    ) throws -> Value {
        let admin = try world.openAdmin()
        defer { admin.close() }
        return try body(HangingTransactions(settings: world.settings, admin: admin))
    }

    /// Thrown, not recorded: on a thread of its own an issue has lost its test's name.
    func expectOnce(_ numbers: ClosedRange<UInt8>) throws {
        let values = try world.contents(of: target).compactMap { $0.value?.first }.sorted()
        try expect(values == Array(numbers), "\(values)")
    }

    private static func outputs(_ number: UInt8, state: [UInt8]) -> OutputBatch {
        var outputs = OutputBatch()
        outputs.append(OutsideRecord(partition: 0, key: nil, value: [number]), topic: 0)
        outputs.append(OutsideRecord(partition: 0, key: nil, value: state), topic: 1)
        return outputs
    }
}
