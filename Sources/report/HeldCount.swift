internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// How many tokens are held for each lane: known, and neither reported nor refused yet.
///
/// The due table may be long, so it is counted in slices, and a count stands until the next one is
/// complete.
struct HeldCount {
    /// Entries looked at in one slice.
    static let entryCountMax = 10_000

    private var partitions: [Int32] = []
    private var next: [UInt8]?
    private var counts: [Lane: Int] = [:]
    /// Lanes told of, so that one that became empty is told as such.
    private var told: Set<Lane> = []

    /// Begins anew: other partitions are ours now.
    mutating func restart() {
        partitions = []
        next = nil
        counts = [:]
    }

    /// Nothing is ours any more: zero for every lane told of.
    mutating func forgetAll() -> [Lane: Int] {
        restart()
        defer { told = [] }
        return Dictionary(uniqueKeysWithValues: told.map { ($0, 0) })
    }

    /// Counts on.
    ///
    /// - Returns: the counts of all lanes, where this slice completed them.
    mutating func count(
        in owned: [Int32],
        _ state: StagedState
    ) throws(StoreFault) -> [Lane: Int]? {
        if partitions.isEmpty {
            partitions = owned
        }
        var left = Self.entryCountMax
        while let partition = partitions.last, left > 0 {
            var resumeAt: [UInt8]?
            var found: [Lane: Int] = [:]
            try state.scan(
                .due,
                partition: partition,
                from: next ?? DueKey.start(.ready)
            ) { entry, note in
                guard left > 0 else {
                    resumeAt = entry
                    return false
                }
                guard entry.first != DueKey.Region.forgotten.rawValue else {
                    return false
                }
                left -= 1
                if let lane = DueKey.heldLane(note: note) {
                    found[lane, default: 0] += 1
                }
                return true
            }
            counts.merge(found, uniquingKeysWith: +)
            next = resumeAt
            if resumeAt == nil {
                partitions.removeLast()
            }
        }
        guard partitions.isEmpty else {
            return nil
        }
        var complete = counts
        for lane in told where complete[lane] == nil {
            complete[lane] = 0
        }
        told = Set(counts.keys)
        counts = [:]
        return complete
    }
}
