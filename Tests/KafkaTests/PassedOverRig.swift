import Foundation
import Kafka
import RecordLogContract
import Testing

/// One node behind a witness, and a worker that reads one topic and writes another and a changelog.
final class PassedOverRig {
    /// What Kafka had not written when it was killed.
    enum Missing {
        case outputMarkers
        case allMarkers
    }

    let cluster: LocalCluster
    let witness: FalseWitness
    let world: KafkaWorld
    private(set) var member: Member
    private(set) var log: KafkaLog
    let target: String
    let place: TopicPartition
    let state: TopicPartition
    private let folder: String

    private static let coordinatorTopic = "__transaction_state"
    /// After version (2 bytes), producer (8), epoch (2) and timeout (4).
    private static let statusOffset = 16
    private static let completeCommit: UInt8 = 4

    init(isWitnessed: Bool = false) throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-kafka-\(UUID().uuidString)").path
        let witness = try FalseWitness()
        let cluster = try LocalCluster(
            home: LocalCluster.homeFromEnvironment ?? "",
            folder: folder,
            properties: isWitnessed
                ? ["advertised.listeners": "PLAINTEXT://127.0.0.1:\(witness.port)"] : [:]
        )
        self.folder = folder
        self.witness = witness
        self.cluster = cluster
        let port = try #require(
            cluster.bootstrapServers.split(separator: ":").last.flatMap { UInt16($0) }
        )
        witness.start(leadingTo: port)
        try cluster.start()
        world = KafkaWorld(
            bootstrapServers: cluster.bootstrapServers,
            delivery: .exactlyOnce,
            // What is asked here is not what becomes of a session.
            sessionMilliseconds: 35_000
        )
        let source = try world.makeTopic(partitionCount: 1)
        target = try world.makeTopic(partitionCount: 2)
        place = TopicPartition(topic: source, partition: 0)
        state = TopicPartition(topic: try world.makeTopic(partitionCount: 1), partition: 0)
        try world.write(
            (0..<10).map { OutsideRecord(partition: 0, key: nil, value: [UInt8($0)]) },
            to: source
        )
        member = try Self.begin(world, place, target, state)
        log = try #require(member.log as? KafkaLog)
    }

    /// Two were committed, and the second has lost the markers of its outputs.
    static func afterCrash() throws -> PassedOverRig {
        let rig = try PassedOverRig()
        do {
            try rig.commit(0)
            try rig.commit(1)
            try rig.expectOnce(0...1)
            try rig.crash(before: .outputMarkers)
        } catch {
            rig.close()
            throw error
        }
        return rig
    }

    private static func begin(
        _ world: KafkaWorld,
        _ place: TopicPartition,
        _ target: String,
        _ state: TopicPartition
    ) throws -> Member {
        try Member(
            world,
            group: "passed-over",
            sources: [place.topic],
            targets: [target, state.topic],
            changelog: state.topic
        )
    }

    /// Its process ends, and one with the same name begins.
    func beginAnew(meanwhile: () throws -> Void = {}) throws {
        endMember()
        try meanwhile()
        try beginMember()
    }

    func endMember() {
        member.close()
    }

    func beginMember() throws {
        member = try Self.begin(world, place, target, state)
        log = try #require(member.log as? KafkaLog)
    }

    /// Ends what is open at an offset of the outputs as Kafka's own tool does: it can only abort.
    func abortByHand(at offset: Int64) throws {
        for topic in [target, state.topic] {
            try abortByHand(in: topic, at: offset)
        }
    }

    private func abortByHand(in topic: String, at offset: Int64) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [
            "java", "-cp", "\(LocalCluster.homeFromEnvironment ?? "")/libs/*",
            "org.apache.kafka.tools.TransactionsCommand",
            "--bootstrap-server", cluster.bootstrapServers,
            "abort", "--topic", topic, "--partition", "0", "--start-offset", "\(offset)",
        ]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try expect(process.terminationStatus == 0, "nothing of \(topic) is open")
    }

    func close() {
        member.close()
        witness.stop()
        cluster.wipe()
    }

    func commit(_ number: UInt8, partition: Int32 = 0) throws {
        _ = try member.commit(
            PassedOverRig.outputs(number, partition),
            positions: [place: Int64(number) + 1]
        )
    }

    func begin(_ number: UInt8, isRefused: Bool = false) throws {
        var outputs = PassedOverRig.outputs(number, 0)
        if isRefused {
            outputs.append(OutsideRecord(partition: 7, key: nil, value: [0]), topic: 0)
        }
        try member.log.submit(outputs, positions: [place: Int64(number) + 1])
    }

    func outcome() throws -> CommitOutcome {
        try until(world, "no outcome came; \(log.takeNotes())") {
            try log.takeOutcome(waitMilliseconds: 50)
        }
    }

    /// Kills the node, takes the markers out of its files, and starts it: that is what is left where its
    /// coordinator passes over them.
    ///
    /// Without the coordinator's own last record Kafka would do that itself, in some runs; in others it
    /// writes them after all.
    func crash(before missing: Missing, meanwhile: () throws -> Void = {}) throws {
        try until(world, "the coordinator does not complete it") {
            try isComplete() ? true : nil
        }
        try cluster.kill(node: 0)
        try meanwhile()
        try cutLastMarker(of: target)
        try cutLastMarker(of: state.topic)
        if missing == .allMarkers {
            try cutLastMarker(of: "__consumer_offsets")
        }
        try cluster.restart(node: 0)
    }

    /// Whatever became of it: every number once.
    func goOn(after outcome: CommitOutcome) throws {
        var next: UInt8 = 3
        switch outcome {
        case .committed: break
        case .aborted(_, let resumedAt), .takenBack(_, let resumedAt):
            next = try #require(resumedAt[place].map(UInt8.init))
            // Whoever reads on after a crash begins there too.
            let admin = try world.openAdmin()
            defer { admin.close() }
            let committed = try admin.committedOffsets(
                ofGroup: member.group,
                topic: place.topic
            )
            try expect(committed == [Int64(next)], "\(committed) after \(outcome)")
            let again = try member.read(count: 10 - Int(next))
            try expect(again.records.first?.offset == Int64(next), "\(outcome)")
        }
        try goOn(from: next, "after \(outcome)")
    }

    /// The same; it may not know enough, or not be allowed to go on, and leave it to the next process.
    func goOnHoweverItEnds() throws {
        do {
            try goOn(after: outcome())
        } catch LogFault.unusable(let message) {
            try expect(message.contains("the next process reads it again"), message)
            try beginAnew()
            let next = try #require(member.positions[place])
            try goOn(from: UInt8(next), "after \(message)")
        }
    }

    private func goOn(from next: UInt8, _ circumstances: String) throws {
        for number in next...3 {
            try commit(number)
        }
        try expectOnce(0...3, circumstances)
        try expectState(0...3)
    }

    /// Thrown, not recorded: on a thread of its own an issue has lost its test's name.
    func expectOnce(_ numbers: ClosedRange<UInt8>, _ circumstances: String = "") throws {
        let values = try world.contents(of: target).compactMap { $0.value?.first }.sorted()
        try expect(values == Array(numbers), "\(values) \(circumstances)")
    }

    /// Does nothing until the worker ends for what was committed and stays open.
    func awaitTakingBack() throws {
        var batch = RecordBatch()
        try expectEnd(saying: "taken back") {
            _ = try until(world, "what was committed stays open") { () -> Bool? in
                _ = try log.poll(into: &batch, recordCountMax: 0, waitMilliseconds: 50)
                return nil
            }
        }
    }

    /// The worker is to end with these words.
    func expectEnd(saying words: String, _ act: () throws -> Void) throws {
        do {
            try act()
        } catch LogFault.unusable(let message) {
            return try expect(message.contains(words), message)
        }
        throw BrokenPromise("it did not end with \"\(words)\"")
    }

    /// What a store is made from, whatever Kafka holds back.
    func expectState(_ numbers: ClosedRange<UInt8>) throws {
        let values = try member.changelog(state, from: 0)
        try expect(values == Array(numbers), "the changelog has \(values)")
    }

    /// The group has offsets where it reads, and nowhere else.
    func expectNoOther() throws {
        let admin = try world.openAdmin()
        defer { admin.close() }
        let offsets = try admin.committedOffsets(ofGroup: member.group, topic: target)
        try expect(offsets == [nil, nil], "\(offsets) of \(target)")
    }

    func awaitAbsence() throws {
        var batch = RecordBatch()
        try until(world, "Kafka is there") {
            _ = try log.poll(into: &batch, recordCountMax: 0, waitMilliseconds: 50)
            return log.isBrokerAway ? true : nil
        }
    }

    /// Whether the coordinator has written CompleteCommit: all markers are there then.
    private func isComplete() throws -> Bool {
        let browser = try LogBrowser(
            settings: world.settings,
            topics: [Self.coordinatorTopic],
            isolation: .readUncommitted
        )
        defer { browser.close() }
        try browser.start()
        var last: UInt8?
        try browser.readToEnd { batch in
            // Only one partition has any: there is one producer.
            if let value = batch.records.last(where: { !$0.value.isAbsent })?.value {
                last = batch.arena[value.start + Self.statusOffset]
            }
        }
        return last == Self.completeCommit
    }

    private static func outputs(_ number: UInt8, _ partition: Int32) -> OutputBatch {
        var outputs = OutputBatch()
        let record = OutsideRecord(partition: partition, key: nil, value: [number])
        outputs.append(record, topic: 0)
        outputs.append(OutsideRecord(partition: 0, key: nil, value: [number]), topic: 1)
        return outputs
    }

    /// Of the one partition of a topic that has any.
    private func cutLastMarker(of topic: String) throws {
        let data = URL(fileURLWithPath: "\(folder)/0/data")
        let logs = try FileManager.default.contentsOfDirectory(atPath: data.path)
            .filter { $0.hasPrefix("\(topic)-") }
            .map { data.appendingPathComponent("\($0)/00000000000000000000.log") }
            .filter { try !Data(contentsOf: $0).isEmpty }
        let log = try #require(logs.count == 1 ? logs.first : nil, "\(topic): \(logs)")
        let bytes = try [UInt8](Data(contentsOf: log))
        // Base offset (8), length of what follows (4), epoch (4), magic (1), CRC (4), attributes.
        var start = 0
        var next = 0
        while next < bytes.count {
            start = next
            next += 12 + bytes[next + 8..<next + 12].reduce(0) { $0 << 8 | Int($1) }
        }
        try #require(bytes[start + 22] & 0x20 != 0, "\(topic) ends otherwise")
        let file = try FileHandle(forWritingTo: log)
        try file.truncate(atOffset: UInt64(start))
        try file.close()
    }
}
