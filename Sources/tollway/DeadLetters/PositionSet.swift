internal import TokenDomain

/// One partition of one stage's dead letters.
struct DeadLetterPartition: Hashable, Comparable {
    var stage: Worker
    var partition: Int32

    static func < (left: DeadLetterPartition, right: DeadLetterPartition) -> Bool {
        (left.stage.rawValue, left.partition) < (right.stage.rawValue, right.partition)
    }
}

/// Which dead letters are meant, one by one: ranges of offsets by partition.
struct PositionSet: Equatable {
    /// More than any cluster holds: a plan that names as many was not written by us.
    static let countMax = 1 << 40

    private(set) var ranges: [DeadLetterPartition: [ClosedRange<Int64>]] = [:]
    private(set) var count = 0

    init() {}

    /// In any order; none twice.
    init(_ positions: some Sequence<DeadLetterPosition>) {
        var offsets: [DeadLetterPartition: [Int64]] = [:]
        for position in positions {
            offsets[
                DeadLetterPartition(stage: position.stage, partition: position.partition),
                default: []
            ].append(position.offset)
        }
        for (partition, offsets) in offsets {
            ranges[partition] = Self.ranges(of: offsets.sorted())
            count += offsets.count
        }
    }

    /// Ranges as a plan has them: ascending, apart from each other.
    init?(_ ranges: [DeadLetterPartition: [ClosedRange<Int64>]]) {
        for list in ranges.values {
            guard zip(list, list.dropFirst()).allSatisfy({ $0.upperBound < $1.lowerBound }) else {
                return nil
            }
            for range in list {
                let (size, overflow) = range.upperBound.subtractingReportingOverflow(
                    range.lowerBound
                )
                guard !overflow, size < Self.countMax - count else {
                    return nil
                }
                count += Int(size) + 1
            }
        }
        self.ranges = ranges
    }

    var isEmpty: Bool { count == 0 }
    var stages: [Worker] {
        DeadLetters.stages.filter { stage in ranges.keys.contains { $0.stage == stage } }
    }

    func contains(_ position: DeadLetterPosition) -> Bool {
        let partition = DeadLetterPartition(stage: position.stage, partition: position.partition)
        guard let list = ranges[partition] else {
            return false
        }
        // The first range that does not end before it.
        var low = 0
        var high = list.count
        while low < high {
            let middle = (low + high) / 2
            if list[middle].upperBound < position.offset {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low < list.count && list[low].contains(position.offset)
    }

    /// Those of one stage.
    func of(_ stage: Worker) -> PositionSet {
        PositionSet(ranges.filter { $0.key.stage == stage }) ?? PositionSet()
    }

    private static func ranges(of offsets: [Int64]) -> [ClosedRange<Int64>] {
        var ranges: [ClosedRange<Int64>] = []
        for offset in offsets {
            if let last = ranges.last, last.upperBound + 1 == offset {
                ranges[ranges.count - 1] = last.lowerBound...offset
            } else {
                ranges.append(offset...offset)
            }
        }
        return ranges
    }

    /// `0-99,120`.
    static func text(_ ranges: [ClosedRange<Int64>]) -> String {
        ranges.map { range in
            range.count == 1 ? "\(range.lowerBound)" : "\(range.lowerBound)-\(range.upperBound)"
        }
        .joined(separator: ",")
    }

    /// `3`, `0-5`, `500-`, `-7`, and several with commas between.
    static func ranges(
        _ option: String,
        _ text: String
    ) throws(CommandFailure) -> [ClosedRange<Int64>] {
        var ranges: [ClosedRange<Int64>] = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let ends = part.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
            let bounds = ends.map { $0.isEmpty ? nil : Int64($0) }
            let areNumbers = zip(ends, bounds).allSatisfy { $0.isEmpty || $1 != nil }
            let lower = bounds[0] ?? 0
            let upper = bounds.count == 1 ? lower : bounds[1] ?? .max
            guard areNumbers, !(ends.count == 1 && ends[0].isEmpty), part != "-", lower >= 0,
                lower <= upper
            else {
                throw .usage(
                    "bad_value",
                    "\(option) is \"\(text)\": it must be a number or a range such as 3, 0-5 or 7-"
                )
            }
            ranges.append(lower...upper)
        }
        return ranges
    }
}
