internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// Tells a customer's tokens apart: the first of a period, its duplicates, and repeats.
///
/// A batch is read as a whole, looked up with one question a partition, and then answered record by
/// record, each seeing what those before it took: the lowest offset is the first.
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
                    remove(removal, in: &plan)
                }
            }
        } catch {
            plan.storeFault = error
            for _ in batch.records {
                plan.conclude(.settled("store_fault"))
            }
            return
        }
        work.conclude(batch, into: &plan)
    }

    private func remove(_ removal: KeySweep.Expired, in plan: inout BatchPlan) {
        let entries = plan.state.put(
            recordWithKey: plan.outputs.place(removal.changelogKey),
            value: .absent,
            partition: removal.partition
        )
        entries.remove(key: DedupeEntry.key(ofIdentity: removal.identity).span)
        if let period = removal.period {
            entries.remove(key: DedupeEntry.key(ofPeriod: period).span)
        }
    }

    // MARK: State

    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {
        guard let (identity, period) = DedupeRecord.keys(inChangelogKey: key) else {
            return changes.refuse(because: "its key is none of this worker's")
        }
        guard let value else {
            changes.remove(key: DedupeEntry.key(ofIdentity: identity), from: .state)
            if let period {
                changes.remove(key: DedupeEntry.key(ofPeriod: period), from: .state)
            }
            return
        }
        let record: DedupeRecord
        do {
            record = try DedupeRecord(identity: identity, period: period, changelogValue: value)
        } catch {
            return changes.refuse(because: error.message)
        }
        changes.put(
            DedupeEntry.identityValue(keysExpire: record.keysExpire, period: period),
            forKey: DedupeEntry.key(ofIdentity: identity),
            in: .state
        )
        if let period {
            changes.put(
                record.externalPurchaseID,
                forKey: DedupeEntry.key(ofPeriod: period),
                in: .state
            )
        }
    }
}
