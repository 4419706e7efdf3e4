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
        (.purchasesReceived, "delete", "retention.ms", 7 * day, 1_048_588),
        (.purchasesOutcomes, "delete", "retention.ms", -1, 1_048_588),
        (.tokensRefused, "delete", "retention.ms", 7 * day, 1_048_588),
        (.purchasesState, "compact", "delete.retention.ms", 7 * day, 1_048_588),
        (.accountTokensOutcomes, "delete", "retention.ms", -1, 1_048_588),
        (.audit, "delete", "retention.ms", -1, 1_048_588),
        (.dedupeState, "compact", "delete.retention.ms", 7 * day, 1_048_588),
        (.reportState, "compact", "delete.retention.ms", 7 * day, 1_048_588),
        (.laneOrders, "compact", "delete.retention.ms", 7 * day, 1_048_588),
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
        #expect(configuration["min.insync.replicas"] == "2")
        #expect(configuration["unclean.leader.election.enable"] == "false")
    }

    @Test(
        arguments: [
            (.promised, 3, "2", ["2", "3"], ["1", "4", nil]),
            (.promised, 5, "2", ["2", "3", "5"], ["1", "6"]),
            (.trial, 1, "1", ["1"], ["2", "0"]), (.trial, 2, "1", ["1", "2"], ["3"]),
            (.trial, 3, "2", ["1", "2", "3"], ["4"]),
        ] as [(Durability, Int, String, [String], [String?])]
    )
    func `has as many replicas in sync as its durability asks for, and as there are`(
        durability: Durability,
        replicationFactor: Int,
        made: String,
        right: [String],
        wrong: [String?]
    ) throws {
        let shape = TopicShape(
            of: .tokensReceived,
            durability: durability,
            replicationFactor: replicationFactor
        )
        let setting = try #require(shape.settings.first { $0.name == "min.insync.replicas" })
        #expect(setting.isVital && setting.constraint.text == made)
        #expect(right.allSatisfy { setting.constraint.isMet(by: $0) })
        #expect(!wrong.contains { setting.constraint.isMet(by: $0) })
    }

    @Test(
        arguments: [
            (TopicShape.Constraint.exactly("compact"), "compact", true),
            (.exactly("compact"), nil, false),
            (.exactly("compact"), "compact,delete", false), (.exactly("-1"), "9", false),
            (.exactly("compact,delete"), "delete,compact", true),
            (.exactly("compact,delete"), "compact", false),
            (.atLeast(5), "4", false), (.atLeast(5), "5", true), (.atLeast(5), "6", true),
            (.atLeast(5), "-1", false), (.atLeast(5), "many", false), (.atLeast(5), nil, false),
            (.lastingAtLeast(5), "4", false), (.lastingAtLeast(5), "5", true),
            (.lastingAtLeast(5), "-1", true), (.lastingAtLeast(5), "-2", false),
        ] as [(TopicShape.Constraint, String?, Bool)]
    )
    func `knows what is enough`(constraint: TopicShape.Constraint, value: String?, isMet: Bool) {
        #expect(constraint.isMet(by: value) == isMet)
    }
}

@Suite struct `The review of a cluster's topics` {
    private func cluster(
        partitionCount: Int = 12,
        replicationFactor: Int = 3,
        changing changes: [Topic: (inout TopicReview.Present) -> Void] = [:]
    ) -> [String: TopicReview.Present] {
        var present: [String: TopicReview.Present] = [:]
        for topic in Topic.all {
            var one = TopicReview.Present(
                partitionCount: partitionCount,
                replicationFactor: replicationFactor,
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
            review.differences.map { difference in
                let setting = difference.setting
                return "\(review.name) \(setting.name) \(setting.constraint.text)"
            }
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
        #expect(difference?.setting.constraint.text == wanted)
        #expect(difference?.setting.isVital == (wanted == nil ? nil : true))
    }

    @Test(arguments: [
        (TopicReview.Wanted(partitionCount: 6), "cannot be taken away"),
        (TopicReview.Wanted(partitionCount: 13), "move keys"),
        (TopicReview.Wanted(replicationFactor: 4), "kafka-reassign-partitions.sh"),
    ])
    func `refuses what cannot be done to a topic with records`(
        wanted: TopicReview.Wanted,
        part: String
    ) {
        for review in review(cluster(), wanted).values {
            #expect(review.refusals.count == 1 && review.refusals[0].text.contains(part))
            #expect(!review.isRight)
        }
    }

    /// Topics that one worker reads together by key must have equally many partitions.
    @Test(arguments: [
        [(Topic.reportsRequested, 6)],
        [(.reportsRequested, 24), (.deadLetters(.decode), 3)],
        [(.reportState, 1), (.reportsRequested, 1)],
    ])
    func `names the topics whose partition count is the odd one`(odd: [(Topic, Int)]) {
        let changes = Dictionary(
            uniqueKeysWithValues: odd.map { topic, count in
                (topic, { (present: inout TopicReview.Present) in present.partitionCount = count })
            }
        )
        let refused = review(cluster(changing: changes)).values.filter { !$0.refusals.isEmpty }
        let expected = odd.filter { $0.0.countedTogether.count > 1 }.map { $0.0.name(prefix: "t.") }
        #expect(refused.map(\.name).sorted() == expected.sorted())
        for review in refused {
            let sentence = review.refusals[0].sentence
            #expect(sentence.contains("and 12 are wanted, as "))
            #expect(sentence.contains("t.tokens.distinct.v1"))
        }
    }

    /// Two workers read `tokens.decoded`, each with topics of its own.
    @Test(arguments: [
        (
            Topic.tokensDecoded,
            [
                Topic.tokensDecoded, .tokensRefused, .purchasesReceived, .purchasesAnswered,
                .dedupeState, .purchasesState,
            ]
        ),
        (
            .dedupeState,
            [
                .tokensDecoded, .tokensRefused, .purchasesReceived, .purchasesAnswered,
                .dedupeState, .purchasesState,
            ]
        ),
        (
            .reportState,
            [
                .tokensDistinct, .notificationsVerified, .reportsRequested,
                .accountTokensRequested, .reportState,
            ]
        ),
        (.tokensReceived, [.tokensReceived]), (.purchasesOutcomes, [.purchasesOutcomes]),
    ])
    func `counts topics together that workers read together`(topic: Topic, together: [Topic]) {
        #expect(topic.countedTogether == together)
    }

    @Test func `refuses topics that one broker holds, unless it is a trial`() {
        let present = cluster(replicationFactor: 1)
        for review in review(present).values {
            #expect(review.refusals.map(\.repair) == [TopicShortfall.replicaRepair])
            #expect(review.refusals[0].sentence == "it has 1 replicas and 3 are needed")
        }
        let trial = TopicReview.Wanted(durability: .trial, brokerCount: 1)
        for review in review(present, trial).values {
            // With two in sync of one replica nothing could be written.
            #expect(review.refusals.isEmpty)
            #expect(review.differences.map(\.setting.constraint.text) == ["1"], "\(review.name)")
        }
    }

    @Test(
        arguments: [
            (TopicReview.Wanted(), 3, "2", ""),
            (TopicReview.Wanted(brokerCount: 5), 3, "2", ""),
            (TopicReview.Wanted(brokerCount: 2), 3, "2", "there are 2 brokers"),
            (TopicReview.Wanted(replicationFactor: 2), 2, "2", "2 replicas are wanted"),
            (TopicReview.Wanted(durability: .trial, brokerCount: 1), 1, "1", ""),
            (TopicReview.Wanted(durability: .trial, brokerCount: 2), 1, "1", ""),
            (TopicReview.Wanted(durability: .trial, brokerCount: 3), 3, "2", ""),
            (
                TopicReview.Wanted(replicationFactor: 2, durability: .trial, brokerCount: 3), 2,
                "1", ""
            ),
        ] as [(TopicReview.Wanted, Int, String, String)]
    )
    func `makes topics that survive the loss of a broker, and others for a trial only`(
        wanted: TopicReview.Wanted,
        replicationFactor: Int,
        inSync: String,
        refusal: String
    ) {
        for review in review([:], wanted).values {
            #expect(review.plan.replicationFactor == replicationFactor)
            #expect(review.plan.configuration["min.insync.replicas"] == inSync)
            #expect(review.refusals.count == (refusal.isEmpty ? 0 : 1))
            #expect(refusal.isEmpty || review.refusals[0].sentence.contains(refusal))
        }
    }

    @Test func `says together what topics lack alike`() {
        let reviews = TopicReview.all(
            prefix: "t.",
            wanted: TopicReview.Wanted(),
            present: cluster(changing: [
                .tokensReceived: { $0.configuration["min.insync.replicas"] = "1" },
                .tokensDistinct: { $0.configuration["min.insync.replicas"] = "1" },
                .tokensDecoded: { $0.configuration["unclean.leader.election.enable"] = "true" },
                .audit: { $0.replicationFactor = 2 },
            ])
        )
        let found = TopicShortfall.among(reviews)
        #expect(
            found.map(\.sentence) == [
                "t.tokens.received.v1, t.tokens.distinct.v1 have min.insync.replicas 1 and need 2",
                "t.tokens.decoded.v1 has unclean.leader.election.enable true and needs false",
                "t.audit.v1 has replication factor 2 and needs 3",
            ]
        )
        #expect(found.allSatisfy { $0.isVital })
        #expect(
            found.map(\.repair) == [
                TopicShortfall.settingRepair, TopicShortfall.settingRepair,
                TopicShortfall.replicaRepair,
            ]
        )
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
        let together = Topic.tokensDecoded.countedTogether.map { topic in
            (topic, { (present: inout TopicReview.Present) in present.partitionCount = 3 })
        }
        var present = cluster(changing: Dictionary(uniqueKeysWithValues: together))
        present["t.dedupe.state.v1"] = nil
        #expect(review(present)[.dedupeState]?.plan.partitionCount == 3)
    }
}

@Suite struct `A worker's look at its topics` {
    private func check(
        _ worker: Worker,
        _ environment: [String: String] = [:]
    ) throws -> TopicCheck {
        TopicCheck(
            worker: worker,
            configuration: try Configuration(environment: environment, program: .worker(worker)),
            log: Log(worker: worker.rawValue)
        )
    }

    private func present(
        _ topic: Topic,
        _ setting: String,
        _ value: String,
        replicationFactor: Int = 3
    ) -> [String: TopicReview.Present] {
        var configuration = TopicShape(of: topic).configuration
        configuration[setting] = value
        return [
            topic.name(prefix: "tollway."): TopicReview.Present(
                partitionCount: 1,
                replicationFactor: replicationFactor,
                configuration: configuration
            )
        ]
    }

    @Test(arguments: [
        (Topic.dedupeState, "cleanup.policy", "delete"),
        (.dedupeState, "cleanup.policy", "compact,delete"),
        (.tokensDecoded, "cleanup.policy", "compact"),
        (.deadLetters(.dedupe), "max.message.bytes", "1048588"),
        (.dedupeState, "min.insync.replicas", "1"),
        (.tokensDistinct, "unclean.leader.election.enable", "true"),
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

    @Test(
        arguments: [
            (.dedupe, [:], false), (.ingest, [:], false),
            (.dedupe, ["TOLLWAY_KAFKA_SINGLE_BROKER": "yes"], true),
            (.ingest, ["TOLLWAY_KAFKA_SINGLE_BROKER": "yes"], true),
            (.dedupe, ["TOLLWAY_DELIVERY": "at-least-once"], true),
            // The door's receipts are Kafka's, whatever the stages behind it do.
            (.ingest, ["TOLLWAY_DELIVERY": "at-least-once"], false),
        ] as [(Worker, [String: String], Bool)]
    )
    func `starts on one broker for a trial only`(
        worker: Worker,
        environment: [String: String],
        starts: Bool
    ) throws {
        let topic = worker == .ingest ? Topic.tokensReceived : .tokensDistinct
        let check = try check(worker, environment)
        let single = present(topic, "min.insync.replicas", "1", replicationFactor: 1)
        guard !starts else {
            return try check.checkSettings(single)
        }
        let fault = #expect(throws: LogFault.self) {
            try check.checkSettings(single)
        }
        guard case .misconfigured(let sentence) = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        let name = topic.name(prefix: "tollway.")
        for part in [
            "\(name) has replication factor 1 and needs 3",
            "\(name) has min.insync.replicas 1 and needs 2", "kafka-reassign-partitions.sh",
            "TOLLWAY_KAFKA_SINGLE_BROKER=yes", "tollway topics apply --yes",
        ] {
            #expect(sentence.contains(part), "\(sentence)")
        }
    }
}
