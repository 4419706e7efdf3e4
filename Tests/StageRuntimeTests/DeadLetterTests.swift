import Kafka
import Simulation
import TokenDomain
import Testing

@testable import StageRuntime

@Suite struct `A dead letter` {
    private static let origin = DeadLetter.Origin(
        topic: "tollway.tokens.received.v1",
        partition: 7,
        offset: 42,
        group: "tollway.decode"
    )

    private func deadLetter(
        _ fault: Fault = Fault(code: "decode.not_json", message: "byte 7 is no JSON"),
        history: DeadLetter.History = .none
    ) -> DeadLetter {
        DeadLetter(
            fault: fault,
            worker: .decode,
            origin: Self.origin,
            failedAt: Timestamp(milliseconds: 1_800_000_000_123),
            history: history
        )
    }

    private func headers(_ deadLetter: DeadLetter) -> [String: String] {
        var arena: [UInt8] = []
        deadLetter.appendHeaders(to: &arena)
        let range = ByteRange(start: 0, count: arena.count)
        return Dictionary(
            HeaderList.entries(in: range, of: arena).map { name, value in
                (name, String(decoding: arena[value.indices], as: UTF8.self))
            },
            uniquingKeysWith: { first, _ in first }
        )
    }

    /// Topics that take larger records than Kafka's default have dead letters to match.
    @Test(arguments: [
        (1_048_588, 1_048_500, true),
        (1_048_588, 3_000_000, false), (3_100_000, 3_000_000, true),
    ])
    func `is whole, up to the largest record of its source`(
        topicByteCountMax: Int,
        valueByteCount: Int,
        isWhole: Bool
    ) {
        var batch = RecordBatch()
        batch.arena = [UInt8](repeating: 7, count: valueByteCount)
        batch.records = [
            RecordBatch.Record(
                topic: 0,
                partition: 0,
                offset: 42,
                timestampMilliseconds: 1,
                key: .absent,
                value: ByteRange(start: 0, count: valueByteCount),
                headers: ByteRange(start: 0, count: 0)
            )
        ]
        var limits = WorkerLoop.Limits()
        limits.setDeadLetters(toTopicOf: topicByteCountMax + TopicShape.deadLetterByteCountMore)
        var plan = BatchPlan(
            outputs: OutputBatch(),
            state: StagedState(),
            now: Timestamp(milliseconds: 1)
        )
        plan.conclude(.deadLetter(Fault(code: "decode.too_long", message: "long")))
        CommitPlan.enact(
            &plan,
            on: batch,
            from: 0,
            context: CommitPlan.Context(
                worker: .decode,
                group: "tollway.decode",
                sources: ["tollway.tokens.received.v1"],
                deadLetterTopicIndex: 2,
                recordByteCountMax: limits.outputRecordByteCountMax,
                deadLetterByteCountMax: limits.deadLetterByteCountMax,
                now: plan.now
            )
        )
        let values = plan.outputs.outputs.map { plan.outputs.arena[$0.value.indices] }
        #expect(values == [isWhole ? batch.arena[...] : []])
    }

    @Test func `says where it came from, why and when`() {
        let headers = headers(deadLetter())
        #expect(headers["__dlq.errors.topic"] == "tollway.tokens.received.v1")
        #expect(headers["__dlq.errors.partition"] == "7")
        #expect(headers["__dlq.errors.offset"] == "42")
        #expect(headers["__dlq.errors.group"] == "tollway.decode")
        #expect(headers["__dlq.errors.delivery.count"] == "1")
        #expect(headers["__dlq.errors.message"] == "byte 7 is no JSON")
        #expect(headers["tollway.dlq.code"] == "decode.not_json")
        #expect(headers["tollway.dlq.reason"] == "not_json")
        #expect(headers["tollway.dlq.stage"] == "decode")
        #expect(headers["tollway.dlq.worker"] == "tollway-decode")
        #expect(headers["tollway.dlq.failed_at"] == "2027-01-15T08:00:00.123Z")
        #expect(headers["tollway.dlq.first_failed_at"] == headers["tollway.dlq.failed_at"])
        #expect(headers["tollway.dlq.replay_count"] == "0")
        #expect(headers["tollway.dlq.replay_id"] == nil)
    }

    @Test func `counts on where an earlier failure left off`() {
        let headers = headers(
            deadLetter(
                history: DeadLetter.History(
                    firstFailedAt: "2027-01-01T00:00:00.000Z",
                    attempts: 2,
                    replayCount: 1,
                    replayID: "r-1"
                )
            )
        )
        #expect(headers["tollway.dlq.first_failed_at"] == "2027-01-01T00:00:00.000Z")
        #expect(headers["tollway.dlq.attempts"] == "3")
        #expect(headers["tollway.dlq.replay_count"] == "1")
        #expect(headers["tollway.dlq.replay_id"] == "r-1")
    }

    @Test func `keeps its headers within 4 KiB, on a character, however long the sentence`() {
        let fault = Fault(code: "decode.not_json", message: String(repeating: "ä", count: 5_000))
        var arena: [UInt8] = []
        deadLetter(fault).appendHeaders(to: &arena)
        #expect(arena.count <= DeadLetter.headerByteCountMax)
        let message = headers(deadLetter(fault))["__dlq.errors.message"]
        #expect(message?.hasSuffix("ä…") == true)
    }

    @Test(arguments: [
        ("byte 7 is no JSON", "byte 12 is no JSON", true),
        ("byte 7 is no JSON", "field 7 is no JSON", false),
    ])
    func `is grouped with its like whatever the numbers`(one: String, other: String, alike: Bool) {
        let prints = [one, other].map {
            deadLetter(Fault(code: "decode.not_json", message: $0)).fingerprint
        }
        #expect((prints[0] == prints[1]) == alike)
        #expect(prints.allSatisfy { $0.count == 16 })
    }

    @Test func `takes no history from headers that it cannot have written`() {
        var arena: [UInt8] = []
        let long = String(repeating: "9", count: 5_000)
        HeaderList.append(name: "tollway.dlq.replay_id".utf8, value: long.utf8, to: &arena)
        HeaderList.append(name: "tollway.dlq.first_failed_at".utf8, value: long.utf8, to: &arena)
        HeaderList.append(
            name: "tollway.dlq.attempts".utf8,
            value: String(Int.max).utf8,
            to: &arena
        )
        let range = ByteRange(start: 0, count: arena.count)
        let history = DeadLetter.History(headers: range, of: arena)
        #expect(history.replayID == nil && history.firstFailedAt == nil)
        #expect(headers(deadLetter(history: history))["tollway.dlq.attempts"] == "1000001")
    }

    @Test func `keeps the record's own headers and drops earlier diagnostics`() {
        var arena: [UInt8] = Array("keyvalue".utf8)
        let start = arena.count
        HeaderList.append(name: "traceparent".utf8, value: "00-1".utf8, to: &arena)
        HeaderList.append(name: "tollway.dlq.code".utf8, value: "old".utf8, to: &arena)
        HeaderList.append(name: "null".utf8, value: [UInt8]?.none, to: &arena)
        // No text: its bytes stay what they are, and as many.
        let binary = [UInt8](repeating: 0xff, count: 1_000)
        HeaderList.append(name: binary, value: binary, to: &arena)
        let range = ByteRange(start: start, count: arena.count - start)
        var outputs = OutputBatch()
        outputs.append(
            deadLetter(),
            topic: 3,
            key: arena[0..<3],
            value: arena[3..<8],
            businessHeaders: range,
            of: arena
        )
        let output = outputs.outputs[0]
        let entries = HeaderList.entries(in: output.headers, of: outputs.arena)
        #expect(output.topic == 3)
        #expect(Array(outputs.arena[output.key.indices]) == Array("key".utf8))
        #expect(Array(outputs.arena[output.value.indices]) == Array("value".utf8))
        #expect(entries.first?.name == "traceparent")
        var names: [[UInt8]] = []
        var cursor = HeaderCursor(output.headers)
        while let (name, _) = cursor.next(in: outputs.arena.span) {
            names.append(Array(outputs.arena[name.indices]))
        }
        #expect(names.contains(binary))
        #expect(entries.contains { $0.name == "null" && $0.value.isAbsent })
        #expect(entries.count { $0.name == "tollway.dlq.code" } == 1)
    }
}
