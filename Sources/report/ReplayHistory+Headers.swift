internal import Kafka
internal import StageRuntime
internal import TokenDomain

extension DeadLetter.History {
    init(_ history: ReplayHistory) {
        self = .none
        firstFailedAt = history.firstFailedAt
        attempts = history.attempts
        replayCount = history.replayCount
        replayID = history.replayID
    }
}

extension ReplayHistory {
    /// From a record's headers; nil where it is no replay.
    init?(of record: RecordBatch.Record, in batch: RecordBatch) {
        let history = DeadLetter.History(headers: record.headers, of: batch.arena)
        guard history != .none else {
            return nil
        }
        self.init(
            firstFailedAt: history.firstFailedAt,
            attempts: history.attempts,
            replayCount: history.replayCount,
            replayID: history.replayID
        )
    }
}
