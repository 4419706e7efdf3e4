internal import Kafka
package import TokenDomain

extension WorkerLoop {
    /// The topics that a worker's log must have as targets, in the order this loop counts them.
    package static func targets(of worker: Worker) -> [Topic] {
        worker.targets + [worker.deadLetters, worker.changelog].compactMap { $0 }
    }

    /// What the loop holds at most, and how long it waits.
    package struct Limits: Sendable {
        /// Records judged beyond the transaction under way; also the most one transaction takes in.
        package var recordCountMax = 10_000
        /// Bytes of outputs and state held for the next transaction before reading stops.
        package var outputByteCountMax = 8 << 20
        /// Largest output or changelog record, key, value and headers; larger ones are the fault of
        /// the record that they come of.
        package var outputRecordByteCountMax = outputRecordByteCountDefault
        /// Below Kafka's default of 1,048,588 with its framing.
        package static let outputRecordByteCountDefault = 1_000_000
        /// Largest dead letter; for a larger record it holds only the record's offset.
        package var deadLetterByteCountMax = DeadLetter.topicByteCountMax - framingByteCountMax
        /// How long a revocation or a shutdown waits for the transaction under way: above the log's
        /// own watchdog, which ends it first.
        package var commitWaitMilliseconds = 60_000

        /// What framing may add to an output.
        static let framingByteCountMax = 1_024
        /// Below this no topic can hold what a stage writes, and its records are no culprits.
        package static let outputRecordByteCountMin = 65_536

        package init() {}

        /// Dead letters may be as large as their topic's `max.message.bytes` allows: it follows
        /// that of the sources.
        mutating func setDeadLetters(toTopicOf byteCountMax: Int) {
            deadLetterByteCountMax = byteCountMax - Self.framingByteCountMax
        }

        /// Keeps outputs within the smallest `max.message.bytes` of the targets and the changelog.
        mutating func lower(toTopicsOf byteCountMax: Int) {
            let least = max(
                byteCountMax - Self.framingByteCountMax,
                Self.outputRecordByteCountMin
            )
            outputRecordByteCountMax = min(outputRecordByteCountMax, least)
        }
    }

    /// Fewer are not taken for their size.
    private static let fittingRecordCountMin = 16

    /// Of outputs and state for the next transaction.
    var heldByteCount: Int { outputs.arena.count + state.openByteCount }

    /// Whether the stage's tick is called; where it is not, nobody takes what came back for the stage.
    var isTicking: Bool {
        stage is any TickingStage && !state.isEmpty && !aborts.isSearching
    }

    /// How many records may be taken now: none while the plan for the next transaction is full.
    ///
    /// And no more than its bytes have room for, where they are like the last ones, for an answer to a
    /// report may change a hundred sales. Answers and sales come in turns of some batches: what was large
    /// is forgotten by halves.
    var room: Int {
        let byteCount = limits.outputByteCountMax - heldByteCount
        guard byteCount > 0 else {
            return 0
        }
        let fitting = max(byteCount / max(byteCountPerRecord, 1), Self.fittingRecordCountMin)
        let left = min(limits.recordCountMax, aborts.recordCountMax ?? .max) - recordCount
        return max(min(left, fitting), 0)
    }
}
