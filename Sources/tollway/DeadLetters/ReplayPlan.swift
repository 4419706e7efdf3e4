internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What a change would do with each dead letter, before it is done.
struct ReplayPlan {
    struct Skipped {
        static let exampleCountMax = 3

        var count = 0
        var examples: [DeadLetterPosition] = []

        mutating func add(_ position: DeadLetterPosition) {
            count += 1
            if examples.count < Self.exampleCountMax {
                examples.append(position)
            }
        }
    }

    struct Sample {
        var position: DeadLetterPosition
        var before: [UInt8]
        var after: [UInt8]
    }

    static let sampleCountMax = 2

    var groups: DeadLetterGroups
    /// Dead letters that go, by index of their group.
    var goingCounts: [Int: Int] = [:]
    var skipped: [SkipReason: Skipped] = [:]
    var targets: [Topic: Int] = [:]
    /// All that goes.
    var records = PositionSet()
    /// The oldest of them of each stage, to go first; empty without a canary.
    var canary = PositionSet()
    /// What a patch does to the first of them.
    var samples: [Sample] = []
    /// How many more may match, see ``DeadLetterFilter/mayMatch(_:)``.
    var otherNameCount = 0

    var matchedCount: Int { groups.count }
    var skippedCount: Int { skipped.values.reduce(0) { $0 + $1.count } }
    /// Those that might go, but are beyond the limit that was asked for.
    var leftCount: Int { matchedCount - skippedCount - records.count }
    /// Without the canary.
    var rest: PositionSet {
        guard !canary.isEmpty else {
            return records
        }
        var positions: [DeadLetterPosition] = []
        for (partition, ranges) in records.ranges {
            for offset in ranges.joined() {
                let position = DeadLetterPosition(
                    stage: partition.stage,
                    partition: partition.partition,
                    offset: offset
                )
                if !canary.contains(position) {
                    positions.append(position)
                }
            }
        }
        return PositionSet(positions)
    }
}

/// Makes plans; reads and changes nothing.
struct ReplayPlanner {
    /// A dead letter that goes if Apple's answers do not say otherwise.
    private struct Candidate {
        var position: DeadLetterPosition
        var failedAt: Int64
        var group: Int?
        var target: Topic
        var question: LedgerQuestion?
    }

    let order: DeadLetterOrder

    func plan() throws(CommandFailure) -> ReplayPlan {
        var scan = DeadLetterScan(configuration: order.configuration, filter: order.filter)
        scan.readsSubjects = true
        let settled = try scan.settled(progress: ProgressLine("records of earlier replays"))
        var plan = ReplayPlan(
            groups: DeadLetterGroups(deadlineDays: order.configuration.reportDeadlineDays)
        )
        var candidates = try candidates(scan, settled, &plan)
        if order.action == .replay {
            candidates = try withoutSkipped(candidates, &plan)
        }
        if order.countMax != nil || order.canaryCount != nil {
            candidates.sort { ($0.failedAt, $0.position) < ($1.failedAt, $1.position) }
        }
        if let countMax = order.countMax, candidates.count > countMax {
            candidates.removeLast(candidates.count - countMax)
        }
        for candidate in candidates {
            plan.targets[candidate.target, default: 0] += 1
            if let group = candidate.group {
                plan.goingCounts[group, default: 0] += 1
            }
        }
        plan.records = PositionSet(candidates.lazy.map(\.position))
        if let canaryCount = order.canaryCount {
            // Each stage reads for itself: one that does well says nothing of the others.
            let stages = Dictionary(grouping: candidates, by: \.position.stage).values
            plan.canary = PositionSet(stages.flatMap { $0.prefix(canaryCount).map(\.position) })
        }
        return plan
    }

    private func candidates(
        _ scan: DeadLetterScan,
        _ settled: SettledDeadLetters,
        _ plan: inout ReplayPlan
    ) throws(CommandFailure) -> [Candidate] {
        var judge = DeadLetterJudge(order)
        if let knownSince = settled.knownSince {
            judge.forgottenBefore = max(judge.forgottenBefore ?? 0, knownSince)
        }
        let patcher = ReplayPatcher(order.patch)
        var candidates: [Candidate] = []
        plan.otherNameCount = try scan.run(
            settled: settled,
            progress: ProgressLine("dead letters")
        ) { deadLetter, batch, subject throws(CommandFailure) in
            if let records = order.plan?.records, !records.contains(deadLetter.position) {
                return true
            }
            let group = plan.groups.add(deadLetter, in: batch, subject: subject)
            var candidate = Candidate(
                position: deadLetter.position,
                failedAt: deadLetter.failedAt,
                group: group,
                target: .deadLetterArchive
            )
            if let why = judge.skipReason(writtenAt: deadLetter.record.timestampMilliseconds) {
                plan.skipped[why, default: ReplayPlan.Skipped()].add(deadLetter.position)
                return true
            }
            if order.action == .replay {
                let patched = patcher.patched(deadLetter, in: batch, subject: subject)
                let outgoing = patched?.subject ?? subject
                switch judge.judge(deadLetter, in: batch, subject: outgoing) {
                case .skip(let why):
                    plan.skipped[why, default: ReplayPlan.Skipped()].add(deadLetter.position)
                    return true
                case .go(let target, let question):
                    candidate.target = target
                    candidate.question = question
                }
                guard let patched else {
                    plan.skipped[.notPatchable, default: ReplayPlan.Skipped()].add(
                        deadLetter.position
                    )
                    return true
                }
                if order.patch != nil, plan.samples.count < ReplayPlan.sampleCountMax {
                    plan.samples.append(
                        ReplayPlan.Sample(
                            position: deadLetter.position,
                            before: Array(batch.arena[deadLetter.record.value.indices]),
                            after: Array(patched.value)
                        )
                    )
                }
            }
            candidates.append(candidate)
            return true
        }
        return candidates
    }

    /// Asks the ledger, once for all, and keeps those that Apple has not settled.
    private func withoutSkipped(
        _ candidates: [Candidate],
        _ plan: inout ReplayPlan
    ) throws(CommandFailure) -> [Candidate] {
        var ledger = Ledger()
        for candidate in candidates {
            if let question = candidate.question {
                ledger.ask(question)
            }
        }
        try ledger.read(order.configuration)
        let going = candidates.filter { candidate in
            guard let why = candidate.question.flatMap({ ledger.skipReason($0) }) else {
                return true
            }
            plan.skipped[why, default: ReplayPlan.Skipped()].add(candidate.position)
            return false
        }
        let early = Self.changesBeforeOlder(going)
        for position in early {
            plan.skipped[.orderRules, default: ReplayPlan.Skipped()].add(position)
        }
        return going.filter { !early.contains($0.position) }
    }

    /// Changes of sales that lie before an older change of the same sale, which has failed again since.
    ///
    /// What is sent last stands: they go once that has gone.
    private static func changesBeforeOlder(_ candidates: [Candidate]) -> Set<DeadLetterPosition> {
        struct Sale: Hashable {
            var purchaseKey: UInt64
            var lineItemID: UInt64
            var environment: AppleEnvironment?
            var appAppleID: Int64?
            var bundleID: String?
        }
        var changes: [(position: DeadLetterPosition, change: LedgerQuestion.Change)] = []
        for candidate in candidates {
            if case .change(let change)? = candidate.question {
                changes.append((candidate.position, change))
            }
        }
        var oldest: [Sale: Int64] = [:]
        var early: Set<DeadLetterPosition> = []
        for (position, change) in changes.sorted(by: { $0.position > $1.position }) {
            let sale = Sale(
                purchaseKey: change.purchaseKey,
                lineItemID: change.lineItemID,
                environment: change.environment,
                appAppleID: change.appAppleID,
                bundleID: change.bundleID
            )
            let behind = oldest[sale] ?? .max
            if behind < change.receivedAt {
                early.insert(position)
            }
            oldest[sale] = min(behind, change.receivedAt)
        }
        return early
    }
}
