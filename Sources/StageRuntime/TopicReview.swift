package import Kafka
package import TokenDomain

/// A topic as it is beside how it must be.
package struct TopicReview: Equatable, Sendable {
    /// A topic that is there.
    package struct Present: Equatable, Sendable {
        package var partitionCount: Int
        package var replicationFactor: Int
        /// Every setting, defaults included.
        package var configuration: [String: String]

        package init(
            partitionCount: Int,
            replicationFactor: Int,
            configuration: [String: String]
        ) {
            self.partitionCount = partitionCount
            self.replicationFactor = replicationFactor
            self.configuration = configuration
        }
    }

    package struct Difference: Equatable, Sendable {
        package var setting: TopicShape.Setting
        /// Nil where the topic is not there, or the broker does not know the setting.
        package var present: String?
    }

    /// Why a topic cannot be made as wanted.
    package struct Refusal: Equatable, Sendable {
        package var sentence: String
        package var repair: String

        package var text: String { "\(sentence): \(repair)" }
    }

    /// What a run is asked for.
    package struct Wanted: Equatable, Sendable {
        /// Nil: what the topics that are read together have, else what all have, else 12.
        ///
        /// A topic that is read alone may have any number.
        package var partitionCount: Int?
        /// Nil: what the durability needs for new topics, that or more for others.
        package var replicationFactor: Int?
        package var durability: Durability
        /// How many brokers there are to hold replicas.
        package var brokerCount: Int

        package init(
            partitionCount: Int? = nil,
            replicationFactor: Int? = nil,
            durability: Durability = .promised,
            brokerCount: Int = Durability.replicationFactor
        ) {
            self.partitionCount = partitionCount
            self.replicationFactor = replicationFactor
            self.durability = durability
            self.brokerCount = brokerCount
        }
    }

    package var topic: Topic
    package var name: String
    /// Nil where it is to be made.
    package var present: Present?
    /// As it would be made.
    package var plan: TopicPlan
    /// Settings to be changed; for a new topic, none.
    package var differences: [Difference] = []
    /// Why it cannot be made as wanted: nothing is to be changed then.
    package var refusals: [Refusal] = []
    /// How many replicas it has, where the durability needs more.
    package var replicationFactorShort: Int?

    package var isRight: Bool { present != nil && differences.isEmpty && refusals.isEmpty }

    /// Compares every topic of a deployment with what is `present`, by full name; others than ours
    /// may be among them.
    package static func all(
        prefix: String,
        wanted: Wanted,
        present: [String: Present]
    ) -> [TopicReview] {
        // What most of them have, so that the plan names the odd ones; nil where that is a tie.
        func usualCount(_ topics: [Topic]) -> Int? {
            let counts = topics.compactMap { present[$0.name(prefix: prefix)]?.partitionCount }
            let ranked = Dictionary(grouping: counts) { $0 }.mapValues(\.count)
                .sorted { $0.value > $1.value }
            return ranked.count > 1 && ranked[0].value == ranked[1].value ? nil : ranked.first?.key
        }
        return Topic.all.map { topic in
            let known = present[topic.name(prefix: prefix)]
            let partitionCount =
                wanted.partitionCount ?? usualCount(topic.countedTogether) ?? usualCount(Topic.all)
                ?? TopicShape.partitionCountDefault
            var review = TopicReview(
                topic,
                prefix: prefix,
                present: known,
                sourceByteCountMax: recordByteCountMax(
                    of: topic.deadLetterSources,
                    prefix: prefix,
                    present: present
                ),
                deadLetterMilliseconds: deadLetterMilliseconds(prefix: prefix, present: present),
                partitionCount: partitionCount,
                durability: wanted.durability,
                replicationFactor: wanted.replicationFactor
                    ?? wanted.durability.replicationFactor(brokerCount: wanted.brokerCount)
            )
            let mustMatch = wanted.partitionCount != nil || topic.countedTogether.count > 1
            let others = topic.countedTogether.filter { other in
                other != topic
                    && present[other.name(prefix: prefix)]?.partitionCount == partitionCount
            }
            review.judgePartitions(
                mustMatch ? partitionCount : nil,
                sameAs: wanted.partitionCount == nil ? others.map { $0.name(prefix: prefix) } : []
            )
            review.judgeReplicas(wanted)
            return review
        }
    }

    /// Compares one topic; for `sourceByteCountMax` and `deadLetterMilliseconds` see
    /// ``TopicShape/init(of:sourceByteCountMax:deadLetterMilliseconds:durability:replicationFactor:)``.
    package init(
        _ topic: Topic,
        prefix: String,
        present: Present?,
        sourceByteCountMax: Int = TopicShape.recordByteCountMax,
        deadLetterMilliseconds: Int64? = TopicShape.deadLetterMilliseconds,
        partitionCount: Int = TopicShape.partitionCountDefault,
        durability: Durability = .promised,
        replicationFactor: Int = Durability.replicationFactor
    ) {
        self.topic = topic
        self.present = present
        name = topic.name(prefix: prefix)
        let shape = TopicShape(
            of: topic,
            sourceByteCountMax: sourceByteCountMax,
            deadLetterMilliseconds: deadLetterMilliseconds,
            durability: durability,
            replicationFactor: present?.replicationFactor ?? replicationFactor
        )
        plan = TopicPlan(
            name: name,
            partitionCount: partitionCount,
            replicationFactor: replicationFactor,
            configuration: shape.configuration
        )
        if let present {
            if present.replicationFactor < durability.replicationFactorMin {
                replicationFactorShort = present.replicationFactor
            }
            differences = shape.settings
                .filter { !$0.constraint.isMet(by: present.configuration[$0.name]) }
                .map { Difference(setting: $0, present: present.configuration[$0.name]) }
        }
    }

    /// The largest record that one of the topics takes, or would take once it is as it must be.
    package static func recordByteCountMax(
        of topics: [Topic],
        prefix: String,
        present: [String: Present]
    ) -> Int {
        topics.compactMap { topic in
            present[topic.name(prefix: prefix)]?.configuration["max.message.bytes"]
                .flatMap { Int($0) }
        }
        .reduce(TopicShape.recordByteCountMax, max)
    }

    /// How long a dead letter can lie in its topic, or could once the topics are as they must be;
    /// nil for ever.
    private static func deadLetterMilliseconds(
        prefix: String,
        present: [String: Present]
    ) -> Int64? {
        var longest = TopicShape.deadLetterMilliseconds
        for topic in Worker.allCases.compactMap(\.deadLetters) {
            func milliseconds(_ name: String) -> Int64? {
                present[topic.name(prefix: prefix)]?.configuration[name].flatMap { Int64($0) }
            }
            guard let retention = milliseconds("retention.ms") else {
                continue
            }
            guard retention >= 0 else {
                return nil
            }
            let (sum, overflow) = retention.addingReportingOverflow(milliseconds("segment.ms") ?? 0)
            // With room for the day that is added.
            guard !overflow, sum < .max - TopicShape.dayMilliseconds else {
                return nil
            }
            longest = max(longest, sum)
        }
        return longest
    }

    /// The count cannot be changed with the topic's records kept where they belong.
    ///
    /// `others` are the topics read together with this one that have the count that is wanted.
    private mutating func judgePartitions(_ wantedCount: Int?, sameAs others: [String]) {
        guard let present, let wantedCount, wantedCount != present.partitionCount else {
            return
        }
        let because = others.isEmpty ? "" : ", as \(others.joined(separator: ", ")) has"
        let sentence =
            "it has \(present.partitionCount) partitions and \(wantedCount) are wanted\(because)"
        refusals.append(
            wantedCount < present.partitionCount
                ? Refusal(
                    sentence: sentence,
                    repair: "partitions cannot be taken away: see `Partitions were added` in"
                        + " Deploy/RUNBOOK.md"
                )
                : Refusal(
                    sentence: sentence,
                    repair: "more would move keys away from their state, so first drain and delete"
                        + " it, or keep \(present.partitionCount)"
                )
        )
    }

    /// The client library cannot move replicas, and never are fewer made than the promise needs.
    private mutating func judgeReplicas(_ wanted: Wanted) {
        let least = wanted.durability.replicationFactorMin
        if let replicationFactorShort {
            refusals.append(
                Refusal(
                    sentence: "it has \(replicationFactorShort) replicas and \(least) are needed",
                    repair: TopicShortfall.replicaRepair
                )
            )
        } else if let present {
            if let factor = wanted.replicationFactor, factor != present.replicationFactor {
                refusals.append(
                    Refusal(
                        sentence: "it has \(present.replicationFactor) replicas and \(factor) are"
                            + " wanted",
                        repair: "replicas are moved with kafka-reassign-partitions.sh"
                    )
                )
            }
        } else if plan.replicationFactor < least {
            refusals.append(
                Refusal(
                    sentence: "\(plan.replicationFactor) replicas are wanted and \(least) needed",
                    repair: "TOLLWAY_KAFKA_SINGLE_BROKER=yes says that this is a trial"
                )
            )
        } else if plan.replicationFactor > wanted.brokerCount {
            refusals.append(
                Refusal(
                    sentence: "\(plan.replicationFactor) replicas are needed and there are"
                        + " \(wanted.brokerCount) brokers",
                    repair: "add brokers, or set TOLLWAY_KAFKA_SINGLE_BROKER=yes for a trial"
                )
            )
        }
    }
}

extension KafkaAdmin {
    /// Those of the topics that are there, with their settings, by name.
    package func present(
        _ topics: [Topic],
        prefix: String
    ) throws(LogFault) -> [String: TopicReview.Present] {
        let names = Set(topics.map { $0.name(prefix: prefix) })
        var present: [String: TopicReview.Present] = [:]
        for topic in try self.topics() where names.contains(topic.name) {
            guard !topic.partitions.isEmpty else {
                continue
            }
            present[topic.name] = TopicReview.Present(
                partitionCount: topic.partitions.count,
                replicationFactor: topic.replicationFactor,
                configuration: try configuration(ofTopic: topic.name)
            )
        }
        return present
    }
}
