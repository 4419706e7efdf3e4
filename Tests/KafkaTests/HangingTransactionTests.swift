import Foundation
import LocalKafka
import RecordLogContract
import Testing

@testable import Kafka

@Suite struct `What a coordinator has decided` {
    private static let place = TopicPartition(topic: "t", partition: 3)
    private static let other = TopicPartition(topic: "t", partition: 4)

    /// `__transaction_state` as Kafka 4.3 writes it: version 1.
    private static func value(
        _ state: CoordinatorRecord.State,
        epoch: UInt8 = 9,
        in partitions: [TopicPartition] = [place]
    ) -> [UInt8] {
        var writer = WireWriter()
        writer.put(Int16(1))
        writer.put(Int64(77))
        writer.put(Int16(epoch))
        writer.put(Int32(40_000))
        writer.put(state.rawValue)
        writer.putCompact(count: partitions.count)
        for partition in partitions {
            writer.putCompact(text: partition.topic)
            writer.putCompact(count: 1)
            writer.put(partition.partition)
            writer.putNoTags()
        }
        writer.put(Int64(0))
        writer.put(Int64(0))
        writer.putNoTags()
        return writer.bytes
    }

    private static let key: [UInt8] = [0, 0, 0, 2] + "id".utf8

    @Test func `is read from its records`() throws {
        let record = try #require(
            CoordinatorRecord(
                key: Self.key,
                value: Self.value(.prepareCommit, in: [Self.place, Self.other])
            )
        )
        #expect(record.transactionalID == "id")
        #expect(record.producerID == 77)
        #expect(record.producerEpoch == 9)
        #expect(record.state == .prepareCommit)
        #expect(record.partitions == [Self.place, Self.other])
        for count in 0..<20 {
            let cut = Array(Self.value(.prepareCommit).prefix(count))
            #expect(CoordinatorRecord(key: Self.key, value: cut) == nil)
        }
    }

    private typealias Step = (state: CoordinatorRecord.State, epoch: UInt8, at: TopicPartition)

    @Test func `is what the last record that names the partition says`() {
        let cases: [([Step], HangingTransaction.Verdict)] = [
            ([], .unknown),
            ([(.ongoing, 9, Self.place), (.prepareCommit, 9, Self.place)], .commit),
            ([(.prepareCommit, 9, Self.place), (.completeCommit, 9, Self.other)], .commit),
            // A later transaction elsewhere was aborted: that says nothing of this one.
            ([(.prepareCommit, 9, Self.place), (.prepareAbort, 10, Self.other)], .commit),
            // Its producer's next life, or the time-out, aborts under the next epoch.
            ([(.ongoing, 9, Self.place), (.prepareAbort, 10, Self.place)], .abort),
            ([(.ongoing, 9, Self.place)], .underWay),
            // The producer goes on under the same epoch: a marker now could end what it writes.
            ([(.prepareCommit, 9, Self.place), (.ongoing, 9, Self.other)], .underWay),
            ([(.prepareCommit, 9, Self.place), (.ongoing, 10, Self.other)], .commit),
            // Of another life.
            ([(.prepareCommit, 7, Self.place)], .unknown),
            ([(.prepareCommit, 9, Self.other)], .unknown),
        ]
        for (steps, expected) in cases {
            var verdict = CoordinatorVerdict(
                producerID: 77,
                producerEpoch: 9,
                partition: Self.place
            )
            for step in steps {
                let value = Self.value(step.state, epoch: step.epoch, in: [step.at])
                guard let record = CoordinatorRecord(key: Self.key, value: value) else {
                    Issue.record("\(step) cannot be read")
                    continue
                }
                verdict.take(record, at: 1_000)
            }
            #expect(verdict.verdict(now: 11_000, patience: 10_000) == expected, "\(steps)")
            // Markers of what was decided just now are on their way.
            let isDecided = expected == .commit || expected == .abort
            #expect(
                verdict.verdict(now: 10_999, patience: 10_000)
                    == (isDecided ? .underWay : expected)
            )
        }
    }

    @Test func `is asked for over PLAINTEXT only, and says what to do instead`() throws {
        var settings = KafkaSettings(bootstrapServers: "127.0.0.1:1", clientID: "test")
        settings.extra["security.protocol"] = "SSL"
        let admin = try KafkaAdmin(settings: settings)
        defer { admin.close() }
        let fault = #expect(throws: LogFault.self) {
            try HangingTransactions(settings: settings, admin: admin)
        }
        guard case .misconfigured(let message) = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        #expect(message.contains("kafka-transactions.sh"))
    }
}

@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped))
struct `A transaction that hangs` {
    /// The state that a single node leaves which was killed at the wrong instant: committed, and
    /// without markers in its outputs.
    @Test func `is found, repaired by its coordinator's verdict, and seen once`() async throws {
        try await onThread {
            let rig = try SkippedMarkersRig()
            defer { rig.close() }
            try rig.commit(0)
            try rig.commit(1)
            try rig.expectOnce(0...1)
            rig.endMember()
            let topics = [rig.target, rig.state.topic]
            try rig.crash(withoutMarkersOf: topics)
            try rig.expectEndsBehindWhatHangs()
            let found = try rig.findHanging(in: topics)
            #expect(Set(found.map(\.partition.topic)) == Set(topics))
            #expect(found.allSatisfy { $0.verdict == .commit })
            #expect(Set(found.map(\.transactionalID)).count == 1)
            try rig.repair(found)
            try rig.expectOnce(0...1)
            try rig.beginMember()
            for number in UInt8(2)...3 {
                try rig.commit(number)
            }
            try rig.expectOnce(0...3)
        }
    }

    /// Until then nobody is told what the group has committed, and no member begins.
    @Test func `is found and repaired in what groups have committed`() async throws {
        try await onThread {
            let rig = try SkippedMarkersRig()
            defer { rig.close() }
            try rig.commit(0)
            try rig.commit(1)
            rig.endMember()
            let offsets = "__consumer_offsets"
            try rig.crash(withoutMarkersOf: [offsets])
            // It is looked at whatever topics are asked for.
            let found = try rig.findHanging(in: [rig.target])
            #expect(found.map(\.partition.topic) == [offsets])
            #expect(found.map(\.verdict) == [.commit])
            try rig.repair(found)
            try rig.beginMember()
            try rig.commit(2)
            try rig.expectOnce(0...2)
        }
    }

    @Test func `is repaired by an abort where it was aborted, and never seen`() async throws {
        try await onThread {
            let rig = try SkippedMarkersRig()
            defer { rig.close() }
            try rig.commit(0)
            try rig.abort(1)
            rig.endMember()
            try rig.crash(withoutMarkersOf: [rig.target])
            let found = try rig.findHanging(in: [rig.target])
            #expect(found.map(\.verdict) == [.abort])
            try rig.repair(found)
            try rig.expectOnce(0...0)
            try rig.beginMember()
            try rig.commit(1)
            try rig.expectOnce(0...1)
        }
    }
}

@Suite struct `What a leader says of open transactions` {
    /// An answer to DescribeProducers, version 0, about one partition without producers.
    private static func answer(_ code: Int16) -> [UInt8] {
        var writer = WireWriter()
        writer.put(Int32(0))
        writer.putCompact(count: 1)
        writer.putCompact(text: "t")
        writer.putCompact(count: 1)
        writer.put(Int32(3))
        writer.put(code)
        writer.putCompact(text: "")
        writer.putCompact(count: 0)
        writer.putNoTags()
        writer.putNoTags()
        writer.putNoTags()
        return writer.bytes
    }

    @Test(arguments: [
        (Int16(0), nil),
        // NOT_LEADER_OR_FOLLOWER: asked again, somebody knows.
        (6, false),
        // TOPIC_AUTHORIZATION_FAILED
        (29, true),
    ])
    func `is not taken for none where it does not say`(code: Int16, isFinal: Bool?) throws {
        let bytes = Self.answer(code)
        var reader = WireReader(bytes[...])
        switch try HangingTransactions.producers(in: &reader) {
        case .success(let found): #expect(isFinal == nil && found.isEmpty)
        case .failure(.misconfigured(let message)):
            #expect(isFinal == true && message.contains("Read on t"))
        case .failure(.unavailable): #expect(isFinal == false)
        case .failure(let fault): Issue.record("\(fault)")
        }
    }
}

@Suite struct `Where a leader is away` {
    private static let topic = "t"

    @Test func `others are looked at, and its partition is named`() throws {
        let mock = try MockBroker(topics: [Self.topic: 3])
        defer { mock.close() }
        let away = TopicPartition(topic: Self.topic, partition: 1)
        try mock.removeLeader(of: away)
        let settings = KafkaWorld(mock: mock).settings
        let admin = try KafkaAdmin(settings: settings)
        defer { admin.close() }
        let found = try HangingTransactions(settings: settings, admin: admin)
            .find(in: [Self.topic], now: 0)
        #expect(found.transactions.isEmpty && found.unanswered == [away])
        var silentNodes: Set<Int32> = []
        for place in [OffsetPlace.start, .end, .lastStable] {
            let offsets = try admin.knownOffsets(place, ofTopic: Self.topic, &silentNodes)
            #expect(offsets == [0, nil, 0])
        }
        #expect(silentNodes.isEmpty)
    }

    @Test func `a marker without an answer keeps no other from being sent`() throws {
        let settings = KafkaSettings(bootstrapServers: "127.0.0.1:1", clientID: "test")
        let admin = try KafkaAdmin(settings: settings)
        defer { admin.close() }
        let owed = (0..<2).map { number in
            HangingTransaction(
                partition: TopicPartition(topic: Self.topic, partition: Int32(number)),
                producerID: 1,
                producerEpoch: 0,
                startOffset: 0,
                verdict: .commit,
                coordinatorEpoch: 0
            )
        }
        let refused = try HangingTransactions(settings: settings, admin: admin).refusals(
            of: owed,
            leaders: [owed[0].partition: 1, owed[1].partition: 1],
            [1: (host: "127.0.0.1", port: "1")]
        )
        #expect(refused.map(\.0) == owed)
        #expect(refused.allSatisfy { !$0.code.isEmpty })
    }
}
