import Kafka
import LocalKafka
import RecordLogContract
import Testing

/// Kafka away for longer than a session: the client library ends it by itself, and Kafka, back, still
/// has the member.
@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped), .serialized)
struct `A session that ends while Kafka is away` {
    /// The shortest that Kafka grants.
    private static let sessionMilliseconds = 6_000

    private func withWorld(
        _ work: @escaping @Sendable (LocalCluster, KafkaWorld) throws -> Void
    ) async throws {
        try await onThread {
            let cluster = try RealKafka.cluster(
                nodeCount: 1,
                properties: [
                    // It is back before it gives the member up, too.
                    "broker.session.timeout.ms": "2000",
                    "broker.heartbeat.interval.ms": "300",
                ]
            )
            defer { cluster.wipe() }
            try cluster.start()
            try work(
                cluster,
                KafkaWorld(
                    bootstrapServers: cluster.bootstrapServers,
                    delivery: .exactlyOnce,
                    sessionMilliseconds: Self.sessionMilliseconds
                )
            )
        }
    }

    @Test func `is gone on from by a worker that lets go at once`() async throws {
        try await withWorld { cluster, world in
            let copy = try CopyLoop(world, recordCount: 20_000)
            defer { copy.member.close() }
            try copy.run(untilCopied: 4_000)
            // A single node that is killed may skip the markers that it owes (KAFKA-20734): here it owes
            // none.
            try copy.settle()
            _ = try world.contents(of: copy.target)
            try cluster.kill(node: 0)
            try copy.run(forMilliseconds: Self.sessionMilliseconds + 1_000)
            try cluster.restart(node: 0)
            try copy.run(untilCopied: 20_000)
            try copy.checkEachOnce()
            #expect(copy.restartCount == 0)
        }
    }

    /// Kafka reports a fence without a second instance: there is nothing to wait for.
    @Test func `asks for a restart of a worker that is slow to let go, and blames no twin`()
        async throws
    {
        try await withWorld { cluster, world in
            let member = try Self.memberThatHoldsOn(cluster, world)
            defer { member.close() }
            try expectRestart(of: member, world)
        }
    }

    @Test func `is a fence where a twin came meanwhile`() async throws {
        try await withWorld { cluster, world in
            let member = try Self.memberThatHoldsOn(cluster, world)
            defer { member.close() }
            let twin = try Member(world, group: "slow", sources: member.log.sources)
            defer { twin.close() }
            let fault = try lastFault(of: member, world)
            guard case .fenced = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
        }
    }

    /// A member that waits for longer does not see meanwhile that its session ended.
    @Test func `is not slept through by a question about a changelog`() async throws {
        try await withWorld { cluster, world in
            let source = try world.makeTopic(partitionCount: 1)
            let member = try Member(world, group: "asks", sources: [source])
            defer { member.close() }
            let place = TopicPartition(topic: source, partition: 0)
            try until(world, "no marks") {
                try member.log.changelogReader(place, from: 0).endOffset == 0 ? true : nil
            }
            try cluster.pause(node: 0)
            let start = ContinuousClock.now
            let fault = #expect(throws: LogFault.self) {
                _ = try member.log.changelogReader(place, from: 0)
            }
            let time = ContinuousClock.now - start
            try cluster.resume(node: 0)
            // One second is given; a request that hangs takes 20.
            #expect(time < .milliseconds(Self.sessionMilliseconds), "\(time)")
            guard case .unavailable = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
        }
    }

    /// Its session has ended, Kafka is back, and it still has not given its partitions back.
    private static func memberThatHoldsOn(
        _ cluster: LocalCluster,
        _ world: KafkaWorld
    ) throws -> Member {
        let source = try world.makeTopic(partitionCount: 1)
        let member = try Member(world, group: "slow", sources: [source])
        try cluster.kill(node: 0)
        var batch = RecordBatch()
        let place = TopicPartition(topic: source, partition: 0)
        try until(world, "the session does not end") {
            try member.log.poll(into: &batch, recordCountMax: 1, waitMilliseconds: 50)
                == .lost([place]) ? true : nil
        }
        try cluster.restart(node: 0)
        return member
    }
}

/// Of the embedded broker, which never tells who is in a group: there a name counts as taken.
@Suite struct `A worker that joins anew` {
    /// UNKNOWN_MEMBER_ID: the client library forgets its member id, as where a session ends.
    private static let unknownMember: Int32 = 25
    private static let fencedInstance: Int32 = 82

    /// Goal: two of its own joins that cross are no twin.
    ///
    /// Method: the answer of a coordinator that stood still, and served the older one last.
    @Test func `blames no twin before it has partitions`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            let member = try Member(world, group: "g", sources: ["source"])
            defer { member.close() }
            try Self.endSession(of: member, mock, world)
            mock.pushErrors([Self.fencedInstance], for: .joinGroup)
            try member.log.completeRevocation()
            try expectRestart(of: member, world)
        }
    }

    @Test func `is fenced as ever once it has partitions`() async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["source": 1])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            let member = try Member(world, group: "g", sources: ["source"])
            defer { member.close() }
            try Self.endSession(of: member, mock, world)
            try member.log.completeRevocation()
            var batch = RecordBatch()
            try until(world, "it is given nothing again") { () throws -> Bool? in
                let event = try member.log.poll(
                    into: &batch,
                    recordCountMax: 1,
                    waitMilliseconds: 50
                )
                guard case .assigning = event else {
                    return nil
                }
                _ = try member.log.completeAssignment()
                return true
            }
            mock.pushErrors([Self.fencedInstance], for: .heartbeat)
            let fault = try lastFault(of: member, world)
            guard case .fenced = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
        }
    }

    private static func endSession(
        of member: Member,
        _ mock: MockBroker,
        _ world: KafkaWorld
    ) throws {
        mock.pushErrors([unknownMember], for: .heartbeat)
        var batch = RecordBatch()
        let place = TopicPartition(topic: "source", partition: 0)
        try until(world, "the session does not end") {
            try member.log.poll(into: &batch, recordCountMax: 1, waitMilliseconds: 50)
                == .lost([place]) ? true : nil
        }
    }
}

private func lastFault(of member: Member, _ world: KafkaWorld) throws -> LogFault? {
    #expect(throws: LogFault.self) {
        var batch = RecordBatch()
        try until(world, "Kafka calls it nothing") { () throws -> Bool? in
            _ = try member.log.poll(into: &batch, recordCountMax: 1, waitMilliseconds: 50)
            return nil
        }
    }
}

private func expectRestart(of member: Member, _ world: KafkaWorld) throws {
    let fault = try lastFault(of: member, world)
    guard case .unusable(let message) = fault else {
        Issue.record("\(String(describing: fault))")
        return
    }
    #expect(message.contains("the session ended while Kafka was away"), "\(message)")
}
