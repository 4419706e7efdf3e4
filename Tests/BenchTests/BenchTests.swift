import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import bench

@Suite struct `The tokens of a bench` {
    private static let now: Int64 = 1_790_000_000_000

    @Test(arguments: [0, 1, 2, 999_999, 1_000_000, 0xffff_ffff])
    func `are read by decode, and tell their number`(number: Int) throws {
        let tokens = BenchTokens(now: Self.now)
        var received = OutputBatch()
        tokens.appendReceived(number, to: &received)
        let record = try TokenReceived(
            reading: received.arena.span.extracting(received.outputs[0].value.indices)
        )
        let token = try decodeToken(Array(record.token.utf8).span)
        #expect(BenchTokens.apps.contains { $0.appAppleID == token.appAppleID })
        #expect(TokenPeriod(of: token) != nil)
        #expect(record.receivedAt == Timestamp(milliseconds: Self.now))
        let id = Array(token.externalPurchaseID.text.utf8)
        #expect(BenchTokens.number(ofID: id.span) == number)
        #expect(received.outputs[0].headers.count == 0)

        var decoded = OutputBatch()
        tokens.appendDecoded(number, to: &decoded)
        let value = decoded.arena.span.extracting(decoded.outputs[0].value.indices)
        #expect(try TokenDecoded(reading: value).token == token)
        #expect(
            Array(decoded.arena[decoded.outputs[0].key.indices])
                == Array(received.arena[received.outputs[0].key.indices])
        )
    }

    @Test func `are mixed as apps mix them`() throws {
        let tokens = BenchTokens(now: Self.now)
        let count = 3_000
        var texts: [String] = []
        for number in 0..<count {
            var outputs = OutputBatch()
            tokens.appendReceived(number, to: &outputs)
            texts.append(String(decoding: outputs.arena, as: UTF8.self))
        }
        func share(_ isOne: (String) -> Bool) -> Double {
            Double(texts.filter(isOne).count) / Double(count)
        }
        #expect(abs(share { $0.contains("{\"token\": ") } - 0.2) < 0.05)
        #expect(abs(share { $0.contains("=\"") } - 0.5) < 0.05)
        #expect(abs(share { $0.contains("\"link\"") } - 0.33) < 0.05)
        let apps = try texts.map { text in
            let record = try TokenReceived(reading: Array(text.utf8).span)
            let token = try decodeToken(Array(record.token.utf8).span)
            if let bundleID = record.bundleID {
                #expect(bundleID == token.bundleID)
            }
            return token.appAppleID
        }
        for app in BenchTokens.apps {
            let found = apps.filter { $0 == app.appAppleID }.count
            #expect(abs(Double(found) / Double(count) - 0.33) < 0.05)
        }
    }

    @Test func `are the same for a seed, and others for another`() {
        func value(_ seed: UInt64) -> [UInt8] {
            var outputs = OutputBatch()
            BenchTokens(now: Self.now, seed: seed).appendReceived(7, to: &outputs)
            return outputs.arena
        }
        #expect(value(1) == value(1))
        #expect(value(1) != value(2))
    }

    @Test func `told apart are read by report, of every lane`() throws {
        let tokens = BenchTokens(now: Self.now)
        var lanes: [Lane: Int] = [:]
        for number in 0..<2_000 {
            var outputs = OutputBatch()
            tokens.appendDistinct(number, of: BenchTokens.apps, to: &outputs)
            let value = outputs.arena.span.extracting(outputs.outputs[0].value.indices)
            let distinct = try TokenDistinct(reading: value)
            #expect(distinct.role == .primary)
            #expect(
                outputs.arena[outputs.outputs[0].key.indices]
                    .elementsEqual(distinct.externalPurchaseID.text.utf8)
            )
            let lane = Lane(
                appAppleID: try #require(distinct.appAppleID),
                environment: distinct.externalPurchaseID.environment
            )
            lanes[lane, default: 0] += 1
        }
        #expect(lanes.count == 6)
        let sandbox = lanes.filter { $0.key.environment == .sandbox }.values.reduce(0, +)
        #expect(abs(Double(sandbox) / 2_000 - 0.25) < 0.05)
    }

    private func value(_ number: Int, _ kind: String) -> [UInt8] {
        let tokens = BenchTokens(now: Self.now)
        var outputs = OutputBatch()
        switch kind {
        case "received": tokens.appendReceived(number, to: &outputs)
        case "distinct": tokens.appendDistinct(number, of: BenchTokens.apps, to: &outputs)
        default: tokens.appendDecoded(number, to: &outputs)
        }
        return Array(outputs.arena[outputs.outputs[0].value.indices])
    }

    @Test(arguments: [
        ([5, 6, 7], nil as String?),
        ([7, 6, 5], nil),
        ([5, 7], "has 2 of the 3 sent"),
        ([5, 6, 7, 6], "has number 6 twice"),
        ([5, 6, 7, 8], "has 1 records that nobody sent"),
        ([], "has 0 of the 3 sent"),
    ])
    func `are missed when one is lost, doubled or strange`(numbers: [Int], fault: String?) {
        for kind in ["received", "decoded", "distinct"] {
            var tally = BenchTally(5..<8)
            for number in numbers {
                tally.note(value(number, kind).span)
            }
            #expect(tally.fault == fault, "\(kind)")
        }
        var tally = BenchTally(5..<6)
        tally.note(Array("{\"no\":\"token\"}".utf8).span)
        #expect(tally.fault == "has 1 records that nobody sent")
    }

    @Test(arguments: [
        ([5, 7], nil as String?),
        ([5], "has 1 of the 2 sent"),
        ([5, 7, 7], "has number 7 twice"),
        ([5, 7, 9], "has 1 records that nobody sent"),
    ])
    func `are missed where fewer came than are owed so far`(numbers: [Int], fault: String?) {
        var tally = BenchTally(5..<8)
        for number in numbers {
            tally.note(value(number, "distinct").span)
        }
        #expect(tally.fault(seenCountMin: 2) == fault)
    }
}

@Suite struct `What a bench fills` {
    @Test func `is named on the command line as in its help`() {
        let named = BenchFill.help.matches(of: /\[([a-z-]+)=N\]/).map { String($0.1) }
        #expect(named.count == BenchFillRecords.Part.allCases.count + 1)
        for name in named where name != "days" {
            #expect(BenchFillRecords.Part(rawValue: name) != nil, "\(name)")
        }
        #expect(BenchFill.names == Set(named))
    }
}

@Suite struct `The report of a bench` {
    private func sample(_ perSecond: Double, cpu: Double = 1, peak: Int = 1, start: Double? = nil)
        -> BenchSample
    {
        BenchSample(
            recordCount: Int(perSecond * 2),
            seconds: 2,
            cpuSeconds: cpu,
            peakByteCount: peak,
            startSeconds: start
        )
    }

    @Test(
        arguments: [
            ([], 0), ([3], 3), ([9, 1], 5), ([9, 1, 4], 4), ([1, 2, 100, 3], 2.5),
        ] as [([Double], Double)]
    )
    func `takes medians`(values: [Double], median: Double) {
        #expect(BenchRow.median(values) == median)
    }

    private func row(
        _ measure: String,
        _ samples: [BenchSample],
        beside: [BenchSample]? = nil
    ) -> BenchRow {
        BenchRow(
            measure: measure,
            own: BenchSeries(program: measure, samples: samples),
            beside: beside.map { [BenchSeries(program: "copy loop", samples: $0)] } ?? []
        )
    }

    @Test func `compares pair by pair, not median by median`() {
        // The machine was busy in the second pair: both halves of it are slow.
        let row = row(
            "decode",
            [sample(200), sample(20), sample(220)],
            beside: [sample(100), sample(10), sample(400)]
        )
        #expect(row.ratio(to: row.beside[0]) == 2)
        #expect(row.own.recordsPerSecond == 200)
        #expect(row.beside[0].recordsPerSecond == 100)
    }

    @Test func `has no ratio where runs were too short to be timed`() {
        let nothing = BenchSample(recordCount: 0, seconds: 0, cpuSeconds: 0, peakByteCount: 1)
        let row = row("decode", [nothing, sample(100)], beside: [sample(80), nothing])
        #expect(row.ratio(to: row.beside[0]) == nil)
        #expect(nothing.recordsPerSecond == 0)
        #expect(BenchReport.text([row], cluster: "a cluster", format: .table).contains(" - "))
    }

    @Test func `takes no run that was too short to be timed for a result`() {
        let nothing = BenchSample(recordCount: 0, seconds: 0, cpuSeconds: 1, peakByteCount: 1)
        var row = row("decode", [nothing, sample(100), nothing])
        #expect(row.own.recordsPerSecond == 100)
        #expect(row.own.cpuMicroseconds == 5_000)
        row.goals = BenchRow.Goals(cpuMicroseconds: 9_000)
        #expect(row.misses.isEmpty)
        row.own.samples = [nothing]
        row.goals = BenchRow.Goals(cpuMicroseconds: 2_000_000)
        #expect(row.misses == ["nothing was timed"])
    }

    @Test func `says each goal that is missed`() {
        var row = row(
            "dedupe",
            [sample(50, cpu: 0.001, peak: 129_000_001, start: 0.5)],
            beside: [sample(100, start: 0.25)]
        )
        #expect(row.misses.isEmpty)
        row.goals = BenchRow.Goals(
            ratio: 0.6,
            recordsPerSecond: 51,
            cpuMicroseconds: 9,
            peakByteCount: 128_000_000,
            startDelaySeconds: 0.2
        )
        #expect(
            row.misses == [
                "ratio 0.50 of 0.60", "50 of 51 a second", "10.00 of 9.00 us of processor a record",
                "130 MB, over 128", "first output 0.25 s later",
            ]
        )
        row.goals = BenchRow.Goals(
            ratio: 0.5,
            recordsPerSecond: 50,
            cpuMicroseconds: 10,
            peakByteCount: 129_000_001,
            startDelaySeconds: 0.25
        )
        #expect(row.misses.isEmpty)
    }

    @Test func `is a table for a person and JSON for a program`() throws {
        var decode = row("decode", [sample(100, cpu: 0.001)], beside: [sample(80)])
        decode.goals.ratio = 2
        let chain = row("chain", [sample(7)])
        let table = BenchReport.text([decode, chain], cluster: "a cluster", format: .table)
        let lines = table.split(separator: "\n")
        #expect(lines.count == 5)
        #expect(lines[1].hasSuffix("missed: ratio 1.25 of 2.00"))
        #expect(lines[2].hasPrefix("  beside: copy loop "))
        #expect(lines[3].hasPrefix("chain "))
        let json = BenchReport.text([decode, chain], cluster: "a cluster", format: .json)
        let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
        let measures = try #require(object?["measures"] as? [[String: Any]])
        #expect(measures.count == 2)
        let beside = try #require(measures[0]["beside"] as? [[String: Any]])
        #expect(beside.map { $0["ratio"] as? Double } == [1.25])
        #expect(measures[0]["cpuMicrosecondsPerRecord"] as? Double == 5)
        #expect(measures[0]["missed"] as? [String] == ["ratio 1.25 of 2.00"])
        #expect((measures[0]["runs"] as? [[String: Any]])?.first?["records"] as? Int == 200)
        #expect((measures[1]["beside"] as? [Any])?.isEmpty == true)
    }

    @Test(arguments: [
        (0.0, 2, "0.00"), (1.25, 2, "1.25"), (0.999, 2, "1.00"), (12.3456, 3, "12.346"),
        (99.5, 0, "100"), (-0.5, 1, "-0.5"),
    ])
    func `writes numbers the same everywhere`(value: Double, digitCount: Int, text: String) {
        #expect(BenchRow.decimal(value, digitCount) == text)
    }
}

@Suite struct `The report of a scale` {
    private func point(_ stored: Int, cost: Double) -> BenchScale.Point {
        var point = BenchScale.Point(storedCount: stored, instanceCount: 1)
        point.cpuMicroseconds = [.decode: 2, .dedupe: cost - 2]
        point.kafkaByteCount = ["a": 100, "b": 20]
        return point
    }

    @Test(arguments: [(10, "flat"), (11.4, "flat"), (11.6, "grows"), (8.6, "flat"), (8.4, "falls")])
    func `calls a cost flat that differs little from the first`(cost: Double, verdict: String) {
        let points = [point(10, cost: 10), point(20, cost: cost)]
        let table = BenchScaleReport.text(points, cluster: "a cluster", format: .table)
        let lines = table.split(separator: "\n")
        #expect(lines.count == 5)
        #expect(lines[2].hasSuffix(verdict))
        #expect(lines[3].hasSuffix("a 100, b 20"))
    }

    @Test func `is JSON for a program`() throws {
        let json = BenchScaleReport.text([point(10, cost: 10)], cluster: "c", format: .json)
        let object = try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any]
        let points = try #require(object?["points"] as? [[String: Any]])
        #expect(points[0]["dedupeMicroseconds"] as? Double == 8)
        #expect(points[0]["kafkaBytesPerToken"] as? [String: Double] == ["a": 100, "b": 20])
    }

    @Test func `weighs the files of a folder`() throws {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-test-\(UUID().uuidString)")
        let inner = folder.appendingPathComponent("inner")
        try FileManager.default.createDirectory(at: inner, withIntermediateDirectories: true)
        defer {
            do {
                try FileManager.default.removeItem(at: folder)
            } catch {
                Issue.record(error)
            }
        }
        try Data(count: 10).write(to: folder.appendingPathComponent("0.log"))
        try Data(count: 100).write(to: inner.appendingPathComponent("0.index"))
        #expect(try BenchScale.byteCount(under: folder) == 110)
        #expect(try BenchScale.byteCount(under: folder, suffix: ".log") == 10)
        #expect(try BenchScale.byteCount(under: inner.appendingPathComponent("none")) == 0)
    }
}

@Suite struct `tollway-bench` {
    private struct Run {
        var exitCode: Int32
        var output: String
        var talk: String
    }

    /// Runs the built program; output goes through files, so that no pipe can fill up.
    private func run(
        _ arguments: [String],
        environment: [String: String] = ["PATH": "/usr/bin:/bin"]
    ) throws -> Run {
        let folder = FileManager.default.temporaryDirectory
            .appendingPathComponent("tollway-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer {
            do {
                try FileManager.default.removeItem(at: folder)
            } catch {
                Issue.record(error)
            }
        }
        let process = Process()
        process.executableURL = try #require(Bundle.main.executableURL)
            .deletingLastPathComponent().appendingPathComponent("tollway-bench")
        process.arguments = arguments
        process.environment = environment
        let files = try ["out", "err"].map { name in
            let file = folder.appendingPathComponent(name)
            try Data().write(to: file)
            return file
        }
        process.standardOutput = try FileHandle(forWritingTo: files[0])
        process.standardError = try FileHandle(forWritingTo: files[1])
        try process.run()
        process.waitUntilExit()
        let texts = try files.map { String(decoding: try Data(contentsOf: $0), as: UTF8.self) }
        return Run(exitCode: process.terminationStatus, output: texts[0], talk: texts[1])
    }

    @Test(arguments: [
        ([], "usage.no_kafka"),
        (["--only", "decode,pork"], "usage.bad_value"),
        (["--runs", "0"], "usage.bad_value"),
        (["--records", "99"], "usage.bad_value"),
        (["--records"], "usage.missing_value"),
        (["--scale", "--keys", "9999"], "usage.bad_value"),
        (["drain", "x"], "usage.unknown_option"),
        (["copy", "colour=blue"], "usage.bad_value"),
        (["copy", "from"], "usage.bad_value"),
    ])
    func `says what it cannot do`(arguments: [String], code: String) throws {
        let run = try run(arguments)
        #expect(run.exitCode == 2)
        #expect(run.talk.contains("(\(code))"))
    }

    @Test func `ends a part that cannot work with a sentence`() throws {
        let load = try run(["load", "file=/nowhere", "connections=1"])
        #expect(load.exitCode == 1)
        #expect(load.talk.contains("/nowhere"))
        let reports = try run(["reports", "url=https://127.0.0.1:1", "count=1", "connections=1"])
        #expect(reports.exitCode == 1)
        #expect(reports.talk.contains("a report"))
        let apple = try run(["apple", "file=/nowhere/arrivals"])
        #expect(apple.exitCode == 1)
        #expect(apple.talk.contains("/nowhere/arrivals"))
        let copy = try run(["copy", "group=g", "kafka.no.such=1"])
        #expect(copy.exitCode == 1)
        #expect(copy.talk.contains("no.such"))
    }

    @Test(.enabled(if: LocalCluster.homeFromEnvironment != nil, "KAFKA_HOME has no Kafka"))
    func `shows what a token costs one instance and several`() throws {
        let environment = ProcessInfo.processInfo.environment
            .filter { ["KAFKA_HOME", "JAVA_HOME", "PATH"].contains($0.key) }
        let run = try run(
            ["--scale", "--records", "1000", "--keys", "10000", "-o", "json"],
            environment: environment
        )
        #expect(run.exitCode == 0, "\(run.output) \(run.talk)")
        let object = try JSONSerialization.jsonObject(with: Data(run.output.utf8))
        let points = try #require((object as? [String: Any])?["points"] as? [[String: Any]])
        #expect(points.map { $0["instances"] as? Int } == [1, 3, 6])
        // 10,000 that the state was grown by, then for each line the warm-up and what is measured.
        #expect(points.map { $0["stored"] as? Int } == [10_000, 21_000, 32_000])
        for point in points {
            let kafka = try #require(point["kafkaBytesPerToken"] as? [String: Double])
            #expect(kafka.count == 4 && kafka.values.allSatisfy { $0 > 50 })
            #expect(try #require(point["stateBytesPerToken"] as? Double) > 30)
        }
    }

    /// The programs themselves, on a real Kafka: everything sent is counted again, so a pass is a
    /// proof of counts and none of speed.
    @Test(.enabled(if: LocalCluster.homeFromEnvironment != nil, "KAFKA_HOME has no Kafka"))
    func `counts all that it sent`() throws {
        let environment = ProcessInfo.processInfo.environment
            .filter { ["KAFKA_HOME", "JAVA_HOME", "PATH"].contains($0.key) }
        let run = try run(
            ["--records", "2000", "--keys", "5000", "--runs", "2", "-o", "json"],
            environment: environment
        )
        #expect(run.exitCode == 0, "\(run.output) \(run.talk)")
        let object = try JSONSerialization.jsonObject(with: Data(run.output.utf8))
        let measures = try #require((object as? [String: Any])?["measures"] as? [[String: Any]])
        #expect(
            measures.map { $0["measure"] as? String } == [
                "ingest, single tokens", "ingest, single tokens beside 10000 idle connections",
                "ingest, batches of 100 tokens",
                "ingest, batches of 100 sales", "decode", "dedupe at 5000 keys",
                "notifications: signatures", "report, HTTP/2",
                "purchases at 5000 sales, 10 a customer",
                "purchases at 5000 sales, 10000 a customer", "chain, batches of 100",
            ]
        )
        for measure in measures {
            let beside = try #require(measure["beside"] as? [[String: Any]])
            for other in beside where other["program"] as? String != "plain loop" {
                // libcurl alone writes nothing to Kafka.
                if (other["program"] as? String)?.hasPrefix("libcurl") == true {
                    continue
                }
                let ours = try #require(measure["outputBytesPerRecord"] as? Double)
                let yardstick = try #require(other["outputBytesPerRecord"] as? Double)
                #expect(abs(ours - yardstick) < 2, "\(measure["measure"] ?? "")")
            }
        }
    }
}
