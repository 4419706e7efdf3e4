import Foundation
import Kafka
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A stage that nobody runs` {
    private static let topic = "t.tokens.received.v1"

    @Test(
        arguments: [
            (0, "Empty", 0, 50, true, "nobody runs decode", true),
            (0, "Dead", 0, 0, true, "what comes next will wait", false),
            (0, "Dead", 0, 0, false, nil, false), (1, "Stable", 12, 50, true, nil, true),
            (2, "Stable", 9, 5, true, "leaves partitions unread", true),
            (2, "PreparingRebalance", 0, 5, true, nil, true),
        ] as [(Int, String, Int, Int64, Bool, String?, Bool)]
    )
    func `differs from one that is run, and from one with nothing to read`(
        memberCount: Int,
        state: String,
        assignedCount: Int,
        lag: Int64,
        hasRecords: Bool,
        part: String?,
        isWaitedFor: Bool
    ) throws {
        let unread = UnreadStage(
            .decode,
            group: "t.decode",
            StageReaders(
                state: state,
                memberCount: memberCount,
                assignedCounts: [Self.topic: assignedCount]
            ),
            [.init(topic: Self.topic, partitionCount: 12, lag: lag, hasRecords: hasRecords)]
        )
        guard let part else {
            return #expect(unread == nil)
        }
        let found = try #require(unread)
        #expect(found.sentence.contains(part), "\(found.sentence)")
        #expect(found.isWaitedFor == isWaitedFor && !found.repair.isEmpty)
    }

    /// Time makes due what a state holds: that nothing waits before the stage says little.
    @Test(
        arguments: [
            (.report, 0, true, ", and the reports that it owes are not sent"),
            (.report, 7, true, ", and the reports that it owes are not sent"),
            (.purchases, 0, true, ", and the sales that it holds are not reported"),
            (.dedupe, 0, false, "what comes next will wait"),
            (.notifications, 0, false, "what comes next will wait"),
        ] as [(Worker, Int64, Bool, String)]
    )
    func `is waited for where its state holds work, whatever its lag`(
        worker: Worker,
        lag: Int64,
        isWaitedFor: Bool,
        end: String
    ) throws {
        func unread(hasRecords: Bool, isCommitted: Bool = true) -> UnreadStage? {
            let source = UnreadStage.Source(
                topic: "t",
                partitionCount: 12,
                lag: lag,
                hasRecords: hasRecords,
                isCommitted: isCommitted
            )
            return UnreadStage(
                worker,
                group: "t.\(worker.rawValue)",
                StageReaders(state: "Empty", memberCount: 0),
                [source]
            )
        }
        let found = try #require(unread(hasRecords: true))
        #expect(found.isWaitedFor == isWaitedFor)
        #expect(found.sentence.hasSuffix(end), "\(found.sentence)")
        #expect(found.sentence.contains(lag > 0 ? "7 records wait in t" : "what comes next"))
        // Nothing ever came, or it never ran: it can owe nothing.
        #expect(unread(hasRecords: false) == nil)
        let never = try #require(unread(hasRecords: true, isCommitted: false))
        #expect(never.isWaitedFor == (lag > 0) && !never.sentence.contains(" that it "))
    }

    /// Tokens come in, and decode is stopped.
    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `is named by doctor, top and lag`() throws {
        let world = try DeadLetterWorld()
        let topic = Topic.tokensReceived.name(prefix: world.prefix)
        try write(50, to: topic, world)
        let doctor = try TollwayProcess.run(
            ["doctor", "--no-apple", "-o", "json"],
            environment: world.environment
        )
        #expect(doctor.exitCode == 1)
        let findings = try #require(try doctor.object()["findings"] as? [[String: Any]])
        let stages = findings.filter { $0["area"] as? String == "stages" }
        let told = stages.filter { $0["verdict"] as? String == "failed" }
        #expect(told.count == 1, "\(stages)")
        let sentence = try #require(told.first?["finding"] as? String)
        #expect(sentence.contains("nobody runs decode") && sentence.contains("50 records wait"))
        #expect((told.first?["repair"] as? String)?.contains("tollway-decode") == true)

        let top = try TollwayProcess.run(
            ["top", "-o", "json", "--interval", "500ms"],
            environment: world.environment
        )
        let snapshot = try top.object()
        let troubles = try #require(snapshot["troubles"] as? [String])
        #expect(troubles.contains { $0.contains("nobody runs decode") }, "\(troubles)")
        let rows = try #require(snapshot["stages"] as? [[String: Any]])
        let decode = try #require(rows.first { $0["worker"] as? String == "decode" })
        #expect(decode["members"] as? Int == 0 && decode["assigned"] as? Int == 0)
        let screen = try TollwayProcess.run(
            ["top", "--interval", "500ms"],
            environment: world.environment
        )
        #expect(screen.output.contains("! nobody runs decode"), "\(screen.output)")

        let lag = try TollwayProcess.run(
            ["lag", "--worker", "decode", "-o", "ndjson"],
            environment: world.environment
        )
        let row = try #require(try lag.objects().first)
        #expect(row["members"] as? Int == 0 && row["unassigned"] as? Int == 4)
        #expect(row["lag"] as? Int == 50 && row["groupState"] is String)
    }

    private func write(_ count: Int, to topic: String, _ world: DeadLetterWorld) throws {
        let producer = try KafkaProducer(settings: world.settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for _ in 0..<count {
            let value = outputs.place([UInt8(ascii: "x")])
            outputs.outputs.append(OutputBatch.Output(topic: 0, key: .absent, value: value))
        }
        try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }
}
