internal import StageRuntime
internal import StateStore

/// In which groups of the due table items may wait for a record or a token, stand in a token's queue or be
/// under way.
///
/// Most sales are waited for by nobody. To learn that from the store costs a scan, twice a sale; here
/// it is a byte in memory: how many items are in the groups that share it. Each flush of the book counts the
/// items that came into a group and those that left it, so what is denied is so. What is not denied the store
/// must be asked for: two groups may share a byte, and a byte that was full counts no more.
final class WaitingGroups {
    struct Limits {
        /// 256 KiB a partition.
        var byteCount = 1 << 18
        /// Entries looked at when a partition is new: where as many items wait, nothing is denied.
        var entryCountMax = 100_000
        /// Items that come into a group until it is looked again whether as many wait.
        var addedCountMax = 1 << 16
    }

    private final class Counts {
        var bytes: [UInt8]
        /// Not all that wait are counted.
        var isDoubted = false
        var addedCount = 0

        init(count: Int) {
            bytes = [UInt8](repeating: 0, count: count)
        }

        func add(_ index: Int, itemCount: Int = 1) {
            bytes[index] = UInt8(clamping: Int(bytes[index]) + itemCount)
        }

        func remove(_ index: Int) {
            if bytes[index] > 0, bytes[index] < .max {
                bytes[index] -= 1
            }
        }
    }

    private let limits: Limits
    private var partitions: [Int32: Counts] = [:]

    init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// An item is put into a group: it counts there until ``leave(_:partition:)``, and once more when the
    /// book is flushed, as long as it stays.
    ///
    /// - Returns: where it counts.
    func join(_ group: [UInt8], partition: Int32) -> Int {
        let index = index(of: group[...])
        partitions[partition]?.add(index)
        return index
    }

    /// Ends what ``join(_:partition:)`` began; where the counts are younger, they have it of
    /// ``RecentChanges``.
    func leave(_ index: Int, partition: Int32) {
        partitions[partition]?.remove(index)
    }

    /// What the due table has of a record is another now, committed or not.
    func change(_ change: DueChange, partition: Int32) {
        guard let counts = partitions[partition] else {
            return
        }
        change.before.forEach { key, _ in
            if Self.isAskedFor(key) {
                counts.remove(index(of: key))
            }
        }
        change.after.forEach { key, _ in
            if Self.isAskedFor(key) {
                counts.add(index(of: key))
                counts.addedCount += 1
            }
        }
    }

    /// Whether an item may wait for what a group's entries wait for, or for its turn there.
    ///
    /// - Throws: what the disk answers.
    func mayWait(
        in group: [UInt8],
        partition: Int32,
        _ state: StagedState,
        _ recent: RecentChanges
    ) throws(StoreFault) -> Bool {
        let index = index(of: group[...])
        if let counts = partitions[partition],
            !counts.isDoubted || counts.addedCount <= limits.addedCountMax
        {
            return counts.isDoubted || counts.bytes[index] > 0
        }
        let counts = try count(partition, state, recent)
        partitions[partition] = counts
        return counts.isDoubted || counts.bytes[index] > 0
    }

    /// Whether more items may wait for what a group's entries wait for than so many who do.
    func mayHaveMore(than count: Int, in group: [UInt8], partition: Int32) -> Bool {
        guard let counts = partitions[partition], !counts.isDoubted else {
            return true
        }
        let known = counts.bytes[index(of: group[...])]
        return known == .max || Int(known) > count
    }

    /// What was put did not happen, or other partitions are ours now.
    func dropAll() {
        partitions = [:]
    }

    /// The regions whose groups are asked for.
    private static let regions: [BookDue.Region] = [.reference, .token, .queued, .sent]

    private static func isAskedFor(_ entry: ArraySlice<UInt8>) -> Bool {
        regions.contains { $0.rawValue == entry.first }
    }

    /// Of the region and the record that an entry, or a group of entries, waits for.
    private func index(of entry: ArraySlice<UInt8>) -> Int {
        let count = BookDue.targetByteCount(of: entry)
        var hasher = Hasher()
        unsafe entry.withUnsafeBytes { bytes in
            unsafe hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: bytes.prefix(count)))
        }
        return Int(UInt(bitPattern: hasher.finalize()) % UInt(limits.byteCount))
    }

    /// Counts what the store has and what was put that it may not show: some of it twice, and what has
    /// left its group since the last commit as well, for nobody asks in vain often.
    private func count(
        _ partition: Int32,
        _ state: StagedState,
        _ recent: RecentChanges
    ) throws(StoreFault) -> Counts {
        let counts = Counts(count: limits.byteCount)
        var room = limits.entryCountMax
        for region in Self.regions {
            let start = BookDue.start(region)
            try state.scan(.due, partition: partition, from: start, within: start) { entry, _ in
                counts.add(index(of: entry[...]))
                room -= 1
                return room > 0
            }
        }
        for (group, itemCount) in recent.groups {
            counts.add(index(of: group.bytes[...]), itemCount: itemCount)
        }
        counts.isDoubted = room <= 0
        return counts
    }
}
