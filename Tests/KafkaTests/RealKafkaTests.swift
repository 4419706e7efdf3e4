import Glibc
import Kafka
import LocalKafka
import RecordLogContract
import Testing

/// What only a real Kafka shows: isolation, fencing, rebalances, and brokers that die.
@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped))
struct `A worker's log among others` {
    @Test func `shares its partitions with a second member, and commits before it lets go`()
        async throws
    {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let source = try world.makeTopic(partitionCount: 4)
            let target = try world.makeTopic(partitionCount: 1)
            let first = try Member(world, group: "share", sources: [source], targets: [target])
            defer { first.close() }
            #expect(first.positions.count == 4)
            try world.write(
                (0..<4).map { OutsideRecord(partition: Int32($0), key: nil, value: [UInt8($0)]) },
                to: source
            )
            _ = try first.read(count: 4)
            let second = try world.openLog(
                group: first.group,
                instance: "b",
                sources: [source],
                targets: [target],
                changelog: nil
            )
            defer { second.close(deadlineMilliseconds: 5000) }
            let positions = first.positions.mapValues { _ in Int64(1) }
            var batch = RecordBatch()
            var firstShare: [TopicPartition: Int64]?
            var secondShare: [TopicPartition: Int64]?
            try until(world, "the members did not share") {
                switch try first.log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 20) {
                case .revoking(let partitions):
                    #expect(partitions.count == 4)
                    // The old generation still commits while the group prepares.
                    _ = try first.commit(OutputBatch(), positions: positions)
                    try first.log.completeRevocation()
                case .assigning: firstShare = try first.log.completeAssignment()
                case .lost(let partitions): Issue.record("\(partitions) were lost")
                case nil: break
                }
                let event = try second.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 20)
                if case .assigning = event {
                    secondShare = try second.completeAssignment()
                }
                return firstShare != nil && secondShare != nil ? true : nil
            }
            #expect(firstShare?.count == 2 && secondShare?.count == 2)
            let all = (firstShare ?? [:]).merging(secondShare ?? [:]) { mine, _ in mine }
            #expect(all == positions, "not everything was committed before it was let go")
            #expect(batch.records.isEmpty, "a committed record came again")
        }
    }

    /// What wakes nobody is found a second later, or with the next record.
    @Test func `has all its news by wakes alone`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let source = try world.makeTopic(partitionCount: 4)
            let target = try world.makeTopic(partitionCount: 1)
            let records = (0..<4).map {
                OutsideRecord(partition: Int32($0), key: nil, value: [UInt8($0)])
            }
            try world.write(records, to: source)
            var settings = world.settings
            // Statistics wake too, and would hide a wake that is missing.
            settings.statisticsMilliseconds = 600_000
            let log = try KafkaLog(
                settings: settings,
                delivery: .exactlyOnce,
                member: KafkaLog.Member(
                    group: target,
                    instance: "a",
                    transactionalID: "\(target)-a"
                ),
                sources: [source],
                targets: [target]
            )
            defer { log.close(deadlineMilliseconds: 5000) }
            var batch = RecordBatch()
            func awaitNews<News>(_ what: Comment, _ look: () throws -> News?) throws -> News {
                while true {
                    if let news = try look() {
                        return news
                    }
                    var entry = pollfd(fd: log.wakeDescriptor, events: Int16(POLLIN), revents: 0)
                    try #require(unsafe poll(&entry, 1, 20_000) == 1, what)
                    log.forgetWakes()
                }
            }
            let starts: [TopicPartition: Int64] = try awaitNews("no wake for the assignment") {
                let event = try log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 0)
                guard case .assigning = event else {
                    return nil
                }
                return try log.completeAssignment()
            }
            let _: Bool = try awaitNews("no wake for the records") {
                _ = try log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 0)
                return batch.records.count == records.count ? true : nil
            }
            try log.submit(OutputBatch(), positions: starts.mapValues { $0 + 1 })
            let outcome: CommitResult = try awaitNews("no wake for the commit") {
                let outcome = try log.takeCommitResult(waitMilliseconds: 0)
                _ = try log.poll(into: &batch, recordCountMax: 10, waitMilliseconds: 0)
                return outcome
            }
            #expect(outcome == .committed(nextOffsets: [:]))
        }
    }

    @Test func `is fenced by a newer one with its name, and says so`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let source = try world.makeTopic(partitionCount: 1)
            let target = try world.makeTopic(partitionCount: 1)
            let older = try Member(world, group: "twin", sources: [source], targets: [target])
            defer { older.close() }
            let newer = try Member(world, group: "twin", sources: [source], targets: [target])
            defer { newer.close() }
            let place = TopicPartition(topic: source, partition: 0)
            var outputs = OutputBatch()
            outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
            let fault = #expect(throws: LogFault.self) {
                _ = try older.commit(outputs, positions: [place: 0])
                var batch = RecordBatch()
                try until(world, "the older one goes on") { () throws -> Bool? in
                    _ = try older.log.poll(into: &batch, recordCountMax: 1, waitMilliseconds: 50)
                    return nil
                }
            }
            guard case .fenced = fault else {
                Issue.record("\(String(describing: fault)) instead of a fence")
                return
            }
            var own = OutputBatch()
            own.append(OutsideRecord(partition: 0, key: nil, value: [2]), topic: 0)
            _ = try newer.commit(own, positions: [place: 0])
            let written = try world.contents(of: target)
            #expect(written.map(\.value) == [[2]], "the older one's record was committed")
        }
    }

    @Test func `reads on at the committed position after an abort, in order`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let source = try world.makeTopic(partitionCount: 2)
            let target = try world.makeTopic(partitionCount: 1)
            let places = [Int32(0), 1].map { TopicPartition(topic: source, partition: $0) }
            let records = (0..<2000).map { number in
                OutsideRecord(
                    partition: Int32(number % 2),
                    key: nil,
                    value: Array("\(number)".utf8)
                )
            }
            try world.write(records, to: source)
            let member = try Member(world, group: "abort", sources: [source], targets: [target])
            defer { member.close() }
            _ = try member.read(count: 100, atMost: 100)
            _ = try member.commit(OutputBatch(), positions: [places[0]: 10, places[1]: 20])
            _ = try member.read(count: 500, atMost: 100)
            // A partition that is not there spoils the transaction.
            var outputs = OutputBatch()
            outputs.append(OutsideRecord(partition: 0, key: nil, value: [1]), topic: 0)
            outputs.append(OutsideRecord(partition: 7, key: nil, value: [1]), topic: 0)
            try member.log.submit(outputs, positions: [places[0]: 300, places[1]: 300])
            var batch = RecordBatch()
            let outcome = try until(world, "no outcome") { () -> CommitResult? in
                // What is read before the outcome is known is void.
                _ = try member.log.poll(into: &batch, recordCountMax: 50, waitMilliseconds: 5)
                return try member.log.takeCommitResult(waitMilliseconds: 5)
            }
            guard case .aborted(_, let resumedAt) = outcome else {
                Issue.record("\(outcome) instead of an abort")
                return
            }
            #expect(resumedAt == [places[0]: 10, places[1]: 20])
            let rest = try member.read(count: 1970, atMost: 500)
            for place in places {
                let offsets = rest.records.filter { $0.partition == place.partition }.map(\.offset)
                #expect(offsets == Array((resumedAt[place] ?? 0)..<1000), "\(place)")
            }
            let written = try world.contents(of: target)
            #expect(written.isEmpty, "an aborted record is visible")
        }
    }

    @Test func `goes on where a twin stopped it, once it is started again`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let copy = try CopyLoop(world, recordCount: 8000)
            defer { copy.member.close() }
            try copy.run(untilCopied: 2000)
            let twin = try Member(
                world,
                group: "copy",
                sources: [copy.source],
                targets: [copy.target]
            )
            defer { twin.close() }
            try copy.run(untilCopied: 8000)
            #expect(copy.restartCount > 0, "nobody was fenced")
            try copy.checkEachOnce()
        }
    }

    /// A marker that the node then skips is owed until somebody writes it, and what it commits is lost
    /// with the next transaction of its producer that is aborted (KAFKA-20734): the worker begins again
    /// after the repair, as the runbook has it.
    @Test func `loses and doubles nothing while its only broker is killed under it`() async throws {
        try await onThread {
            let cluster = try RealKafka.cluster(nodeCount: 1)
            defer { cluster.wipe() }
            try cluster.start()
            let world = KafkaWorld(
                bootstrapServers: cluster.bootstrapServers,
                delivery: .exactlyOnce
            )
            let copy = try CopyLoop(world, recordCount: 20_000)
            defer { copy.member.close() }
            let repair = MarkerRepair(world, topics: [copy.source, copy.target])
            try copy.run(untilCopied: 4000)
            try cluster.kill(node: 0)
            try copy.run(forMilliseconds: 1500)
            copy.stop()
            try cluster.restart(node: 0)
            let repaired = Result { try world.awaitMarkers(copy.target) }
            try repair.end()
            try repaired.get()
            try copy.start()
            try copy.run(untilCopied: 20_000)
            try copy.checkEachOnce()
        }
    }

    @Test func `goes on while one of three brokers is killed, and another paused`() async throws {
        try await onThread {
            let cluster = try RealKafka.cluster(nodeCount: 3)
            defer { cluster.wipe() }
            try cluster.start()
            let world = KafkaWorld(
                bootstrapServers: cluster.bootstrapServers,
                delivery: .exactlyOnce
            )
            let copy = try CopyLoop(world, recordCount: 20_000)
            defer { copy.member.close() }
            try copy.run(untilCopied: 3000)
            try cluster.kill(node: 1)
            #expect(!cluster.isRunning(node: 1))
            try copy.run(untilCopied: 9000)
            try cluster.restart(node: 1)
            try cluster.pause(node: 2)
            try copy.run(forMilliseconds: 1000)
            try cluster.resume(node: 2)
            try copy.run(untilCopied: 20_000)
            try copy.checkEachOnce()
        }
    }
}
