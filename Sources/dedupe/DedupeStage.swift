internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// Tells a customer's tokens apart: the primary of a period, its duplicates, and repeats.
///
/// A batch is read as a whole, looked up with one question a partition, and then answered record by
/// record, each seeing what those before it took. The primary is the token with the lowest offset in
/// `decoded` that Apple has not refused, in whatever order tokens and refusals are read.
final class DedupeStage: StatefulStage {
    private var sweep = KeySweep()
    private var forgetting = ForgettingClock()
    private var work = DedupeBatch()

    let derivesFromPrevious = false

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        work.read(batch)
        if let milliseconds = batch.oldestTimestampMilliseconds {
            forgetting.heard(recordTime: Timestamp(milliseconds: milliseconds))
        }
        do throws(StoreFault) {
            try work.look(in: plan.state)
            if let horizon = forgetting.horizon(now: plan.now) {
                for removal in try sweep.expired(by: horizon, in: plan.state, now: plan.now) {
                    removal.remove(in: &plan)
                }
            }
            try work.conclude(batch, into: &plan)
        } catch {
            plan.storeFault = error
            while plan.verdicts.count < batch.records.count {
                plan.conclude(.settled("store_fault"))
            }
        }
    }

    func outputsBesideDeadLetter(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        into plan: inout BatchPlan
    ) -> Int { DedupeBatch.appendSeen(record, of: batch, into: &plan) }

    // MARK: State

    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {
        guard let (identity, place) = DedupeRecord.keys(inChangelogKey: key) else {
            return changes.refuse(because: "its key is none of this worker's")
        }
        guard let value else {
            for key in DedupeRecord.entryKeys(identity: identity, place: place) {
                changes.remove(key: key, from: .state)
            }
            return
        }
        do throws(WireFault) {
            try DedupeRecord(identity: identity, place: place, changelogValue: value)
                .write(to: &changes)
        } catch {
            changes.refuse(because: error.message)
        }
    }
}
