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

    /// What a run is asked for.
    package struct Wanted: Equatable, Sendable {
        /// Nil: what the topics that are read together have, else what all have, else 12.
        ///
        /// A topic that is read alone may have any number.
        package var partitionCount: Int?
        /// Nil: the broker's default for new topics, anything for others.
        package var replicationFactor: Int?

        package init(partitionCount: Int? = nil, replicationFactor: Int? = nil) {
            self.partitionCount = partitionCount
            self.replicationFactor = replicationFactor
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
    /// Why it cannot be made as wanted, a sentence each: nothing is to be changed then.
    package var refusals: [String] = []

    package var isRight: Bool { present != nil && differences.isEmpty && refusals.isEmpty }

    /// Compares every topic of a deployment with what is `present`, by full name; others than ours
    /// may be among them.
    package static func all(
        prefix: String,
        wanted: Wanted,
        present: [String: Present]
    ) -> [TopicReview] {
        func usualCount(_ topics: [Topic]) -> Int? {
            let counts = Set(topics.compactMap { present[$0.name(prefix: prefix)]?.partitionCount })
            return counts.count == 1 ? counts.first : nil
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
                    of: topic.buriedSources,
                    prefix: prefix,
                    present: present
                ),
                letterMilliseconds: letterMilliseconds(prefix: prefix, present: present),
                partitionCount: partitionCount,
                replicationFactor: wanted.replicationFactor
            )
            let mustMatch = wanted.partitionCount != nil || topic.countedTogether.count > 1
            review.judgeCounts(
                partitionCount: mustMatch ? partitionCount : nil,
                replicationFactor: wanted.replicationFactor
            )
            return review
        }
    }

    /// Compares one topic; for `sourceByteCountMax` and `letterMilliseconds` see
    /// ``TopicShape/init(of:sourceByteCountMax:letterMilliseconds:)``.
    package init(
        _ topic: Topic,
        prefix: String,
        present: Present?,
        sourceByteCountMax: Int = TopicShape.recordByteCountMax,
        letterMilliseconds: Int64? = TopicShape.letterMilliseconds,
        partitionCount: Int = TopicShape.partitionCountDefault,
        replicationFactor: Int? = nil
    ) {
        self.topic = topic
        self.present = present
        name = topic.name(prefix: prefix)
        let shape = TopicShape(
            of: topic,
            sourceByteCountMax: sourceByteCountMax,
            letterMilliseconds: letterMilliseconds
        )
        plan = TopicPlan(
            name: name,
            partitionCount: partitionCount,
            replicationFactor: replicationFactor ?? -1,
            configuration: shape.configuration
        )
        if let present {
            differences = shape.settings
                .filter { !$0.wish.isMet(by: present.configuration[$0.name]) }
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

    /// How long a letter can lie in one of the dead-letter topics, or could once they are as they
    /// must be; nil for ever.
    private static func letterMilliseconds(
        prefix: String,
        present: [String: Present]
    ) -> Int64? {
        var longest = TopicShape.letterMilliseconds
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

    /// Neither count can be changed with the topic's records kept where they belong.
    private mutating func judgeCounts(partitionCount: Int?, replicationFactor: Int?) {
        guard let present else {
            return
        }
        if let partitionCount, partitionCount < present.partitionCount {
            refusals.append(
                "it has \(present.partitionCount) partitions and \(partitionCount) are wanted:"
                    + " partitions cannot be taken away"
            )
        } else if let partitionCount, partitionCount > present.partitionCount {
            refusals.append(
                "it has \(present.partitionCount) partitions and \(partitionCount) are wanted: more"
                    + " would move keys away from their state, so first drain and delete it, or"
                    + " keep \(present.partitionCount)"
            )
        }
        if let replicationFactor, replicationFactor != present.replicationFactor {
            refusals.append(
                "it has \(present.replicationFactor) replicas and \(replicationFactor) are wanted:"
                    + " replicas are moved with kafka-reassign-partitions.sh"
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
