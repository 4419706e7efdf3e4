package import Kafka
package import TokenDomain

/// What is kept of a replay with the debt that it makes, and goes into its next dead letter.
extension DeadLetter.History {
    package init(_ history: ReplayHistory) {
        self = .none
        firstFailedAt = history.firstFailedAt
        attempts = history.attempts
        replayCount = history.replayCount
        replayID = history.replayID
    }
}

extension ReplayHistory {
    /// From a record's headers; nil where it is no replay.
    package init?(of record: RecordBatch.Record, in batch: RecordBatch) {
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
