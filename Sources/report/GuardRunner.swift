internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Runs the proof that nobody knows a token that Apple named, one question to the log at a time.
///
/// ``UnrecognizedGuard`` is the proof; here are its questions, and when the next one may be asked.
final class GuardRunner {
    private let inquiry: LogInquiry
    private let limits: ReportLimits
    private var proof = UnrecognizedGuard()
    private(set) var nextInquiry = Timestamp(milliseconds: 0)

    init(inquiry: LogInquiry, limits: ReportLimits) {
        self.inquiry = inquiry
        self.limits = limits
    }

    var isRunning: Bool { proof.isRunning }

    func isProven(partition: Int32) -> Bool { proof.isProven(partition: partition) }

    /// Begins a round where somebody waits since `earliest`, or goes on with it.
    ///
    /// - Returns: when the round began: it proves something about those who waited then. Nil where
    ///   nobody waits.
    func advance(earliest: Timestamp?, now: Timestamp) -> Timestamp? {
        guard let earliest, earliest <= now else {
            proof.end()
            return nil
        }
        if !proof.isRunning {
            proof.begin(now: now)
            inquiry.beginAnew(.tokensReceived)
            nextInquiry = now
        }
        if nextInquiry <= now {
            nextInquiry = now + limits.inquiryInterval
            ask()
        }
        return proof.startedAt
    }

    /// All who waited are served, or what was proven no longer holds.
    func end() {
        proof.end()
    }

    /// A round that began at a time to come would serve whom it must not.
    func clockWasSetBack(now: Timestamp) {
        proof.end()
        nextInquiry = now
    }

    /// Asks the next question; the answer may be there at once, or at a later tick.
    private func ask() {
        do throws(LogFault) {
            while let question = proof.question {
                let step = proof.step
                switch question {
                case .endOffsets(let topic):
                    guard let ends = try inquiry.endOffsets(of: topic) else {
                        return
                    }
                    proof.learn(endOffsets: ends)
                    guard proof.question != question else {
                        // The topic was made anew; what its reader had committed on the old one may
                        // still be there for a moment.
                        nextInquiry = nextInquiry + limits.behindInterval
                        return
                    }
                case .committedOffsets(let worker, let topic):
                    guard let offsets = try inquiry.committedOffsets(of: worker, on: topic) else {
                        return
                    }
                    proof.learn(committedOffsets: offsets)
                    guard let next = proof.step, next != step else {
                        // The worker is behind, or it does not run: that may last for hours.
                        nextInquiry = nextInquiry + limits.behindInterval
                        return
                    }
                    inquiry.beginAnew(next.topic)
                }
            }
        } catch {
            // Without the log there is no proof; the loop gets the same error.
        }
    }
}
