/// The proof that a token Apple named is not on its way to us through our own topics.
///
/// A round takes three steps, each begun only when the one before is proven:
///
/// 1. the end of `tokens.received`, and that decode has committed past it;
/// 2. only then the end of `tokens.decoded`, and that dedupe has committed past it;
/// 3. only then the end of `tokens.distinct`, and, partition by partition, that `report` has
///    committed past it. What is committed is absorbed: state and offset are one transaction.
///
/// One round serves every notice whose grace time was over when it began. The machine is pure: it
/// says what to ask, and is fed with the answers.
package struct UnrecognizedGuard: Equatable, Sendable {
    package enum Step: Int, Comparable, Sendable, CaseIterable {
        case received, decoded, distinct

        /// Whose end counts.
        package var topic: Topic {
            switch self {
            case .received: .tokensReceived
            case .decoded: .tokensDecoded
            case .distinct: .tokensDistinct
            }
        }

        /// Whose commits prove it.
        package var reader: Worker {
            switch self {
            case .received: .decode
            case .decoded: .dedupe
            case .distinct: .report
            }
        }

        package static func < (left: Step, right: Step) -> Bool {
            left.rawValue < right.rawValue
        }
    }

    /// What to ask the log next.
    package enum Question: Equatable, Sendable {
        case endOffsets(of: Topic)
        case committedOffsets(of: Worker, on: Topic)
    }

    private struct Round: Equatable, Sendable {
        var startedAt: Timestamp
        var step: Step
        /// The end offsets of this step's topic; nil until they are known.
        var ends: [Int64]?
        /// The reader was not there yet when last asked: the topic may be another one by now.
        var isBehind = false
        /// In the last step: by partition, whether it is proven.
        var proven: [Bool] = []
    }

    private var round: Round?

    package init() {}

    package var isRunning: Bool { round != nil }
    package var step: Step? { round?.step }
    /// Notices whose grace time was over by then are served by this round.
    package var startedAt: Timestamp? { round?.startedAt }

    /// Begins a round, unless one is running.
    package mutating func begin(now: Timestamp) {
        guard round == nil else {
            return
        }
        round = Round(startedAt: now, step: .received)
    }

    /// Ends the round: all are served, or the proof is void because partitions came or went.
    package mutating func end() {
        round = nil
    }

    package var question: Question? {
        guard let round else {
            return nil
        }
        guard round.ends != nil, !round.isBehind else {
            return .endOffsets(of: round.step.topic)
        }
        return .committedOffsets(of: round.step.reader, on: round.step.topic)
    }

    /// The end offsets of the step's topic, read uncommitted, asked for after the step began.
    ///
    /// The first answer counts: ends that grow would never be reached. Where a later one is below
    /// it, the topic was made anew, and nobody will commit what the old one had: the ends are asked
    /// for anew.
    package mutating func learn(endOffsets: [Int64]) {
        guard round != nil else {
            return
        }
        round?.isBehind = false
        guard let known = round?.ends else {
            round?.ends = endOffsets
            round?.proven = [Bool](repeating: false, count: endOffsets.count)
            return
        }
        if zip(endOffsets, known).contains(where: { $0 < $1 }) {
            round?.ends = nil
            round?.proven = []
        }
    }

    /// What the step's reader has committed; nil where nothing is.
    ///
    /// Where the topic has not as many partitions as when its ends were asked for, they are asked
    /// for anew: which of its records were there by then is unknown.
    package mutating func learn(committedOffsets: [Int64?]) {
        guard var round, let ends = round.ends else {
            return
        }
        guard committedOffsets.count == ends.count else {
            self.round?.ends = nil
            self.round?.proven = []
            return
        }
        round.isBehind = true
        for (partition, committed) in committedOffsets.enumerated() {
            // A missing commit is no proof.
            if let committed, committed >= ends[partition] {
                round.proven[partition] = true
            }
        }
        if !round.proven.isEmpty, round.proven.allSatisfy({ $0 }),
            let next = Step(rawValue: round.step.rawValue + 1)
        {
            round.step = next
            round.isBehind = false
            round.ends = nil
            round.proven = []
        }
        self.round = round
    }

    /// Whether a token of this partition of `distinct` is proven unknown, if it is unknown now.
    package func isProven(partition: Int32) -> Bool {
        guard let round, round.step == .distinct, round.proven.indices.contains(Int(partition))
        else {
            return false
        }
        return round.proven[Int(partition)]
    }
}
