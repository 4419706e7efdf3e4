internal import Kafka
internal import TokenDomain
internal import TokenWire

/// The token's dead letters, and what was made of each.
extension TraceSearch {
    mutating func readDeadLetters(_ found: [TopicReader.Found]) {
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
            if let letter = TraceLetter(found, prefix: prefix, deadlineDays: deadlineDays) {
                letters.append(letter)
            }
        }
    }

    /// Replays and discards of its letters: each settles the one that had its very time.
    mutating func readSettled() throws(LogFault) {
        guard let count = partitionCounts[name(.deadLetterReplays)], !letters.isEmpty else {
            return
        }
        let keys = Dictionary(
            grouping: letters.map(\.key),
            by: { TopicReader.partition(ofKey: $0, partitionCount: count) }
        )
        let from = letters.map(\.timestamp).min()
        for (partition, keys) in keys.sorted(by: { $0.key < $1.key }) {
            let digests = Set(keys.map { TextDigest.of($0.span) })
            let place = TopicReader.Place(
                topic: name(.deadLetterReplays),
                partition: partition,
                from: isEmbedded ? nil : from
            )
            for found in try reader.search(
                place,
                isWanted: { key, _ in digests.contains(TextDigest.of(key)) }
            ) {
                settle(found)
            }
        }
    }

    private mutating func settle(_ found: TopicReader.Found) {
        guard let index = letters.firstIndex(where: { $0.key == found.key }) else {
            return
        }
        do throws(WireFault) {
            let settled = try SettledLetter(reading: found.value.span)
            guard settled.letterTimestamp == letters[index].timestamp else {
                // Of a topic that is no more.
                return
            }
            letters[index].settled = settled
            events.append(
                TraceEvent(
                    found,
                    stage: letters[index].position.stage.rawValue,
                    "dead letter \(letters[index].position) \(settled.state.text)"
                        + " (\(settled.replayID))",
                    Fact.text("replayId", settled.replayID) + Fact.text("target", settled.target)
                )
            )
        } catch {
            events.append(unreadable(found, letters[index].position.stage.rawValue))
        }
    }
}
