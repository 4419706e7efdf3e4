/// Topics that have the same thing otherwise than they must.
package struct TopicShortfall: Equatable, Sendable {
    /// What `kafka-reassign-partitions.sh` alone can change.
    package static let replicaRepair =
        "add replicas with kafka-reassign-partitions.sh as RUNBOOK.md says under \"Too few replicas\","
        + " or set TOLLWAY_KAFKA_SINGLE_BROKER=yes for a trial"
    package static let settingRepair = "tollway topics apply --yes"
    private static let replicas = "replication factor"

    /// Full names, in the order of the pipeline.
    package var topics: [String]
    package var setting: String
    package var value: String
    package var wanted: String
    /// Whether records or state are lost, or a worker cannot go on: it refuses to start.
    package var isVital: Bool

    package var repair: String {
        setting == Self.replicas ? Self.replicaRepair : Self.settingRepair
    }

    package var sentence: String {
        "\(NameList.text(topics)) \(topics.count == 1 ? "has" : "have") \(setting) \(value)"
            + " and \(topics.count == 1 ? "needs" : "need") \(wanted)"
    }

    /// What topics lack, alike ones together.
    package static func among(_ reviews: [TopicReview]) -> [TopicShortfall] {
        var found: [TopicShortfall] = []
        for review in reviews {
            if let replicationFactor = review.replicationFactorShort {
                add(
                    to: &found,
                    TopicShortfall(replicas: replicationFactor, of: review.name)
                )
            }
            for difference in review.differences {
                add(
                    to: &found,
                    TopicShortfall(
                        topics: [review.name],
                        setting: difference.setting.name,
                        value: difference.present ?? "unknown",
                        wanted: difference.setting.constraint.text,
                        isVital: difference.setting.isVital
                    )
                )
            }
        }
        return found
    }

    /// Where only the replicas of a topic are known.
    package init(replicas replicationFactor: Int, of topic: String) {
        self.init(
            topics: [topic],
            setting: Self.replicas,
            value: "\(replicationFactor)",
            wanted: "\(Durability.replicationFactor)",
            isVital: true
        )
    }

    private init(
        topics: [String],
        setting: String,
        value: String,
        wanted: String,
        isVital: Bool
    ) {
        self.topics = topics
        self.setting = setting
        self.value = value
        self.wanted = wanted
        self.isVital = isVital
    }

    package static func add(to found: inout [TopicShortfall], _ one: TopicShortfall) {
        let index = found.firstIndex { known in
            known.setting == one.setting && known.value == one.value && known.wanted == one.wanted
        }
        if let index {
            found[index].topics += one.topics
        } else {
            found.append(one)
        }
    }
}

/// Names in a sentence that stays short.
package enum NameList {
    private static let shownMax = 6

    /// The first few, and how many more.
    package static func text(_ names: [String]) -> String {
        let rest = names.count - shownMax
        return names.prefix(shownMax).joined(separator: ", ")
            + (rest > 0 ? " and \(rest) more" : "")
    }
}
