internal import Kafka
internal import TokenDomain

/// Asks the log for the guard, and never takes an old answer for a new one.
///
/// The log answers a question later, when it is asked again. An end offset that was asked for before
/// a step of the guard began proves too little, so such an answer is thrown away.
final class LogInquiry {
    private let log: any RecordLog
    private let prefix: String
    /// Asked for, not yet answered.
    private var outstanding: Set<Topic> = []
    /// Of these, the ones whose answer comes too early for who waits now.
    private var stale: Set<Topic> = []

    init(log: any RecordLog, prefix: String) {
        self.log = log
        self.prefix = prefix
    }

    /// From here on only answers to new questions count.
    func beginAnew(_ topic: Topic) {
        if outstanding.contains(topic) {
            stale.insert(topic)
        }
    }

    func endOffsets(of topic: Topic) throws(LogFault) -> [Int64]? {
        outstanding.insert(topic)
        guard let answer = try log.endOffsets(ofTopic: topic.name(prefix: prefix)) else {
            return nil
        }
        outstanding.remove(topic)
        return stale.remove(topic) == nil ? answer : nil
    }

    /// An old answer is no harm here: commits only grow.
    func committedOffsets(of worker: Worker, on topic: Topic) throws(LogFault) -> [Int64?]? {
        try log.committedOffsets(
            ofGroup: worker.group(prefix: prefix),
            topic: topic.name(prefix: prefix)
        )
    }
}
