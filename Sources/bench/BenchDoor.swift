internal import Foundation
internal import Kafka
internal import TokenDomain

/// Ingest in turn with what stands beside it, under the same load; and the whole chain behind it.
struct BenchDoor {
    private static let warmRequestCountMax = 200
    private static let loadSeconds = 300
    /// Of a customer's pseudonym.
    private static let keyByteCount = 46
    private static let serverName = "bare-server"
    private static let loadName = "load"
    private static let idleName = "idle"
    static let batchTokenCount = 100
    /// Connections that never say a word: ingest keeps 1,024 and closes the oldest of these first.
    static let idleCount = 10_000
    /// A request for each token costs some thirty times as much as a line in a batch.
    private static let recordsPerSingle = 10

    let world: BenchWorld
    let recordCount: Int
    let runCount: Int
    let connectionCount: Int
    /// Another build's programs, measured beside this one's; nil for none.
    var otherPrograms: URL?

    /// Who is posted to.
    private enum Contender {
        case ingest(isOther: Bool, idleCount: Int)
        /// The least that the same libraries could do.
        ///
        /// Without keys its records all go to one partition for a while, and then to another; those
        /// of ingest have keys and go to all partitions at once, in a request to Kafka for each.
        case bare(hasKeys: Bool)

        var name: String {
            switch self {
            case .ingest(isOther: false, idleCount: 0): "without idle connections"
            case .ingest(isOther: false, _): Worker.ingest.rawValue
            case .ingest(isOther: true, _): "other build"
            case .bare(hasKeys: false): "bare server"
            case .bare(hasKeys: true): "bare server with keys"
            }
        }
    }

    private struct Load: Decodable {
        var accepted: Int
        var refused: Int
        var microseconds: Int
        /// Microseconds to the answer: p50, p99, p99.9.
        var latency: [Int]
    }

    /// What is posted.
    enum Item {
        case token
        case sale(BenchSales)

        var name: String {
            switch self {
            case .token: "token"
            case .sale: "sale"
            }
        }

        var path: String {
            switch self {
            case .token: "/v1/tokens"
            case .sale: "/v1/purchases"
            }
        }

        /// Where ingest writes it.
        var topic: Topic {
            switch self {
            case .token: .tokensReceived
            case .sale: .purchasesReceived
            }
        }
    }

    /// Posts of so many tokens or sales, by turns to ingest and to all that stands beside it.
    ///
    /// Their numbers go on where the measure before this one ended. With idle connections ingest
    /// without them stands beside it, too.
    func measure(
        _ item: Item = .token,
        perRequest: Int,
        idleCount: Int = 0,
        firstNumber: inout Int
    ) throws -> BenchRow {
        func target(hasKeys: Bool) -> String {
            "\(world.prefix)bench.\(hasKeys ? "keyed" : "bare").\(item.name).\(perRequest).\(idleCount)"
        }
        let isSingle = perRequest == 1
        var contenders: [Contender] = [
            .ingest(isOther: false, idleCount: idleCount), .bare(hasKeys: false),
            .bare(hasKeys: true),
        ]
        for hasKeys in [false, true] {
            try world.makeTopic(target(hasKeys: hasKeys))
        }
        if idleCount > 0 {
            contenders.append(.ingest(isOther: false, idleCount: 0))
        }
        if otherPrograms != nil {
            contenders.append(.ingest(isOther: true, idleCount: idleCount))
        }
        var row = BenchRow(
            measure: "ingest, "
                + (isSingle ? "single \(item.name)s" : "batches of \(perRequest) \(item.name)s")
                + (idleCount > 0 ? " beside \(idleCount) idle connections" : ""),
            own: BenchSeries(program: Worker.ingest.rawValue),
            beside: contenders.dropFirst().map { BenchSeries(program: $0.name) }
        )
        row.goals.ratio = isSingle ? 0.95 : 0.75
        row.goals.recordsPerSecond = isSingle ? nil : 100_000
        // What one becomes, and a first warm run of each.
        let check = BenchCheck(world: world)
        let received = world.topic(item.topic)
        let before = firstNumber == 0 ? BenchCheck.Sum() : try check.sum([received])
        var recordBytes = 0
        var nextNumber = firstNumber
        defer { firstNumber = nextNumber }
        func post(_ contender: Contender, _ count: Int) throws -> BenchSample {
            let numbers = nextNumber..<nextNumber + count
            // The bare server has a topic of its own: ingest is sent the same after it.
            if case .ingest = contender {
                nextNumber = numbers.upperBound
            }
            return try run(
                contender,
                item,
                target(hasKeys:),
                numbers,
                perRequest,
                recordBytes: recordBytes
            )
        }
        let warm = warmCount(perRequest)
        _ = try post(contenders[0], warm)
        let after = try check.sum([received])
        recordBytes = (after.byteCount - before.byteCount) / warm
        row.own.outputByteCount = Double(after.byteCount - before.byteCount) / Double(warm)
        if idleCount > 0 {
            row.beside[2].outputByteCount = row.own.outputByteCount
        }
        for contender in contenders.dropFirst() {
            _ = try post(contender, warm)
        }
        let count =
            isSingle
            ? max(recordCount / Self.recordsPerSingle, 1) : recordCount * BenchWorld.fastRunFactor
        for number in 1...runCount {
            row.add(
                try BenchStages.inTurn(
                    contenders.map { contender in { try post(contender, count) } },
                    startingAt: number
                )
            )
            Console.say(row.lastSentence(number, of: runCount))
        }
        for (index, hasKeys) in [false, true].enumerated() {
            row.beside[index].outputByteCount =
                try check.sum([target(hasKeys: hasKeys)]).bytesPerRecord
        }
        return row
    }

    private func warmCount(_ perRequest: Int) -> Int {
        perRequest * min(Self.warmRequestCountMax, max(recordCount / perRequest, 1))
    }

    /// One run; each token or sale is sent once, and each is one record more.
    ///
    /// The bare server writes records of `recordBytes` to its `target`. It gets no idle connections,
    /// for it would take no others any more.
    private func run(
        _ contender: Contender,
        _ item: Item,
        _ target: (_ hasKeys: Bool) -> String,
        _ numbers: Range<Int>,
        _ perRequest: Int,
        recordBytes: Int
    ) throws -> BenchSample {
        let file = try world.writeRequests(item, numbers, perRequest: perRequest)
        let name: String
        let topic: String
        let port: Int
        var idleCount = 0
        switch contender {
        case .bare(let hasKeys):
            name = Self.serverName
            topic = target(hasKeys)
            let output = try world.start(
                .server,
                name: name,
                [
                    "to=\(topic)", "bytes=\(recordBytes)",
                    "key=\(hasKeys ? Self.keyByteCount : 0)",
                ]
            )
            let line = BenchPrograms.firstLine(of: output)
            guard let number = Int(line) else {
                throw BenchFailure(code: "bench.start", "the bare server: \(line)")
            }
            port = number
        case .ingest(let isOther, let count):
            name = Worker.ingest.rawValue
            topic = world.topic(item.topic)
            idleCount = count
            port = try world.start(.ingest, otherPrograms: isOther ? otherPrograms : nil)
            try world.awaitReady(.ingest)
        }
        defer { world.stop(name) }
        // Before the clock: what a connection costs that is opened and closed is not what idle ones
        // cost.
        try openIdle(idleCount, port: port)
        defer { world.stop(Self.idleName) }
        let countBefore = try world.endCount(topic)
        let cpuBefore = world.cpuSeconds(name)
        let load = try load(file, port: port)
        var sample = BenchSample(
            recordCount: numbers.count,
            seconds: Double(load.microseconds) / 1e6,
            cpuSeconds: world.cpuSeconds(name) - cpuBefore,
            peakByteCount: world.peakByteCount(name)
        )
        sample.latencyMicroseconds = load.latency
        let count = try world.endCount(topic) - countBefore
        // What is stored twice, as what is sent again after a 503 may be, fails the bench as well.
        guard count == numbers.count else {
            throw world.lost("\(topic) took \(count) of \(numbers.count) \(item.name)s")
        }
        return sample
    }

    private func openIdle(_ count: Int, port: Int) throws {
        guard count > 0 else {
            return
        }
        let output = try world.start(
            .idle,
            name: Self.idleName,
            ["port=\(port)", "connections=\(count)"]
        )
        let line = BenchPrograms.firstLine(of: output)
        guard line == "open" else {
            throw BenchFailure(code: "bench.start", "\(count) idle connections: \(line)")
        }
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
            let count = number == 0 ? warmCount(Self.batchTokenCount) : recordCount
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
        let file = try world.writeRequests(.token, numbers, perRequest: Self.batchTokenCount)
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
