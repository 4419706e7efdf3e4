package import Kafka
package import StateStore
package import TokenDomain

/// The loop of a worker: take a batch, decide, produce, commit.
///
/// The only committer of the program.
///
/// One transaction may be under way (on the log's own commit thread) while the loop judges the next
/// records into memory. Nothing of those is produced before its commit result is known; an abort drops
/// both. The order is the guarantee:
///
/// 1. outputs, changelog and positions go into one transaction,
/// 2. only after its commit is known do the stores learn of it,
/// 3. only then may a stage act on what it planned.
///
/// `step` never waits longer than its argument and does one thing at a time, so that the pipeline
/// simulation can drive all of these loops in one thread, and crash any of them between two steps.
package final class WorkerLoop {
    let worker: Worker
    let log: any RecordLog
    let stage: any Stage
    let limits: Limits
    let group: String
    let telemetry: any LoopTelemetry
    let clock: () -> Timestamp
    let provider: (any StoreProvider)?
    let changelogTopicIndex: Int?
    private let deadLetterTopicIndex: Int?

    package let state = StagedState()
    private var batch = RecordBatch()
    /// What is judged and not yet under way.
    private(set) var outputs = OutputBatch()
    /// Of the last plan, for the next one.
    private var planMemory = BatchPlan.Memory()
    private(set) var recordCount = 0
    /// An estimate of what one record adds to ``heldByteCount``: ``room`` divides by it.
    private(set) var byteCountPerRecord = 0
    private var tally = TokenTally()
    private var afterCommit: [() -> Void] = []
    /// The only record judged, where it is only one.
    private var onlyRecord: RepeatedAborts.Place?
    /// The next offset of each assigned partition: after the last record judged; none if unknown.
    private var positions: [TopicPartition: Int64] = [:]
    /// The positions go out also where nothing moved: this member committed nothing since the
    /// assignment or the last abort.
    private var owesPositions = false
    /// What the transaction under way takes in; nil while there is none.
    private var underWay: RepeatedAborts.Attempt?
    private(set) var aborts = RepeatedAborts()
    private var filling = Filling()
    /// Steps since a state that is locked, or refused, was last asked for: see ``restoreSlice(isBusy:)``.
    var busyStepCount = 0
    var restores: [Restore] = [] {
        didSet { telemetry.restoring(partitionCount: restores.count) }
    }
    package private(set) var assigned: [TopicPartition] = []
    /// The known committed offset of each assigned partition; at first, its start offset if known.
    package private(set) var done: [TopicPartition: Int64] = [:]

    package init(
        worker: Worker,
        group: String,
        log: any RecordLog,
        stage: any Stage,
        provider: (any StoreProvider)?,
        limits: Limits = Limits(),
        telemetry: any LoopTelemetry,
        clock: @escaping () -> Timestamp
    ) {
        self.worker = worker
        self.group = group
        self.log = log
        self.stage = stage
        self.provider = provider
        self.limits = limits
        self.telemetry = telemetry
        self.clock = clock
        deadLetterTopicIndex = worker.deadLetters == nil ? nil : worker.targets.count
        changelogTopicIndex = worker.changelog == nil ? nil : worker.targets.count + 1
        precondition(
            (stage is any StatefulStage) == (worker.changelog != nil),
            "a stage has state exactly where its worker has a changelog"
        )
    }

    /// Whether it holds partitions whose state is still being read.
    package var isRestoring: Bool { !restores.isEmpty }
    package var isCommitUnderWay: Bool { underWay != nil }
    /// After the last record judged; nil for a partition that is not ours.
    package func position(of partition: TopicPartition) -> Int64? { positions[partition] }
    /// While a transaction that was aborted waits to be repeated: until when.
    package var nextAttempt: Timestamp? { aborts.nextAttempt(now: clock()) }

    /// One turn: polls the result of the transaction under way, takes what there is, judges it,
    /// and starts the next transaction.
    ///
    /// Waits at most `waitMilliseconds` when there is nothing to do.
    ///
    /// - Returns: whether anything was done.
    package func step(waitMilliseconds: Int) throws -> Bool {
        var isBusy = false
        do {
            isBusy = try pollCommit(waitMilliseconds: 0, startingNext: true)
            isBusy = try tick() || isBusy
        } catch LogFault.unavailable(let code, let message) {
            // Kafka is away, perhaps for longer than a session: gives lost partitions back at once.
            _ = try take(waitMilliseconds: 0)
            throw LogFault.unavailable(code: code, message: message)
        }
        let isWaiting = !isBusy && !isRestoring && !hasWork
        isBusy = try take(waitMilliseconds: isWaiting ? waitMilliseconds : 0) || isBusy
        isBusy = try startTransaction() || isBusy
        // Last: where it fails, the partitions whose state is here have had their turn.
        return try restoreSlice(isBusy: isBusy) || isBusy
    }

    /// Stops taking, commits what was judged, and gives the partitions back.
    ///
    /// What cannot be committed is dropped: the next owner reads it again.
    package func finish(commitWaitMilliseconds: Int? = nil) throws {
        defer { abandon() }
        try commitWhatIsJudged(waiting: commitWaitMilliseconds ?? limits.commitWaitMilliseconds)
    }

    /// Lets go of everything at once: stages send nothing more, stores are closed and unlocked.
    package func abandon() {
        (stage as? any TickingStage)?.revoked(state.partitions)
        closeRestores()
        for (partition, fault) in state.close(state.partitions) {
            telemetry.unwritten(partition: partition, because: WorkerRun.end(for: fault).sentence)
        }
        telemetry.assigned([])
    }

    // MARK: Taking

    private func take(waitMilliseconds: Int) throws -> Bool {
        batch.removeAll()
        let event = try log.poll(
            into: &batch,
            recordCountMax: room,
            waitMilliseconds: waitMilliseconds
        )
        filling.took(batch.records.count, isFirst: recordCount == 0, now: clock())
        if let event {
            try handle(event)
            return true
        }
        guard !batch.records.isEmpty || !batch.ends.isEmpty else {
            return false
        }
        try judge()
        return true
    }

    private func judge() throws {
        let startedAt = telemetry.instant()
        if !batch.records.isEmpty {
            let before = heldByteCount
            try judgeRecords()
            byteCountPerRecord = max(
                (heldByteCount - before) / batch.records.count,
                byteCountPerRecord / 2
            )
        }
        batch.forEachRunEnd {
            positions[sourcePartition($0.topic, $0.partition)] = $0.offset + 1
        }
        // Transaction markers take offsets too: whoever waits for this group to pass an end offset
        // (the guard) must see it pass, also when the last offset is a marker.
        for end in batch.ends {
            let partition = sourcePartition(end.topic, end.partition)
            if positions[partition] ?? -1 < end.offset {
                positions[partition] = end.offset
            }
        }
        recordCount += batch.records.count
        if let last = batch.records.last {
            onlyRecord = recordCount == 1 ? place(of: last) : nil
        }
        telemetry.judged(recordCount: batch.records.count, since: startedAt)
    }

    private func judgeRecords() throws {
        var plan = beginPlan()
        let firstOutput = plan.outputs.outputs.count
        if batch.records.count == 1, let code = aborts.culprits[place(of: batch.records[0])] {
            writeDeadLetter(code: code, into: &plan)
        } else {
            stage.judge(batch, into: &plan)
        }
        precondition(plan.verdicts.count == batch.records.count, "one verdict per record")
        if let fault = plan.storeFault { throw fault }
        CommitPlan.enact(
            &plan,
            on: batch,
            from: firstOutput,
            context: CommitPlan.Context(
                worker: worker,
                group: group,
                sources: log.sources,
                deadLetterTopicIndex: deadLetterTopicIndex,
                recordByteCountMax: limits.outputRecordByteCountMax,
                deadLetterByteCountMax: limits.deadLetterByteCountMax,
                now: plan.now
            ),
            beside: { [stage, batch] in stage.outputsBesideDeadLetter($0, of: batch, into: &$1) }
        )
        telemetry.received(batch)
        endPlan(&plan)
    }

    /// Concludes the only record of the batch, which Kafka refuses in whatever form the stage gives
    /// it.
    private func writeDeadLetter(code: String, into plan: inout BatchPlan) {
        let fault = Fault(
            code: "\(worker.rawValue).record_refused",
            message: "Kafka refuses what the record becomes: \(code)"
        )
        let outputCount = stage.outputsBesideDeadLetter(batch.records[0], of: batch, into: &plan)
        plan.conclude(
            .deadLetter(fault, outputCount: outputCount),
            app: isToken(batch.records[0]) ? TokenTally.unknownApp : nil
        )
    }

    /// A plan that goes on with the outputs of the next transaction.
    private func beginPlan() -> BatchPlan {
        defer { (outputs, planMemory) = (OutputBatch(), BatchPlan.Memory()) }
        return BatchPlan(
            outputs: outputs,
            state: state,
            now: clock(),
            recordByteCountMax: limits.outputRecordByteCountMax,
            memory: planMemory
        )
    }

    /// What it has made goes out with the next transaction.
    private func endPlan(_ plan: inout BatchPlan) {
        // Exchanged: a plan that kept its outputs would have all of them copied here.
        swap(&outputs, &plan.outputs)
        outputs.outputs += plan.aside
        tally.merge(plan.tally)
        afterCommit += counting(plan) + plan.afterCommit
        planMemory = plan.takeMemory()
    }

    private func tick() throws -> Bool {
        guard isTicking, let ticking = stage as? any TickingStage else {
            return false
        }
        var plan = beginPlan()
        let outputCount = plan.outputs.outputs.count
        let hadOpenChanges = state.hasOpenChanges
        ticking.tick(into: &plan)
        precondition(plan.verdicts.isEmpty, "a tick has no records to judge")
        if let fault = plan.storeFault { throw fault }
        endPlan(&plan)
        return outputs.outputs.count != outputCount || state.hasOpenChanges != hadOpenChanges
    }

    // MARK: Committing

    private var hasWork: Bool {
        !outputs.outputs.isEmpty || state.hasOpenChanges
            || hasMoved
    }

    /// Whether there are positions that neither the group has nor the transaction under way takes in.
    private var hasMoved: Bool {
        if let underWay {
            return positions != underWay.positions
        }
        return owesPositions ? !positions.isEmpty : positions != done
    }

    /// Begins one transaction of outputs, changelog and positions; the last one before partitions go
    /// waits for nothing.
    private func startTransaction(isLast: Bool = false) throws -> Bool {
        let isFilling = room > 0 && !(stage is any TickingStage) && filling.goesOn(now: clock())
        guard underWay == nil, hasWork, !positions.isEmpty,
            isLast || (nextAttempt == nil && !isFilling)
        else {
            return false
        }
        if let changelogTopicIndex {
            state.submit(to: &outputs, topic: changelogTopicIndex)
        }
        // Every partition's position goes along, moved or not: the group's generation check on
        // them is what fences a worker that lost them.
        underWay = RepeatedAborts.Attempt(
            recordCount: recordCount,
            onlyRecord: recordCount == 1 ? onlyRecord : nil,
            positions: positions,
            tally: tally,
            afterCommit: afterCommit
        )
        recordCount = 0
        tally = TokenTally()
        afterCommit = []
        var submitted = log.emptyOutputs()
        if submitted.arena.capacity > 2 * limits.outputByteCountMax {
            // Of a transaction far beyond the limit, which is rare: memory that is not kept for it.
            submitted = OutputBatch()
        }
        swap(&submitted, &outputs)
        try log.submit(submitted, positions: positions)
        return true
    }

    /// - Returns: whether a commit result was there.
    private func pollCommit(waitMilliseconds: Int, startingNext: Bool = false) throws -> Bool {
        guard let sent = underWay,
            let result = try log.takeCommitResult(waitMilliseconds: waitMilliseconds)
        else {
            return false
        }
        underWay = nil
        switch result {
        case .committed(let nextOffsets):
            done = sent.positions
            owesPositions = false
            aborts.committed(sent)
            state.settle()
            // What was judged meanwhile goes out before the stores are written, so that the commit
            // thread does not wait for the disk. A stage that acts after a commit acts first, unless
            // the next transaction is full.
            let isNextDue = startingNext && (room == 0 || !(stage is any TickingStage))
            let next = Result { isNextDue ? try startTransaction() : false }
            try learn(nextOffsets)
            _ = try next.get()
            telemetry.committed(sent.tally)
            sent.afterCommit.forEach { $0() }
            (stage as? any TickingStage)?.committed(now: clock())
        case .aborted(let code, let resumedAt):
            goBack(to: resumedAt, sent, code: code)
            try endIfHopeless(code)
        }
        return true
    }

    private func goBack(
        to resumedAt: [TopicPartition: Int64],
        _ sent: RepeatedAborts.Attempt,
        code: String
    ) {
        drop()
        positions = positions.merging(resumedAt) { $1 }.filter { $0.value >= 0 }
        done = done.merging(resumedAt) { $1 }.filter { $0.value >= 0 }
        owesPositions = true
        telemetry.aborted(code: code)
        aborts.aborted(code: code, sent, now: clock())
    }

    private func endIfHopeless(_ code: String) throws {
        guard !aborts.isHopeless else {
            throw LogFault.unusable(
                message: "\(RepeatedAborts.countMax) transactions in a row were aborted, the"
                    + " last for \(code)"
            )
        }
    }

    /// Only now may the stores know: a store that ran ahead of its changelog would answer for a
    /// transaction that never was.
    private func learn(_ nextOffsets: [TopicPartition: Int64]) throws {
        guard let changelogTopicIndex else {
            return
        }
        let changelog = log.targets[changelogTopicIndex]
        var offsets: [Int32: Int64] = [:]
        for (partition, offset) in nextOffsets where partition.topic == changelog {
            offsets[partition.partition] = offset
        }
        try requireSameChangelog(changelog, offsets)
        try state.learn(changelogOffsets: offsets)
    }

    private func drop() {
        outputs.removeAll()
        recordCount = 0
        tally = TokenTally()
        afterCommit = []
        state.abort()
        (stage as? any TickingStage)?.aborted()
    }

    // MARK: Group events

    private func handle(_ event: GroupEvent) throws {
        switch event {
        case .assigning(let partitions):
            try requireEqualShares(partitions)
            try assign()
        case .revoking:
            try commitWhatIsJudged(waiting: limits.commitWaitMilliseconds)
            try letGo()
        case .lost(let partitions):
            // Nothing of it may be committed, or waited for: see `RecordLog.completeRevocation`.
            drop()
            telemetry.lost(partitionCount: partitions.count)
            try letGo()
        }
    }

    /// One transaction may be under way and one more be judged: two commit results at most.
    ///
    /// An abort is not tried again here, for its cause may well be that the partitions are gone.
    private func commitWhatIsJudged(waiting waitMilliseconds: Int) throws {
        let end = ContinuousClock.now + .milliseconds(waitMilliseconds)
        for _ in 0..<2 where hasWork || underWay != nil {
            _ = try startTransaction(isLast: true)
            guard underWay != nil else {
                break
            }
            let left = max(0, (end - ContinuousClock.now) / .milliseconds(1))
            guard try pollCommit(waitMilliseconds: Int(left)) else {
                throw LogFault.unusable(message: "the transaction under way did not end in time")
            }
        }
        drop()
    }

    private func letGo() throws {
        underWay = nil
        abandon()
        assigned = []
        positions = [:]
        done = [:]
        aborts = RepeatedAborts()
        try log.completeRevocation()
    }

    private func assign() throws {
        let startPositions = try log.completeAssignment(isHeld: provider != nil)
        assigned = startPositions.keys.sorted()
        positions = startPositions.filter { $0.value >= 0 }
        done = positions
        owesPositions = true
        beginRestores()
        // Last: telemetry must not show partitions as assigned before those still to be restored.
        telemetry.assigned(assigned)
    }
}
