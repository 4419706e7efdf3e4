internal import Kafka
internal import TokenDomain
internal import TokenWire

/// The dead letters of what is traced, and what was made of each.
struct DeadLetterTrail {
    let prefix: String
    let deadlineDays: Int
    private(set) var deadLetters: [TraceDeadLetter] = []

    init(prefix: String, deadlineDays: Int) {
        self.prefix = prefix
        self.deadlineDays = deadlineDays
    }

    mutating func add(_ found: [TopicReader.Found], telling events: inout [TraceEvent]) {
        for found in found {
            let code = found.header("tollway.dlq.code") ?? "no code"
            let stage = found.header("tollway.dlq.stage") ?? "unknown"
            let source = found.header("__dlq.errors.topic") ?? ""
            events.append(
                TraceEvent(
                    found,
                    stage: stage,
                    "dead letter: \(code)"
                        + (found.header("tollway.dlq.replay_id").map { ", again after \($0)" }
                            ?? ""),
                    Fact.text("code", code)
                        + Fact.text("message", found.header("__dlq.errors.message"))
                        + Fact.text("sourceTopic", source)
                        + Fact.text("replayCount", found.header("tollway.dlq.replay_count"))
                )
            )
            if let deadLetter = TraceDeadLetter(found, prefix: prefix, deadlineDays: deadlineDays) {
                deadLetters.append(deadLetter)
            }
        }
    }

    /// Replays and discards of the dead letters: each settles the one with its timestamp.
    ///
    /// From here on the dead letters are in the order in which they failed.
    mutating func readSettled(
        _ topics: inout TopicSearch,
        telling events: inout [TraceEvent]
    ) throws(LogFault) {
        deadLetters.sort { ($0.failedAt, $0.position) < ($1.failedAt, $1.position) }
        let keys = Dictionary(grouping: deadLetters.map(\.key)) { key in
            TopicReader.partition(
                ofKey: key,
                partitionCount: topics.partitionCounts[topics.name(.deadLetterReplays)] ?? 1
            )
        }
        let from = deadLetters.map(\.timestamp).min()
        for (_, keys) in keys.sorted(by: { $0.key < $1.key }) {
            let digests = Set(keys.map { TextDigest.of($0.span) })
            for found in try topics.search(
                .deadLetterReplays,
                partitionOf: keys[0],
                from: from,
                isWanted: { key, _ in digests.contains(TextDigest.of(key)) }
            ) {
                settle(found, telling: &events)
            }
        }
    }

    private mutating func settle(
        _ found: TopicReader.Found,
        telling events: inout [TraceEvent]
    ) {
        guard let index = deadLetters.firstIndex(where: { $0.key == found.key }) else {
            return
        }
        let stage = deadLetters[index].position.stage.rawValue
        do throws(WireFault) {
            let settled = try SettledDeadLetter(reading: found.value.span)
            guard settled.deadLetterTimestamp == deadLetters[index].timestamp else {
                // Of a topic that is no more.
                return
            }
            deadLetters[index].settled = settled
            events.append(
                TraceEvent(
                    found,
                    stage: stage,
                    "dead letter \(deadLetters[index].position) \(settled.state.text)"
                        + " (\(settled.replayID))",
                    Fact.text("replayId", settled.replayID) + Fact.text("target", settled.target)
                )
            )
        } catch {
            events.append(TraceEvent(found, stage: stage, "a record that cannot be read"))
        }
    }
}
