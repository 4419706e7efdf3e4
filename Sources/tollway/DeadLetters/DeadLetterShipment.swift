internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Writes the outputs for a dead letter, bytes to bytes: the record itself, its result, and in the
/// end the audit; all of one transaction.
struct DeadLetterShipment {
    static let droppedHeaders = "__dlq.errors.* and tollway.dlq.*"
    static let setHeaders = [
        "tollway.dlq.first_failed_at", "tollway.dlq.attempts", "tollway.dlq.replay_count",
        "tollway.dlq.replay_id",
    ]
    private static let diagnosticPrefixes = DeadLetter.diagnosticPrefixes.map { Array($0.utf8) }
    /// Heads of batch and record, at the most.
    private static let overheadByteCount = 128

    let order: DeadLetterOrder
    let stage: Worker
    let targets: [Topic]
    /// `max.message.bytes` by full name.
    let recordByteCountMax: [String: Int]
    let judge: DeadLetterJudge
    private let patcher: ReplayPatcher
    private(set) var outputs = OutputBatch()
    private(set) var count = 0
    private(set) var counts: [Topic: Int] = [:]
    private let deadLetterTopic: [UInt8]
    private let runID: [UInt8]

    var topics: [Topic] { targets + [.deadLetterReplays, .audit] }
    var byteCount: Int { outputs.arena.count }

    init(order: DeadLetterOrder, stage: Worker, recordByteCountMax: [String: Int]) {
        self.order = order
        self.stage = stage
        self.recordByteCountMax = recordByteCountMax
        targets = order.targets(of: stage)
        judge = DeadLetterJudge(order)
        patcher = ReplayPatcher(order.patch)
        deadLetterTopic = Array(Topic.deadLetters(stage).name(prefix: order.prefix).utf8)
        runID = Array(order.runID.utf8)
    }

    mutating func removeAll() {
        outputs.removeAll()
        count = 0
        counts.removeAll(keepingCapacity: true)
    }

    /// Appends the record and the result of the dead letter.
    ///
    /// - Returns: false where it cannot go after all: nothing was appended.
    mutating func append(
        _ deadLetter: DeadLetterRecord,
        in batch: RecordBatch,
        subject: DeadLetterSubject,
        now: Int64
    ) -> Bool {
        let target: Topic
        var value = batch.arena[deadLetter.record.value.indices]
        switch order.action {
        case .discard:
            guard judge.skipReason(writtenAt: deadLetter.record.timestampMilliseconds) == nil
            else {
                return false
            }
            target = .deadLetterArchive
        case .replay:
            // The plan holds back what takes no patch; one that is none any more stays where it is.
            guard let patched = patcher.patched(deadLetter, in: batch, subject: subject),
                case .go(let goal, _) = judge.judge(
                    deadLetter,
                    in: batch,
                    subject: patched.subject
                )
            else {
                return false
            }
            target = goal
            value = patched.value
        }
        guard let index = targets.firstIndex(of: target) else {
            return false
        }
        let arenaCount = outputs.arena.count
        let record = deadLetter.record
        let key = record.key.isAbsent ? .absent : outputs.place(batch.arena[record.key.indices])
        let valueRange = record.value.isAbsent ? .absent : outputs.place(value)
        let headersStart = outputs.arena.count
        appendHeaders(deadLetter, in: batch, now: now)
        let headers = outputs.placed(from: headersStart)
        let name = target.name(prefix: order.prefix)
        guard
            outputs.arena.count - arenaCount + Self.overheadByteCount
                <= recordByteCountMax[name] ?? KafkaLog.recordByteCountMaxDefault
        else {
            outputs.arena.removeLast(outputs.arena.count - arenaCount)
            return false
        }
        outputs.outputs.append(
            OutputBatch.Output(topic: index, key: key, value: valueRange, headers: headers)
        )
        appendProgress(deadLetter, target: name, now: now)
        count += 1
        counts[target, default: 0] += 1
        return true
    }

    // MARK: - Headers

    /// The record's own; then, for a replay, what the next failure must know of the earlier ones;
    /// for the archive, all there was and who put it there.
    private mutating func appendHeaders(
        _ deadLetter: DeadLetterRecord,
        in batch: RecordBatch,
        now: Int64
    ) {
        var cursor = HeaderCursor(deadLetter.record.headers)
        while let (name, value) = cursor.next(in: batch.arena.span) {
            guard order.action == .discard || !isDiagnostic(name, in: batch.arena.span) else {
                continue
            }
            HeaderList.append(
                name: batch.arena[name.indices],
                value: value.isAbsent ? nil : batch.arena[value.indices],
                to: &outputs.arena
            )
        }
        switch order.action {
        case .replay: appendHistory(deadLetter, in: batch)
        case .discard: appendDiscard(deadLetter, now: now)
        }
    }

    private func isDiagnostic(_ name: ByteRange, in arena: Span<UInt8>) -> Bool {
        let text = arena.extracting(name.indices)
        for prefix in Self.diagnosticPrefixes where text.starts(with: prefix) {
            return true
        }
        return false
    }

    private mutating func appendHistory(_ deadLetter: DeadLetterRecord, in batch: RecordBatch) {
        let first = deadLetter.headers[.firstFailedAt]
        if !first.isAbsent {
            HeaderList.append(
                name: Self.firstFailedAt,
                value: batch.arena[first.indices],
                to: &outputs.arena
            )
        }
        let attempts = deadLetter.headers[.attempts]
        if !attempts.isAbsent {
            HeaderList.append(
                name: Self.attempts,
                value: batch.arena[attempts.indices],
                to: &outputs.arena
            )
        }
        let replayCount = deadLetter.headers.number(.replayCount, in: batch.arena.span) + 1
        HeaderList.append(
            name: Self.replayCount,
            value: "\(replayCount)".utf8,
            to: &outputs.arena
        )
        HeaderList.append(name: Self.replayID, value: runID, to: &outputs.arena)
    }

    private static let firstFailedAt = Array("tollway.dlq.first_failed_at".utf8)
    private static let attempts = Array("tollway.dlq.attempts".utf8)
    private static let replayCount = Array("tollway.dlq.replay_count".utf8)
    private static let replayID = Array("tollway.dlq.replay_id".utf8)

    private mutating func appendDiscard(_ deadLetter: DeadLetterRecord, now: Int64) {
        let pairs = [
            ("tollway.dlq.discarded_from", deadLetter.position.description),
            ("tollway.dlq.discarded_at", WallClock.rfc3339(milliseconds: now)),
            ("tollway.dlq.discarded_by", order.hand.by),
            ("tollway.dlq.discarded_why", order.hand.why ?? ""),
            ("tollway.dlq.discard_id", order.runID),
        ]
        for (name, value) in pairs {
            HeaderList.append(name: name.utf8, value: value.utf8, to: &outputs.arena)
        }
    }

    // MARK: - Progress and audit

    private mutating func appendProgress(_ deadLetter: DeadLetterRecord, target: String, now: Int64)
    {
        let record = deadLetter.record
        let keyStart = outputs.arena.count
        outputs.arena += deadLetterTopic
        outputs.arena += "/\(record.partition)/\(record.offset)".utf8
        let key = outputs.placed(from: keyStart)
        let valueStart = outputs.arena.count
        SettledDeadLetter(
            state: order.action == .replay ? .replayed : .discarded,
            deadLetterTimestamp: record.timestampMilliseconds,
            replayID: order.runID,
            at: now,
            target: target
        ).write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: targets.count,
                key: key,
                value: outputs.placed(from: valueStart)
            )
        )
    }

    /// Appends the audit of this transaction; its counts are those of ``append(_:in:subject:now:)``.
    mutating func appendAudit(_ audit: DeadLetterAudit) {
        let key = outputs.place(runID)
        outputs.append(topic: targets.count + 1, key: key, audit.write)
    }
}

/// A value of `<prefix>audit.v1`: what one transaction changed, by whose order.
struct DeadLetterAudit {
    var order: DeadLetterOrder
    var stage: Worker
    /// From 1, within the run and the stage.
    var part: Int
    /// UNIX milliseconds.
    var at: Int64
    var state: AuditState
    /// Dead letters of this transaction, by where they went.
    var counts: [Topic: Int]
    /// Dead letters of the run so far, these included.
    var runCount: Int

    func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginAudit(
                "dlq.\(order.action.rawValue)",
                order.hand,
                part: (part, state.rawValue),
                at: at
            )
            writer.field("filter", order.plan?.filter ?? order.filter.text)
            writer.field("isPlan", order.plan != nil)
            if let patch = order.patch {
                writer.field("patch", raw: patch.text)
            }
            writer.field("source", Topic.deadLetters(stage).name(prefix: order.prefix))
            writer.field("count", counts.values.reduce(0, +))
            writer.field("runCount", runCount)
            writer.name("targets")
            writer.beginObject()
            for (topic, count) in counts.sorted(by: { $0.value > $1.value }) {
                writer.name(text: topic.name(prefix: order.prefix))
                writer.integer(Int64(count))
            }
            writer.endObject()
            writer.endObject()
        }
    }
}
