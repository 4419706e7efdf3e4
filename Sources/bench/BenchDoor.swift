internal import Foundation
internal import Kafka
internal import TokenDomain

/// Ingest in turn with the bare server, under the same load; and the whole chain behind it.
struct BenchDoor {
    private static let warmRequestCountMax = 200
    private static let loadSeconds = 300
    private static let serverName = "bare-server"
    private static let loadName = "load"
    static let batchTokenCount = 100
    /// A request for each token costs some thirty times as much as a line in a batch.
    private static let recordsPerSingle = 10

    let world: BenchWorld
    let recordCount: Int
    let runCount: Int
    let connectionCount: Int

    private struct Load: Decodable {
        var accepted: Int
        var refused: Int
        var microseconds: Int
    }

    /// Posts of so many tokens, to ingest and to the bare server alternately.
    ///
    /// Numbers of tokens go on where the measure before this one ended.
    func measure(tokensPerRequest: Int, firstNumber: inout Int) throws -> BenchRow {
        let received = world.topic(.tokensReceived)
        let bare = "\(world.prefix)bench.bare.\(tokensPerRequest)"
        try world.makeTopic(bare)
        let check = BenchCheck(world: world)
        let isSingle = tokensPerRequest == 1
        var row = BenchRow(
            measure: isSingle ? "ingest, single tokens" : "ingest, batches of \(tokensPerRequest)",
            own: BenchSeries(program: Worker.ingest.rawValue),
            beside: [BenchSeries(program: "bare server")]
        )
        row.goals.ratio = 0.75
        row.goals.recordsPerSecond = isSingle ? nil : 100_000
        // What one token becomes, and a first warm run of each.
        let before = firstNumber == 0 ? BenchCheck.Sum() : try check.sum([received])
        let warm = warmTokenCount(tokensPerRequest)
        _ = try run(received, firstNumber..<firstNumber + warm, tokensPerRequest, recordBytes: nil)
        let after = try check.sum([received])
        let recordBytes = (after.byteCount - before.byteCount) / warm
        row.own.outputByteCount = Double(after.byteCount - before.byteCount) / Double(warm)
        _ = try run(
            bare,
            firstNumber..<firstNumber + warm,
            tokensPerRequest,
            recordBytes: recordBytes
        )
        firstNumber += warm
        let count =
            isSingle
            ? max(recordCount / Self.recordsPerSingle, 1) : recordCount * BenchWorld.fastRunFactor
        for number in 1...runCount {
            let numbers = firstNumber..<firstNumber + count
            // Each goes first every other time.
            for isOurs in number % 2 == 1 ? [true, false] : [false, true] {
                let sample = try run(
                    isOurs ? received : bare,
                    numbers,
                    tokensPerRequest,
                    recordBytes: isOurs ? nil : recordBytes
                )
                if isOurs {
                    row.own.samples.append(sample)
                } else {
                    row.beside[0].samples.append(sample)
                }
            }
            firstNumber = numbers.upperBound
            Console.say(row.lastSentence(number, of: runCount))
        }
        row.beside[0].outputByteCount = try check.sum([bare]).bytesPerRecord
        return row
    }

    private func warmTokenCount(_ tokensPerRequest: Int) -> Int {
        tokensPerRequest * min(Self.warmRequestCountMax, max(recordCount / tokensPerRequest, 1))
    }

    /// One run; each token is sent once, and each is one record more.
    private func run(
        _ topic: String,
        _ numbers: Range<Int>,
        _ tokensPerRequest: Int,
        recordBytes: Int?
    ) throws -> BenchSample {
        let file = try world.writeRequests(numbers, tokensPerRequest: tokensPerRequest)
        let name: String
        let port: Int
        if let recordBytes {
            name = Self.serverName
            let output = try world.start(
                .server,
                name: name,
                ["to=\(topic)", "bytes=\(recordBytes)"]
            )
            let line = BenchPrograms.firstLine(of: output)
            guard let number = Int(line) else {
                throw BenchFailure(code: "bench.start", "the bare server: \(line)")
            }
            port = number
        } else {
            name = Worker.ingest.rawValue
            port = try world.start(.ingest)
            try world.awaitReady(.ingest)
        }
        defer { world.stop(name) }
        let countBefore = try world.endCount(topic)
        let cpuBefore = world.cpuSeconds(name)
        let load = try load(file, port: port)
        let sample = BenchSample(
            recordCount: numbers.count,
            seconds: Double(load.microseconds) / 1e6,
            cpuSeconds: world.cpuSeconds(name) - cpuBefore,
            peakByteCount: world.peakByteCount(name)
        )
        let count = try world.endCount(topic) - countBefore
        // What was sent again after a 503 may be stored twice, never less than once.
        guard load.refused == 0 ? count == numbers.count : count >= numbers.count else {
            throw world.lost("\(topic) took \(count) of \(numbers.count) tokens")
        }
        return sample
    }

    private func load(_ file: String, port: Int) throws -> Load {
        let output = try world.start(
            .load,
            name: Self.loadName,
            [
                "file=\(file)", "port=\(port)", "connections=\(connectionCount)",
                "seconds=\(Self.loadSeconds)",
            ]
        )
        let line = BenchPrograms.firstLine(of: output)
        try world.awaitEnd(Self.loadName)
        return try JSONDecoder().decode(Load.self, from: Data(line.utf8))
    }

    // MARK: - The chain

    /// Ingest, decode and dedupe at once: from the first byte posted until the last token is distinct
    /// and committed.
    func chain() throws -> BenchRow {
        let workers = [Worker.ingest, .decode, .dedupe]
        let names = workers.map(\.rawValue)
        var port = 0
        for worker in workers {
            let door = try world.start(worker)
            port = worker == .ingest ? door : port
        }
        defer { names.forEach(world.stop) }
        for worker in workers {
            try world.awaitReady(worker)
        }
        var row = BenchRow(
            measure: "chain, batches of \(Self.batchTokenCount)",
            own: BenchSeries(program: names.joined(separator: ", "))
        )
        let decoded = world.topic(.tokensDecoded)
        var sent = 0
        for number in 0...runCount {
            // The first one warms the programs.
            let count = number == 0 ? warmTokenCount(Self.batchTokenCount) : recordCount
            let sample = try runChain(sent..<sent + count, port: port, names, decoded)
            sent += count
            guard number > 0 else {
                continue
            }
            row.own.samples.append(sample)
            Console.say(row.lastSentence(number, of: runCount))
        }
        row.peaks = names.map { .init(program: $0, byteCount: world.peakByteCount($0)) }
        let check = BenchCheck(world: world)
        let distinct = world.topic(.tokensDistinct)
        row.own.outputByteCount = try check.sum([distinct]).bytesPerRecord
        try check.expectEachOnce(0..<sent, in: distinct)
        return row
    }

    private func runChain(
        _ numbers: Range<Int>,
        port: Int,
        _ names: [String],
        _ decoded: String
    ) throws -> BenchSample {
        let file = try world.writeRequests(numbers, tokensPerRequest: Self.batchTokenCount)
        let cpu = names.reduce(0) { $0 + world.cpuSeconds($1) }
        let start = ContinuousClock.now
        let load = try load(file, port: port)
        guard load.refused == 0 else {
            throw world.lost("the door refused \(load.refused) requests: fewer connections?")
        }
        try world.awaitDeduped(numbers.upperBound, topic: decoded)
        return BenchSample(
            recordCount: numbers.count,
            seconds: BenchWorld.seconds(since: start),
            cpuSeconds: names.reduce(0) { $0 + world.cpuSeconds($1) } - cpu,
            peakByteCount: names.map(world.peakByteCount).max() ?? 0
        )
    }
}
