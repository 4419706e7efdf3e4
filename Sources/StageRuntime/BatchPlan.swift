package import Kafka
package import StateStore
package import TokenDomain

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

    /// Appends an output with its `traceparent`, whose value is written into the arena.
    package mutating func append(
        topic: Int,
        key: ByteRange,
        trace: TraceParent?,
        _ write: (inout [UInt8]) -> Void
    ) {
        let start = outputs.arena.count
        write(&outputs.arena)
        let value = outputs.placed(from: start)
        let headers = TraceHeader.append(trace, to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(topic: topic, key: key, value: value, headers: headers)
        )
    }
}
