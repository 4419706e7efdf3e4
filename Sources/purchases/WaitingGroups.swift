internal import StageRuntime
internal import StateStore

/// In which groups of the due table items may wait for a record or a token, stand in a token's queue or be
/// under way.
///
/// Most sales are waited for by nobody. To learn that from the store costs a scan, twice a sale; here
/// it is a bit in memory. A bit is set with each group that an item is put into and never cleared: what
/// is denied is so, and what is not denied the store must be asked for. When many bits were set the
/// partition's are made anew, from what the store and ``RecentChanges`` have together.
final class WaitingGroups {
    struct Limits {
        /// 128 KiB a partition; a multiple of 64.
        var bitCount = 1 << 20
        /// Groups added to a partition's bits before they are made anew.
        var addedCountMax = 1 << 16
        /// Entries looked at for that: where as many items wait, nothing is denied until the next
        /// time.
        var entryCountMax = 100_000
    }

    private struct Bits {
        var words: [UInt64]
        var addedCount = 0

        init(count: Int) {
            words = [UInt64](repeating: 0, count: count / 64)
        }

        mutating func add(_ group: BookKey) {
            let bit = bit(group)
            words[bit / 64] |= 1 << UInt64(bit % 64)
        }

        func has(_ group: BookKey) -> Bool {
            let bit = bit(group)
            return words[bit / 64] & 1 << UInt64(bit % 64) != 0
        }

        private func bit(_ group: BookKey) -> Int {
            Int(UInt(bitPattern: group.hashValue) % UInt(words.count * 64))
        }
    }

    private let limits: Limits
    private var partitions: [Int32: Bits] = [:]

    init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// An item was put into a group.
    func add(_ group: [UInt8], partition: Int32) {
        if Self.regions.contains(where: { group.first == $0.rawValue }) {
            partitions[partition]?.add(Self.target(group))
            partitions[partition]?.addedCount += 1
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
        let target = Self.target(group)
        if let bits = partitions[partition], bits.addedCount <= limits.addedCountMax {
            return bits.has(target)
        }
        let bits = try makeBits(partition, state, recent)
        partitions[partition] = bits
        return bits.has(target)
    }

    /// Other partitions are ours now.
    func dropAll() {
        partitions = [:]
    }

    /// The regions whose groups are asked for.
    private static let regions: [BookDue.Region] = [.reference, .token, .queued, .sent]

    private static func target(_ entry: [UInt8]) -> BookKey {
        BookKey(bytes: BookDue.target(of: entry))
    }

    private func makeBits(
        _ partition: Int32,
        _ state: StagedState,
        _ recent: RecentChanges
    ) throws(StoreFault) -> Bits {
        var bits = Bits(count: limits.bitCount)
        var room = limits.entryCountMax
        for region in Self.regions {
            let start = BookDue.start(region)
            try state.scan(.due, partition: partition, from: start, within: start) { entry, _ in
                bits.add(Self.target(entry))
                room -= 1
                return room > 0
            }
        }
        for group in recent.groups {
            bits.add(Self.target(group.bytes))
        }
        if room <= 0 {
            bits.words = bits.words.map { _ in .max }
        }
        return bits
    }
}
