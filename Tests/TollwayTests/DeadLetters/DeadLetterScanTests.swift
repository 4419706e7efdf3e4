import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `The scan of dead letters` {
    private static let token =
        #"{"externalPurchaseId":"id-1","appAppleId":7,"bundleId":"com.example.seven"}"#

    /// At offsets 0, 1 and 2: a token, one left out for its size, and one that came without value
    /// under the token's key.
    private static let records: [(key: String?, value: String?)] = [
        ("c", token), (nil, nil), ("id-1", nil),
    ]

    private func write(to topic: String, _ settings: KafkaSettings) throws {
        let producer = try KafkaProducer(settings: settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for (offset, record) in Self.records.enumerated() {
            let deadLetter = DeadLetter(
                fault: Fault(code: "decode.not_json", message: "m"),
                worker: .decode,
                origin: DeadLetter.Origin(
                    topic: Topic.tokensReceived.name(prefix: "t."),
                    partition: 0,
                    offset: Int64(offset),
                    group: "t.decode"
                ),
                failedAt: Timestamp(milliseconds: 1)
            )
            var (key, value) = (ByteRange.absent, ByteRange.absent)
            if let text = record.key {
                key = outputs.place(text.utf8)
            }
            if let text = record.value {
                value = outputs.place(text.utf8)
            }
            let headersStart = outputs.arena.count
            deadLetter.appendHeaders(to: &outputs.arena)
            outputs.outputs.append(
                OutputBatch.Output(
                    topic: 0,
                    key: key,
                    value: value,
                    headers: outputs.placed(from: headersStart)
                )
            )
        }
        try producer.produce(outputs, tags: Self.records.indices.map(UInt64.init))
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }

    private func filter(_ arguments: [String]) throws -> DeadLetterFilter {
        let request = try ArgumentReader.read(
            ["dlq", "count"] + arguments,
            verbs: TollwayCommand.verbs
        )
        guard case .invocation(let invocation) = request else {
            preconditionFailure("dlq count was asked for")
        }
        var filter = try DeadLetterFilter(invocation, now: Timestamp(milliseconds: 0))
        filter.nameApps(by: nil)
        return filter
    }

    /// `dlq discard --app` must leave alone what may be of any app.
    @Test(
        arguments: [
            ([], [0, 1, 2]), (["--stage", "decode"], [0, 1, 2]), (["--key", "id-1"], [2]),
            (["--app", "7"], [0]), (["--app", "com.example.seven"], [0]), (["--app", "8"], []),
            (["--environment", "production"], [0]), (["--environment", "sandbox"], []),
            (["--token", "id-1"], [0]), (["--token", "id-2"], []),
        ] as [([String], [Int64])]
    )
    func `takes what has no value for no app's, token's or environment's`(
        arguments: [String],
        offsets: [Int64]
    ) throws {
        let topic = Topic.deadLetters(.decode).name(prefix: "t.")
        let broker = try MockBroker(topics: [topic: 1])
        defer { broker.close() }
        let configuration = try Configuration(
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ],
            program: .tollway
        )
        try write(to: topic, configuration.kafka)
        for readsSubjects in [false, true] {
            var scan = DeadLetterScan(configuration: configuration, filter: try filter(arguments))
            scan.readsSubjects = readsSubjects
            var found: [Int64] = []
            let otherNameCount = try scan.run(settled: SettledDeadLetters()) { deadLetter, _, _ in
                found.append(deadLetter.record.offset)
                return true
            }
            #expect(found == offsets)
            #expect(otherNameCount == 0)
        }
    }
}
