internal import Kafka
internal import StateStore

extension WorkerLoop {
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

    /// Refuses to go on where a changelog was made anew under the worker: what it writes from then on lies
    /// before what its store has, and nothing else has that any more.
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
            guard let known = state.changelogOffset(of: partition), offset < known else {
                continue
            }
            throw WorkerEnd.madeAnew(
                "\(changelog) partition \(partition) ends at \(offset), and the state that was read"
                    + " from it at \(known)"
            )
        }
    }

    /// Every assigned partition's store is to be opened, and brought to the end of its changelog.
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

    func restoreSlice() throws -> Bool {
        guard let restore = restores.last else {
            return false
        }
        guard let store = try restore.slice(waitMilliseconds: 50) else {
            if let progress = restore.progress {
                telemetry.restoring(partition: restore.partition, progress: progress)
            }
            return true
        }
        restores.removeLast()
        state.open(store, partition: restore.partition)
        telemetry.restored(partition: restore.partition, recordCount: restore.recordCount)
        if restores.isEmpty {
            (stage as? any TickingStage)?.assigned(state.partitions, state: state, now: clock())
        }
        return true
    }

    func closeRestores() {
        for restore in restores {
            restore.close()
        }
        restores = []
    }
}
