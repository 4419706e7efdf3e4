internal import Kafka
internal import TokenDomain

/// Decode and dedupe, each in turn with the copy loop over the same records.
struct BenchStages {
    /// So many go through first: what one record becomes is known then, and the programs are warm.
    private static let warmRecordCountMax = 20_000
    /// As many as a worker takes into one transaction.
    private static let batchRecordCount = 10_000
    private static let copyName = "copy"

    let world: BenchWorld
    let recordCount: Int
    let runCount: Int

    func decode() throws -> BenchRow {
        var row = try measure(
            .decode,
            .received,
            outputs: [.tokensDecoded],
            written: .tokensDecoded,
            recordCount: recordCount * BenchWorld.fastRunFactor,
            keyCount: 0
        )
        row.goals = BenchRow.Goals(ratio: 1, peakByteCount: 80_000_000)
        return row
    }

    /// `keyCount` tokens are in the state when the first run begins.
    func dedupe(keyCount: Int) throws -> BenchRow {
        var row = try measure(
            .dedupe,
            .decoded,
            outputs: [.tokensDistinct, .dedupeState],
            written: .tokensDistinct,
            recordCount: recordCount,
            keyCount: keyCount
        )
        row.measure = "dedupe at \(keyCount) keys"
        row.goals = BenchRow.Goals(ratio: 0.6, peakByteCount: 128_000_000)
        return row
    }

    private func measure(
        _ worker: Worker,
        _ kind: BenchWorld.Kind,
        outputs: [Topic],
        written: Topic,
        recordCount: Int,
        keyCount: Int
    ) throws -> BenchRow {
        let source = world.topic(worker.sources[0])
        let copies = copies(of: worker)
        try world.makeTopic(copies)
        let check = BenchCheck(world: world)

        // What one record becomes: all are of one length.
        var filled = min(Self.warmRecordCountMax, recordCount)
        try world.fill(source, kind, 0..<filled)
        _ = try run(worker, source, from: 0, to: filled)
        let made = try check.material(outputs.map(world.topic), inputCount: filled)
        let material = try world.write(made.bytes, as: "material.\(worker.rawValue)")
        var row = BenchRow(measure: worker.rawValue, samples: [], yardstick: "copy loop")
        row.outputByteCount = Double(made.sum.byteCount) / Double(filled)
        let share = [
            "material=\(material)", "records=\(filled)", "key=\(made.keyByteCount)",
        ]
        let copy = [
            "group=\(world.prefix)bench.copy.\(worker.rawValue)", "from=\(source)", "to=\(copies)",
            "batch=\(Self.batchRecordCount)",
        ]
        _ = try runCopy(worker, source, copy + share, from: 0, to: filled)

        var copiedCount = filled
        if keyCount > filled {
            Console.say("\(worker.rawValue): \(keyCount) keys go into its state")
            try world.fill(source, kind, filled..<keyCount)
            let sample = try run(worker, source, from: filled, to: keyCount)
            filled = keyCount
            row.peaks = [("while its state grew", sample.peakByteCount)]
            _ = try world.start(.copy, name: Self.copyName, copy + ["skip=1"])
            try world.awaitEnd(Self.copyName)
        }
        // The first pair counts for nothing: Kafka's own code is slow until it has run for a while.
        for number in 0...runCount {
            let end = filled + recordCount
            try world.fill(source, kind, filled..<end)
            let runOwn = { try run(worker, source, from: filled, to: end) }
            let runYardstick = { try runCopy(worker, source, copy + share, from: filled, to: end) }
            // Each goes first every other time.
            let (own, yardstick): (BenchSample, BenchSample)
            if number % 2 == 1 {
                (own, yardstick) = (try runOwn(), try runYardstick())
            } else {
                yardstick = try runYardstick()
                own = try runOwn()
            }
            copiedCount += recordCount
            filled = end
            guard number > 0 else {
                continue
            }
            row.samples.append(own)
            row.yardstickSamples.append(yardstick)
            Console.say(
                "\(worker.rawValue) \(number) of \(runCount): \(Int(own.recordsPerSecond)) records/s,"
                    + " the copy loop \(Int(yardstick.recordsPerSecond))"
            )
        }
        let copied = try check.sum([copies])
        guard copied.recordCount == copiedCount else {
            throw world.lost("the copy loop made \(copied.recordCount) of \(copiedCount) records")
        }
        row.yardstickOutputByteCount = copied.bytesPerRecord
        try check.expectEachOnce(0..<filled, in: world.topic(written))
        return row
    }

    private func copies(of worker: Worker) -> String {
        "\(world.prefix)bench.copies.\(worker.rawValue)"
    }

    private func run(
        _ worker: Worker,
        _ source: String,
        from start: Int,
        to end: Int
    ) throws -> BenchSample {
        try world.start(worker)
        defer { world.stop(worker.rawValue) }
        return try world.time(
            group: worker.rawValue,
            topic: source,
            target: world.topic(worker.targets[0]),
            programs: [worker.rawValue],
            from: start,
            to: end
        )
    }

    private func runCopy(
        _ worker: Worker,
        _ source: String,
        _ operands: [String],
        from start: Int,
        to end: Int
    ) throws -> BenchSample {
        _ = try world.start(.copy, name: Self.copyName, operands)
        defer { world.stop(Self.copyName) }
        return try world.time(
            group: "bench.copy.\(worker.rawValue)",
            topic: source,
            target: copies(of: worker),
            programs: [Self.copyName],
            from: start,
            to: end
        )
    }
}
