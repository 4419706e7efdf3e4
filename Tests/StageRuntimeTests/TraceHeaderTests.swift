import Kafka
import Simulation
import Testing
import TokenDomain

@testable import StageRuntime

@Suite struct `The trace of a record` {
    private static let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    private static let topic = "tollway.tokens.received.v1"

    /// One record with these headers, judged; what goes out of it, by header name.
    private func outputs(
        _ verdict: Verdict,
        headers: [(String, String?)],
        outputCount: Int = 0
    ) -> [[String: [String]]] {
        var batch = RecordBatch()
        let start = batch.arena.count
        for (name, value) in headers {
            HeaderList.append(name: name.utf8, value: value?.utf8, to: &batch.arena)
        }
        batch.records = [
            RecordBatch.Record(
                topic: 0,
                partition: 3,
                offset: 42,
                timestampMilliseconds: 1,
                key: .absent,
                value: .absent,
                headers: ByteRange(start: start, count: batch.arena.count - start)
            )
        ]
        var outputs = OutputBatch()
        for _ in 0..<outputCount {
            let value = outputs.place([1])
            outputs.outputs.append(OutputBatch.Output(topic: 0, key: .absent, value: value))
        }
        var plan = BatchPlan(
            outputs: outputs,
            state: StagedState(),
            now: Timestamp(milliseconds: 1)
        )
        plan.conclude(verdict)
        CommitPlan.enact(
            &plan,
            on: batch,
            from: 0,
            context: CommitPlan.Context(
                worker: .decode,
                group: "tollway.decode",
                sources: [Self.topic],
                deadLetterTopicIndex: 2,
                recordByteCountMax: 1_000,
                deadLetterByteCountMax: 10_000,
                now: Timestamp(milliseconds: 1)
            )
        )
        outputs = plan.outputs
        return outputs.outputs.map { output in
            HeaderList.entries(in: output.headers, of: outputs.arena).reduce(into: [:]) {
                $0[$1.name, default: []].append(
                    String(decoding: outputs.arena[$1.value.indices], as: UTF8.self)
                )
            }
        }
    }

    private static let fault = Fault(code: "decode.not_json", message: "no JSON")

    @Test(
        arguments: [
            ([("traceparent", trace)], trace),
            ([("other", "x"), ("traceparent", trace), ("traceparent", "later")], trace),
            ([("traceparent", "00-nonsense")], nil), ([], nil), ([("Traceparent", trace)], nil),
            ([("traceparentt", trace)], nil),
        ] as [([(String, String?)], String?)]
    )
    func `goes out as it came in, and is not made where there is none`(
        headers: [(String, String?)],
        trace: String?
    ) {
        let expected = trace.map { ["traceparent": [$0]] } ?? [:]
        let forwarded = outputs(.forward(outputCount: 2), headers: headers, outputCount: 2)
        #expect(forwarded == [expected, expected])
        let deadLetters = outputs(.deadLetter(Self.fault), headers: headers)
        // A dead letter keeps what its record carries, valid or not.
        #expect(deadLetters.map { $0["traceparent"]?[0] } == [trace ?? headers.carried])
        let both = outputs(
            .deadLetter(Self.fault, outputCount: 1),
            headers: headers,
            outputCount: 1
        )
        #expect(both.map { $0["traceparent"]?[0] } == [trace, trace ?? headers.carried])
    }

    @Test func `leaves a dead letter its other headers`() {
        let headers = [("shop", "eu"), ("traceparent", Self.trace), ("tollway.dlq.attempts", "1")]
        let deadLetter = outputs(.deadLetter(Self.fault), headers: headers)[0]
        #expect(deadLetter["shop"] == ["eu"])
        #expect(deadLetter["tollway.dlq.attempts"] == ["2"])
    }
}

extension [(String, String?)] {
    /// The first header of the name, whatever it says.
    fileprivate var carried: String? { first { $0.0 == "traceparent" }?.1 }
}
