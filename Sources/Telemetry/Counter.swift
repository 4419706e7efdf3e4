internal import Synchronization

/// A family of numbers that only grow.
package final class Counter: MetricFamily {
    /// One number.
    ///
    /// Keep it where it is added to often: no look-up, no lock.
    package final class Series: Sendable {
        private let count = Atomic<Int64>(0)

        package func add(_ increment: Int64 = 1) {
            precondition(increment >= 0, "a counter only grows")
            count.wrappingAdd(increment, ordering: .relaxed)
        }

        package var value: Int64 { count.load(ordering: .relaxed) }
    }

    package let description: MetricDescription
    private let table: SeriesTable<Series>

    init(_ description: MetricDescription) {
        self.description = description
        table = SeriesTable(description, countsOverflow: true) { Series() }
        if description.labels.isEmpty {
            _ = table.series([])
        }
    }

    /// The series of these label values, in the order of the labels.
    package func series(_ labelValues: String...) -> Series { table.series(labelValues) }

    package func add(_ increment: Int64 = 1, _ labelValues: String...) {
        table.series(labelValues).add(increment)
    }

    package func render(into text: inout String) {
        let name = description.fullName
        for entry in table.entries {
            MetricText.line(name, entry.labels, String(entry.series.value), into: &text)
        }
    }
}
