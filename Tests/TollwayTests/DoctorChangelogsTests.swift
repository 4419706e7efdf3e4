import Foundation
import Kafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `A changelog that is empty` {
    @Test(
        arguments: [
            (DoctorChangelogs.Empty(), []),
            (DoctorChangelogs.Empty(lost: [0, 3]), [.failed]),
            (DoctorChangelogs.Empty(doubtful: [1]), [.warning]),
            (DoctorChangelogs.Empty(lost: [0], doubtful: [1]), [.failed, .warning]),
        ] as [(DoctorChangelogs.Empty, [DoctorFinding.Verdict])]
    )
    func `is a failure where a state is known to be lost, and else a warning`(
        empty: DoctorChangelogs.Empty,
        verdicts: [DoctorFinding.Verdict]
    ) {
        let findings = DoctorChangelogs.findings(
            empty,
            "t.report.state.v1",
            .report,
            prefix: "t."
        )
        #expect(findings.map(\.verdict) == verdicts)
        for finding in findings {
            #expect(finding.area == .topics)
            #expect(finding.sentence.contains("t.report.state.v1 is empty in"))
            #expect(finding.repair?.contains("keep every STATE_DIR") == true)
            #expect(finding.repair?.contains("A changelog was deleted, or made anew") == true)
            // It is cut off behind this.
            #expect(finding.sentence.count <= 400)
        }
        if !empty.lost.isEmpty, let first = findings.first {
            let count = empty.lost.count == 1 ? "1 partition (0)" : "2 partitions (0, 3)"
            #expect(first.sentence.contains(count), "\(first.sentence)")
        }
    }

    /// Goal: a changelog that was made anew is told from one that nothing was ever written to.
    ///
    /// Method: groups that have read a token in one partition and what is no token in another, beside
    /// empty changelogs; then a value in the changelog.
    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `is told from one that never had anything`() throws {
        let world = try DeadLetterWorld(partitionCount: 3)
        let configuration = try Configuration(environment: world.environment, program: .tollway)
        let admin = try world.openAdmin()
        defer { admin.close() }
        let doctor = DoctorChangelogs(
            configuration: configuration,
            there: Set(Topic.all.map { $0.name(prefix: world.prefix) })
        )
        #expect(doctor.findings(admin).isEmpty)

        let topics: [Topic] = [.tokensDistinct, .tokensDecoded, .reportState, .dedupeState]
        let names = topics.map { $0.name(prefix: world.prefix) }
        let producer = try KafkaProducer(settings: world.settings, targets: names)
        defer { producer.close(deadlineMilliseconds: 1_000) }
        let records = AccountRecords(
            now: Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        )
        var distinct: [UInt8] = []
        records.distinct("t-1").write(to: &distinct)
        var decoded: [UInt8] = []
        records.decoded("t-1").write(to: &decoded)
        let noToken = Array("no token".utf8)
        func write(_ rows: [(topic: Int, partition: Int32, value: [UInt8])]) throws {
            var outputs = OutputBatch()
            for row in rows {
                let value = outputs.place(row.value)
                let key = outputs.place("t-1".utf8)
                outputs.outputs.append(
                    OutputBatch.Output(
                        topic: row.topic,
                        partition: row.partition,
                        key: key,
                        value: value
                    )
                )
            }
            try producer.produce(outputs, tags: rows.map { _ in 0 })
            try #require(producer.flush(deadlineMilliseconds: 20_000))
        }
        try write([(0, 0, distinct), (0, 1, noToken), (1, 2, noToken), (1, 2, decoded)])
        // They wait to be read.
        #expect(doctor.findings(admin).isEmpty)

        try admin.commit([0: 1, 1: 1], ofGroup: "\(world.prefix)report", topic: names[0])
        // Of the two there the group has read the first alone.
        try admin.commit([2: 1], ofGroup: "\(world.prefix)dedupe", topic: names[1])
        var findings = doctor.findings(admin)
        #expect(findings.map(\.verdict) == [.warning, .failed, .warning], "\(findings)")
        #expect(findings[0].sentence.contains("\(names[3]) is empty in 1 partition (2)"))
        #expect(findings[1].sentence.contains("\(names[2]) is empty in 1 partition (0)"))
        #expect(findings[2].sentence.contains("\(names[2]) is empty in 1 partition (1)"))

        try admin.commit([2: 2], ofGroup: "\(world.prefix)dedupe", topic: names[1])
        try write([(2, 0, noToken), (2, 1, noToken)])
        findings = doctor.findings(admin)
        #expect(findings.map(\.verdict) == [.failed], "\(findings)")
        #expect(findings.first?.sentence.contains(names[3]) == true)
    }
}
