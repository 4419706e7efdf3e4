internal import StateStore
internal import TokenDomain

/// The earliest deadline of each queue that has something due.
///
/// From the due table and not from the few debts in memory: a lane that is stopped takes none, and
/// what waits to be tried again is due all the same. Each queue costs a look-up in each partition, so
/// where there are many, partitions are looked at by turns, and are as old as one round of it.
struct FirstDeadlines {
    /// Of one round of measures.
    static let lookUpCountMax = 8

    private var known: [Int32: [SendQueue: Timestamp]] = [:]
    /// Looked at longest ago first.
    private var turns: [Int32] = []

    /// Other partitions are ours now.
    mutating func restart() {
        self = FirstDeadlines()
    }

    /// Looks at partitions until that were many look-ups, at one at least, and at all of them at
    /// first.
    mutating func look(
        in partitions: [Int32],
        _ table: DueTable
    ) throws(StoreFault) -> [SendQueue: Timestamp] {
        if turns.isEmpty {
            turns = partitions
        }
        var lookUpCount = 0
        for partition in turns where lookUpCount < Self.lookUpCountMax || known[partition] == nil {
            var found: [SendQueue: Timestamp] = [:]
            lookUpCount += try table.visitMostUrgent(in: partition) { queue, deadline, _ in
                found[queue] = min(found[queue] ?? deadline, deadline)
            }
            known[partition] = found
            turns.removeFirst()
            turns.append(partition)
        }
        return known.values.reduce(into: [:]) { all, found in
            all.merge(found, uniquingKeysWith: min)
        }
    }
}
