internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// Sends the dead letters of one stage, under a name that only one process can hold.
///
/// Why a record goes back at most once, whatever is killed and whoever else is at it:
///
/// 1. Each stage has one transactional id for all terminals, `<prefix>dlq-<stage>`. Taking it over
///    ends what its last owner left open, and from then on Kafka refuses every commit of that owner.
/// 2. Only after that is `dlq.<prefix>replays.v1` read, to its high watermark: all that any earlier
///    owner has sent is in it, because each dead letter's record there was committed in the
///    transaction that sent the dead letter.
/// 3. A dead letter that is in it is skipped; the others go out together with their records there.
///
/// A consumer group per topic was the other choice. Its offsets can only say "all up to here", and
/// filters leave gaps; and a dead member holds its partitions until the session ends. The id needs no
/// clean-up after a `kill -9`: the next run takes it over at once.
final class ReplaySession {
    /// What a session ends with.
    enum Ending: Equatable {
        case finished
        /// Told to stop, or by a limit of the run.
        case stopped(AuditState)
        /// Kafka lost it: once more from the start.
        case lost(LogFault)
    }

    /// Dead letters of one transaction at the most: about 100 ms of work.
    static let batchCountMax = 5_000
    private static let batchByteCountMax = 6 << 20
    /// With a rate, so many transactions a second.
    private static let batchesPerSecond = 5
    /// A transaction that took longer was ended by Kafka, which then looks like another owner.
    private static let timedOutMilliseconds = Int64(KafkaTransactor.transactionMilliseconds) - 3_000

    private let order: DeadLetterOrder
    private let stage: Worker
    private let positions: PositionSet
    private let transactor: KafkaTransactor
    private var shipment: DeadLetterShipment
    private var seenCount = 0
    private var startedAt = WallClock.monotonicMilliseconds()
    private var sentCount = 0

    /// Called after every commit with its dead letters and where they ended; a state ends the run.
    var committed: (Int, [TopicPartition: Int64]) throws(CommandFailure) -> AuditState? =
        {
            _,
            _ in nil
        }
    /// Where the result of the run's last transaction is unknown: called with how many dead letters
    /// Kafka has of the run before this session.
    var counted: ((Int) -> Void)?
    /// Dead letters of the run before this session.
    var runCount = 0
    /// Transactions of the run so far.
    var part = 0
    /// What the audit says of the last transaction of a session that came to its end.
    var lastState = AuditState.finished
    /// What the audit says of the session's last transaction.
    private(set) var auditedState: AuditState?
    /// Dead letters that could not go after all.
    private(set) var unsendableCount = 0

    init(
        _ order: DeadLetterOrder,
        stage: Worker,
        positions: PositionSet,
        recordByteCountMax: [String: Int]
    ) throws(CommandFailure) {
        self.order = order
        self.stage = stage
        self.positions = positions
        shipment = DeadLetterShipment(
            order: order,
            stage: stage,
            recordByteCountMax: recordByteCountMax
        )
        do throws(LogFault) {
            transactor = try KafkaTransactor(
                settings: order.configuration.kafka,
                transactionalID: "\(order.prefix)dlq-\(stage.rawValue)",
                targets: shipment.topics.map { $0.name(prefix: order.prefix) },
                recordByteCountMax: recordByteCountMax
            )
        } catch {
            throw KafkaQuestion.failure(error, order.configuration)
        }
    }

    func close() {
        transactor.close()
    }

    /// Dead letters a transaction, by the rate.
    private var batchCount: Int {
        guard let rate = order.pace else {
            return Self.batchCountMax
        }
        return min(Self.batchCountMax, max(1, rate / Self.batchesPerSecond))
    }

    func run() throws(CommandFailure) -> Ending {
        do throws(LogFault) {
            try transactor.takeOver()
        } catch {
            return .lost(error)
        }
        var scan = DeadLetterScan(configuration: order.configuration, filter: DeadLetterFilter())
        scan.filter.stages = [stage]
        scan.includesSettled = true
        scan.readsSubjects = order.action == .replay && stage == .report
        scan.places = places
        let settled = try scan.settled(
            isExact: true,
            countingRun: counted == nil ? nil : order.runID
        )
        if let counted {
            runCount = max(runCount, settled.runCount)
            counted(settled.runCount)
        }
        startedAt = WallClock.monotonicMilliseconds()
        var ending: Ending?
        try scan.run(settled: settled) { deadLetter, batch, subject throws(CommandFailure) in
            guard positions.contains(deadLetter.position) else {
                return true
            }
            seenCount += 1
            if deadLetter.settled == nil,
                !shipment.append(
                    deadLetter,
                    in: batch,
                    subject: subject,
                    now: WallClock.nowMilliseconds()
                )
            {
                unsendableCount += 1
            }
            // The last transaction says how the session ends, and nothing is waited for after it.
            if seenCount < positions.count,
                shipment.count >= batchCount || shipment.byteCount >= Self.batchByteCountMax
            {
                ending = try commit(.running)
            }
            return ending == nil && seenCount < positions.count
        }
        switch ending {
        case nil: return try commit(lastState) ?? .finished
        case .stopped(let state): return try commit(state) ?? .stopped(state)
        case .finished, .lost: return ending ?? .finished
        }
    }

    private var places: [TopicPartition: LogBrowser.Start] {
        var places: [TopicPartition: LogBrowser.Start] = [:]
        let topic = Topic.deadLetters(stage).name(prefix: order.prefix)
        for (partition, ranges) in positions.ranges {
            places[TopicPartition(topic: topic, partition: partition.partition)] =
                .offset(ranges.first?.lowerBound ?? 0)
        }
        return places
    }

    /// Commits what was gathered, and its audit.
    ///
    /// - Returns: why the session ends; nil where it goes on.
    private func commit(_ state: AuditState) throws(CommandFailure) -> Ending? {
        let count = shipment.count
        guard count > 0 || runCount + sentCount > 0 else {
            // Nothing was done, so there is nothing to audit.
            return nil
        }
        part += 1
        shipment.appendAudit(
            DeadLetterAudit(
                order: order,
                stage: stage,
                part: part,
                at: WallClock.nowMilliseconds(),
                state: state,
                counts: shipment.counts,
                runCount: runCount + sentCount + count
            )
        )
        let began = WallClock.monotonicMilliseconds()
        let ends: [TopicPartition: Int64]
        do throws(LogFault) {
            ends = try transactor.commit(shipment.outputs)
        } catch {
            return try lost(error, after: WallClock.monotonicMilliseconds() - began)
        }
        shipment.removeAll()
        sentCount += count
        auditedState = state
        let names = Set(shipment.targets.map { $0.name(prefix: order.prefix) })
        let stop = try committed(count, ends.filter { names.contains($0.key.topic) })
        return state == .running ? stop.map { .stopped($0) } : nil
    }

    private func lost(
        _ fault: LogFault,
        after milliseconds: Int64
    ) throws(CommandFailure) -> Ending {
        switch fault {
        case .fenced where milliseconds < Self.timedOutMilliseconds:
            throw CommandFailure(
                .tryAgain,
                code: "dlq.taken_over",
                "another tollway dlq \(order.action.rawValue) of \(stage.rawValue) has taken over;"
                    + " this one stopped after \(runCount + sentCount). Nothing went twice, and what"
                    + " is left can be sent by either: run it again when the other has ended"
            )
        case .fenced, .unavailable, .unusable:
            return .lost(fault)
        case .misconfigured, .ours, .recordTooLarge, .recordsLost:
            throw KafkaQuestion.failure(fault, order.configuration)
        }
    }

    /// How long to wait before the next transaction, by the rate; 0 without.
    var pauseMilliseconds: Int64 {
        guard let rate = order.pace else {
            return 0
        }
        let due = Int64(sentCount) * 1_000 / Int64(rate)
        return max(0, due - (WallClock.monotonicMilliseconds() - startedAt))
    }
}
