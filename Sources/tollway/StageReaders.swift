internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Who runs a stage, as the coordinator of its group sees it.
struct StageReaders: Equatable, Sendable {
    /// Kafka's name for the group's state, as in ``GroupDescription/state``.
    var state: String
    var memberCount: Int
    /// Partitions that a member has, by topic.
    var assignedCounts: [String: Int] = [:]
}

extension StageReaders {
    init(_ group: GroupDescription) {
        state = group.state
        memberCount = group.members.count
        for member in group.members {
            for partition in member.partitions {
                assignedCounts[partition.topic, default: 0] += 1
            }
        }
    }

    /// Asks the group of a worker; nil on the embedded broker, which does not answer this.
    static func ask(
        _ worker: Worker,
        prefix: String,
        clusterID: String,
        _ admin: KafkaAdmin
    ) throws(LogFault) -> StageReaders? {
        guard !EmbeddedBroker.isClusterID(clusterID) else {
            return nil
        }
        return StageReaders(try admin.group(worker.group(prefix: prefix)))
    }
}

/// A stage that nobody runs, or that leaves partitions unread.
struct UnreadStage: Equatable {
    /// What waits before it, by topic.
    struct Source: Equatable {
        var topic: String
        var partitionCount: Int
        var lag: Int64
        /// Whether anything was ever written there.
        var hasRecords: Bool
        /// Whether the stage has read some of it.
        var isCommitted = false
    }

    var sentence: String
    var repair: String
    /// Whether something waits for it: records, or what its state holds and time makes due.
    var isWaitedFor: Bool

    /// Nil where every partition has its reader, and where there is nothing to be read.
    init?(_ worker: Worker, group: String, _ readers: StageReaders, _ sources: [Source]) {
        let waiting = sources.filter { $0.lag > 0 }
        isWaitedFor = !waiting.isEmpty
        guard readers.memberCount > 0 else {
            guard sources.contains(where: \.hasRecords) else {
                return nil
            }
            let records = waiting.map { "\($0.lag) records wait in \($0.topic)" }
            let undone = sources.contains(where: \.isCommitted) ? Self.undone(by: worker) : nil
            sentence =
                "nobody runs \(worker.rawValue): its group \(group) has no members, and "
                + (records.isEmpty
                    ? "what comes next will wait" : records.joined(separator: ", "))
                + (undone.map { ", and \($0)" } ?? "")
            isWaitedFor = isWaitedFor || undone != nil
            repair =
                "start tollway-\(worker.rawValue), or see why it ends: RUNBOOK.md,"
                + " \"A stage that nobody runs\""
            return
        }
        let unread = sources.map { source in
            (source.topic, source.partitionCount - (readers.assignedCounts[source.topic] ?? 0))
        }
        .filter { $0.1 > 0 }
        // While members come and go, partitions are given out in a moment.
        guard readers.state == "Stable", !unread.isEmpty else {
            return nil
        }
        sentence =
            "\(worker.rawValue) leaves partitions unread although its group has members: "
            + unread.map { "\($0.1) of \($0.0)" }.joined(separator: ", ")
        repair =
            "restart tollway-\(worker.rawValue), which finds new topics and partitions at its start"
    }

    /// What a stage leaves undone that nobody runs, also where it has read everything; nil of one
    /// that does all its work as it reads.
    private static func undone(by worker: Worker) -> String? {
        switch worker {
        case .report: "the reports that it owes are not sent"
        case .purchases: "the sales that it holds are not reported"
        case .ingest, .decode, .dedupe, .notifications: nil
        }
    }
}
