internal import Telemetry

/// One timed run of one program.
struct BenchSample: Equatable {
    var recordCount: Int
    var seconds: Double
    /// Of the program alone, all of its threads; of several programs together.
    var cpuSeconds: Double
    /// Largest resident size since its start, bytes.
    var peakByteCount: Int
    /// From its start to its first output; nil where that is not asked.
    var startSeconds: Double?
    /// Of a request to its answer: p50, p99, p99.9; empty where nothing is asked.
    var latencyMicroseconds: [Int] = []

    var recordsPerSecond: Double { Double(recordCount) / max(seconds, 1e-9) }
    /// Of processor time, for one record.
    var cpuMicroseconds: Double { cpuSeconds * 1e6 / Double(max(recordCount, 1)) }
}

/// The runs of one program: the one that is measured, or one beside it.
struct BenchSeries: Equatable {
    /// Of the worker, `copy loop`, `bare server`.
    var program: String
    var samples: [BenchSample] = []
    /// Key, value and headers of all that is written for one record in.
    var outputByteCount: Double = 0

    /// Runs of one transaction have no beginning: nothing of them was timed.
    var timed: [BenchSample] { samples.filter { $0.recordCount > 0 } }
    var recordsPerSecond: Double { BenchRow.median(timed.map(\.recordsPerSecond)) }
    var cpuMicroseconds: Double { BenchRow.median(timed.map(\.cpuMicroseconds)) }
    var peakByteCount: Int { samples.map(\.peakByteCount).max() ?? 0 }
    /// The medians of the runs' p50, p99 and p99.9, in milliseconds; empty where nothing is asked.
    var latencyMilliseconds: [Double] {
        let known = samples.map(\.latencyMicroseconds)
        return (known.first ?? []).indices.map { index in
            BenchRow.median(known.map { Double($0[index]) / 1_000 })
        }
    }
    var startSeconds: Double? {
        let known = samples.compactMap(\.startSeconds)
        return known.isEmpty ? nil : BenchRow.median(known)
    }
}

/// A program and what it is compared with: runs of the same number, each right before or after its own.
struct BenchRow: Equatable {
    var measure: String
    var own: BenchSeries
    /// The first is the one that the goals compare with.
    var beside: [BenchSeries] = []
    var goals = Goals()
    /// Peak memory of each program, where there are several.
    var peaks: [Peak] = []

    struct Peak: Equatable {
        var program: String
        var byteCount: Int
    }

    struct Goals: Equatable {
        var ratio: Double?
        var recordsPerSecond: Double?
        var cpuMicroseconds: Double?
        var peakByteCount: Int?
        /// How much later than the first beside it may have its first output.
        var startDelaySeconds: Double?
    }

    /// The median over the pairs: what else the machine did meanwhile strikes both of a pair.
    ///
    /// Nil where nothing could be timed: runs of one transaction have no beginning.
    func ratio(to other: BenchSeries) -> Double? {
        let ratios = zip(own.samples, other.samples)
            .filter { $0.recordCount > 0 && $1.recordCount > 0 }
            .map { $0.recordsPerSecond / $1.recordsPerSecond }
        return ratios.isEmpty ? nil : Self.median(ratios)
    }

    /// A sentence a goal that was missed.
    var misses: [String] {
        guard !hasGoals || !own.timed.isEmpty else {
            return ["nothing was timed"]
        }
        var misses: [String] = []
        func told(_ value: Double, _ goal: Double) -> String {
            "\(Self.decimal(value, 2)) of \(Self.decimal(goal, 2))"
        }
        if let goal = goals.ratio, let ratio = beside.first.flatMap(ratio), ratio < goal {
            misses.append("ratio \(told(ratio, goal))")
        }
        if let goal = goals.recordsPerSecond, own.recordsPerSecond < goal {
            misses.append("\(Int(own.recordsPerSecond)) of \(Int(goal)) a second")
        }
        if let goal = goals.cpuMicroseconds, own.cpuMicroseconds > goal {
            misses.append("\(told(own.cpuMicroseconds, goal)) us of processor a record")
        }
        if let goal = goals.peakByteCount, own.peakByteCount > goal {
            misses.append("\(Self.megabytes(own.peakByteCount)) MB, over \(Self.megabytes(goal))")
        }
        if let goal = goals.startDelaySeconds, let start = own.startSeconds,
            let other = beside.first?.startSeconds, start - other > goal
        {
            misses.append("first output \(Self.decimal(start - other, 2)) s later")
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
    static func text(_ rows: [BenchRow], cluster: String, format: BenchOptions.Format) -> String {
        guard format == .table else {
            return object([("measures", "[" + rows.map(object).joined(separator: ",") + "]")])
                + "\n"
        }
        let table = aligned(
            [
                [
                    "MEASURE", "RECORDS/S", "US A RECORD", "BYTES OUT", "PEAK MB", "START S",
                    "RATIO", "RUNS", "GOALS",
                ]
            ] + rows.flatMap(cells)
        )
        let peaks = rows.flatMap { row in
            row.peaks.map {
                "\(row.measure), \($0.program): peak \(BenchRow.megabytes($0.byteCount)) MB\n"
            }
        }
        return table + peaks.joined() + rows.map(latencies).joined() + "on \(cluster)\n"
    }

    /// A sentence for each series whose answers were timed.
    private static func latencies(_ row: BenchRow) -> String {
        ([row.own] + row.beside).filter { !$0.latencyMilliseconds.isEmpty }
            .map { series in
                let values = zip(["p50", "p99", "p99.9"], series.latencyMilliseconds)
                    .map { "\($0) \(BenchRow.decimal($1, 2)) ms" }
                return "\(row.measure), \(series.program): \(values.joined(separator: ", "))\n"
            }
            .joined()
    }

    /// Columns as wide as their widest entry; all but the first and the last are numbers.
    static func aligned(_ lines: [[String]]) -> String {
        let widths = lines[0].indices.map { index in lines.map { $0[index].count }.max() ?? 0 }
        return lines.map { cells in
            cells.enumerated().map { index, cell in
                let blanks = String(repeating: " ", count: widths[index] - cell.count)
                return index == 0 ? cell + blanks : index == cells.count - 1 ? cell : blanks + cell
            }
            .joined(separator: "  ") + "\n"
        }
        .joined()
    }

    /// An object of names, and values that are JSON already.
    static func object(_ members: [(name: String, json: String)]) -> String {
        "{" + members.map { "\(JSONText.quoted($0.name)):\($0.json)" }.joined(separator: ",") + "}"
    }

    /// A line of the program's own, and one for each beside it: its ratio is the program's to it.
    private static func cells(_ row: BenchRow) -> [[String]] {
        let goals = row.misses.isEmpty ? "met" : "missed: " + row.misses.joined(separator: ", ")
        func line(_ title: String, _ series: BenchSeries, _ ratio: Double?) -> [String] {
            [
                title, "\(Int(series.recordsPerSecond))",
                BenchRow.decimal(series.cpuMicroseconds, 2),
                series.outputByteCount > 0 ? BenchRow.decimal(series.outputByteCount, 0) : "-",
                "\(BenchRow.megabytes(series.peakByteCount))",
                series.startSeconds.map { BenchRow.decimal($0, 2) } ?? "-",
                ratio.map { BenchRow.decimal($0, 2) } ?? "-",
                "\(series.samples.count)",
            ]
        }
        return [line(row.measure, row.own, nil) + [row.hasGoals ? goals : "-"]]
            + row.beside.map { line("  beside: \($0.program)", $0, row.ratio(to: $0)) + ["-"] }
    }

    private static func object(_ row: BenchRow) -> String {
        let beside = row.beside.map { other in
            object(
                [("ratio", row.ratio(to: other).map { BenchRow.decimal($0, 3) } ?? "null")]
                    + members(other)
            )
        }
        let goals: [(name: String, json: String)] = [
            ("ratio", number(row.goals.ratio, 2)),
            ("recordsPerSecond", number(row.goals.recordsPerSecond, 0)),
            ("cpuMicrosecondsPerRecord", number(row.goals.cpuMicroseconds, 2)),
            ("peakBytes", row.goals.peakByteCount.map(String.init) ?? "null"),
            ("startDelaySeconds", number(row.goals.startDelaySeconds, 2)),
        ]
        let peaks = row.peaks.map { ($0.program, "\($0.byteCount)") }
        return object(
            [("measure", JSONText.quoted(row.measure))] + members(row.own) + [
                ("beside", "[" + beside.joined(separator: ",") + "]"),
                ("peakBytesByProgram", object(peaks)),
                ("goals", object(goals)),
                ("missed", "[" + row.misses.map(JSONText.quoted).joined(separator: ",") + "]"),
            ]
        )
    }

    private static func members(_ series: BenchSeries) -> [(name: String, json: String)] {
        [
            ("program", JSONText.quoted(series.program)),
            ("recordsPerSecond", BenchRow.decimal(series.recordsPerSecond, 1)),
            ("cpuMicrosecondsPerRecord", BenchRow.decimal(series.cpuMicroseconds, 3)),
            ("outputBytesPerRecord", BenchRow.decimal(series.outputByteCount, 2)),
            ("peakBytes", "\(series.peakByteCount)"),
            ("startSeconds", number(series.startSeconds, 3)),
            (
                "latencyMilliseconds",
                "["
                    + series.latencyMilliseconds.map { BenchRow.decimal($0, 3) }
                    .joined(separator: ",") + "]"
            ),
            ("runs", array(series.samples)),
        ]
    }

    private static func number(_ value: Double?, _ digitCount: Int) -> String {
        value.map { BenchRow.decimal($0, digitCount) } ?? "null"
    }

    private static func array(_ samples: [BenchSample]) -> String {
        let objects = samples.map { sample in
            object([
                ("records", "\(sample.recordCount)"),
                ("seconds", BenchRow.decimal(sample.seconds, 3)),
                ("recordsPerSecond", BenchRow.decimal(sample.recordsPerSecond, 1)),
                ("cpuSeconds", BenchRow.decimal(sample.cpuSeconds, 3)),
                ("peakBytes", "\(sample.peakByteCount)"),
                ("startSeconds", number(sample.startSeconds, 3)),
            ])
        }
        return "[" + objects.joined(separator: ",") + "]"
    }
}
