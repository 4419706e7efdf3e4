import Foundation
import Kafka
import LocalKafka
import RecordLogContract
import Testing

@Suite(.enabled(if: RealKafka.isThere, RealKafka.skipped))
struct `Questions and orders to a real Kafka` {
    @Test func `make, describe, change and delete a topic`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let admin = try world.openAdmin()
            defer { admin.close() }
            let clusterID = try admin.clusterID()
            #expect(clusterID.count == 22)
            let name = "admin.t"
            let before = try admin.topic(name)
            #expect(before == nil)
            let plan = TopicPlan(
                name: name,
                partitionCount: 3,
                configuration: ["cleanup.policy": "compact", "retention.ms": "1000000"]
            )
            try admin.create([plan])
            try admin.create([plan])
            let topic = try #require(try admin.topic(name))
            #expect(topic.partitions.map(\.partition).sorted() == [0, 1, 2])
            #expect(topic.replicationFactor == 1)
            let names = try admin.topics().map(\.name)
            #expect(names.contains(name))
            try admin.alterConfiguration(ofTopic: name, ["retention.ms": "2000000"])
            let configuration = try admin.configuration(ofTopic: name)
            #expect(configuration["retention.ms"] == "2000000")
            #expect(configuration["cleanup.policy"] == "compact", "the other setting was lost")
            #expect(configuration["max.message.bytes"] == "1048588")
            let leader = try #require(topic.partitions.first?.leader)
            let ofBroker = try admin.configuration(ofBroker: leader)
            #expect(ofBroker["offsets.retention.minutes"] == "10080")
            let starts = try admin.startOffsets(ofTopic: name)
            let ends = try admin.endOffsets(ofTopic: name)
            #expect(starts == [0, 0, 0] && ends == [0, 0, 0])
            try admin.deleteTopics([name, "admin.never.was"])
            try until(world, "the topic is still there") {
                try admin.topic(name) == nil ? true : nil
            }
        }
    }

    /// Started at once, a worker asks for what was made, and refuses where it is not shown.
    @Test func `show at once what was made`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let admin = try world.openAdmin()
            defer { admin.close() }
            for round in 0..<5 {
                let names = (0..<4).map { "admin.many.\(round).\($0)" }
                try admin.create(names.map { TopicPlan(name: $0, partitionCount: 4) })
                let shown = try admin.topics().filter { topic in
                    topic.partitions.count == 4
                        && topic.partitions.allSatisfy { $0.leader >= 0 }
                }
                #expect(Set(names).subtracting(shown.map(\.name)) == [], "round \(round)")
            }
        }
    }

    @Test func `say what is wrong with an order`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let admin = try world.openAdmin()
            defer { admin.close() }
            let fault = #expect(throws: LogFault.self) {
                try admin.create([
                    TopicPlan(
                        name: "admin.bad",
                        partitionCount: 1,
                        configuration: ["retention.ms": "soon"]
                    )
                ])
            }
            guard case .misconfigured(let message) = fault else {
                Issue.record("\(String(describing: fault)) is no fault of the order")
                return
            }
            #expect(message.contains("admin.bad") && message.contains("retention.ms"))
        }
    }
}

@Suite struct `Questions to a broker that is away` {
    @Test func `are not even asked where the order cannot be sent`() async throws {
        try await onThread {
            let settings = KafkaSettings(bootstrapServers: "127.0.0.1:1", clientID: "admin")
            let admin = try KafkaAdmin(settings: settings, deadlineMilliseconds: 100)
            defer { admin.close() }
            let fault = #expect(throws: LogFault.self) {
                try admin.create([TopicPlan(name: "t", partitionCount: 200_000)])
            }
            guard case .misconfigured(let message) = fault else {
                Issue.record("\(String(describing: fault)) is no fault of the order")
                return
            }
            #expect(message.contains("num_partitions"), "\(message)")
        }
    }

    @Test func `end at the deadline`() async throws {
        try await onThread {
            let settings = KafkaSettings(bootstrapServers: "127.0.0.1:1", clientID: "test")
            let admin = try KafkaAdmin(settings: settings, deadlineMilliseconds: 300)
            defer { admin.close() }
            let start = ContinuousClock.now
            let fault = #expect(throws: LogFault.self) { try admin.topics() }
            #expect(ContinuousClock.now - start < .seconds(3))
            guard case .unavailable = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
        }
    }
}

@Suite struct `A transactional producer` {
    /// As where the file is replaced at that moment: the library frees what its configuration holds.
    @Test func `says what is wrong where its certificates are not there`() throws {
        let settings = KafkaSettings(
            bootstrapServers: "127.0.0.1:9",
            clientID: "test",
            extra: ["security.protocol": "ssl", "ssl.ca.location": "/nonexistent/ca.pem"]
        )
        for _ in 0..<10 {
            let fault = #expect(throws: LogFault.self) {
                _ = try KafkaTransactor(settings: settings, transactionalID: "t", targets: ["t"])
            }
            guard case .misconfigured(let message) = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
            #expect(message.contains("ssl.ca.location"), "\(message)")
        }
    }
}

@Suite struct `A question about a group` {
    /// The client library would touch memory that it has freed.
    @Test func `is refused by us where the embedded broker is asked`() async throws {
        try await onThread {
            let mock = try MockBroker()
            defer { mock.close() }
            let admin = try KafkaWorld(mock: mock).openAdmin()
            defer { admin.close() }
            let fault = #expect(throws: LogFault.self) {
                _ = try admin.group("g")
            }
            guard case .unavailable(_, let message) = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
            #expect(message.contains("the embedded broker"), "\(message)")
        }
    }
}

@Suite struct `A browser` {
    @Test(arguments: [
        (LogBrowser.Start.earliest, [0, 1, 2, 3, 4]),
        (.offset(3), [3, 4]),
        (.offset(5), []),
        (.offset(99), []),
        // A time that is past, as of a month: what the embedded broker cannot find it can read.
        (.timestamp(1_000), [0, 1, 2, 3, 4]),
    ])
    func `reads from a place to the end that there was`(
        place: LogBrowser.Start,
        values: [UInt8]
    ) async throws {
        try await onThread {
            let mock = try MockBroker(topics: ["t": 2])
            defer { mock.close() }
            let world = KafkaWorld(mock: mock)
            try world.write(
                (0..<5).map { OutsideRecord(partition: 1, key: nil, value: [$0]) },
                to: "t"
            )
            let browser = try LogBrowser(settings: world.settings, topics: ["t"])
            defer { browser.close() }
            try browser.start(at: [TopicPartition(topic: "t", partition: 1): place])
            var batch = RecordBatch()
            try until(world, "no end") {
                try browser.read(into: &batch, recordCountMax: 2, waitMilliseconds: 50)
                    ? true : nil
            }
            #expect(batch.records.map { batch.arena[$0.value.start] } == values)
        }
    }

    @Test(.enabled(if: RealKafka.isThere, RealKafka.skipped))
    func `starts at a time`() async throws {
        try await onThread {
            let world = try RealKafka.shared.world(.exactlyOnce)
            let topic = try world.makeTopic(partitionCount: 1)
            let producer = try KafkaProducer(settings: world.settings, targets: [topic])
            defer { producer.close(deadlineMilliseconds: 1000) }
            var outputs = OutputBatch()
            // Of now: Kafka looks every five seconds for what is older than its retention.
            let base = Int64(Date().timeIntervalSince1970) * 1000
            for number in 0..<5 {
                let value = outputs.place([UInt8(number)])
                outputs.outputs.append(
                    OutputBatch.Output(
                        topic: 0,
                        partition: 0,
                        timestampMilliseconds: base + Int64(number) * 1000,
                        key: .absent,
                        value: value
                    )
                )
            }
            try producer.produce(outputs, tags: [0, 1, 2, 3, 4])
            #expect(producer.flush(deadlineMilliseconds: world.patienceMilliseconds))
            for (time, wanted) in [(base + 2500, [3, 4]), (base + 9000, [])] as [(Int64, [UInt8])] {
                let browser = try LogBrowser(settings: world.settings, topics: [topic])
                defer { browser.close() }
                try browser.start(from: .timestamp(time))
                var batch = RecordBatch()
                try until(world, "no end") {
                    try browser.read(into: &batch, recordCountMax: 10, waitMilliseconds: 50)
                        ? true : nil
                }
                #expect(batch.records.map { batch.arena[$0.value.start] } == wanted)
            }
        }
    }
}

@Suite struct `A partition whose leader moves` {
    /// As it is right after a node has started: it answers, and leads nothing yet.
    @Test(
        arguments: [
            (6, "NOT_LEADER_FOR_PARTITION"), (5, "LEADER_NOT_AVAILABLE"),
            (78, "OFFSET_NOT_AVAILABLE"),
        ] as [(Int32, String)]
    )
    func `is asked about again within the deadline`(code: Int32, name: String) async throws {
        try await onThread {
            let broker = try MockBroker(topics: ["t": 2])
            defer { broker.close() }
            let settings = KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "c")
            let admin = try KafkaAdmin(settings: settings)
            defer { admin.close() }
            broker.pushErrors([code, code, code], for: .listOffsets)
            let ends = try admin.endOffsets(ofTopic: "t")
            #expect(ends == [0, 0])
            broker.pushErrors([code, code, code], for: .listOffsets)
            var silentNodes: Set<Int32> = []
            #expect(try admin.knownOffsets(.end, ofTopic: "t", &silentNodes) == [0, 0])
            #expect(silentNodes.isEmpty)

            let impatient = try KafkaAdmin(settings: settings, deadlineMilliseconds: 300)
            defer { impatient.close() }
            _ = try impatient.topics()
            broker.pushErrors(Array(repeating: code, count: 1_000), for: .listOffsets)
            #expect {
                try impatient.endOffsets(ofTopic: "t")
            } throws: { error in
                guard case .unavailable(let found, _)? = error as? LogFault else {
                    return false
                }
                return found == name || found == "_TIMED_OUT"
            }
        }
    }
}
