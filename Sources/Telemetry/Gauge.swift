internal import Synchronization

/// A family of numbers that go up and down.
package final class Gauge: MetricFamily {
    /// One number.
    ///
    /// Keep it where it is set often: no look-up, no lock.
    package final class Series: Sendable {
        private let bits = Atomic<UInt64>(0)

        package func set(_ value: Double) {
            bits.store(value.bitPattern, ordering: .relaxed)
        }

        package var value: Double { Double(bitPattern: bits.load(ordering: .relaxed)) }
    }

    package let description: MetricDescription
    private let table: SeriesTable<Series>

    init(_ description: MetricDescription) {
        self.description = description
        table = SeriesTable(description, countsOverflow: false) { Series() }
    }

    /// The series of these label values, in the order of the labels.
    package func series(_ labelValues: String...) -> Series { table.series(labelValues) }

    package func set(_ value: Double, _ labelValues: String...) {
        table.series(labelValues).set(value)
    }

    /// Drops a series: the lag of a partition that left must not stand still for ever.
    package func remove(_ labelValues: String...) {
        table.remove(labelValues)
    }

    /// Sets a series, or drops it where there is no number.
    package func show(_ value: Double?, _ labelValues: String...) {
        guard let value else {
            return table.remove(labelValues)
        }
        table.series(labelValues).set(value)
    }

    package func render(into text: inout String) {
        let name = description.fullName
        for entry in table.entries {
            let value = MetricText.number(entry.series.value)
            MetricText.line(name, entry.labels, value, into: &text)
        }
    }
}
