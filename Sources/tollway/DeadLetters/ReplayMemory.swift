internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// How far back the results of dead letters are known.
///
/// `dlq.<prefix>replays.v1` is compacted, and its records go away when no dead letter of their time
/// can lie there any more (``Topic/Retention/newestOfKeyOutlivingDeadLetters``). Where dead letters
/// are retained for longer, the oldest may have been replayed already, and are not replayed again.
enum ReplayMemory {
    /// The clocks of the worker that wrote the dead letter and of the replay may differ by less.
    private static let clockSkewMilliseconds: Int64 = 86_400_000

    /// Older dead letters are skipped; UNIX milliseconds, nil where nothing is forgotten.
    ///
    /// - Throws: exit 5 where a bound in bytes may take any record at any time.
    static func forgottenBefore(
        _ configuration: Configuration,
        now: Timestamp
    ) throws(CommandFailure) -> Int64? {
        let topic = Topic.deadLetterReplays
        let present = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> [String: TopicReview.Present] in
            // The embedded broker has no settings; nothing is replayed on it.
            EmbeddedBroker.isClusterID(try admin.clusterID())
                ? [:] : try admin.present([topic], prefix: configuration.topicPrefix)
        }
        let settings = present[topic.name(prefix: configuration.topicPrefix)]?.configuration ?? [:]
        guard settings["cleanup.policy"]?.split(separator: ",").contains("delete") == true else {
            return nil
        }
        guard settings["retention.bytes"] == "-1" else {
            throw CommandFailure(
                .refusedBySafetyRule,
                code: "dlq.bounded_memory",
                "\(topic.name(prefix: configuration.topicPrefix)) has a retention.bytes, so what"
                    + " went back may be forgotten at any time: see tollway topics plan"
            )
        }
        guard let retention = settings["retention.ms"].flatMap({ Int64($0) }), retention >= 0 else {
            return nil
        }
        let kept = max(0, retention - clockSkewMilliseconds)
        return max(0, now.milliseconds - min(kept, now.milliseconds))
    }
}
