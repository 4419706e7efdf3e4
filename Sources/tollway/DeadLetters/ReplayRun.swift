internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// A planned change, done: stage by stage, canary first, until the end or until something stops it.
final class ReplayRun {
    /// How a run ends.
    enum Ending: Equatable {
        case finished
        case interrupted
        /// Too much failed again.
        case failureRatio(Double)
        /// The stage has not read the canary.
        case canaryUnread
        /// This run sent less of the canary than was planned, so how the rest of it did is unknown.
        case canaryUnsent(readCount: Int, plannedCount: Int)
    }

    private static let lossPauseMilliseconds: Int32 = 1_000
    /// Who ends a run waits for its audit so long at most.
    private static let endMilliseconds = 5_000
    private static let lookMilliseconds: Int64 = 1_000
    /// Fewer dead letters say nothing about a ratio, but for a canary.
    private static let sampleCountMin = 20
    private static let canaryMilliseconds: Int64 = 60_000

    private let order: DeadLetterOrder
    private let plan: ReplayPlan
    private let stop = StopSignal()
    private var watch: ReplayWatch?
    private var lookedAt: Int64 = 0
    private let bar = ProgressLine()
    private var tally = ReplayTally()
    /// What the audit says of the run's last transaction; nil where it has none, or where its result is
    /// unknown.
    private var auditedState: AuditState?

    var sentCount: Int { tally.sentCount }
    var unsendableCount: Int { tally.unsendableCount }

    init(_ order: DeadLetterOrder, plan: ReplayPlan) {
        self.order = order
        self.plan = plan
    }

    func run() throws(CommandFailure) -> Ending {
        defer { bar?.end() }
        let limits = try recordByteCountMax()
        let rest = plan.rest
        let steps =
            plan.canary.stages.map { ($0, plan.canary, true) }
            + rest.stages.map { ($0, rest, false) }
        for (index, (stage, positions, isCanary)) in steps.enumerated() {
            watch = order.failureRatioMax == nil ? nil : try ReplayWatch(order, stage: stage)
            // After a canary it is judged how that did.
            let isLast = index == steps.count - 1 && !isCanary
            try send(positions.of(stage), stage, limits, isLast: isLast)
            if isCanary, tally.ending == nil {
                try awaitCanary(
                    stage,
                    plannedCount: positions.of(stage).count,
                    hasRest: rest.stages.contains(stage)
                )
            }
            if let ending = tally.ending {
                auditEnd(ending, stage)
                return ending
            }
        }
        if let (stage, _, isCanary) = steps.last, isCanary {
            auditEnd(.finished, stage)
        }
        return .finished
    }

    /// Until the stage is done, or something ends the run; what Kafka loses is taken over and read
    /// anew.
    private func send(
        _ positions: PositionSet,
        _ stage: Worker,
        _ limits: [String: Int],
        isLast: Bool
    ) throws(CommandFailure) {
        tally.beginStage()
        while true {
            let session = try ReplaySession(
                order,
                stage: stage,
                positions: positions,
                recordByteCountMax: limits
            )
            defer { session.close() }
            session.runCount = sentCount
            if tally.followsLoss {
                session.counted = { [unowned self] count in tally.counted(count) }
            }
            session.part = tally.partCount
            session.lastState = isLast ? .finished : .running
            session.committed = { [unowned self] count, ends throws(CommandFailure) in
                try committed(
                    count,
                    ends,
                    state: session.auditedState ?? .running,
                    pauseMilliseconds: session.pauseMilliseconds
                )
            }
            let end = try session.run()
            auditedState = session.auditedState ?? auditedState
            // It holds the session.
            session.committed = { _, _ in nil }
            let next = tally.ended(
                end,
                unsendableCount: session.unsendableCount,
                partCount: session.part
            )
            switch next {
            case .nextStage: return
            case .givenUp(let fault): throw KafkaQuestion.failure(fault, order.configuration)
            case .again: auditedState = nil
            }
            guard stop.wait(milliseconds: Self.lossPauseMilliseconds) == nil else {
                tally.ending = .interrupted
                // Whatever the transaction with the unknown result says, the run ends here.
                auditedState = tally.partCount > 0 ? .running : nil
                return
            }
        }
    }

    /// Takes in what a transaction sent, and waits for the next one.
    ///
    /// - Returns: why the run ends before its end; nil where it goes on, or is done.
    /// - Throws: where Kafka does not say how what was sent before did.
    func committed(
        _ count: Int,
        _ ends: [TopicPartition: Int64],
        state: AuditState,
        pauseMilliseconds: Int64
    ) throws(CommandFailure) -> AuditState? {
        tally.committed(count)
        bar?.show(sentCount, of: plan.records.count)
        if count > 0 {
            watch?.sent(ends, count: count)
        }
        switch state {
        case .running: break
        // By its audit the run has its end: there is no next one, and nothing that a signal stops.
        case .finished: return try judgeFailures()
        case .interrupted, .stopped: return nil
        }
        let pauseUntil = WallClock.monotonicMilliseconds() + pauseMilliseconds
        repeat {
            let left = min(max(0, pauseUntil - WallClock.monotonicMilliseconds()), 200)
            if stop.wait(milliseconds: Int32(left)) != nil {
                tally.ending = .interrupted
                return .interrupted
            }
            bar?.show(sentCount, of: plan.records.count)
        } while WallClock.monotonicMilliseconds() < pauseUntil
        return try judgeFailures()
    }

    private func judgeFailures() throws(CommandFailure) -> AuditState? {
        let now = WallClock.monotonicMilliseconds()
        guard let watch, let ratioMax = order.failureRatioMax,
            now - lookedAt >= Self.lookMilliseconds
        else {
            return nil
        }
        lookedAt = now
        try watch.look()
        let results = watch.results
        guard results.sampleCount >= Self.sampleCountMin, results.failureRatio > ratioMax else {
            return nil
        }
        tally.ending = .failureRatio(results.failureRatio)
        return .stopped
    }

    /// Waits until the stage has read what was sent first.
    private func awaitCanary(
        _ stage: Worker,
        plannedCount: Int,
        hasRest: Bool
    ) throws(CommandFailure) {
        guard let watch, let ratioMax = order.failureRatioMax else {
            preconditionFailure("a canary has a failure ratio")
        }
        let until = WallClock.monotonicMilliseconds() + Self.canaryMilliseconds
        try watch.look()
        while !watch.results.isAllRead {
            guard WallClock.monotonicMilliseconds() < until else {
                tally.ending = .canaryUnread
                return
            }
            guard stop.wait(milliseconds: 300) == nil else {
                tally.ending = .interrupted
                return
            }
            try watch.look()
        }
        try watch.countAllFailures()
        bar?.end()
        let results = watch.results
        Console.say(
            "canary: \(stage.rawValue) has read \(results.readCount), of which"
                + " \(results.failedCount) failed again"
        )
        tally.judgeCanary(
            results,
            plannedCount: plannedCount,
            hasRest: hasRest,
            ratioMax: ratioMax
        )
    }

    /// Writes down how the run ended after its last transaction, which said that it goes on.
    ///
    /// The end itself is what its user must know: where the audit cannot be written it stays so.
    private func auditEnd(_ ending: Ending, _ stage: Worker) {
        guard auditedState == .running else {
            return
        }
        let audit = DeadLetterAudit(
            order: order,
            stage: stage,
            part: tally.partCount + 1,
            at: WallClock.nowMilliseconds(),
            state: Self.auditState(of: ending),
            counts: [:],
            runCount: sentCount
        )
        do throws(CommandFailure) {
            try LoneRecord.audit(runID: order.runID, transactionalName: "dlq.end")
                .store(
                    order.configuration,
                    deadlineMilliseconds: Self.endMilliseconds,
                    audit.write
                )
        } catch {
            Console.say("the end of the run is not in the audit: \(error.message)")
        }
    }

    static func auditState(of ending: Ending) -> AuditState {
        switch ending {
        case .finished: .finished
        case .interrupted: .interrupted
        case .failureRatio, .canaryUnread, .canaryUnsent: .stopped
        }
    }

    /// `max.message.bytes` of everything that may be written.
    private func recordByteCountMax() throws(CommandFailure) -> [String: Int] {
        let topics =
            plan.records.stages.flatMap { order.targets(of: $0) }
            + [.deadLetterReplays, .audit]
        let prefix = order.prefix
        let present = try KafkaQuestion.ask(order.configuration) {
            admin throws(LogFault) -> [String: TopicReview.Present] in
            try admin.present(topics, prefix: prefix)
        }
        let missing = Set(topics.map { $0.name(prefix: prefix) }).subtracting(present.keys)
        guard missing.isEmpty else {
            throw CommandFailure(
                .failed,
                code: "dlq.no_topics",
                "Kafka has no topic \(missing.sorted().joined(separator: ", ")):"
                    + " see tollway topics apply"
            )
        }
        return present.compactMapValues {
            $0.configuration["max.message.bytes"].flatMap { Int($0) }
        }
    }
}
