internal import Kafka

/// What every ``RecordLog`` promises, one promise a function: the client on a real Kafka, on the
/// embedded broker, and the log in memory are all held to it.
package enum RecordLogContract: String, CaseIterable, Sendable {
    case `delivers every record once, in order, byte for byte`
    case `tells of an assignment before any record`
    case `holds partitions back until they are released`
    case `delivers at most what was asked for, and nothing for zero`
    case `starts at the earliest record, and later where it committed`
    case `delivers again what was not committed`
    case `commits outputs and positions, and says where they lie`
    case `writes a record's headers with every output that keeps them`
    case `tells the end of a partition`
    case `moves a position without any output`
    case `refuses an output that is too large, and names it`
    case `puts a key where Java's client does`
    case `answers for end offsets and other groups`
    case `reads a changelog to its end`
    case `has no outcome without a transaction`

    package func check(in world: any RecordLogWorld) throws {
        switch self {
        case .`delivers every record once, in order, byte for byte`:
            try Self.deliversEverything(world)
        case .`tells of an assignment before any record`: try Self.tellsOfAssignment(world)
        case .`holds partitions back until they are released`: try Self.holdsBack(world)
        case .`delivers at most what was asked for, and nothing for zero`:
            try Self.keepsToMax(world)
        case .`starts at the earliest record, and later where it committed`:
            try Self.startsWhereItCommitted(world)
        case .`delivers again what was not committed`: try Self.deliversAgain(world)
        case .`commits outputs and positions, and says where they lie`: try Self.commits(world)
        case .`writes a record's headers with every output that keeps them`:
            try Self.keepsHeaders(world)
        case .`tells the end of a partition`: try Self.tellsEnds(world)
        case .`moves a position without any output`: try Self.movesPosition(world)
        case .`refuses an output that is too large, and names it`: try Self.refusesLarge(world)
        case .`puts a key where Java's client does`: try Self.partitionsByKey(world)
        case .`answers for end offsets and other groups`: try Self.answersQuestions(world)
        case .`reads a changelog to its end`: try Self.readsChangelog(world)
        case .`has no outcome without a transaction`: try Self.hasNoOutcome(world)
        }
    }

    // MARK: The promises

    private static func deliversEverything(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 3)
        let odd: [OutsideRecord] = [
            OutsideRecord(partition: 0, key: nil, value: Array("no key".utf8)),
            OutsideRecord(partition: 0, key: [], value: []),
            OutsideRecord(partition: 1, key: Array("tombstone".utf8), value: nil),
            OutsideRecord(
                partition: 1,
                key: [0, 255],
                value: [0, 1, 2],
                headers: [
                    OutsideRecord.Header(name: "a", value: Array("1".utf8)),
                    OutsideRecord.Header(name: "null", value: nil),
                    OutsideRecord.Header(name: "a", value: []),
                ]
            ),
        ]
        let plain = (0..<3000).map { number in
            OutsideRecord(
                partition: Int32(number % 3),
                key: Array("k\(number)".utf8),
                value: Array("value \(number)".utf8)
            )
        }
        try world.write(odd + plain, to: topic)
        let member = try Member(world, group: "everything", sources: [topic])
        defer { member.close() }
        let batch = try member.read(count: odd.count + plain.count)
        let found = batch.records.map { OutsideRecord($0, in: batch.arena) }
        for partition in Int32(0)..<3 {
            let wanted = (odd + plain).filter { $0.partition == partition }
            try expect(
                found.filter { $0.partition == partition } == wanted,
                "partition \(partition) came in another order or with other bytes"
            )
            let offsets = batch.records.filter { $0.partition == partition }.map(\.offset)
            try expect(offsets == offsets.sorted(), "offsets of \(partition) go back")
        }
        try expect(
            batch.records.allSatisfy { $0.timestampMilliseconds > 0 },
            "a record without a time"
        )
    }

    private static func tellsOfAssignment(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 2)
        try world.write([OutsideRecord(partition: 0, key: nil, value: [1])], to: topic)
        let log = try world.openLog(
            group: "assignment-\(topic)",
            instance: "a",
            sources: [topic],
            targets: [],
            changelog: nil
        )
        defer { log.close(deadlineMilliseconds: 5000) }
        var batch = RecordBatch()
        let event = try until(world, "no assignment came") {
            try log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 50)
        }
        let partitions = [0, 1].map { TopicPartition(topic: topic, partition: $0) }
        try expect(event == .assigning(partitions), "\(event) is no assignment of both partitions")
        try expect(batch.records.isEmpty, "records came with an event")
        let positions = try log.completeAssignment()
        try expect(
            positions == [partitions[0]: 0, partitions[1]: 0],
            "\(positions) is not the beginning"
        )
    }

    private static func holdsBack(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 2)
        func write(_ values: Range<UInt8>, partition: Int32) throws {
            try world.write(
                values.map { OutsideRecord(partition: partition, key: nil, value: [$0]) },
                to: topic
            )
        }
        try write(0..<5, partition: 0)
        try write(0..<5, partition: 1)
        let member = try Member(world, group: "held", isHeld: true, sources: [topic])
        defer { member.close() }
        member.log.release(0)
        let first = try member.read(count: 5)
        // What was held back had the time of these: another fetch.
        try write(5..<10, partition: 0)
        let second = try member.read(count: 5)
        for batch in [first, second] {
            try expect(batch.records.allSatisfy { $0.partition == 0 }, "it is held back")
        }
        try expect(first.ends.allSatisfy { $0.partition == 0 }, "its end is held back")
        let places = [0, 1].map { TopicPartition(topic: topic, partition: $0) }
        _ = try member.commit(OutputBatch(), positions: [places[0]: 10, places[1]: 0])
        member.log.release(1)
        let held = try member.read(count: 5)
        try expect(
            held.records.map { held.arena[$0.value.start] } == [0, 1, 2, 3, 4]
                && held.records.allSatisfy { $0.partition == 1 },
            "what was held back was lost or came twice"
        )
    }

    private static func keepsToMax(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 1)
        let records = (0..<50).map { OutsideRecord(partition: 0, key: nil, value: [UInt8($0)]) }
        try world.write(records, to: topic)
        let member = try Member(world, group: "max", sources: [topic])
        defer { member.close() }
        var batch = RecordBatch()
        _ = try until(world, "nothing came") {
            _ = try member.log.poll(into: &batch, recordCountMax: 0, waitMilliseconds: 20)
            try expect(batch.records.isEmpty && batch.ends.isEmpty, "zero was asked for")
            _ = try member.log.poll(into: &batch, recordCountMax: 7, waitMilliseconds: 20)
            try expect(batch.records.count <= 7, "seven at most were asked for")
            return batch.records.isEmpty ? nil : true
        }
        let rest = try member.read(count: 50 - batch.records.count)
        let values =
            (batch.records.map { batch.arena[$0.value.start] })
            + rest.records.map { rest.arena[$0.value.start] }
        try expect(values == Array(0..<50), "records were lost or came twice around a zero")
    }

    private static func startsWhereItCommitted(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 1)
        let place = TopicPartition(topic: topic, partition: 0)
        try world.write(
            (0..<10).map { OutsideRecord(partition: 0, key: nil, value: [$0]) },
            to: topic
        )
        let first = try Member(world, group: "resume", sources: [topic])
        try expect(first.positions == [place: 0], "not the earliest record")
        _ = try first.read(count: 4, atMost: 4)
        _ = try first.commit(OutputBatch(), positions: [place: 4])
        first.close()
        let second = try Member(world, group: "resume", sources: [topic])
        defer { second.close() }
        try expect(second.positions == [place: 4], "\(second.positions) is not what was committed")
        let batch = try second.read(count: 6)
        try expect(
            batch.records.map { batch.arena[$0.value.start] } == [4, 5, 6, 7, 8, 9],
            "it did not go on where it committed"
        )
    }

    private static func deliversAgain(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 1)
        try world.write(
            (0..<5).map { OutsideRecord(partition: 0, key: nil, value: [$0]) },
            to: topic
        )
        let first = try Member(world, group: "again", sources: [topic])
        _ = try first.read(count: 5)
        first.close()
        let second = try Member(world, group: "again", sources: [topic])
        defer { second.close() }
        let batch = try second.read(count: 5)
        try expect(batch.records.map(\.offset) == [0, 1, 2, 3, 4], "uncommitted records are gone")
    }

    private static func commits(_ world: any RecordLogWorld) throws {
        let source = try world.makeTopic(partitionCount: 1)
        let target = try world.makeTopic(partitionCount: 2)
        let changelog = try world.makeTopic(partitionCount: 1)
        let place = TopicPartition(topic: source, partition: 0)
        try world.write([OutsideRecord(partition: 0, key: nil, value: [1])], to: source)
        let member = try Member(
            world,
            group: "commits",
            sources: [source],
            targets: [target, changelog],
            changelog: changelog
        )
        defer { member.close() }
        _ = try member.read(count: 1)
        let record = OutsideRecord(
            partition: 1,
            key: Array("k".utf8),
            value: Array("v".utf8),
            headers: [OutsideRecord.Header(name: "h", value: Array("x".utf8))]
        )
        let state = OutsideRecord(partition: 0, key: Array("s".utf8), value: nil)
        for round in 0..<3 {
            var outputs = OutputBatch()
            outputs.append(record, topic: 0)
            outputs.append(state, topic: 1)
            outputs.append(state, topic: 1)
            let next = try member.commit(outputs, positions: [place: 1])
            let inTarget = next[TopicPartition(topic: target, partition: 1)]
            let inChangelog = next[TopicPartition(topic: changelog, partition: 0)]
            try expect(next.count == 2, "\(next) is not what was written to")
            try expect(inTarget ?? 0 >= Int64(round + 1), "\(next) lies before the record")
            try expect(inChangelog ?? 0 >= Int64(2 * round + 2), "\(next) lies before the state")
        }
        let written = try world.contents(of: target)
        try expect(written == [record, record, record], "\(written) is not what was committed")
        let states = try world.contents(of: changelog)
        try expect(states == Array(repeating: state, count: 6), "the changelog has \(states)")
    }

    private static func keepsHeaders(_ world: any RecordLogWorld) throws {
        let source = try world.makeTopic(partitionCount: 1)
        let target = try world.makeTopic(partitionCount: 1)
        let place = TopicPartition(topic: source, partition: 0)
        let records = (0..<6).map { number in
            OutsideRecord(
                partition: 0,
                key: nil,
                value: [UInt8(number)],
                headers: [OutsideRecord.Header(name: "h", value: Array("of \(number)".utf8))]
            )
        }
        try world.write(records, to: source)
        let member = try Member(
            world,
            group: "headers",
            sources: [source],
            targets: [target]
        )
        defer { member.close() }
        var wanted: [OutsideRecord] = []
        for first in [0, 3] {
            let batch = try member.read(count: 3, atMost: 3)
            var outputs = OutputBatch()
            // The second becomes two outputs, the third none.
            for index in [0, 1, 1] {
                let record = OutsideRecord(batch.records[index], in: batch.arena)
                outputs.append(record, topic: 0)
                outputs.outputs[outputs.outputs.count - 1].keptHeaders =
                    batch.records[index].keptHeaders
                wanted.append(records[first + index])
            }
            _ = try member.commit(outputs, positions: [place: Int64(first + 3)])
        }
        let written = try world.contents(of: target)
        try expect(written == wanted, "\(written) have other headers")
    }

    private static func tellsEnds(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 2)
        try world.write(
            [
                OutsideRecord(partition: 0, key: nil, value: [1]),
                OutsideRecord(partition: 0, key: nil, value: [2]),
            ],
            to: topic
        )
        let member = try Member(world, group: "ends", sources: [topic])
        defer { member.close() }
        var batch = RecordBatch()
        var ends: [Int32: Int64] = [:]
        _ = try until(world, "the ends were not told") {
            _ = try member.log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 50)
            for end in batch.ends {
                ends[end.partition] = end.offset
            }
            return ends.count == 2 && ends[0] ?? 0 >= 2 ? true : nil
        }
        try expect(ends[1] == 0, "an empty partition ends at \(ends)")
    }

    private static func movesPosition(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 2)
        let target = try world.makeTopic(partitionCount: 1)
        let places = [Int32(0), 1].map { TopicPartition(topic: topic, partition: $0) }
        try world.write([OutsideRecord(partition: 0, key: nil, value: [1])], to: topic)
        let member = try Member(world, group: "moves", sources: [topic], targets: [target])
        defer { member.close() }
        _ = try member.read(count: 1)
        let next = try member.commit(OutputBatch(), positions: [places[0]: 1, places[1]: 0])
        try expect(next.isEmpty, "nothing was written, yet \(next)")
        // An unmoved position is committed too: it is what fences.
        _ = try member.commit(OutputBatch(), positions: [places[0]: 1, places[1]: 0])
        let committed = try until(world, "no answer about the group") {
            try member.log.committedOffsets(ofGroup: member.group, topic: topic)
        }
        try expect(committed == [1, 0], "\(committed) was committed")
    }

    private static func refusesLarge(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 1)
        let target = try world.makeTopic(partitionCount: 1)
        let member = try Member(world, group: "large", sources: [topic], targets: [target])
        defer { member.close() }
        let small = OutsideRecord(partition: 0, key: nil, value: [1])
        let large = OutsideRecord(
            partition: 0,
            key: nil,
            value: Array(repeating: 7, count: 2_000_000)
        )
        var outputs = OutputBatch()
        outputs.append(small, topic: 0)
        outputs.append(large, topic: 0)
        let place = TopicPartition(topic: topic, partition: 0)
        do throws(LogFault) {
            try member.log.submit(outputs, positions: [place: 0])
            throw LogFault.unusable(message: "it was taken")
        } catch {
            guard case .recordTooLarge(outputIndex: 1, _, _) = error else {
                throw BrokenPromise("\(error) does not name the large output")
            }
        }
        var rest = OutputBatch()
        rest.append(small, topic: 0)
        _ = try member.commit(rest, positions: [place: 0])
        let written = try world.contents(of: target)
        try expect(written == [small], "the refused transaction left \(written.count) records")
    }

    private static func partitionsByKey(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 1)
        let target = try world.makeTopic(partitionCount: 12)
        let member = try Member(world, group: "keys", sources: [topic], targets: [target])
        defer { member.close() }
        var outputs = OutputBatch()
        for number in 0..<100 {
            let key = Array("key-\(number)".utf8)
            let record = OutsideRecord(partition: -1, key: key, value: key)
            outputs.append(record, topic: 0, chosenByKey: true)
        }
        _ = try member.commit(outputs, positions: [TopicPartition(topic: topic, partition: 0): 0])
        let written = try world.contents(of: target)
        try expect(written.count == 100, "\(written.count) of 100 records")
        for record in written {
            let key = record.key ?? []
            let wanted = Partitioner.partition(ofKey: key.span, partitionCount: 12)
            try expect(
                record.partition == wanted,
                "a key lies in \(record.partition), not \(wanted)"
            )
        }
    }

    private static func answersQuestions(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 2)
        let place = TopicPartition(topic: topic, partition: 1)
        try world.write(
            (0..<3).map { OutsideRecord(partition: 1, key: nil, value: [$0]) },
            to: topic
        )
        let member = try Member(world, group: "questions", sources: [topic])
        defer { member.close() }
        let ends = try until(world, "no answer about ends") {
            try member.log.endOffsets(ofTopic: topic)
        }
        try expect(ends.count == 2 && ends[0] == 0 && ends[1] >= 3, "\(ends) are not the ends")
        _ = try member.commit(OutputBatch(), positions: [place: 2])
        // A group's offsets show once the markers of their transaction are written; before that the
        // guard would only wait longer.
        _ = try until(world, "the group does not show what was committed") {
            try member.log.committedOffsets(ofGroup: member.group, topic: topic) == [nil, 2]
                ? true : nil
        }
        let stranger = try until(world, "no answer about a group that never was") {
            try member.log.committedOffsets(ofGroup: "nobody-\(topic)", topic: topic)
        }
        try expect(stranger == [nil, nil], "\(stranger) of a group that never was")
    }

    private static func readsChangelog(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 1)
        let changelog = try world.makeTopic(partitionCount: 2)
        let place = TopicPartition(topic: topic, partition: 0)
        let state = TopicPartition(topic: changelog, partition: 1)
        let member = try Member(
            world,
            group: "changelog",
            sources: [topic],
            targets: [changelog],
            changelog: changelog
        )
        defer { member.close() }
        try expect(
            try member.changelog(TopicPartition(topic: changelog, partition: 0), from: 0).isEmpty,
            "an empty changelog has records"
        )
        var next: Int64 = 0
        for number in UInt8(0)..<5 {
            var outputs = OutputBatch()
            outputs.append(OutsideRecord(partition: 1, key: [number], value: [number]), topic: 0)
            next = try member.commit(outputs, positions: [place: 0])[state] ?? 0
        }
        try expect(try member.changelog(state, from: 0) == [0, 1, 2, 3, 4], "a part is missing")
        try expect(try member.changelog(state, from: next).isEmpty, "it begins before its offset")
    }

    private static func hasNoOutcome(_ world: any RecordLogWorld) throws {
        let topic = try world.makeTopic(partitionCount: 1)
        let member = try Member(world, group: "none", sources: [topic])
        defer { member.close() }
        let outcome = try member.log.takeCommitResult(waitMilliseconds: 0)
        try expect(outcome == nil, "an outcome of nothing")
    }
}
