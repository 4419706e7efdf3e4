import Kafka
import RecordLogContract
import Testing

/// Copies records one to one, in transactions of 500 at the most, as a worker would.
///
/// It also is the worker's supervisor: what would end with 75 is opened anew.
final class CopyLoop {
    /// A fence may come late, from a request that a paused coordinator had queued; never again and
    /// again.
    static let restartCountMax = 5

    private(set) var member: Member
    private(set) var restartCount = 0
    let source: String
    let target: String
    private let world: KafkaWorld
    private let recordCount: Int
    private var positions: [TopicPartition: Int64]
    private var committed: [TopicPartition: Int64]
    private var underWay: [TopicPartition: Int64]?
    private var outputs = OutputBatch()
    private var events: [String] = []

    init(_ world: KafkaWorld, recordCount: Int) throws {
        self.world = world
        self.recordCount = recordCount
        source = try world.makeTopic(partitionCount: 2)
        target = try world.makeTopic(partitionCount: 2)
        try world.write(
            (0..<recordCount).map { number in
                OutsideRecord(
                    partition: Int32(number % 2),
                    key: nil,
                    value: Array("\(number)".utf8)
                )
            },
            to: source
        )
        member = try Member(world, group: "copy", sources: [source], targets: [target])
        positions = member.positions
        committed = member.positions
    }

    private var notes: [String] {
        (member.log as? KafkaLog)?.takeNotes().map { "\($0.facility) \($0.text)" } ?? []
    }

    private var copiedCount: Int64 { committed.values.reduce(0, +) }

    func run(untilCopied count: Int64) throws {
        try until(
            world,
            "only \(copiedCount) of \(count) records were copied; \(events) \(notes)"
        ) {
            try step()
            return copiedCount >= count ? true : nil
        }
    }

    func run(forMilliseconds time: Int) throws {
        let start = ContinuousClock.now
        while ContinuousClock.now - start < .milliseconds(time) {
            do {
                try step()
            } catch let fault as LogFault {
                guard case .unavailable = fault else {
                    throw fault
                }
            }
        }
    }

    /// Waits for the result of the transaction under way, and begins no other.
    func settle() throws {
        try until(world, "no outcome came") {
            try pollCommit()
            return underWay == nil ? true : nil
        }
    }

    /// The account: every record was copied, and none twice.
    ///
    /// Thrown, not recorded: on a thread of its own an issue has lost its test's name.
    func checkEachOnce() throws {
        let written = try numbers()
        var counts = Array(repeating: 0, count: recordCount)
        for number in written {
            counts[number] += 1
        }
        let lost = counts.indices.filter { counts[$0] == 0 }
        let doubled = counts.indices.filter { counts[$0] > 1 }
        guard lost.isEmpty, doubled.isEmpty else {
            throw BrokenPromise(
                """
                lost \(Self.summary(lost)), doubled \(Self.summary(doubled)); \(events); \
                copied \(copiedCount), group \(try committedOffsets()), \
                read again: \(try numbers().count); \(notes)
                """
            )
        }
    }

    private func numbers() throws -> [Int] {
        try world.contents(of: target).compactMap { record in
            record.value.flatMap { Int(String(decoding: $0, as: UTF8.self)) }
        }
    }

    private static func summary(_ numbers: [Int]) -> String {
        "\(numbers.count) \(numbers.prefix(3)) to \(numbers.suffix(3))"
    }

    private func committedOffsets() throws -> [Int64?] {
        let admin = try world.openAdmin()
        defer { admin.close() }
        return try admin.committedOffsets(ofGroup: member.group, topic: source)
    }

    private func step() throws {
        do {
            try turn()
        } catch let fault as LogFault {
            switch fault {
            case .fenced, .unusable: try restart(after: fault)
            case .unavailable, .misconfigured, .ours, .recordTooLarge, .recordsLost: throw fault
            }
        }
    }

    private func restart(after fault: LogFault) throws {
        restartCount += 1
        events.append("\(fault) after \(copiedCount) records")
        guard restartCount <= Self.restartCountMax else {
            throw BrokenPromise("it ends again and again: \(events)")
        }
        stop()
        try start()
    }

    func stop() {
        member.close()
    }

    /// Begins where the group stands.
    func start() throws {
        member = try Member(world, group: "copy", sources: [source], targets: [target])
        outputs.removeAll()
        underWay = nil
        positions = member.positions
        committed = positions
    }

    private func pollCommit() throws {
        if let sent = underWay, let outcome = try member.log.takeCommitResult(waitMilliseconds: 0) {
            underWay = nil
            switch outcome {
            case .committed: committed = sent
            case .aborted(_, let resumedAt):
                outputs.removeAll()
                positions.merge(resumedAt) { _, resumed in resumed }
                committed = positions
            }
        }
    }

    private func turn() throws {
        try pollCommit()
        var batch = RecordBatch()
        let room = 500 - outputs.outputs.count
        switch try member.log.poll(into: &batch, recordCountMax: room, waitMilliseconds: 5) {
        case .assigning:
            positions = try member.log.completeAssignment()
            committed = positions
        case .revoking(let partitions), .lost(let partitions):
            events.append("\(partitions.count) partitions left after \(copiedCount) records")
            outputs.removeAll()
            underWay = nil
            try member.log.completeRevocation()
            positions = [:]
        case nil: break
        }
        for record in batch.records {
            let copied = OutsideRecord(record, in: batch.arena)
            outputs.append(copied, topic: 0)
            let place = TopicPartition(topic: source, partition: record.partition)
            positions[place] = record.offset + 1
        }
        if underWay == nil, !outputs.outputs.isEmpty {
            try member.log.submit(outputs, positions: positions)
            underWay = positions
            outputs = OutputBatch()
        }
    }
}
