internal import Crypto
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
    /// Index of `tokens.distinct` among the worker's targets.
    private static let distinct = 0

    /// One record of the batch, read.
    private struct Candidate {
        var record: DecodedRecord
        var identity: DedupeKey
        var period: DedupeKey?
        /// Where the answers lie in those of its partition.
        var answers: Range<Int>
    }

    /// A key within its partition: no other partition's state is asked.
    private struct Taken: Hashable {
        var partition: Int32
        var key: DedupeKey
    }

    private struct Lookup {
        var keys: [[UInt8]] = []
        var values: [[UInt8]?] = []
    }

    private var sweep = KeySweep()
    /// Nil where the record could not be read; the fault lies at the same index in `faults`.
    private var candidates: [Candidate?] = []
    private var faults: [Int: Fault] = [:]
    private var lookups: [Int32: Lookup] = [:]
    private var texts: [UInt8] = []
    private var material: [UInt8] = []
    /// What records of this batch took.
    private var identities: Set<Taken> = []
    private var periods: [Taken: [UInt8]] = [:]

    let derivesFromPrevious = false

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        read(batch)
        do throws(StoreFault) {
            for (partition, lookup) in lookups {
                lookups[partition]?.values = try plan.state.values(
                    lookup.keys,
                    partition: partition
                )
            }
            for removal in try sweep.expired(in: plan.state, now: plan.now) {
                plan.state.put(
                    nil,
                    forKey: removal.changelogKey,
                    showing: [],
                    partition: removal.partition
                )
            }
        } catch {
            plan.storeFault = error
            for _ in batch.records {
                plan.conclude(.settled("store_fault"))
            }
            return
        }
        for (index, record) in batch.records.enumerated() {
            if let candidate = candidates[index] {
                conclude(candidate, partition: record.partition, into: &plan)
            } else if let fault = faults[index] {
                plan.conclude(.deadLetter(fault), app: TokenTally.unknownApp)
            } else {
                preconditionFailure("a record was read or refused")
            }
        }
    }

    // MARK: Reading

    private func read(_ batch: RecordBatch) {
        candidates.removeAll(keepingCapacity: true)
        faults.removeAll(keepingCapacity: true)
        lookups.removeAll(keepingCapacity: true)
        texts.removeAll(keepingCapacity: true)
        identities.removeAll(keepingCapacity: true)
        periods.removeAll(keepingCapacity: true)
        for (index, record) in batch.records.enumerated() {
            do throws(WireFault) {
                let value = batch.arena.span.extracting(record.value.indices)
                candidates.append(
                    candidate(
                        try DecodedRecord(reading: value, texts: &texts),
                        partition: record.partition
                    )
                )
            } catch {
                candidates.append(nil)
                faults[index] = Fault(code: "dedupe.bad_record", message: error.message)
            }
        }
    }

    /// Computes a record's keys and puts its questions with those of its partition.
    private func candidate(_ record: DecodedRecord, partition: Int32) -> Candidate {
        let customer = record.customer ?? 0..<0
        material.removeAll(keepingCapacity: true)
        DedupeMaterial.appendIdentity(
            externalPurchaseID: texts.span.extracting(record.externalPurchaseID),
            customer: texts.span.extracting(customer),
            to: &material
        )
        let identity = DedupeKey(Hash.sha256(material).span)
        var period: DedupeKey?
        if let value = record.period {
            material.removeAll(keepingCapacity: true)
            DedupeMaterial.appendPeriod(
                value,
                customer: texts.span.extracting(customer),
                to: &material
            )
            period = DedupeKey(Hash.sha256(material).span)
        }
        let start = lookups[partition, default: Lookup()].keys.count
        lookups[partition, default: Lookup()].keys.append(DedupeEntry.key(ofIdentity: identity))
        if let period {
            lookups[partition, default: Lookup()].keys.append(DedupeEntry.key(ofPeriod: period))
        }
        return Candidate(
            record: record,
            identity: identity,
            period: period,
            answers: start..<start + (period == nil ? 1 : 2)
        )
    }

    // MARK: Answering

    private func conclude(
        _ candidate: Candidate,
        partition: Int32,
        into plan: inout BatchPlan
    ) {
        let identity = Taken(partition: partition, key: candidate.identity)
        let period = candidate.period.map { Taken(partition: partition, key: $0) }
        let isKnown =
            answer(candidate.answers.lowerBound, partition) != nil || identities.contains(identity)
        let first = period.flatMap { period in
            answer(candidate.answers.lowerBound + 1, partition) ?? periods[period]
        }
        switch SeenBefore(
            isKnown: isKnown,
            firstOfPeriod: first.map { TokenID(String(decoding: $0, as: UTF8.self)) }
        ) {
        case .again:
            plan.conclude(.settled("repeat"), app: candidate.record.appAppleID)
        case .duplicate:
            identities.insert(identity)
            forward(candidate, duplicateOf: first, into: &plan)
            take(candidate, isFirstOfPeriod: false, partition: partition, state: plan.state)
        case .primary:
            identities.insert(identity)
            forward(candidate, duplicateOf: nil, into: &plan)
            let id = take(candidate, isFirstOfPeriod: true, partition: partition, state: plan.state)
            if let period {
                periods[period] = id
            }
        }
    }

    private func answer(_ index: Int, _ partition: Int32) -> [UInt8]? {
        lookups[partition]?.values[index]
    }

    private func forward(
        _ candidate: Candidate,
        duplicateOf first: [UInt8]?,
        into plan: inout BatchPlan
    ) {
        let key = plan.outputs.place(texts[candidate.record.externalPurchaseID])
        let start = plan.outputs.arena.count
        candidate.record.write(duplicateOf: first, texts: texts, to: &plan.outputs.arena)
        let value = ByteRange(start: start, count: plan.outputs.arena.count - start)
        plan.outputs.outputs.append(
            OutputBatch.Output(topic: Self.distinct, key: key, value: value)
        )
        plan.conclude(.forward(outputCount: 1), app: candidate.record.appAppleID)
    }

    /// Puts a token into the state.
    ///
    /// - Returns: its id.
    @discardableResult
    private func take(
        _ candidate: Candidate,
        isFirstOfPeriod: Bool,
        partition: Int32,
        state: StagedState
    ) -> [UInt8] {
        let record = DedupeRecord(
            identity: candidate.identity,
            period: isFirstOfPeriod ? candidate.period : nil,
            externalPurchaseID: Array(texts[candidate.record.externalPurchaseID]),
            keysExpire: candidate.record.keysExpire
        )
        var shown = [
            (
                key: DedupeEntry.key(ofIdentity: record.identity),
                value: DedupeEntry.identityValue(
                    keysExpire: record.keysExpire,
                    period: record.period
                )
            )
        ]
        if let period = record.period {
            shown.append((DedupeEntry.key(ofPeriod: period), record.externalPurchaseID))
        }
        state.put(
            record.changelogValue(),
            forKey: record.changelogKey,
            showing: shown,
            partition: partition
        )
        return record.externalPurchaseID
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
