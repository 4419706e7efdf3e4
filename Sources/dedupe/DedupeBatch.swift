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
    static let distinct = 0
    /// Index of `tokens.refused` among the worker's sources.
    static let refused = 1

    /// One record of the batch, read.
    struct Candidate {
        var record: DecodedRecord.Taken
        /// Where its partition's questions are, and which of them is about its identity; the next
        /// one is about its period, where it has one.
        var questions: Int
        var identity: Int
        var hasPeriod: Bool
    }

    /// A record of `tokens.refused`, read.
    struct Refusal {
        var token: TokenRefused
        /// Where its partition's questions are, and which of them is about its identity.
        var questions: Int
        var identity: Int
    }

    /// What is asked of one partition: no other partition's state is.
    struct Questions {
        var partition: Int32
        var lookup: StoreLookup
    }

    /// What is hashed into the keys of the batch, side by side.
    private struct Material {
        var bytes: [UInt8] = []
        var ends: [Int] = []
    }

    /// What a record was read as; a refusal and a fault by their index, for both are rare and large.
    private enum Reading {
        case token(Candidate)
        case refusal(Int)
        case fault(Int)
    }

    /// Of each record, in order.
    private var readings: [Reading] = []
    private var refusals: [Refusal] = []
    private var faults: [Fault] = []
    private(set) var questions: [Questions] = []
    /// Of earlier batches, empty: their memory is used again.
    private var sparedLookups: [StoreLookup] = []
    private(set) var texts: [UInt8] = []
    private var material = Material()
    private var digests: [UInt8] = []
    /// The value of the entry that is put.
    private var scratch: [UInt8] = []

    /// Concludes every record that could be read or not, after ``look(in:)``.
    ///
    /// - Throws: what the disk answers where a refusal asks for more; the rest is not concluded.
    mutating func conclude(
        _ batch: RecordBatch,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        // Apart from the texts, which are read while it is written.
        var scratch: [UInt8] = []
        swap(&scratch, &self.scratch)
        defer { swap(&scratch, &self.scratch) }
        for (index, record) in batch.records.enumerated() {
            switch readings[index] {
            case .token(let candidate):
                conclude(
                    candidate,
                    value: batch.arena.span.extracting(record.value.indices),
                    into: &plan,
                    &scratch
                )
            case .refusal(let number):
                try conclude(refusals[number], into: &plan)
            case .fault(let number):
                let isToken = record.topic != Self.refused
                let seenCount = Self.appendSeen(record, of: batch, into: &plan)
                plan.conclude(
                    .deadLetter(faults[number], outputCount: seenCount),
                    app: isToken ? TokenTally.unknownApp : nil
                )
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
        readings.removeAll(keepingCapacity: true)
        refusals.removeAll(keepingCapacity: true)
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
        for record in batch.records {
            do throws(WireFault) {
                let value = batch.arena.span.extracting(record.value.indices)
                guard record.topic != Self.refused else {
                    let token = try TokenRefused(reading: value)
                    readings.append(.refusal(refusals.count))
                    refusals.append(
                        Refusal(
                            token: token,
                            questions: questionsIndex(of: record.partition),
                            identity: 0
                        )
                    )
                    Self.appendMaterial(of: token, to: &material)
                    continue
                }
                let read = try DecodedRecord(reading: value, texts: &texts)
                readings.append(
                    .token(
                        Candidate(
                            record: read.taken,
                            questions: questionsIndex(of: record.partition),
                            identity: 0,
                            hasPeriod: appendMaterial(of: read, to: &material)
                        )
                    )
                )
            } catch {
                readings.append(.fault(faults.count))
                faults.append(Fault(code: "dedupe.bad_record", message: error.message))
            }
        }
        Hash.sha256(each: material.bytes, ends: material.ends, into: &digests)
        swap(&material, &self.material)
        ask()
    }

    private static func appendMaterial(of token: TokenRefused, to material: inout Material) {
        DedupeMaterial.appendIdentity(
            externalPurchaseID: Array(token.externalPurchaseID.text.utf8).span,
            customer: Array((token.customer?.text ?? "").utf8).span,
            to: &material.bytes
        )
        material.ends.append(material.bytes.count)
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
        for index in readings.indices {
            switch readings[index] {
            case .token(var candidate):
                let lookup = questions[candidate.questions].lookup
                candidate.identity = ask(lookup, DedupeEntry.identityPrefix, digestAt: start)
                start += Hash.sha256ByteCount
                if candidate.hasPeriod {
                    ask(lookup, DedupeEntry.periodPrefix, digestAt: start)
                    start += Hash.sha256ByteCount
                }
                readings[index] = .token(candidate)
            case .refusal(let number):
                let lookup = questions[refusals[number].questions].lookup
                refusals[number].identity = ask(
                    lookup,
                    DedupeEntry.identityPrefix,
                    digestAt: start
                )
                start += Hash.sha256ByteCount
            case .fault:
                break
            }
        }
    }

    @discardableResult
    private func ask(_ lookup: StoreLookup, _ prefix: UInt8, digestAt start: Int) -> Int {
        lookup.ask(
            digests.span.extracting(start..<start + DedupeKey.byteCount),
            behind: prefix
        )
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
        func entry(_ question: Int) -> [UInt8]? {
            plan.state.entry(question, of: asked.lookup, partition: asked.partition)
        }
        let identity = entry(candidate.identity)
        let isRefused = identity.map { DedupeEntry.isRefusedUnheard($0.span) } ?? false
        let isKnown = identity != nil && !isRefused
        // A repeat is one whatever its period says.
        let head =
            isKnown || !candidate.hasPeriod
            ? nil : entry(candidate.identity + 1).map { PeriodHead(entry: $0.span) }
        let primary: TokenID?
        switch SeenBefore(isKnown: isKnown, primaryOfPeriod: head?.primaryID) {
        case .again:
            return plan.conclude(.settled("repeat"), app: candidate.record.appAppleID)
        case .duplicate(let token): primary = token
        case .primary: primary = nil
        }
        guard
            let token = forward(candidate, duplicateOf: primary, value: value, into: &plan)
        else {
            return
        }
        guard candidate.hasPeriod,
            let next = self.head(with: candidate, after: head, isRefused: isRefused)
        else {
            return takeFirst(candidate, into: &plan, &scratch)
        }
        take(
            candidate,
            next,
            // The first of a period is its primary once more by its index alone.
            token: next.count > 1 ? Array(plan.outputs.arena[token]) : nil,
            isRefused: isRefused,
            into: &plan
        )
    }

    /// - Returns: where the token lies among the outputs, without its role; nil where Kafka does not
    ///   take the output: the loop makes a dead letter of the record then, and nothing of it may be
    ///   in the state, for its replay would be a repeat.
    private func forward(
        _ candidate: Candidate,
        duplicateOf primary: TokenID?,
        value: Span<UInt8>,
        into plan: inout BatchPlan
    ) -> Range<Int>? {
        let record = candidate.record
        let key = plan.outputs.place(texts.span.extracting(record.externalPurchaseID))
        let start = plan.outputs.arena.count
        record.writeToken(value: value, texts: texts.span, to: &plan.outputs.arena)
        let end = plan.outputs.arena.count
        DecodedRecord.writeRole(duplicateOf: primary, to: &plan.outputs.arena)
        let written = plan.outputs.placed(from: start)
        plan.outputs.outputs.append(
            OutputBatch.Output(topic: Self.distinct, key: key, value: written)
        )
        plan.conclude(.forward(outputCount: 1), app: candidate.record.appAppleID)
        return key.count + written.count <= plan.recordByteCountMax ? start..<end : nil
    }
}
