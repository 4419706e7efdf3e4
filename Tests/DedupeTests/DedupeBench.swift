import Kafka
import StateStore
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import dedupe

/// The stage with a store a partition behind it, and no log: batches in, answers out.
final class DedupeBench {
    let stage = DedupeStage()
    private(set) var state = StagedState()
    private(set) var stores: [Int32: MemoryStore] = [:]
    var now = Timestamp(milliseconds: 1_750_000_000_000)
    var recordByteCountMax = 1_000_000
    /// What writers of records say, where it is not the time of this machine.
    var recordTime: Timestamp?
    /// Every record submitted so far.
    private(set) var changelog: [Int32: [(key: [UInt8], value: [UInt8]?)]] = [:]
    private var offset: Int64 = 0

    /// The stage's verdict on one record.
    enum Answer: Equatable, CustomStringConvertible {
        case primary
        case duplicate(of: String)
        case again
        /// Of `tokens.refused`: no other token replaces it.
        case refused
        /// Likewise: Apple knows it after all.
        case known
        /// Likewise: this one takes its place.
        case promoted(String, from: String)
        case deadLetter(String)

        var description: String {
            switch self {
            case .primary: "primary"
            case .duplicate(let first): "duplicate of \(first)"
            case .again: "again"
            case .refused: "refused"
            case .known: "known"
            case .promoted(let id, let from): "\(id) promoted from \(from)"
            case .deadLetter(let code): code
            }
        }
    }

    /// Of the outputs since the last submit.
    private var arena: [UInt8] = []

    init(partitionCount: Int32 = 2) {
        for partition in 0..<partitionCount {
            let store = MemoryStore()
            stores[partition] = store
            state.open(store, partition: partition)
        }
    }

    /// Judges one batch and leaves what it put staged.
    func judge(_ tokens: [TokenDecoded], partition: Int32 = 0) throws -> [Answer] {
        try judge(
            values: tokens.map { token in
                var value: [UInt8] = []
                token.write(to: &value)
                return (partition, value)
            }
        )
    }

    func judge(values: [(partition: Int32, value: [UInt8])], topic: Int = 0) throws -> [Answer] {
        try answers(plan(values: values, topic: topic))
    }

    /// Apple does not know these tokens, or does after all.
    func refuse(
        _ ids: [String],
        customer: String? = "c1.customer",
        partition: Int32 = 0,
        isWithdrawn: Bool = false
    ) throws -> [Answer] {
        try judge(
            values: ids.map { id in
                var value: [UInt8] = []
                TokenRefused(
                    externalPurchaseID: TokenID(id),
                    customer: customer.map(CustomerID.init),
                    refusedAt: now,
                    withdrawnAt: isWithdrawn ? now : nil
                ).write(to: &value)
                return (partition, value)
            },
            topic: 1
        )
    }

    /// The records of a plan as text, such as those that went out.
    func texts(of plan: BatchPlan) -> [String] {
        plan.outputs.outputs.map {
            String(decoding: plan.outputs.arena[$0.value.indices], as: UTF8.self)
        }
    }

    /// A record without meaning comes in, so that the stage sees the time.
    func hearTime() throws {
        _ = try judge(values: [(0, [])])
    }

    /// Records of the present time for longer than any pause, up to ``now``: time did not leap.
    func passADay() throws {
        let end = now
        for hours in stride(from: 24, through: 0, by: -1) as StrideThrough<Int64> {
            now = end + .hours(-hours)
            try hearTime()
        }
    }

    func plan(values: [(partition: Int32, value: [UInt8])], topic: Int = 0) -> BatchPlan {
        var batch = RecordBatch()
        for (partition, value) in values {
            let start = batch.arena.count
            batch.arena.append(contentsOf: value)
            batch.records.append(
                RecordBatch.Record(
                    topic: topic,
                    partition: partition,
                    offset: offset,
                    timestampMilliseconds: (recordTime ?? now).milliseconds,
                    key: .absent,
                    value: ByteRange(start: start, count: value.count),
                    headers: ByteRange(start: 0, count: 0)
                )
            )
            offset += 1
        }
        var plan = BatchPlan(
            outputs: OutputBatch(),
            state: state,
            now: now,
            recordByteCountMax: recordByteCountMax
        )
        plan.outputs.arena = arena
        stage.judge(batch, into: &plan)
        arena = plan.outputs.arena
        return plan
    }

    /// The records put since the last commit, by partition.
    func submit() -> [(partition: Int32, changes: [(key: [UInt8], value: [UInt8]?)])] {
        let submitted = state.submittedRecords(in: arena)
        arena = []
        for (partition, changes) in submitted {
            changelog[partition, default: []] += changes
        }
        return submitted
    }

    /// What was submitted is durable: the stores learn of it.
    func commit() throws {
        let offsets = Dictionary(
            uniqueKeysWithValues: state.partitions.map {
                ($0, Int64(changelog[$0]?.count ?? 0))
            }
        )
        state.settle()
        try state.learn(changelogOffsets: offsets)
    }

    func submitAndCommit() throws {
        _ = submit()
        try commit()
    }

    /// A worker that begins with nothing but the changelog.
    func restored() throws -> DedupeBench {
        let bench = DedupeBench(partitionCount: 0)
        bench.now = now
        bench.changelog = changelog
        for partition in state.partitions {
            let store = MemoryStore()
            try StagedState.apply(
                changelog[partition] ?? [],
                changelogOffset: Int64(changelog[partition]?.count ?? 0),
                to: store,
                stage: bench.stage
            )
            bench.stores[partition] = store
            bench.state.open(store, partition: partition)
        }
        return bench
    }

    func entryCount(partition: Int32 = 0) throws -> Int {
        var count = 0
        try stores[partition]?.scan(.state, from: []) { _, _ in
            count += 1
            return true
        }
        return count
    }

    /// What a plan says, read back through `TokenWire`.
    private func answers(_ plan: BatchPlan) throws -> [Answer] {
        var outputs = plan.outputs.outputs[...]
        return try plan.verdicts.map { verdict in
            switch verdict {
            case .forward(let outputCount):
                guard outputCount == 1, let output = outputs.popFirst() else {
                    return .deadLetter("not one output")
                }
                let token = try TokenDistinct(
                    reading: plan.outputs.arena.span.extracting(output.value.indices)
                )
                let key = String(
                    decoding: plan.outputs.arena[output.key.indices],
                    as: UTF8.self
                )
                guard output.topic == 0, key == token.externalPurchaseID.text else {
                    return .deadLetter("not keyed by the id")
                }
                switch token.role {
                case .primary:
                    return token.promotedFrom.map {
                        .promoted(token.externalPurchaseID.text, from: $0.text)
                    } ?? .primary
                case .duplicate(let first): return .duplicate(of: first.text)
                case .seen: return .deadLetter("seen")
                }
            case .settled(let reason):
                return reason == "refused_token"
                    ? .refused : reason == "known_token" ? .known : .again
            case .deadLetter(let fault, 0):
                return .deadLetter(fault.code)
            case .deadLetter(let fault, let outputCount):
                guard outputCount == 1, let output = outputs.popFirst() else {
                    return .deadLetter("not one output")
                }
                let seen = try TokenDistinct(
                    reading: plan.outputs.arena.span.extracting(output.value.indices)
                )
                return .deadLetter("\(fault.code) \(seen.role) \(seen.externalPurchaseID.text)")
            }
        }
    }
}

extension StagedState {
    /// Submits, and reads back what goes to the changelog: by partition, in order.
    func submittedRecords(
        in arena: [UInt8]
    ) -> [(partition: Int32, changes: [(key: [UInt8], value: [UInt8]?)])] {
        var outputs = OutputBatch()
        outputs.arena = arena
        submit(to: &outputs, topic: 0)
        var changes: [Int32: [(key: [UInt8], value: [UInt8]?)]] = [:]
        for output in outputs.outputs {
            changes[output.partition, default: []].append(
                (
                    Array(outputs.arena[output.key.indices]),
                    output.value.isAbsent ? nil : Array(outputs.arena[output.value.indices])
                )
            )
        }
        return changes.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }
}
