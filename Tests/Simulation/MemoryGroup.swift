internal import Kafka

/// A consumer group in memory: eager rebalances, generations, committed offsets.
struct MemoryGroup {
    enum MemberState {
        /// Works in the present generation.
        case settled
        /// Has given back all partitions and waits for the others.
        case joining
    }

    var generation = 0
    var members: [Int: MemberState] = [:]
    var committed: [TopicPartition: Int64] = [:]
    private(set) var isRebalancing = false

    mutating func join(_ member: Int) {
        members[member] = .joining
        isRebalancing = true
    }

    /// It left, or its session ended.
    mutating func leave(_ member: Int) {
        guard members.removeValue(forKey: member) != nil else {
            return
        }
        isRebalancing = true
    }

    mutating func letGo(_ member: Int) {
        guard members[member] != nil else {
            return
        }
        members[member] = .joining
    }

    /// Ends the rebalance once all members have given their partitions back.
    mutating func settle() {
        guard isRebalancing, !members.isEmpty, members.values.allSatisfy({ $0 == .joining }) else {
            return
        }
        generation += 1
        isRebalancing = false
        for member in members.keys {
            members[member] = .settled
        }
    }

    /// Range assignment: the same partition numbers of every topic go to the same member.
    func partitions(
        of member: Int,
        topics: [(name: String, partitionCount: Int)]
    ) -> [TopicPartition] {
        let order = members.keys.sorted()
        guard let index = order.firstIndex(of: member) else {
            return []
        }
        return topics.flatMap { topic in
            let share = topic.partitionCount / order.count
            let extra = topic.partitionCount % order.count
            let start = index * share + min(index, extra)
            let count = share + (index < extra ? 1 : 0)
            return (start..<start + count).map {
                TopicPartition(topic: topic.name, partition: Int32($0))
            }
        }
    }

    /// Positions of an older generation, or of somebody who is no member, are refused.
    func fences(_ transaction: MemoryCluster.Transaction) -> Bool {
        transaction.generation != generation || members[transaction.member] == nil
    }
}
