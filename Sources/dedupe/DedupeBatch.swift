internal import Crypto
internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// The work of one batch: read as a whole, looked up with one question a partition, and then answered
/// record by record, each seeing what those before it took.
///
/// A value, so that its memory, which serves every batch, is reached without the checks and counts
/// that an object's costs at every record.
struct DedupeBatch {
    /// Index of `tokens.distinct` among the worker's targets.
    private static let distinct = 0
    /// Index of `tokens.refused` among the worker's sources.
    private static let refused = 1

    /// One record of the batch, read.
    private struct Candidate {
        var record: DecodedRecord
        /// Where its partition's questions are, and which of them is about its identity; the next
        /// one is about its period, where it has one.
        var questions: Int
        var identity: Int
        var hasPeriod: Bool
    }

    /// What is asked of one partition: no other partition's state is.
    private struct Questions {
        var partition: Int32
        var lookup: StoreLookup
    }

    /// What is hashed into the keys of the batch, side by side.
    private struct Material {
        var bytes: [UInt8] = []
        var ends: [Int] = []
    }

    /// Nil where the record could not be read, with the fault at the same index in `faults`, and
    /// where it is of `tokens.refused`.
    private var candidates: [Candidate?] = []
    private var faults: [Int: Fault] = [:]
    private var questions: [Questions] = []
    /// Of earlier batches, empty: their memory is used again.
    private var sparedLookups: [StoreLookup] = []
    private var texts: [UInt8] = []
    private var material = Material()
    private var digests: [UInt8] = []
    /// The value of the entry that is put.
    private var scratch: [UInt8] = []

    /// Concludes every record that could be read or not, after ``look(in:)``.
    mutating func conclude(_ batch: RecordBatch, into plan: inout BatchPlan) {
        // Apart from the texts, which are read while it is written.
        var scratch: [UInt8] = []
        swap(&scratch, &self.scratch)
        defer { swap(&scratch, &self.scratch) }
        for (index, record) in batch.records.enumerated() {
            if let candidate = candidates[index] {
                conclude(
                    candidate,
                    value: batch.arena.span.extracting(record.value.indices),
                    into: &plan,
                    &scratch
                )
            } else if let fault = faults[index] {
                plan.conclude(.deadLetter(fault), app: TokenTally.unknownApp)
            } else {
                precondition(record.topic == Self.refused, "a record was read or refused")
                plan.conclude(.settled("refused_token"))
            }
        }
    }

    /// Has the stores answer what the records that were read ask.
    func look(in state: StagedState) throws(StoreFault) {
        for asked in questions {
            try state.look(up: asked.lookup, partition: asked.partition)
        }
    }

    // MARK: Reading

    mutating func read(_ batch: RecordBatch) {
        candidates.removeAll(keepingCapacity: true)
        faults.removeAll(keepingCapacity: true)
        texts.removeAll(keepingCapacity: true)
        var material = Material()
        swap(&material, &self.material)
        material.bytes.removeAll(keepingCapacity: true)
        material.ends.removeAll(keepingCapacity: true)
        for asked in questions {
            asked.lookup.removeAll()
            sparedLookups.append(asked.lookup)
        }
        questions.removeAll(keepingCapacity: true)
        for (index, record) in batch.records.enumerated() {
            guard record.topic != Self.refused else {
                candidates.append(nil)
                continue
            }
            do throws(WireFault) {
                let value = batch.arena.span.extracting(record.value.indices)
                let read = try DecodedRecord(reading: value, texts: &texts)
                candidates.append(
                    Candidate(
                        record: read,
                        questions: questionsIndex(of: record.partition),
                        identity: 0,
                        hasPeriod: appendMaterial(of: read, to: &material)
                    )
                )
            } catch {
                candidates.append(nil)
                faults[index] = Fault(code: "dedupe.bad_record", message: error.message)
            }
        }
        Hash.sha256(each: material.bytes, ends: material.ends, into: &digests)
        swap(&material, &self.material)
        ask()
    }

    /// - Returns: whether the record has a period.
    private func appendMaterial(
        of record: DecodedRecord,
        to material: inout Material
    ) -> Bool {
        let customer = record.customer ?? 0..<0
        DedupeMaterial.appendIdentity(
            externalPurchaseID: texts.span.extracting(record.externalPurchaseID),
            customer: texts.span.extracting(customer),
            to: &material.bytes
        )
        material.ends.append(material.bytes.count)
        guard let period = record.period(texts: texts.span) else {
            return false
        }
        DedupeMaterial.appendPeriod(
            period,
            customer: texts.span.extracting(customer),
            to: &material.bytes
        )
        material.ends.append(material.bytes.count)
        return true
    }

    /// Puts the questions of each record with those of its partition.
    private mutating func ask() {
        var start = 0
        for index in candidates.indices {
            guard var candidate = candidates[index] else {
                continue
            }
            let lookup = questions[candidate.questions].lookup
            candidate.identity = ask(lookup, DedupeEntry.identityPrefix, digestAt: start)
            start += Hash.sha256ByteCount
            if candidate.hasPeriod {
                ask(lookup, DedupeEntry.periodPrefix, digestAt: start)
                start += Hash.sha256ByteCount
            }
            candidates[index] = candidate
        }
    }

    @discardableResult
    private func ask(_ lookup: StoreLookup, _ prefix: UInt8, digestAt start: Int) -> Int {
        lookup.ask { keys in
            keys.append(prefix)
            keys.append(contentsOf: digests[start..<start + DedupeKey.byteCount])
        }
    }

    /// Records of one partition mostly come one after the other.
    private mutating func questionsIndex(of partition: Int32) -> Int {
        if let last = questions.last, last.partition == partition {
            return questions.count - 1
        }
        if let index = questions.firstIndex(where: { $0.partition == partition }) {
            return index
        }
        questions.append(
            Questions(partition: partition, lookup: sparedLookups.popLast() ?? StoreLookup())
        )
        return questions.count - 1
    }

    // MARK: Answering

    private func conclude(
        _ candidate: Candidate,
        value: Span<UInt8>,
        into plan: inout BatchPlan,
        _ scratch: inout [UInt8]
    ) {
        let asked = questions[candidate.questions]
        let isKnown = plan.state.entry(
            candidate.identity,
            of: asked.lookup,
            partition: asked.partition
        ) { $0 != nil }
        // A repeat is one whatever its period says.
        let first: TokenID? =
            isKnown || !candidate.hasPeriod
            ? nil
            : plan.state.entry(
                candidate.identity + 1,
                of: asked.lookup,
                partition: asked.partition
            ) { Self.id($0) }
        switch SeenBefore(isKnown: isKnown, firstOfPeriod: first) {
        case .again:
            plan.conclude(.settled("repeat"), app: candidate.record.appAppleID)
        case .duplicate(let first):
            if forward(candidate, duplicateOf: first, value: value, into: &plan) {
                take(candidate, isFirstOfPeriod: false, into: &plan, &scratch)
            }
        case .primary:
            if forward(candidate, duplicateOf: nil, value: value, into: &plan) {
                take(candidate, isFirstOfPeriod: candidate.hasPeriod, into: &plan, &scratch)
            }
        }
    }

    private static func id(_ value: Span<UInt8>?) -> TokenID? {
        guard let value else {
            return nil
        }
        return unsafe value.withUnsafeBufferPointer { bytes in
            unsafe TokenID(String(decoding: bytes, as: UTF8.self))
        }
    }

    /// - Returns: whether Kafka takes the output; if not, the loop makes a dead letter of the
    ///   record, and nothing of it may be in the state: its replay would be a repeat.
    private func forward(
        _ candidate: Candidate,
        duplicateOf first: TokenID?,
        value: Span<UInt8>,
        into plan: inout BatchPlan
    ) -> Bool {
        let record = candidate.record
        let key = plan.outputs.place(texts.span.extracting(record.externalPurchaseID))
        let start = plan.outputs.arena.count
        record.write(
            duplicateOf: first,
            value: value,
            texts: texts.span,
            to: &plan.outputs.arena
        )
        let written = plan.outputs.placed(from: start)
        plan.outputs.outputs.append(
            OutputBatch.Output(topic: Self.distinct, key: key, value: written)
        )
        plan.conclude(.forward(outputCount: 1), app: candidate.record.appAppleID)
        return key.count + written.count <= plan.recordByteCountMax
    }

    /// Puts a token into the state.
    private func take(
        _ candidate: Candidate,
        isFirstOfPeriod: Bool,
        into plan: inout BatchPlan,
        _ scratch: inout [UInt8]
    ) {
        let asked = questions[candidate.questions]
        let keys = asked.lookup.keys
        let identity = asked.lookup.key(candidate.identity)
        let period = isFirstOfPeriod ? asked.lookup.key(candidate.identity + 1) : nil
        let record = candidate.record
        let id = record.externalPurchaseID
        // Behind the prefix of the table's keys.
        let periodKey = period.map { keys[$0.dropFirst()] }
        let keyStart = plan.outputs.arena.count
        DedupeRecord.appendChangelogKey(
            identity: keys[identity.dropFirst()],
            period: periodKey,
            to: &plan.outputs.arena
        )
        let changelogKey = plan.outputs.placed(from: keyStart)
        let valueStart = plan.outputs.arena.count
        DedupeRecord.appendChangelogValue(
            externalPurchaseID: texts.span.extracting(id),
            keysExpire: record.keysExpire,
            to: &plan.outputs.arena
        )
        let entries = plan.state.put(
            recordWithKey: changelogKey,
            value: plan.outputs.placed(from: valueStart),
            partition: asked.partition
        )
        scratch.removeAll(keepingCapacity: true)
        DedupeEntry.appendIdentityValue(
            keysExpire: record.keysExpire,
            period: periodKey,
            to: &scratch
        )
        entries.put(scratch.span, forKey: keys.span.extracting(identity))
        if let period {
            entries.put(texts.span.extracting(id), forKey: keys.span.extracting(period))
        }
    }
}
