internal import Kafka
internal import StateStore

extension WorkerLoop {
    private static let busyStepsPerQuestion = 20

    /// Partitions whose state is still being read, and how far.
    package var restoring: [(partition: Int32, progress: (next: Int64, end: Int64)?)] {
        restores.map { ($0.partition, $0.progress) }
    }
    /// One whose state another process holds, where all that are left are held; nil else.
    var lockedPartition: Int32? {
        restores.allSatisfy { $0.lockedSince != nil } ? restores.first?.partition : nil
    }

    /// Refuses shares of topics that are read together where their partition numbers differ.
    ///
    /// The changelog's partition, and so the state, is the input's number: with unlike shares two
    /// instances of one generation would write one state, which no fence hinders, and both stores would
    /// lack records of the other for good. Range assignment gives such shares where partitions were added
    /// to a topic, or where instances of another version read other topics. What has no partition here is
    /// left out: a topic that is missing for a moment.
    ///
    /// - Throws: the end of the worker with 75: its next start looks at the counts.
    func requireEqualShares(_ partitions: [TopicPartition]) throws(WorkerEnd) {
        let shares = Dictionary(grouping: partitions, by: \.topic).mapValues {
            $0.map(\.partition).sorted()
        }
        guard stage is any StatefulStage, Set(shares.values).count > 1 else {
            return
        }
        let list = shares.sorted { $0.key < $1.key }.map { topic, numbers in
            "\(topic) \(numbers.map(String.init).joined(separator: " "))"
        }
        throw WorkerEnd(
            exitCode: 75,
            sentence: "the group gives this instance unlike partitions of topics that are read"
                + " together (\(list.joined(separator: ", "))): were partitions added to one, or do"
                + " instances of another version run? `tollway topics plan` names such a topic"
        )
    }

    /// Refuses to go on where a changelog was made anew under the worker: what it writes now begins
    /// before the end of what its store has, and nothing else has that any more.
    ///
    /// - Parameters:
    ///   - changelog: the topic.
    ///   - offsets: behind what the last transaction wrote to it, by partition.
    /// - Throws: the end of the worker with 2; the stores stay as they were.
    func requireSameChangelog(
        _ changelog: String,
        _ offsets: [Int32: Int64]
    ) throws(WorkerEnd) {
        for (partition, offset) in offsets {
            // They lie one behind the other. A record of somebody else between them would make this
            // later than it was: it is never taken for an earlier one.
            let start = offset - Int64(state.settledCount(of: partition))
            guard let known = state.changelogOffset(of: partition), start < known else {
                continue
            }
            throw WorkerEnd.madeAnew(
                "\(changelog) partition \(partition) was written from \(start) to \(offset), and"
                    + " the state that was read from it ends at \(known)"
            )
        }
    }

    /// Every assigned partition's store is to be opened, and brought to the end of its changelog: until
    /// then the log holds back the partition's records.
    func beginRestores() {
        guard let changelogTopicIndex, let provider, let stateful = stage as? any StatefulStage
        else {
            return
        }
        let changelog = log.targets[changelogTopicIndex]
        restores = Set(assigned.map(\.partition)).sorted().map { partition in
            Restore(
                changelog: TopicPartition(topic: changelog, partition: partition),
                log: log,
                provider: provider,
                stage: stateful,
                telemetry: telemetry
            )
        }
    }

    /// Reads one slice of the state that lacks least, and has a partition worked on whose state is here:
    /// those that this instance had before do not wait for what it takes over from another.
    ///
    /// What is locked, or refused, is asked for by turns, and seldom while the others have work: a
    /// question that nobody answers keeps them waiting for a second.
    func restoreSlice(isBusy: Bool) throws -> Bool {
        guard
            let index = restores.indices.min(by: { one, other in
                let (one, other) = (restores[one], restores[other])
                return (one.rank, one.tryCount) < (other.rank, other.tryCount)
            })
        else {
            return false
        }
        let restore = restores[index]
        busyStepCount = isBusy && restore.rank == .max ? busyStepCount + 1 : 0
        guard busyStepCount % Self.busyStepsPerQuestion == 0 else {
            return false
        }
        guard let store = try restore.slice(waitMilliseconds: 50) else {
            if let progress = restore.progress {
                telemetry.restoring(partition: restore.partition, progress: progress)
            }
            return true
        }
        restores.remove(at: index)
        state.open(store, partition: restore.partition)
        (stage as? any TickingStage)?.assigned(
            state.partitions,
            isWhole: restores.isEmpty,
            state: state,
            now: clock()
        )
        log.release(restore.partition)
        telemetry.restored(partition: restore.partition, recordCount: restore.recordCount)
        return true
    }

    func closeRestores() {
        for restore in restores {
            restore.close()
        }
        restores = []
    }
}
