import Kafka
import LocalKafka
import RecordLogContract
import Testing

@Suite struct `The log on the embedded broker` {
    /// The log of a worker that reads `source`.
    private static func open(_ world: KafkaWorld) throws -> KafkaLog {
        let log = try world.openLog(
            group: "g",
            instance: "a",
            sources: ["source"],
            targets: [],
            changelog: nil
        )
        return try #require(log as? KafkaLog)
    }

    /// Reads one record at most, and takes the partitions that it is given.
    private static func read(_ kafka: KafkaLog, into batch: inout RecordBatch) throws {
        let event = try kafka.poll(into: &batch, recordCountMax: 1, waitMilliseconds: 20)
        if event != nil {
            _ = try kafka.completeAssignment()
        }
    }

    @Test(arguments: RecordLogContract.allCases)
    func `keeps the promise that it`(promise: RecordLogContract) async throws {
        try await onThread {
            let mock = try MockBroker()
            defer { mock.close() }
            try promise.check(in: KafkaWorld(mock: mock))
        }
    }

    @Test func `waits for a broker that is away at start, and goes on by itself`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            try world.write([OutsideRecord(partition: 0, key: nil, value: [1])], to: "source")
            mock.setAway(true)
            let kafka = try Self.open(world)
            defer { kafka.close(deadlineMilliseconds: 2000) }
            var batch = RecordBatch()
            try until(world, "nobody said that the broker is away") {
                let asked = ContinuousClock.now
                let event = try kafka.poll(into: &batch, recordCountMax: 1, waitMilliseconds: 20)
                #expect(event == nil && batch.records.isEmpty)
                #expect(ContinuousClock.now - asked < .seconds(1), "a poll of 20 ms hangs")
                return kafka.isBrokerAway ? true : nil
            }
            mock.setAway(false)
            try until(world, "the record did not come after the broker's return") {
                try Self.read(kafka, into: &batch)
                return batch.records.isEmpty ? nil : true
            }
            try until(world, "nobody said that the broker is back") {
                kafka.isBrokerAway ? nil : true
            }
        }
    }

    /// What was fetched before says nothing of the broker, and the client library tells only once.
    @Test func `knows that the broker is away while it reads what came before`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            let records = (0..<2_000).map { _ in
                OutsideRecord(partition: 0, key: nil, value: [1])
            }
            try world.write(records, to: "source")
            let kafka = try Self.open(world)
            defer { kafka.close(deadlineMilliseconds: 2000) }
            var batch = RecordBatch()
            try until(world, "no record came") {
                try Self.read(kafka, into: &batch)
                return batch.records.isEmpty ? nil : true
            }
            mock.setAway(true)
            let other = try until(world, "nobody said that the broker is away") {
                _ = try kafka.poll(into: &batch, recordCountMax: 0, waitMilliseconds: 5)
                return kafka.isBrokerAway ? batch.records.count : nil
            }
            for _ in 0..<100 {
                try Self.read(kafka, into: &batch)
                #expect(kafka.isBrokerAway)
            }
            #expect(batch.records.count >= other + 100, "nothing was fetched before")
            mock.setAway(false)
            try until(world, "nobody said that the broker is back") {
                kafka.isBrokerAway ? nil : true
            }
        }
    }

    /// Goal: a coordinator that moves while it is asked for a group's offsets ends no member.
    ///
    /// Method: the broker's answers as a moving coordinator gives them. A handle without a group of
    /// its own died of the first of them, with SIGSEGV.
    @Test(arguments: [
        Int32(16),  // NOT_COORDINATOR
        15,  // COORDINATOR_NOT_AVAILABLE
        14,  // COORDINATOR_LOAD_IN_PROGRESS
    ])
    func `asks for a group's offsets again where its coordinator moves`(code: Int32) async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            let log = try world.openLog(
                group: "g",
                instance: "a",
                sources: ["source"],
                targets: [],
                changelog: nil
            )
            defer { log.close(deadlineMilliseconds: 2000) }
            mock.pushErrors([code, code], for: .offsetFetch)
            try until(world, "the group's offsets are not told") {
                do {
                    return try log.committedOffsets(ofGroup: "other", topic: "source")
                } catch LogFault.unavailable {
                    return nil
                }
            }
            let admin = try KafkaAdmin(settings: world.settings)
            defer { admin.close() }
            mock.pushErrors([code, code], for: .offsetFetch)
            try until(world, "the group's offsets are not told to an operator") {
                do {
                    return try admin.committedOffsets(ofGroup: "other", topic: "source")
                } catch LogFault.unavailable {
                    return nil
                }
            }
        }
    }

    /// So long after the last question about it a handle forgets a coordinator: `metadata.max.age.ms`, and the time
    /// between two looks at it.
    private static let coordinatorAge = Duration.milliseconds(3_500)

    /// Goal: questions about a group that nobody answers in time cost their answers, and not the process.
    ///
    /// Method: nobody tells who the coordinator is for as long as four questions wait; then it is told,
    /// and a connection comes anew. What librdkafka 2.0.2 kept of each question that it had given up
    /// was freed by then, and read: mostly an abort in `rd_kafka_enq_once_del_source_return`.
    @Test func `outlives questions to a coordinator that is away`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            let admin = try KafkaAdmin(settings: world.settings, deadlineMilliseconds: 500)
            defer { admin.close() }
            let notAvailable = Int32(15)
            for _ in 0..<3 {
                mock.pushErrors(Array(repeating: notAvailable, count: 1_000), for: .findCoordinator)
                for _ in 0..<4 {
                    #expect(throws: LogFault.self) {
                        try admin.committedOffsets(ofGroup: "other", topic: "source")
                    }
                }
                mock.clearErrors(for: .findCoordinator)
                mock.pushErrors([-195], for: .metadata)
                let told = try until(world, "the group's offsets are not told") {
                    do {
                        return try admin.committedOffsets(ofGroup: "other", topic: "source")
                    } catch LogFault.unavailable {
                        return nil
                    }
                }
                #expect(told == [nil])
                let forgotten = ContinuousClock.now + Self.coordinatorAge
                _ = try until(world, "the time does not go on") {
                    _ = try admin.endOffsets(ofTopic: "source")
                    return ContinuousClock.now > forgotten ? true : nil
                }
            }
        }
    }

    /// Goal: what a number of kept headers means ends with the transaction.
    ///
    /// Method: outputs whose own bytes say something else, so that it shows which were written.
    @Test func `takes a record's headers along once`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1, "target": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            func header(_ text: String) -> [OutsideRecord.Header] {
                [OutsideRecord.Header(name: "h", value: Array(text.utf8))]
            }
            let long = String(repeating: "x", count: 300)
            try world.write(
                [header("0"), header("1"), header(long), header("3") + header("3"), []].map {
                    OutsideRecord(partition: 0, key: nil, value: [], headers: $0)
                },
                to: "source"
            )
            let member = try Member(world, group: "g", sources: ["source"], targets: ["target"])
            defer { member.close() }
            let kept = try member.read(count: 5).records.map(\.keptHeaders)
            #expect(kept[2...].allSatisfy { $0 == .none }, "only one short header is kept")
            for taken in [[kept[0], kept[0], .none, kept[1]], [kept[1]]] {
                var outputs = OutputBatch()
                for kept in taken {
                    outputs.append(
                        OutsideRecord(partition: 0, key: nil, value: [], headers: header("made")),
                        topic: 0
                    )
                    outputs.outputs[outputs.outputs.count - 1].keptHeaders = kept
                }
                let place = TopicPartition(topic: "source", partition: 0)
                _ = try member.commit(outputs, positions: [place: 5])
            }
            let written = try world.contents(of: "target").map(\.headers)
            #expect(written == ["0", "made", "made", "1", "made"].map(header))
        }
    }

    @Test(arguments: [
        (["no.such.setting": "1"], "no.such.setting"),
        (["isolation.level": "read_uncommitted"], "isolation.level"),
        // What is lent to the client library is lent on the strength of its default.
        (["message.copy.max.bytes": "1000"], "message.copy.max.bytes"),
        (["queuing.strategy": "lifo"], "queuing.strategy"),
        (["statistics.interval.ms": "0"], "statistics.interval.ms"),
        (["fetch.wait.max.ms": "soon"], "fetch.wait.max.ms"),
    ])
    func `refuses a setting and names it`(extra: [String: String], name: String) {
        let settings = KafkaSettings(
            bootstrapServers: "127.0.0.1:1",
            clientID: "test",
            extra: extra
        )
        let fault = #expect(throws: LogFault.self) { try settings.check() }
        guard case .misconfigured(let message) = fault else {
            Issue.record("\(String(describing: fault)) is no fault of the settings")
            return
        }
        #expect(message.contains(name))
    }
}

@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped))
struct `The log on a real Kafka` {
    @Test(arguments: RecordLogContract.allCases)
    func `keeps the promise, exactly once, that it`(promise: RecordLogContract) async throws {
        try await onThread {
            try promise.check(in: try RealKafka.shared.world(.exactlyOnce))
        }
    }

    @Test(arguments: RecordLogContract.allCases)
    func `keeps the promise, at least once, that it`(promise: RecordLogContract) async throws {
        try await onThread {
            try promise.check(in: try RealKafka.shared.world(.atLeastOnce))
        }
    }
}
