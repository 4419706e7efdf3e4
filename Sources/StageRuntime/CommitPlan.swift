internal import Kafka
internal import TokenDomain

/// What the verdicts of a batch mean for the transaction: dead letters are written here, byte for
/// byte, and nowhere else.
enum CommitPlan {
    struct Context {
        var worker: Worker
        var group: String
        var sources: [String]
        var deadLetterTopicIndex: Int?
        var recordByteCountMax: Int
        var deadLetterByteCountMax: Int
        var now: Timestamp
    }

    /// Turns verdicts into outputs, and checks that stage and loop agree on them.
    ///
    /// Outputs before the index `firstOutput` come of earlier batches. `beside` appends what goes out
    /// beside the dead letter of a record whose outputs are too large.
    static func enact(
        _ plan: inout BatchPlan,
        on batch: RecordBatch,
        from firstOutput: Int,
        context: Context,
        telemetry: any LoopTelemetry,
        beside: (RecordBatch.Record, inout BatchPlan) -> Int = { _, _ in 0 }
    ) {
        let verdicts = plan.verdicts
        var next = firstOutput
        let stageOutputCount = plan.outputs.outputs.count
        func carryTrace(from record: RecordBatch.Record, to range: Range<Int>) {
            let (headers, isUnchanged) = TraceHeader.append(
                of: record,
                in: batch,
                to: &plan.outputs.arena
            )
            guard headers.count > 0 else {
                return
            }
            for index in range where plan.outputs.outputs[index].headers.count == 0 {
                plan.outputs.outputs[index].headers = headers
                if isUnchanged {
                    plan.outputs.outputs[index].keptHeaders = record.keptHeaders
                }
            }
        }
        // A dead letter stands for its record: what is too large beside it is left out.
        func passBeside(_ range: Range<Int>, of record: RecordBatch.Record) {
            carryTrace(from: record, to: range)
            for index in range
            where plan.outputs.outputs[index].byteCount > context.recordByteCountMax {
                plan.outputs.outputs[index].topic = droppedTopic
            }
        }
        // Added up once for records in a row that end alike.
        var (outcome, recordCount) = ("", 0)
        func completed(_ reason: StaticReason) {
            if reason.text != outcome, recordCount > 0 {
                plan.count(outcome, recordCount: recordCount)
                recordCount = 0
            }
            outcome = reason.text
            recordCount += 1
        }
        for (index, (record, verdict)) in zip(batch.records, verdicts).enumerated() {
            var fate: TokenTally.Fate?
            switch verdict {
            case .forward(let count):
                precondition(count > 0, "a forwarded record has outputs")
                if let tooLarge = (next..<next + count).first(where: {
                    plan.outputs.outputs[$0].byteCount > context.recordByteCountMax
                }) {
                    // Sizes are checked before producing: an oversize record would abort the
                    // whole transaction again and again.
                    let size = plan.outputs.outputs[tooLarge].byteCount
                    let fault = Fault(
                        code: "\(context.worker.rawValue).output_too_large",
                        message: "the record would become \(size) bytes, more than"
                            + " \(context.recordByteCountMax)"
                    )
                    for index in next..<next + count {
                        plan.outputs.outputs[index].topic = droppedTopic
                    }
                    let first = plan.outputs.outputs.count
                    passBeside(first..<first + beside(record, &plan), of: record)
                    writeDeadLetter(record, fault, of: batch, into: &plan, context)
                    fate = .deadLetter
                    completed(deadLetter)
                } else {
                    carryTrace(from: record, to: next..<next + count)
                    completed(forwarded)
                }
                next += count
            case .settled(let reason):
                completed(reason)
                fate = TokenTally.Fate(settledFor: reason)
            case .deadLetter(let fault):
                writeDeadLetter(record, fault, of: batch, into: &plan, context)
                completed(deadLetter)
                fate = .deadLetter
            case .deadLetterAndForward(let fault, let count):
                writeDeadLetter(record, fault, of: batch, into: &plan, context)
                completed(deadLetter)
                fate = .deadLetter
                passBeside(next..<next + count, of: record)
                next += count
            }
            if let app = plan.apps[index] {
                if context.worker == .decode || isReplayed(record, in: batch) {
                    plan.tally.add(.accepted, app: app)
                }
                if let fate {
                    plan.tally.add(fate, app: app)
                }
            }
        }
        if recordCount > 0 {
            plan.count(outcome, recordCount: recordCount)
        }
        precondition(next == stageOutputCount, "every output belongs to a record")
        if plan.outputs.outputs[firstOutput...].contains(where: { $0.topic == droppedTopic }) {
            plan.outputs.outputs.removeAll { $0.topic == droppedTopic }
        }
        telemetry.received(batch, sources: context.sources, now: context.now)
    }

    private static let forwarded: StaticReason = "forwarded"
    private static let deadLetter: StaticReason = "dead_letter"

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

    private static func writeDeadLetter(
        _ record: RecordBatch.Record,
        _ fault: Fault,
        of batch: RecordBatch,
        into plan: inout BatchPlan,
        _ context: Context
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
