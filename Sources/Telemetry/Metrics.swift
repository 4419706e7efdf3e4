internal import Synchronization

/// Every measure of a process, and its text for Prometheus.
///
/// Register once at start, keep the series, and add to it where things happen: that is one atomic
/// instruction and no lock. Names get the prefix `tollway_`; units are base units (seconds, bytes).
package final class Metrics: Sendable {
    package static let namePrefix = "tollway_"
    /// Series of one family: 64 for each app that `TOLLWAY_APPS_FILE` may name.
    ///
    /// Labels that a file or the program bounds stay below it.
    package static let seriesCountMax = 64_000
    /// Values of one family's open label that have a series of their own.
    package static let openValueCountMax = 100
    /// What is beyond a bound is counted under this label value.
    package static let overflow = "overflow"

    private struct Registry {
        var families: [String: any MetricFamily] = [:]
        var collectors: [@Sendable () -> Void] = []
    }

    private let registry = Mutex(Registry())

    package init() {}

    /// A number that only grows; its name ends in `_total`.
    ///
    /// `openLabel` is the one of its labels whose values nobody bounds: values beyond
    /// ``openValueCountMax`` are counted under ``overflow``, with the other labels as they are.
    package func counter(
        _ name: String,
        help: String,
        labels: [String] = [],
        openLabel: String? = nil
    ) -> Counter {
        precondition(name.hasSuffix("_total"), "a counter's name ends in _total: \(name)")
        var description = MetricDescription(name: name, kind: .counter, help: help, labels: labels)
        description.openLabel = openLabel
        return register(Counter(description))
    }

    /// A number that only grows and is measured elsewhere, such as by the system; its name ends in
    /// `_total`.
    package func measuredCounter(_ name: String, help: String) -> Gauge.Series {
        precondition(name.hasSuffix("_total"), "a counter's name ends in _total: \(name)")
        let description = MetricDescription(name: name, kind: .counter, help: help, labels: [])
        return register(Gauge(description)).series()
    }

    /// A number that goes up and down.
    package func gauge(_ name: String, help: String, labels: [String] = []) -> Gauge {
        register(Gauge(MetricDescription(name: name, kind: .gauge, help: help, labels: labels)))
    }

    /// How values spread over buckets: upper bounds, rising; the last, `+Inf`, is added.
    package func histogram(
        _ name: String,
        help: String,
        labels: [String] = [],
        buckets: [Double] = Histogram.secondsBuckets
    ) -> Histogram {
        register(
            Histogram(
                MetricDescription(name: name, kind: .histogram, help: help, labels: labels),
                buckets: buckets
            )
        )
    }

    /// Calls `collect` before each rendering, for what is cheaper to ask than to keep.
    ///
    /// It runs on the thread that renders (the admin port's).
    package func beforeRendering(_ collect: @escaping @Sendable () -> Void) {
        registry.withLock { $0.collectors.append(collect) }
    }

    /// What is registered, by name: the source of `Protocols/metrics.md`.
    package var descriptions: [MetricDescription] {
        registry.withLock { $0.families.values.map(\.description) }.sorted { $0.name < $1.name }
    }

    /// The Prometheus text format, version 0.0.4.
    package func render() -> [UInt8] {
        let (families, collectors) = registry.withLock { ($0.families, $0.collectors) }
        for collect in collectors {
            collect()
        }
        var text = ""
        for (_, family) in families.sorted(by: { $0.key < $1.key }) {
            let name = family.description.fullName
            text += "# HELP \(name) \(MetricText.escapedHelp(family.description.help))\n"
            text += "# TYPE \(name) \(family.description.kind.rawValue)\n"
            family.render(into: &text)
        }
        return Array(text.utf8)
    }

    /// The same name asked for twice gives the same family, so parts need not know of each other.
    private func register<Family: MetricFamily>(_ family: Family) -> Family {
        registry.withLock { registry in
            guard let present = registry.families[family.description.name] else {
                registry.families[family.description.name] = family
                return family
            }
            guard let same = present as? Family, same.description == family.description else {
                preconditionFailure("\(family.description.name) is registered with another shape")
            }
            return same
        }
    }
}

/// What a metric is, for its page and its head lines.
package struct MetricDescription: Equatable, Sendable {
    package enum Kind: String, Sendable {
        case counter, gauge, histogram
    }

    /// Without the prefix.
    package var name: String
    package var kind: Kind
    package var help: String
    package var labels: [String]
    /// The label whose values come from outside, if there is one.
    package var openLabel: String?

    package var fullName: String { Metrics.namePrefix + name }
}

/// All series of one name.
package protocol MetricFamily: AnyObject, Sendable {
    var description: MetricDescription { get }
    func render(into text: inout String)
}

/// The series of a family by their label values; bounded, for one label's values may come from outside.
final class SeriesTable<Series: AnyObject & Sendable>: Sendable {
    struct Entry: Sendable {
        let values: [String]
        /// `name="value"`, comma-separated.
        let labels: String
        let series: Series
    }

    private struct State {
        var entries: [[String]: Entry] = [:]
        /// The same in a stable order, until one comes or goes.
        var sorted: [Entry]?
        /// Those of the open label that have series of their own.
        var openValues: Set<String> = []
    }

    private let labels: [String]
    private let openIndex: Int?
    private let countsOverflow: Bool
    private let make: @Sendable () -> Series
    private let state = Mutex(State())

    /// `countsOverflow`: what has no room is summed in one series; else, as for gauges, it is not shown.
    init(
        _ description: MetricDescription,
        countsOverflow: Bool,
        make: @escaping @Sendable () -> Series
    ) {
        labels = description.labels
        openIndex = description.openLabel.map { label in
            guard let index = description.labels.firstIndex(of: label) else {
                preconditionFailure("\(label) is no label of \(description.name)")
            }
            return index
        }
        self.countsOverflow = countsOverflow
        self.make = make
    }

    func series(_ values: [String]) -> Series {
        precondition(values.count == labels.count, "one value a label: \(labels)")
        return state.withLock { state in
            if let entry = state.entries[values] {
                return entry.series
            }
            var bounded = folded(values, &state)
            if let entry = state.entries[bounded] {
                return entry.series
            }
            if state.entries.count >= Metrics.seriesCountMax {
                // A gauge that many set would say nothing of any of them.
                guard countsOverflow else {
                    return make()
                }
                bounded = labels.map { _ in Metrics.overflow }
                if let entry = state.entries[bounded] {
                    return entry.series
                }
            }
            let text = zip(labels, bounded).map { "\($0)=\"\(MetricText.escapedLabel($1))\"" }
            let entry = Entry(
                values: bounded,
                labels: text.joined(separator: ","),
                series: make()
            )
            state.entries[bounded] = entry
            state.sorted = nil
            return entry.series
        }
    }

    /// The values with that of the open label replaced where it has no room.
    private func folded(_ values: [String], _ state: inout State) -> [String] {
        guard let openIndex, !state.openValues.contains(values[openIndex]) else {
            return values
        }
        guard state.openValues.count < Metrics.openValueCountMax else {
            var folded = values
            folded[openIndex] = Metrics.overflow
            return folded
        }
        state.openValues.insert(values[openIndex])
        return values
    }

    func remove(_ values: [String]) {
        state.withLock { state in
            if state.entries.removeValue(forKey: values) != nil {
                state.sorted = nil
            }
        }
    }

    /// In a stable order.
    var entries: [Entry] {
        state.withLock { state in
            if let sorted = state.sorted {
                return sorted
            }
            let sorted = state.entries.values.sorted {
                $0.values.lexicographicallyPrecedes($1.values)
            }
            state.sorted = sorted
            return sorted
        }
    }
}

enum MetricText {
    /// One sample; `labels` is what stands between the braces, empty for none.
    static func line(
        _ name: String,
        _ labels: String,
        _ value: String,
        into text: inout String
    ) {
        text += name
        if !labels.isEmpty {
            text += "{"
            text += labels
            text += "}"
        }
        text += " "
        text += value
        text += "\n"
    }

    static func number(_ value: Double) -> String {
        if value == .infinity {
            return "+Inf"
        }
        if value == -.infinity {
            return "-Inf"
        }
        guard let whole = Int64(exactly: value) else {
            return value.isNaN ? "NaN" : "\(value)"
        }
        return String(whole)
    }

    static func escapedHelp(_ text: String) -> String { escaped(text, quotes: false) }
    static func escapedLabel(_ text: String) -> String { escaped(text, quotes: true) }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": escaped += "\\\\"
            case "\n": escaped += "\\n"
            case "\"" where quotes: escaped += "\\\""
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }
}
