internal import CKafka

extension [ckafka_output] {
    /// Moves the first output of every partition that is named to the front; the order within a partition
    /// stays.
    ///
    /// Librdkafka asks the coordinator for the partitions of a transaction a millisecond after its first
    /// record, for all that have a record by then, and its main thread spins for that millisecond (2.0.2
    /// sleeps in whole ones, and waits for the rest of a timer without sleep). Partitions that come later
    /// cost a question and a millisecond of a processor more: behind 10,000 records of other topics, those
    /// of the changelog did.
    mutating func moveFirstsForward() {
        let firsts = firstIndices()
        guard let last = firsts.last, last >= firsts.count else {
            return
        }
        let moved = firsts.map { self[$0] }
        var target = last
        var left = firsts[...]
        for source in indices[...last].reversed() {
            if source == left.last {
                left.removeLast()
                continue
            }
            self[target] = self[source]
            target -= 1
        }
        replaceSubrange(0..<moved.count, with: moved)
    }

    private func firstIndices() -> [Int] {
        var seen: Set<Place> = []
        var last: Place?
        var firsts: [Int] = []
        for (index, output) in enumerated() where output.partition >= 0 {
            let place = Place(topic: output.topic, partition: output.partition)
            // Mostly in runs of one partition.
            if place != last, seen.insert(place).inserted {
                firsts.append(index)
            }
            last = place
        }
        return firsts
    }
}

private struct Place: Hashable {
    var topic: Int32
    var partition: Int32
}
