internal import Kafka
package import TokenDomain

/// Dead letters of a stage's own making: a refused debt, or a sale, is no record of the batch.
package struct OwnDeadLetters {
    private let worker: Worker
    /// Full names of the sources, for the origin.
    private let sources: [String]
    private let group: String

    package init(of worker: Worker, topicPrefix: String) {
        self.worker = worker
        sources = worker.sources.map { $0.name(prefix: topicPrefix) }
        group = worker.group(prefix: topicPrefix)
    }

    /// Adds one to a plan.
    ///
    /// `origin` is that of the record that made the debt, or brought the sale, `history` what it
    /// carried if it was replayed.
    package func append(
        _ value: [UInt8],
        key: [UInt8],
        _ fault: Fault,
        _ origin: RecordOrigin,
        _ history: ReplayHistory?,
        trace: TraceParent?,
        into plan: inout BatchPlan
    ) {
        let deadLetter = DeadLetter(
            fault: fault,
            worker: worker,
            origin: DeadLetter.Origin(
                topic: sources[origin.topic],
                partition: origin.partition,
                offset: origin.offset,
                group: group
            ),
            failedAt: plan.now,
            history: history.map(DeadLetter.History.init) ?? .none
        )
        plan.outputs.append(
            deadLetter,
            // Dead letters come after all targets.
            topic: worker.targets.count,
            key: key[...],
            value: value[...],
            businessHeaders: .absent,
            of: [],
            trace: trace
        )
        plan.deadLetters.append(
            WrittenDeadLetter(fault: fault, origin: deadLetter.origin, trace: trace)
        )
    }
}
