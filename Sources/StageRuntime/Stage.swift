package import Kafka
package import StateStore
package import TokenDomain
package import TokenWire

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
    /// What one changelog record means for the local store: on restore.
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

/// A stage that reads its files again on SIGHUP.
package protocol ReloadingStage: Stage {
    /// Reads them again.
    ///
    /// - Returns: what is wrong with one of them, so that what was read before stays in force.
    func reload() -> ConfigurationFault?
}

/// A stage that has something of its own to show in `/debug/status`.
package protocol ShowingStage: Stage {
    /// Writes members into the object that is open.
    func show(_ writer: inout JSONWriter, now: Timestamp)
}

/// A stage that somebody outside slows down, so that more instances would only wait with it.
package protocol BoundedStage: Stage {
    /// How many instances those outside would keep busy, at least 1.
    var usefulReplicaBound: Int { get }
    /// Whether it has as much under way with them as one instance may: what waits is in no lag.
    var isFull: Bool { get }
}
