import Kafka
import RecordLogContract

/// Copies records one to one, in transactions of 500 at the most, as a worker would.
final class CopyLoop {
    let member: Member
    let source: String
    let target: String
    private let world: KafkaWorld
    private var positions: [TopicPartition: Int64]
    private var committed: [TopicPartition: Int64]
    private var underWay: [TopicPartition: Int64]?
    private var outputs = OutputBatch()
    private var events: [String] = []

    init(_ world: KafkaWorld, recordCount: Int) throws {
        self.world = world
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

    private func step() throws {
        if let sent = underWay, let outcome = try member.log.takeOutcome(waitMilliseconds: 0) {
            underWay = nil
            switch outcome {
            case .committed: committed = sent
            case .aborted(_, let resumedAt):
                outputs.removeAll()
                positions.merge(resumedAt) { _, resumed in resumed }
                committed = positions
            }
        }
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
