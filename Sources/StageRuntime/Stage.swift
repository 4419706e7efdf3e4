package import Kafka
package import StateStore
package import TokenDomain

/// What a stage says about one record.
///
/// It cannot commit, retry or dead-letter; it can only say so.
package enum Verdict: Equatable, Sendable {
    /// The next `outputCount` outputs of the plan, at least one, come of this record.
    case forward(outputCount: Int)
    /// Nothing more is owed for it; the reason is a fixed word for the metrics, such as `repeat`.
    case settled(StaticReason)
    /// The record's own fault. The runtime writes the dead letter, byte for byte; the next `outputCount`
    /// outputs of the plan go out beside it (a `seen` record).
    case deadLetter(Fault, outputCount: Int = 0)

    /// How many outputs of the plan come of the record.
    var outputCount: Int {
        switch self {
        case .forward(let outputCount), .deadLetter(_, let outputCount): outputCount
        case .settled: 0
        }
    }
}

/// A fixed word that metrics count by.
package struct StaticReason: Equatable, Sendable, ExpressibleByStringLiteral {
    package let text: String

    package init(stringLiteral text: StaticString) {
        // An interpolation would cost more than the verdict that it is for.
        self.text = text.withUTF8Buffer { unsafe String(decoding: $0, as: UTF8.self) }
    }
}

/// What a stage makes of one batch: outputs, verdicts in the order of the records, and state.
package struct BatchPlan {
    package var outputs: OutputBatch
    package private(set) var verdicts: [Verdict] = []
    /// The app of each record that is a token's, one for each verdict.
    private(set) var apps: [Int64?] = []
    /// Outputs that come of no record, and go out behind those that do.
    private(set) var aside: [OutputBatch.Output] = []
    /// Counts tokens that were settled without a record of this batch.
    package var tally = TokenTally()
    /// Called in turn once the transaction of this plan is known to be committed, and never else.
    private(set) var afterCommit: [() -> Void] = []
    /// Each dead letter: the loop counts them once they are committed.
    var deadLetters: [WrittenDeadLetter] = []
    /// How many records ended with each outcome: likewise.
    private(set) var outcomes: [(name: String, recordCount: Int)] = []
    private var lastOutcome = 0
    /// The state of the partitions assigned; empty for a stage without state.
    package let state: StagedState
    /// The time at which this batch is judged.
    package let now: Timestamp
    /// Key, value and headers of a record that Kafka takes, in every target and in the changelog: a
    /// larger output becomes its record's dead letter, a larger state must not be put.
    package let recordByteCountMax: Int
    /// The disk failed while the stage judged: nothing of this batch counts.
    ///
    /// The stage still concludes every record (any verdict), the loop drops them and acts on the
    /// fault.
    package var storeFault: StoreFault?

    package init(
        outputs: OutputBatch,
        state: StagedState,
        now: Timestamp,
        recordByteCountMax: Int = WorkerLoop.Limits.outputRecordByteCountDefault,
        memory: consuming Memory = Memory()
    ) {
        verdicts = memory.verdicts
        apps = memory.apps
        self.outputs = outputs
        self.state = state
        self.now = now
        self.recordByteCountMax = recordByteCountMax
    }

    /// What a plan grows by a batch's size, emptied for another.
    package struct Memory {
        fileprivate var verdicts: [Verdict] = []
        fileprivate var apps: [Int64?] = []

        package init() {}
    }

    /// Gives up what it has of a batch.
    mutating func takeMemory() -> Memory {
        var memory = Memory()
        swap(&memory.verdicts, &verdicts)
        swap(&memory.apps, &apps)
        memory.verdicts.removeAll(keepingCapacity: true)
        memory.apps.removeAll(keepingCapacity: true)
        return memory
    }

    /// Takes the outputs from an index on, which no verdict counts: they come of no record of the batch.
    package mutating func setAside(from index: Int) {
        aside += outputs.outputs[index...]
        outputs.outputs.removeSubrange(index...)
    }

    /// Runs an action after the commit of this plan's transaction; never after an abort.
    package mutating func whenCommitted(_ action: @escaping () -> Void) {
        afterCommit.append(action)
    }

    /// `app` is that of a token which came in, or ``TokenTally/unknownApp``; nil for a record of
    /// another kind.
    package mutating func conclude(_ verdict: Verdict, app: Int64? = nil) {
        verdicts.append(verdict)
        apps.append(app)
    }

    /// Counts a record by how it ended.
    mutating func count(_ outcome: String) {
        // Records in a row mostly end alike, and a stage has few outcomes.
        if lastOutcome >= outcomes.count || outcomes[lastOutcome].name != outcome {
            lastOutcome = outcomes.firstIndex { $0.name == outcome } ?? outcomes.count
            if lastOutcome == outcomes.count {
                outcomes.append((outcome, 0))
            }
        }
        outcomes[lastOutcome].recordCount += 1
    }

    /// Adds a dead letter of the stage's own making: a refused debt has no source record.
    ///
    /// The topic is the dead-letter topic's index, which is `Worker.targets.count`; the origin in
    /// the dead letter is that of the record that made the debt.
    package mutating func append(
        _ deadLetter: DeadLetter,
        topic: Int,
        key: [UInt8],
        value: [UInt8],
        trace: TraceParent? = nil
    ) {
        outputs.append(
            deadLetter,
            topic: topic,
            key: key[...],
            value: value[...],
            businessHeaders: .absent,
            of: [],
            trace: trace
        )
        deadLetters.append(
            WrittenDeadLetter(fault: deadLetter.fault, origin: deadLetter.origin, trace: trace)
        )
    }
}

/// A stage: a function from a batch of records to one verdict each.
package protocol Stage: AnyObject {
    /// Judges every record of the batch, in order: exactly one `plan.conclude` a record, its outputs
    /// appended before it.
    func judge(_ batch: RecordBatch, into plan: inout BatchPlan)

    /// Appends what must go out beside a dead letter that the loop decided on: Kafka refused what the
    /// stage made of the record, or would for its size.
    ///
    /// Nothing, unless a stage says otherwise.
    /// - Returns: how many outputs were appended.
    func outputsBesideDeadLetter(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        into plan: inout BatchPlan
    ) -> Int
}

extension Stage {
    package func outputsBesideDeadLetter(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        into plan: inout BatchPlan
    ) -> Int { 0 }
}

/// A stage that keeps state in a changelog.
package protocol StatefulStage: Stage {
    /// What one changelog record means for the local store: on restore, and after each commit.
    ///
    /// A value of nil is a tombstone. `previous` is the value of the key before this one, for what
    /// is derived from it.
    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    )

    /// Whether ``deriveChanges(key:value:previous:into:)`` looks at `previous` (costs a look-up).
    var derivesFromPrevious: Bool { get }

    /// The form of what ``deriveChanges(key:value:previous:into:)`` makes: a store of another one is
    /// wiped and replayed.
    static var storeForm: Int { get }

    /// Which keys it scans together.
    var storeGroups: StoreGroups { get }
}

extension StatefulStage {
    package static var storeForm: Int { 1 }
    package var storeGroups: StoreGroups { StoreGroups() }

    /// Whose a store is: a changelog's, in the stage's form.
    package static func storeIdentity(ofChangelog identity: String) -> String {
        StateDirectory.identity(ofChangelog: identity, form: storeForm)
    }
}

/// A stage that also acts by itself: timers run out, Apple answers.
///
/// `report` and `purchases` are such stages.
package protocol TickingStage: StatefulStage {
    /// These partition numbers are ours, and their state is restored; called with one more each time,
    /// `isWhole` with the last one that is ours.
    func assigned(_ partitions: [Int32], isWhole: Bool, state: StagedState, now: Timestamp)
    /// These are gone: send nothing more for them.
    func revoked(_ partitions: [Int32])
    /// What is due now, and what came back since the last tick. May put state and append outputs.
    func tick(into plan: inout BatchPlan)
    /// The transaction that held everything planned since the last commit is durable: what was
    /// planned may now be acted upon (an intent is stored before its first send).
    func committed(now: Timestamp)
    /// It was dropped: forget everything planned since the last commit.
    func aborted()
    /// When `tick` wants to be called next at the latest; nil if only an event can bring work.
    var nextTick: Timestamp? { get }
    /// Becomes readable when something came back; -1 where there is none.
    var wakeDescriptor: Int32 { get }
    /// Until when what came back may wait, so that one tick serves all that comes till then.
    func restsUntil(now: Timestamp) -> Timestamp
}

extension TickingStage {
    package func restsUntil(now: Timestamp) -> Timestamp { now }
}
