import Kafka
import LocalKafka
import RecordLogContract
import Testing

@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped))
struct `A commit whose result is unknown` {
    /// The worst answer: fatal for the producer, and wrong.
    @Test func `counts as committed where the group has its positions, and is not repeated`()
        async throws
    {
        try await onThread {
            let proxy = try LyingProxy()
            defer { proxy.stop() }
            let cluster = try RealKafka.cluster(
                nodeCount: 1,
                properties: ["advertised.listeners": "PLAINTEXT://127.0.0.1:\(proxy.port)"]
            )
            defer { cluster.wipe() }
            let port = try #require(
                cluster.bootstrapServers.split(separator: ":").last.flatMap { UInt16($0) }
            )
            proxy.start(leadingTo: port)
            try cluster.start()
            let world = KafkaWorld(
                bootstrapServers: cluster.bootstrapServers,
                delivery: .exactlyOnce
            )
            let source = try world.makeTopic(partitionCount: 1)
            let target = try world.makeTopic(partitionCount: 1)
            let member = try Member(world, group: "doubt", sources: [source], targets: [target])
            defer { member.close() }
            let log = try #require(member.log as? KafkaLog)
            let place = TopicPartition(topic: source, partition: 0)
            for number in 0..<2 {
                let isLie = number == 0
                if isLie {
                    proxy.arm()
                }
                let producerCount = log.producerCount
                var outputs = OutputBatch()
                let record = OutsideRecord(partition: 0, key: nil, value: [UInt8(number)])
                outputs.append(record, topic: 0)
                // Where no position moved, only the mark identifies this transaction.
                let next = try member.commit(outputs, positions: [place: 0])
                #expect(next.keys.map(\.topic) == [target])
                #expect((log.producerCount > producerCount) == isLie)
            }
            #expect(proxy.lieCount == 1)
            let written = try world.contents(of: target)
            #expect(written.map(\.value) == [[0], [1]])
        }
    }
}
