internal import Kafka
internal import TokenDomain

/// What the verdicts of a batch mean for the transaction.
///
/// The dead letter of a record is written here, byte for byte, and nowhere else; those of debts that
/// their stage found refused, ``OwnDeadLetters``.
struct CommitPlan {
    struct Context {
        var worker: Worker
        var group: String
        var sources: [String]
        var deadLetterTopicIndex: Int?
        var recordByteCountMax: Int
        var deadLetterByteCountMax: Int
        var now: Timestamp
    }

    /// Appends what goes out beside the dead letter of a record that its stage would have forwarded.
    ///
    /// - Returns: how many outputs that are.
    typealias Beside = (RecordBatch.Record, inout BatchPlan) -> Int

    private let batch: RecordBatch
    private let context: Context

    /// Turns verdicts into outputs, and checks that stage and loop agree on them.
    ///
    /// Outputs before the index `firstOutput` come of earlier batches.
    static func enact(
        _ plan: inout BatchPlan,
        on batch: RecordBatch,
        from firstOutput: Int,
        context: Context,
        beside: Beside = { _, _ in 0 }
    ) {
        let commit = CommitPlan(batch: batch, context: context)
        let verdicts = plan.verdicts
        let stageOutputCount = plan.outputs.outputs.count
        var next = firstOutput
        let acceptsAll = context.worker == .decode
        for (index, (record, verdict)) in zip(batch.records, verdicts).enumerated() {
            let own = next..<next + verdict.outputCount
            next = own.upperBound
            let fate = commit.enact(verdict, own, of: record, into: &plan, beside)
            if let app = plan.apps[index] {
                if acceptsAll || isReplayed(record, in: batch) {
                    plan.tally.add(.accepted, app: app)
                }
                if let fate {
                    plan.tally.add(fate, app: app)
                }
            }
        }
        precondition(next == stageOutputCount, "every output belongs to a record")
        if plan.outputs.outputs[firstOutput...].contains(where: { $0.topic == droppedTopic }) {
            plan.outputs.outputs.removeAll { $0.topic == droppedTopic }
        }
    }

    /// `own`: the outputs of the record.
    ///
    /// - Returns: how the record ends as a token; nil where the stage behind has it.
    private func enact(
        _ verdict: Verdict,
        _ own: Range<Int>,
        of record: RecordBatch.Record,
        into plan: inout BatchPlan,
        _ beside: Beside
    ) -> TokenTally.Fate? {
        switch verdict {
        case .settled(let reason):
            plan.count(reason.text)
            return TokenTally.Fate(settledFor: reason)
        case .deadLetter(let fault, _):
            refuse(record, fault, beside: own, into: &plan)
            return .deadLetter
        case .forward:
            precondition(!own.isEmpty, "a forwarded record has outputs")
            guard let fault = oversize(own, of: &plan) else {
                carryTrace(from: record, to: own, of: &plan)
                plan.count(Self.forwarded)
                return nil
            }
            for index in own {
                plan.outputs.outputs[index].topic = Self.droppedTopic
            }
            let first = plan.outputs.outputs.count
            let count = beside(record, &plan)
            refuse(record, fault, beside: first..<first + count, into: &plan)
            return .deadLetter
        }
    }

    /// Sizes are checked before producing: an oversize record would abort the whole transaction again
    /// and again.
    private func oversize(_ own: Range<Int>, of plan: inout BatchPlan) -> Fault? {
        // A closure would copy the plan for each record, and so would a parameter that is not `inout`.
        for index in own {
            let size = plan.outputs.outputs[index].byteCount
            if size > context.recordByteCountMax {
                return Fault(
                    code: "\(context.worker.rawValue).output_too_large",
                    message: "the record would become \(size) bytes, more than"
                        + " \(context.recordByteCountMax)"
                )
            }
        }
        return nil
    }

    /// A dead letter stands for its record: what is too large beside it is left out.
    private func refuse(
        _ record: RecordBatch.Record,
        _ fault: Fault,
        beside outputs: Range<Int>,
        into plan: inout BatchPlan
    ) {
        carryTrace(from: record, to: outputs, of: &plan)
        for index in outputs
        where plan.outputs.outputs[index].byteCount > context.recordByteCountMax {
            plan.outputs.outputs[index].topic = Self.droppedTopic
        }
        writeDeadLetter(record, fault, into: &plan)
        plan.count(Self.deadLetter)
    }

    private func carryTrace(
        from record: RecordBatch.Record,
        to outputs: Range<Int>,
        of plan: inout BatchPlan
    ) {
        guard !outputs.isEmpty else {
            return
        }
        let (headers, isUnchanged) = TraceHeader.append(
            of: record,
            in: batch,
            to: &plan.outputs.arena
        )
        guard headers.count > 0 else {
            return
        }
        for index in outputs where plan.outputs.outputs[index].headers.count == 0 {
            plan.outputs.outputs[index].headers = headers
            if isUnchanged {
                plan.outputs.outputs[index].keptHeaders = record.keptHeaders
            }
        }
    }

    private static let forwarded = "forwarded"
    private static let deadLetter = "dead_letter"

    /// Marks an output that was removed from the plan.
    private static let droppedTopic = -1

    /// Whether a record was a dead letter before.
    ///
    /// Only ``DeadLetter`` and who replays one write this header; what is made of a record does not
    /// inherit it.
    private static func isReplayed(_ record: RecordBatch.Record, in batch: RecordBatch) -> Bool {
        record.headers.count > 0
            && HeaderList.value(
                named: DeadLetter.replayIDName,
                in: record.headers,
                of: batch.arena
            ) != nil
    }

    private func writeDeadLetter(
        _ record: RecordBatch.Record,
        _ fault: Fault,
        into plan: inout BatchPlan
    ) {
        guard let topic = context.deadLetterTopicIndex else {
            preconditionFailure("\(context.worker) has no dead letters")
        }
        let deadLetter = DeadLetter(
            fault: fault,
            worker: context.worker,
            origin: DeadLetter.Origin(
                topic: context.sources[record.topic],
                partition: record.partition,
                offset: record.offset,
                group: context.group
            ),
            failedAt: context.now,
            history: DeadLetter.History(headers: record.headers, of: batch.arena)
        )
        let key = record.key.isAbsent ? nil : batch.arena[record.key.indices]
        let trace = TraceHeader.trace(of: record, in: batch)
        let byteCount = (key?.count ?? 0) + max(record.value.count, 0) + record.headers.count
        if byteCount + DeadLetter.headerByteCountMax <= context.deadLetterByteCountMax {
            plan.outputs.append(
                deadLetter,
                topic: topic,
                key: key,
                value: record.value.isAbsent ? nil : batch.arena[record.value.indices],
                businessHeaders: record.headers,
                of: batch.arena,
                trace: trace
            )
        } else {
            // A compressed batch may hold what no topic would take by itself. The dead letter then
            // gives its size and its offset; without it the worker would stop here for ever.
            plan.outputs.append(
                deadLetter,
                topic: topic,
                key: nil,
                value: nil,
                businessHeaders: .absent,
                of: batch.arena,
                trace: trace,
                omittedByteCount: byteCount
            )
        }
        plan.deadLetters.append(
            WrittenDeadLetter(fault: fault, origin: deadLetter.origin, trace: trace)
        )
    }
}

extension OutputBatch {
    /// Appends a dead letter: the record's own bytes, its own headers, then the diagnostics.
    ///
    /// The trace is the record's own; one that is not valid stays among its other headers. Names are
    /// bytes: as text, one that is no UTF-8 would be another, and up to three times as long.
    mutating func append(
        _ deadLetter: DeadLetter,
        topic: Int,
        key: ArraySlice<UInt8>?,
        value: ArraySlice<UInt8>?,
        businessHeaders: ByteRange,
        of recordArena: [UInt8],
        trace: TraceParent? = nil,
        omittedByteCount: Int? = nil
    ) {
        let keyRange = key.map { place($0) } ?? .absent
        let valueRange = value.map { place($0) } ?? .absent
        let headersStart = arena.count
        var cursor = HeaderCursor(businessHeaders)
        while let (name, value) = cursor.next(in: recordArena.span) {
            let name = recordArena[name.indices]
            guard !DeadLetter.diagnosticPrefixes.contains(where: { name.starts(with: $0.utf8) }),
                trace == nil || !name.elementsEqual("\(TraceParent.headerName)".utf8)
            else {
                continue
            }
            HeaderList.append(
                name: name,
                value: value.isAbsent ? nil : recordArena[value.indices],
                to: &arena
            )
        }
        _ = TraceHeader.append(trace, to: &arena)
        deadLetter.appendHeaders(to: &arena)
        if let omittedByteCount {
            HeaderList.append(
                name: "tollway.dlq.omitted_bytes".utf8,
                value: String(omittedByteCount).utf8,
                to: &arena
            )
        }
        outputs.append(
            Output(
                topic: topic,
                key: keyRange,
                value: valueRange,
                headers: placed(from: headersStart)
            )
        )
    }
}
