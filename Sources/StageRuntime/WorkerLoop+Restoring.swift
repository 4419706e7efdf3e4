internal import Kafka
internal import StateStore

extension WorkerLoop {
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
