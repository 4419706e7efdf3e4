internal import Telemetry

/// One timed run of one program.
struct BenchSample: Equatable {
    var recordCount: Int
    var seconds: Double
    /// Of the program alone, all of its threads; of several programs together.
    var cpuSeconds: Double
    /// Largest resident size since its start, bytes.
    var peakByteCount: Int

    var recordsPerSecond: Double { Double(recordCount) / max(seconds, 1e-9) }
    var cpuSecondsPerMillion: Double { cpuSeconds * 1e6 / Double(max(recordCount, 1)) }
}

/// What a measure is compared with: runs of the same number, each right before or after its own.
struct BenchRow: Equatable {
    var measure: String
    var samples: [BenchSample]
    /// `copy loop` or `bare server`; nil where there is none.
    var yardstick: String?
    var yardstickSamples: [BenchSample] = []
    /// Key and value of all that is written for one record in, by each of the two.
    var outputByteCount: Double = 0
    var yardstickOutputByteCount: Double = 0
    var goals = Goals()
    /// Peak memory of each program, where there are several.
    var peaks: [(program: String, byteCount: Int)] = []

    struct Goals: Equatable {
        var ratio: Double?
        var recordsPerSecond: Double?
        var peakByteCount: Int?
    }

    static func == (left: BenchRow, right: BenchRow) -> Bool {
        left.measure == right.measure && left.samples == right.samples
            && left.yardstick == right.yardstick && left.yardstickSamples == right.yardstickSamples
            && left.goals == right.goals
    }

    var recordsPerSecond: Double { Self.median(samples.map(\.recordsPerSecond)) }
    var yardstickRecordsPerSecond: Double {
        Self.median(yardstickSamples.map(\.recordsPerSecond))
    }
    var cpuSecondsPerMillion: Double { Self.median(samples.map(\.cpuSecondsPerMillion)) }
    var yardstickCPUSecondsPerMillion: Double {
        Self.median(yardstickSamples.map(\.cpuSecondsPerMillion))
    }
    var peakByteCount: Int { samples.map(\.peakByteCount).max() ?? 0 }
    var yardstickPeakByteCount: Int { yardstickSamples.map(\.peakByteCount).max() ?? 0 }

    /// The median over the pairs: what else the machine did meanwhile strikes both of a pair.
    ///
    /// Nil where nothing could be timed: runs of one transaction have no beginning.
    var ratio: Double? {
        let ratios = zip(samples, yardstickSamples)
            .filter { $0.recordCount > 0 && $1.recordCount > 0 }
            .map { $0.recordsPerSecond / $1.recordsPerSecond }
        return ratios.isEmpty ? nil : Self.median(ratios)
    }

    /// A sentence a goal that was missed.
    var misses: [String] {
        var misses: [String] = []
        if let goal = goals.ratio, let ratio, ratio < goal {
            misses.append("ratio \(Self.decimal(ratio, 2)) of \(Self.decimal(goal, 2))")
        }
        if let goal = goals.recordsPerSecond, recordsPerSecond < goal {
            misses.append("\(Int(recordsPerSecond)) of \(Int(goal)) a second")
        }
        if let goal = goals.peakByteCount, peakByteCount > goal {
            misses.append("\(Self.megabytes(peakByteCount)) MB, over \(Self.megabytes(goal))")
        }
        return misses
    }

    var hasGoals: Bool { goals != Goals() }

    static func median(_ values: [Double]) -> Double {
        guard !values.isEmpty else {
            return 0
        }
        let sorted = values.sorted()
        let middle = sorted.count / 2
        return sorted.count % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
    }

    static func megabytes(_ byteCount: Int) -> Int { (byteCount + 999_999) / 1_000_000 }

    /// A number of so many decimals, without a locale.
    static func decimal(_ value: Double, _ digitCount: Int) -> String {
        var scale = 1.0
        for _ in 0..<digitCount {
            scale *= 10
        }
        let whole = Int((value * scale).rounded())
        guard digitCount > 0 else {
            return "\(whole)"
        }
        let digits = String(abs(whole) % Int(scale))
        let zeros = String(repeating: "0", count: digitCount - digits.count)
        return "\(whole < 0 ? "-" : "")\(abs(whole) / Int(scale)).\(zeros)\(digits)"
    }
}

/// The rows of a bench for a person and for a program.
enum BenchReport {
    static func text(_ rows: [BenchRow], cluster: String, format: OutputFormat) -> String {
        guard format == .table else {
            return JSONLines.text(rows.map(object), list: "measures", format: format)
        }
        var table = TextTable(columns: [
            .init(title: "MEASURE"), .init(title: "RECORDS/S", isNumber: true),
            .init(title: "CPU S/M", isNumber: true), .init(title: "PEAK MB", isNumber: true),
            .init(title: "BESIDE"), .init(title: "RECORDS/S", isNumber: true),
            .init(title: "CPU S/M", isNumber: true), .init(title: "RATIO", isNumber: true),
            .init(title: "RUNS", isNumber: true), .init(title: "GOALS"),
        ])
        table.rows = rows.map(cells)
        let peaks = rows.flatMap { row in
            row.peaks.map {
                "\(row.measure), \($0.program): peak \(BenchRow.megabytes($0.byteCount)) MB\n"
            }
        }
        return table.text + peaks.joined() + "on \(cluster)\n"
    }

    private static func cells(_ row: BenchRow) -> [String] {
        let goals = row.misses.isEmpty ? "met" : "missed: " + row.misses.joined(separator: ", ")
        return [
            row.measure, "\(Int(row.recordsPerSecond))",
            BenchRow.decimal(row.cpuSecondsPerMillion, 2),
            "\(BenchRow.megabytes(row.peakByteCount))",
            row.yardstick ?? "-",
            row.yardstick == nil ? "-" : "\(Int(row.yardstickRecordsPerSecond))",
            row.yardstick == nil ? "-" : BenchRow.decimal(row.yardstickCPUSecondsPerMillion, 2),
            row.ratio.map { BenchRow.decimal($0, 2) } ?? "-",
            "\(row.samples.count)",
            row.hasGoals ? goals : "-",
        ]
    }

    private static func object(_ row: BenchRow) -> String {
        var members: [(name: String, json: String)] = [
            ("measure", JSONText.quoted(row.measure)),
            ("recordsPerSecond", BenchRow.decimal(row.recordsPerSecond, 1)),
            ("cpuSecondsPerMillion", BenchRow.decimal(row.cpuSecondsPerMillion, 3)),
            ("peakBytes", "\(row.peakByteCount)"),
            ("outputBytesPerRecord", BenchRow.decimal(row.outputByteCount, 2)),
            ("runs", array(row.samples)),
        ]
        if let yardstick = row.yardstick {
            members += [
                ("ratio", row.ratio.map { BenchRow.decimal($0, 3) } ?? "null"),
                ("yardstick", JSONText.quoted(yardstick)),
                ("yardstickRecordsPerSecond", BenchRow.decimal(row.yardstickRecordsPerSecond, 1)),
                (
                    "yardstickCPUSecondsPerMillion",
                    BenchRow.decimal(row.yardstickCPUSecondsPerMillion, 3)
                ),
                ("yardstickPeakBytes", "\(row.yardstickPeakByteCount)"),
                (
                    "yardstickOutputBytesPerRecord",
                    BenchRow.decimal(row.yardstickOutputByteCount, 2)
                ),
                ("yardstickRuns", array(row.yardstickSamples)),
            ]
        }
        if !row.peaks.isEmpty {
            members.append(
                (
                    "peakBytesByProgram",
                    JSONLines.object(row.peaks.map { ($0.program, "\($0.byteCount)") })
                )
            )
        }
        let goals: [(name: String, json: String)] = [
            ("ratio", row.goals.ratio.map { BenchRow.decimal($0, 2) } ?? "null"),
            (
                "recordsPerSecond",
                row.goals.recordsPerSecond.map { BenchRow.decimal($0, 0) } ?? "null"
            ),
            ("peakBytes", row.goals.peakByteCount.map(String.init) ?? "null"),
        ]
        members.append(("goals", JSONLines.object(goals)))
        members.append(
            ("missed", "[" + row.misses.map(JSONText.quoted).joined(separator: ",") + "]")
        )
        return JSONLines.object(members)
    }

    private static func array(_ samples: [BenchSample]) -> String {
        let objects = samples.map { sample in
            JSONLines.object([
                ("records", "\(sample.recordCount)"),
                ("seconds", BenchRow.decimal(sample.seconds, 3)),
                ("recordsPerSecond", BenchRow.decimal(sample.recordsPerSecond, 1)),
                ("cpuSeconds", BenchRow.decimal(sample.cpuSeconds, 3)),
                ("peakBytes", "\(sample.peakByteCount)"),
            ])
        }
        return "[" + objects.joined(separator: ",") + "]"
    }
}
