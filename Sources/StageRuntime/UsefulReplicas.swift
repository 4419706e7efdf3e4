/// How many instances of a worker would still help, as one of them sees it.
///
/// The partitions bound it: what reads none does nothing. A worker that waits for somebody outside
/// (`report` for Apple) is bounded by what they let through.
package struct UsefulReplicas: Equatable, Sendable {
    /// Later than this, a partition is behind and not merely between two commits.
    package static let lagSecondsMin = 10.0
    /// Above this share of its time at work an instance has no room left for a burst.
    package static let busyShareMax = 0.7

    /// Of the topic with most of them.
    package var partitionCount: Int
    /// Of that topic, this instance's.
    package var assignedCount: Int
    /// Of these, those more than ``lagSecondsMin`` behind.
    package var laggingCount: Int
    /// 0 to 1: how much of its time this instance was at work.
    package var busyShare: Double
    /// How many instances those outside would keep busy; nil where there is no bound.
    package var bound: Int?
    /// Whether this instance keeps them as busy as one may.
    package var isFull: Bool

    package init(
        partitionCount: Int,
        assignedCount: Int,
        laggingCount: Int,
        busyShare: Double,
        bound: Int? = nil,
        isFull: Bool = false
    ) {
        self.partitionCount = partitionCount
        self.assignedCount = assignedCount
        self.laggingCount = laggingCount
        self.busyShare = busyShare
        self.bound = bound
        self.isFull = isFull
    }

    /// 0 where this instance has no partitions and so knows nothing: the largest value counts.
    package var count: Int {
        guard assignedCount > 0, partitionCount > 0 else {
            return 0
        }
        // Others are assumed to fare as this one does: partitions are spread by hash.
        let others = Double(partitionCount) / Double(assignedCount)
        let byLag = (Double(laggingCount) * others).rounded(.up)
        let byWork = (others * busyShare / Self.busyShareMax).rounded(.up)
        // What waits for those outside is in no lag.
        let wanted = max(Int(max(byLag, byWork)), isFull ? bound ?? 0 : 0)
        return min(max(min(wanted, bound ?? wanted), 1), partitionCount)
    }
}
