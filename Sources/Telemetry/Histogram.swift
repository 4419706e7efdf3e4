internal import Synchronization

/// A family of values spread over buckets.
package final class Histogram: MetricFamily {
    /// From 100 µs to five minutes; for durations within a process.
    package static let secondsBuckets: [Double] = [
        0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
    ]
    /// From a second to thirty days; for what a token waits.
    package static let waitBuckets: [Double] = [
        1, 10, 60, 300, 900, 3_600, 21_600, 86_400, 259_200, 604_800, 864_000, 2_592_000,
    ]

    /// One spread of values.
    ///
    /// Keep it where it is fed often: no look-up, no lock.
    package final class Series: Sendable {
        private let bounds: [Double]
        private let cells: [Cell]
        private let sumBits = Atomic<UInt64>(0)

        private final class Cell: Sendable {
            let count = Atomic<Int64>(0)
        }

        init(bounds: [Double]) {
            self.bounds = bounds
            cells = (0...bounds.count).map { _ in Cell() }
        }

        /// Adds a value, `count` times (above zero); what is not finite is left out.
        package func observe(_ value: Double, count: Int64 = 1) {
            guard value.isFinite else {
                return
            }
            let index = bounds.firstIndex { value <= $0 } ?? bounds.count
            cells[index].count.wrappingAdd(count, ordering: .relaxed)
            var old = sumBits.load(ordering: .relaxed)
            while true {
                let new = (Double(bitPattern: old) + value * Double(count)).bitPattern
                let (done, found) = sumBits.weakCompareExchange(
                    expected: old,
                    desired: new,
                    ordering: .relaxed
                )
                if done {
                    return
                }
                old = found
            }
        }

        var snapshot: (counts: [Int64], sum: Double) {
            (
                cells.map { $0.count.load(ordering: .relaxed) },
                Double(bitPattern: sumBits.load(ordering: .relaxed))
            )
        }
    }

    package let description: MetricDescription
    private let bounds: [Double]
    private let table: SeriesTable<Series>

    init(_ description: MetricDescription, buckets: [Double]) {
        precondition(
            zip(buckets, buckets.dropFirst()).allSatisfy { $0 < $1 },
            "the buckets of \(description.name) rise"
        )
        self.description = description
        bounds = buckets
        table = SeriesTable(description, countsOverflow: true) { Series(bounds: buckets) }
    }

    /// The series of these label values, in the order of the labels.
    package func series(_ labelValues: String...) -> Series { table.series(labelValues) }

    package func observe(_ value: Double, _ labelValues: String...) {
        table.series(labelValues).observe(value)
    }

    package func render(into text: inout String) {
        let name = description.fullName
        let buckets = name + "_bucket"
        let bounds = (bounds + [.infinity]).map { "le=\"\(MetricText.number($0))\"" }
        for entry in table.entries {
            let (counts, sum) = entry.series.snapshot
            let labels = entry.labels.isEmpty ? "" : entry.labels + ","
            var total: Int64 = 0
            for (bound, count) in zip(bounds, counts) {
                total += count
                MetricText.line(buckets, labels + bound, String(total), into: &text)
            }
            MetricText.line(name + "_sum", entry.labels, MetricText.number(sum), into: &text)
            MetricText.line(name + "_count", entry.labels, String(total), into: &text)
        }
    }
}
