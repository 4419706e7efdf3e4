internal import Telemetry
internal import TokenDomain

/// The points of a scale for a person and for a program.
enum BenchScaleReport {
    /// A cost may differ so much from the first point's and is called flat: pairs of runs on one
    /// machine differ by nearly as much.
    static let flatness = 0.15

    static func text(
        _ points: [BenchScale.Point],
        cluster: String,
        format: BenchOptions.Format
    ) -> String {
        guard format == .table else {
            let objects = points.map(object).joined(separator: ",")
            return BenchReport.object([("points", "[\(objects)]")]) + "\n"
        }
        let head = [
            "STORED", "INSTANCES", "DECODE US", "DEDUPE US", "TO FIRST", "TOKENS/S", "STATE B",
            "KAFKA B", "RESTORE S", "PEAK MB", "COST",
        ]
        let first = points.first.map(cost) ?? 0
        let lines = points.map { point in
            let ratio = cost(point) / max(first, .leastNonzeroMagnitude)
            return [
                "\(point.storedCount)", "\(point.instanceCount)",
                BenchRow.decimal(point.cpuMicroseconds[.decode] ?? 0, 2),
                BenchRow.decimal(point.cpuMicroseconds[.dedupe] ?? 0, 2),
                BenchRow.decimal(ratio, 2), "\(Int(point.recordsPerSecond))",
                BenchRow.decimal(point.stateByteCount, 0),
                point.kafkaByteCount.map { BenchRow.decimal($0.values.reduce(0, +), 0) } ?? "-",
                BenchRow.decimal(point.restoreSeconds, 1),
                "\(BenchRow.megabytes(point.peakByteCount))",
                isFlat(ratio) ? "flat" : ratio > 1 ? "grows" : "falls",
            ]
        }
        let byTopic = points.last?.kafkaByteCount.map { counts in
            counts.sorted { $0.key < $1.key }
                .map { "\($0.key) \(BenchRow.decimal($0.value, 0))" }
                .joined(separator: ", ")
        }
        return BenchReport.aligned([head] + lines)
            + (byTopic.map { "bytes a token in Kafka at the end: \($0)\n" } ?? "")
            + "on \(cluster)\n"
    }

    static func sentence(_ point: BenchScale.Point) -> String {
        "scale: \(point.storedCount) stored, instances \(point.instanceCount):"
            + " \(BenchRow.decimal(cost(point), 2)) us of processor a token, restored in"
            + " \(BenchRow.decimal(point.restoreSeconds, 1)) s"
    }

    /// Processor time of a token, microseconds.
    static func cost(_ point: BenchScale.Point) -> Double {
        point.cpuMicroseconds.values.reduce(0, +)
    }

    static func isFlat(_ ratio: Double) -> Bool { abs(ratio - 1) <= flatness }

    private static func object(_ point: BenchScale.Point) -> String {
        let kafka = point.kafkaByteCount.map { counts in
            BenchReport.object(
                counts.sorted { $0.key < $1.key }.map { ($0.key, BenchRow.decimal($0.value, 1)) }
            )
        }
        return BenchReport.object([
            ("stored", "\(point.storedCount)"), ("instances", "\(point.instanceCount)"),
            ("decodeMicroseconds", BenchRow.decimal(point.cpuMicroseconds[.decode] ?? 0, 3)),
            ("dedupeMicroseconds", BenchRow.decimal(point.cpuMicroseconds[.dedupe] ?? 0, 3)),
            ("recordsPerSecond", BenchRow.decimal(point.recordsPerSecond, 1)),
            ("stateBytesPerToken", BenchRow.decimal(point.stateByteCount, 1)),
            ("kafkaBytesPerToken", kafka ?? "null"),
            ("restoreSeconds", BenchRow.decimal(point.restoreSeconds, 3)),
            ("peakBytes", "\(point.peakByteCount)"),
        ])
    }
}
