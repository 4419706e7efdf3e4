internal import Foundation
internal import Kafka
internal import TokenDomain

/// A worker that reads and writes topics, by turns with the loops beside it over the same records.
struct BenchStages {
    /// So many go through first: what one record becomes is known then, and the programs are warm.
    private static let warmRecordCountMax = 20_000
    /// As many as a worker takes into one transaction.
    private static let batchRecordCount = 10_000
    private static let copyName = "copy"
    /// Beyond so many keys a look-up costs more: their filters are no longer in the processor's caches.
    private static let manyKeyCount = 1_000_000
    /// A signature costs some thirty times what a token does, to make it too.
    private static let recordsPerNotification = 30

    let world: BenchWorld
    let recordCount: Int
    let runCount: Int
    /// Another build's programs, measured beside this one's; nil for none.
    var otherPrograms: URL?

    /// A loop of the bench's own.
    enum Loop: String, CaseIterable {
        /// Writes the input itself.
        case plain = "plain loop"
        /// Writes what the worker wrote: as many records to as many partitions, of as many bytes,
        /// and as hard to compress.
        case copy = "copy loop"

        var suffix: String { self == .plain ? "plain" : "copy" }
    }

    /// What is measured, and how.
    struct Subject {
        let worker: Worker
        /// Of the records of its first source.
        let kind: BenchWorld.Kind
        /// All that it writes, its changelog too.
        let outputs: [Topic]
        /// Has each record's number, once.
        let written: Topic
        var numberMember = BenchTally.tokenMember
        let recordCount: Int
        let loops: [Loop]
        /// So many records are in its state when the first run begins.
        var keyCount = 0
        var settings: [String: String] = [:]
        /// How many records it is done with since it was started, where that is later than reading
        /// them.
        var settled: (() throws -> Int)?
    }

    func decode() throws -> BenchRow {
        var row = try measure(
            Subject(
                worker: .decode,
                kind: .received,
                outputs: [.tokensDecoded],
                written: .tokensDecoded,
                recordCount: recordCount * BenchWorld.fastRunFactor,
                loops: [.plain, .copy]
            )
        )
        row.goals = BenchRow.Goals(
            ratio: 1,
            cpuMicroseconds: 3.2,
            peakByteCount: 80_000_000,
            startDelaySeconds: 0.2
        )
        return row
    }

    /// `keyCount` tokens are in the state when the first run begins.
    func dedupe(keyCount: Int) throws -> BenchRow {
        var row = try measure(
            Subject(
                worker: .dedupe,
                kind: .decoded,
                outputs: [.tokensDistinct, .dedupeState],
                written: .tokensDistinct,
                recordCount: recordCount,
                loops: [.copy, .plain],
                keyCount: keyCount
            )
        )
        row.measure = "dedupe at \(keyCount) keys"
        let ratio = keyCount > Self.manyKeyCount ? 0.6 : 0.9
        row.goals = BenchRow.Goals(ratio: ratio, peakByteCount: 192_000_000)
        return row
    }

    /// A record is a signature checked, and the chain of certificates under it.
    func notifications() throws -> BenchRow {
        var row = try measure(
            Subject(
                worker: .notifications,
                kind: .notified,
                outputs: [.notificationsVerified],
                written: .notificationsVerified,
                recordCount: max(recordCount / Self.recordsPerNotification, 100),
                loops: [.plain]
            )
        )
        row.measure = "notifications: signatures"
        return row
    }

    func measure(_ subject: Subject) throws -> BenchRow {
        let (worker, kind, loops) = (subject.worker, subject.kind, subject.loops)
        let recordCount = subject.recordCount
        let outputs = subject.outputs.map(world.topic)
        let source = world.topic(worker.sources[0])
        try loops.flatMap { targets(of: $0, subject) }.forEach(world.makeTopic)
        let check = BenchCheck(world: world)

        // What one record becomes: the copy loop writes the same.
        let places = try world.ends(outputs)
        var filled = min(Self.warmRecordCountMax, recordCount)
        try world.fill(source, kind, 0..<filled)
        _ = try run(subject, source, from: 0, to: filled)
        let made = try check.material(outputs, from: places, inputCount: filled)
        let material = try world.write(made.bytes, as: "material.\(worker.rawValue)")
        var row = BenchRow(measure: worker.rawValue, own: BenchSeries(program: worker.rawValue))
        row.own.outputByteCount = Double(made.sum.byteCount) / Double(filled)
        row.beside = loops.map { BenchSeries(program: $0.rawValue) }
        for loop in loops {
            _ = try run(loop, subject, material, from: 0, to: filled)
        }
        // Of the plain loop, and of the copy loop, which begins its material anew with each run.
        var (loopedCount, outputCount) = (filled, made.outputCount(ofInputs: filled))
        if subject.keyCount > filled {
            Console.say("\(worker.rawValue): \(subject.keyCount) go into its state")
            try world.fill(source, kind, filled..<subject.keyCount)
            let sample = try run(subject, source, from: filled, to: subject.keyCount)
            filled = subject.keyCount
            row.peaks = [.init(program: "while its state grew", byteCount: sample.peakByteCount)]
            for loop in loops {
                let operands = operands(loop, subject, material) + ["skip=1"]
                _ = try world.start(.copy, name: Self.copyName, operands)
                try world.awaitEnd(Self.copyName)
            }
        }
        let hasOther = otherPrograms != nil
        if hasOther {
            row.beside.append(BenchSeries(program: "other build"))
        }
        // The first round counts for nothing: Kafka's own code is slow until it has run for a while.
        for number in 0...runCount {
            let end = filled + recordCount
            try world.fill(source, kind, filled..<end)
            var turns: [() throws -> BenchSample] = [
                { try run(subject, source, from: filled, to: end) }
            ]
            turns += loops.map { loop in
                { try run(loop, subject, material, from: filled, to: end) }
            }
            var samples = try Self.inTurn(turns, startingAt: number)
            loopedCount += recordCount
            outputCount += made.outputCount(ofInputs: recordCount)
            filled = end
            if hasOther {
                // In the worker's own group: it cannot read what this one has read.
                try world.fill(source, kind, filled..<filled + recordCount)
                samples.append(
                    try run(subject, source, from: filled, to: filled + recordCount, isOther: true)
                )
                filled += recordCount
                for loop in loops {
                    let operands = operands(loop, subject, material) + ["skip=1"]
                    _ = try world.start(.copy, name: Self.copyName, operands)
                    try world.awaitEnd(Self.copyName)
                }
            }
            if number > 0 {
                row.add(samples)
                Console.say(row.lastSentence(number, of: runCount))
            }
        }
        for (index, loop) in loops.enumerated() {
            let copied = try check.sum(targets(of: loop, subject))
            let expected = loop == .plain ? loopedCount : outputCount
            guard copied.recordCount == expected else {
                throw world.lost(
                    "the \(loop.rawValue) made \(copied.recordCount) of \(expected) records"
                )
            }
            row.beside[index].outputByteCount = Double(copied.byteCount) / Double(loopedCount)
        }
        try check.expectEachOnce(
            0..<filled,
            in: world.topic(subject.written),
            byMember: subject.numberMember
        )
        return row
    }

    /// Each of them goes first in its turn; the samples are in the order of the list.
    static func inTurn(
        _ turns: [() throws -> BenchSample],
        startingAt number: Int
    ) throws -> [BenchSample] {
        var samples = [BenchSample?](repeating: nil, count: turns.count)
        for step in turns.indices {
            let index = (number + step) % turns.count
            samples[index] = try turns[index]()
        }
        return samples.compactMap { $0 }
    }

    /// The copy loop has one for each topic that the worker writes.
    private func targets(of loop: Loop, _ subject: Subject) -> [String] {
        (0..<(loop == .plain ? 1 : subject.outputs.count)).map {
            "\(world.prefix)bench.\(loop.suffix).\(subject.worker.rawValue).\($0)"
        }
    }

    private func run(
        _ subject: Subject,
        _ source: String,
        from start: Int,
        to end: Int,
        isOther: Bool = false
    ) throws -> BenchSample {
        let worker = subject.worker
        defer { world.stop(worker.rawValue) }
        return try world.time(
            group: worker.rawValue,
            topic: source,
            target: world.topic(worker.targets[0]),
            program: worker.rawValue,
            from: start,
            to: end,
            settled: subject.settled
        ) {
            try world.start(
                worker,
                otherPrograms: isOther ? otherPrograms : nil,
                settings: subject.settings
            )
        }
    }

    private func operands(_ loop: Loop, _ subject: Subject, _ material: String) -> [String] {
        let worker = subject.worker
        // The first commit is not timed: there must be others.
        let batchCount = min(Self.batchRecordCount, max(subject.recordCount / 4, 1))
        let isLastChangelog =
            loop == .copy && worker.changelog != nil && subject.outputs.last == worker.changelog
        return [
            "group=\(world.prefix)bench.\(loop.suffix).\(worker.rawValue)",
            "from=\(world.topic(worker.sources[0]))",
            "to=\(targets(of: loop, subject).joined(separator: ","))",
            "changelog=\(isLastChangelog ? 1 : 0)",
            "batch=\(batchCount)", "material=\(loop == .copy ? material : "")",
        ]
    }

    private func run(
        _ loop: Loop,
        _ subject: Subject,
        _ material: String,
        from start: Int,
        to end: Int
    ) throws -> BenchSample {
        let worker = subject.worker
        defer { world.stop(Self.copyName) }
        return try world.time(
            group: "bench.\(loop.suffix).\(worker.rawValue)",
            topic: world.topic(worker.sources[0]),
            target: targets(of: loop, subject)[0],
            program: Self.copyName,
            from: start,
            to: end
        ) {
            _ = try world.start(.copy, name: Self.copyName, operands(loop, subject, material))
        }
    }
}

extension BenchRow {
    /// One sample each: the program's own, then those beside it.
    mutating func add(_ samples: [BenchSample]) {
        own.samples.append(samples[0])
        for index in beside.indices {
            beside[index].samples.append(samples[index + 1])
        }
    }

    /// What the last round gave, for whoever waits.
    func lastSentence(_ number: Int, of runCount: Int) -> String {
        let parts = ([own] + beside).compactMap { series in
            series.samples.last.map {
                "\(series.program) \(Int($0.recordsPerSecond)) a second,"
                    + " \(Self.decimal($0.cpuMicroseconds, 2)) us"
            }
        }
        return "\(measure) \(number) of \(runCount): " + parts.joined(separator: "; ")
    }
}
