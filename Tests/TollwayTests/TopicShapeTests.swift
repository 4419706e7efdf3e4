import Kafka
import Telemetry
import Testing
import TokenDomain

@testable import StageRuntime

private let day: Int64 = 86_400_000

@Suite struct `The shape of a topic` {
    @Test(arguments: [
        (Topic.tokensReceived, "delete", "retention.ms", 7 * day, 1_048_588),
        (.notificationsVerified, "delete", "retention.ms", 7 * day, 1_048_588),
        (.reportsOutcomes, "delete", "retention.ms", -1, 1_048_588),
        (.accountTokensOutcomes, "delete", "retention.ms", -1, 1_048_588),
        (.audit, "delete", "retention.ms", -1, 1_048_588),
        (.dedupeState, "compact", "delete.retention.ms", 7 * day, 1_048_588),
        (.reportState, "compact", "delete.retention.ms", 7 * day, 1_048_588),
        (.deadLetterReplays, "compact,delete", "retention.ms", 38 * day, 1_048_588),
        (.deadLetters(.decode), "delete", "retention.ms", 30 * day, 1_064_972),
        (.deadLetterArchive, "delete", "retention.ms", -1, 1_069_068),
    ])
    func `is what the design says`(
        topic: Topic,
        policy: String,
        lasting: String,
        milliseconds: Int64,
        byteCountMax: Int
    ) {
        let configuration = TopicShape(of: topic).configuration
        #expect(configuration["cleanup.policy"] == policy)
        #expect(configuration[lasting] == "\(milliseconds)")
        #expect(configuration["max.message.bytes"] == "\(byteCountMax)")
        #expect(configuration["retention.bytes"] == (policy == "compact" ? nil : "-1"))
    }

    @Test(
        arguments: [
            (TopicShape.Wish.exactly("compact"), "compact", true),
            (.exactly("compact"), nil, false),
            (.exactly("compact"), "compact,delete", false), (.exactly("-1"), "9", false),
            (.exactly("compact,delete"), "delete,compact", true),
            (.exactly("compact,delete"), "compact", false),
            (.atLeast(5), "4", false), (.atLeast(5), "5", true), (.atLeast(5), "6", true),
            (.atLeast(5), "-1", false), (.atLeast(5), "many", false), (.atLeast(5), nil, false),
            (.lastingAtLeast(5), "4", false), (.lastingAtLeast(5), "5", true),
            (.lastingAtLeast(5), "-1", true), (.lastingAtLeast(5), "-2", false),
        ] as [(TopicShape.Wish, String?, Bool)]
    )
    func `knows what is enough`(wish: TopicShape.Wish, value: String?, isMet: Bool) {
        #expect(wish.isMet(by: value) == isMet)
    }
}

@Suite struct `The review of a cluster's topics` {
    private func cluster(
        partitionCount: Int = 12,
        changing changes: [Topic: (inout TopicReview.Present) -> Void] = [:]
    ) -> [String: TopicReview.Present] {
        var present: [String: TopicReview.Present] = [:]
        for topic in Topic.all {
            var one = TopicReview.Present(
                partitionCount: partitionCount,
                replicationFactor: 1,
                configuration: TopicShape(of: topic).configuration
            )
            changes[topic]?(&one)
            present[topic.name(prefix: "t.")] = one
        }
        return present
    }

    private func review(
        _ present: [String: TopicReview.Present],
        _ wanted: TopicReview.Wanted = TopicReview.Wanted()
    ) -> [Topic: TopicReview] {
        let reviews = TopicReview.all(prefix: "t.", wanted: wanted, present: present)
        return Dictionary(uniqueKeysWithValues: reviews.map { ($0.topic, $0) })
    }

    @Test func `makes all where there is none`() {
        let reviews = TopicReview.all(
            prefix: "t.",
            wanted: TopicReview.Wanted(replicationFactor: 3),
            present: [:]
        )
        #expect(reviews.map(\.topic) == Topic.all)
        for review in reviews {
            #expect(review.present == nil && !review.isRight && review.refusals.isEmpty)
            #expect(review.plan.partitionCount == 12 && review.plan.replicationFactor == 3)
        }
    }

    @Test(arguments: [1, 12, 24])
    func `finds what it would have made right`(partitionCount: Int) {
        for review in review(cluster(partitionCount: partitionCount)).values {
            #expect(review.isRight, "\(review.name)")
        }
    }

    @Test func `names each setting that is wrong, and what it must be`() {
        let reviews = review(
            cluster(changing: [
                .dedupeState: { $0.configuration["cleanup.policy"] = "delete" },
                .deadLetters(.report): { $0.configuration["retention.ms"] = "\(29 * day)" },
                .reportsOutcomes: { $0.configuration["retention.ms"] = "\(7 * day)" },
                .tokensReceived: { $0.configuration["max.message.bytes"] = "4000000" },
            ])
        )
        let differences = reviews.values.flatMap { review in
            review.differences.map { "\(review.name) \($0.setting.name) \($0.setting.wish.text)" }
        }
        #expect(
            differences.sorted() == [
                "dlq.t.archive.v1 max.message.bytes 4020480",
                "dlq.t.decode max.message.bytes 4016384",
                "dlq.t.report retention.ms \(30 * day)",
                "t.dedupe.state.v1 cleanup.policy compact",
                "t.reports.outcomes.v1 retention.ms -1",
            ]
        )
    }

    @Test(arguments: [
        (30 * day, 7 * day, nil), (90 * day, 7 * day, "\(98 * day)"),
        (30 * day, 20 * day, "\(51 * day)"), (-1, 7 * day, "-1"), (.max, 7 * day, "-1"),
    ])
    func `remembers replays for longer than any dead letter lies there`(
        retention: Int64,
        segment: Int64,
        wanted: String?
    ) {
        let reviews = review(
            cluster(changing: [
                .deadLetters(.dedupe): {
                    $0.configuration["retention.ms"] = "\(retention)"
                    $0.configuration["segment.ms"] = "\(segment)"
                }
            ])
        )
        let difference = reviews[.deadLetterReplays]?.differences.first
        #expect(difference?.setting.wish.text == wanted)
        #expect(difference?.setting.isVital == (wanted == nil ? nil : true))
    }

    @Test(arguments: [
        (TopicReview.Wanted(partitionCount: 6), "cannot be taken away"),
        (TopicReview.Wanted(partitionCount: 13), "move keys"),
        (TopicReview.Wanted(replicationFactor: 3), "kafka-reassign-partitions.sh"),
    ])
    func `refuses what cannot be done to a topic with records`(
        wanted: TopicReview.Wanted,
        part: String
    ) {
        for review in review(cluster(), wanted).values {
            #expect(review.refusals.count == 1 && review.refusals[0].contains(part))
            #expect(!review.isRight)
        }
    }

    @Test func `refuses unequal counts only where topics are read together`() {
        let reviews = review(
            cluster(changing: [
                .tokensReceived: { $0.partitionCount = 5 },
                .reportState: { $0.partitionCount = 13 },
            ])
        )
        let refused = reviews.values.filter { !$0.refusals.isEmpty }.map(\.topic)
        #expect(refused == [.reportState])
    }

    @Test func `makes a missing changelog with the count of its source`() {
        var present = cluster(changing: [.tokensDecoded: { $0.partitionCount = 3 }])
        present["t.dedupe.state.v1"] = nil
        #expect(review(present)[.dedupeState]?.plan.partitionCount == 3)
    }
}

@Suite struct `A worker's look at its topics` {
    private func check(_ worker: Worker) throws -> TopicCheck {
        TopicCheck(
            worker: worker,
            configuration: try Configuration(environment: [:], program: .worker(worker)),
            log: Log(worker: worker.rawValue)
        )
    }

    private func present(
        _ topic: Topic,
        _ setting: String,
        _ value: String
    ) -> [String: TopicReview.Present] {
        var configuration = TopicShape(of: topic).configuration
        configuration[setting] = value
        return [
            topic.name(prefix: "tollway."): TopicReview.Present(
                partitionCount: 1,
                replicationFactor: 1,
                configuration: configuration
            )
        ]
    }

    @Test(arguments: [
        (Topic.dedupeState, "cleanup.policy", "delete"),
        (.dedupeState, "cleanup.policy", "compact,delete"),
        (.tokensDecoded, "cleanup.policy", "compact"),
        (.deadLetters(.dedupe), "max.message.bytes", "1048588"),
    ])
    func `refuses what would lose records or state, and says how to repair it`(
        topic: Topic,
        setting: String,
        value: String
    ) throws {
        let check = try check(.dedupe)
        let fault = #expect(throws: LogFault.self) {
            try check.checkSettings(present(topic, setting, value))
        }
        guard case .misconfigured(let sentence) = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        #expect(sentence.contains("\(topic.name(prefix: "tollway.")) has \(setting) \(value)"))
        #expect(sentence.contains("tollway topics apply --yes"))
    }

    @Test(arguments: [
        (Topic.dedupeState, "delete.retention.ms", "1"), (.tokensDecoded, "retention.ms", "1"),
        (.reportState, "cleanup.policy", "delete"),
    ])
    func `goes on where it is merely unusual, or another worker's`(
        topic: Topic,
        setting: String,
        value: String
    ) throws {
        try check(.dedupe).checkSettings(present(topic, setting, value))
    }
}
