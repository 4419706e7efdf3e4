internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway topics`: what the pipeline's topics must be, what they are, and how they become so.
enum TopicsCommand {
    private static let partitionCountMax = 1_000
    private static let replicationFactorMax = 100

    private static let shape: [Verb.Option] = [
        .value(
            "--partitions",
            "N",
            "of every topic; default: what they have, and 12 where there is none"
        ),
        .value(
            "--replication",
            "N",
            "replicas of every topic; default: 3, or 1 for a trial on less than three brokers"
        ),
    ]

    static let plan = Verb(
        words: ["topics", "plan"],
        summary: "what the pipeline's topics lack, and what apply would do about it",
        options: shape,
        details: """
            Compares every topic under TOLLWAY_TOPIC_PREFIX with what it must be: partitions,
            replicas, compaction, retention, the largest record, how many replicas have a record
            before it is acknowledged, and no unclean leader. Changes nothing. A longer
            retention than asked for is right as it is. Exit 5 if apply would refuse.
            """,
        run: runPlan
    )

    static let apply = Verb(
        words: ["topics", "apply"],
        summary: "make and repair the pipeline's topics",
        options: shape + [
            .value("--why", "TEXT", "a sentence for the audit"),
            .flag("--yes", "do it; without, the plan is shown and nothing changed"),
        ],
        details: """
            Does what tollway topics plan shows. Settings that the plan does not name are kept.
            Never takes away partitions or replicas, and adds no partitions to a topic that is
            there, as keys would move away from their state: then nothing is changed at all,
            exit 5. So too where there are less than three replicas or brokers and
            TOLLWAY_KAFKA_SINGLE_BROKER=yes does not say that this is a trial. Without --yes,
            where there is something to do: exit 5 too. May be run again at any time; exit 4 if
            only a part could be done. What it does goes into the audit topic first, unless that
            topic is itself among what is to be made or repaired.
            """,
        run: runApply
    )

    private static func runPlan(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let configuration = try KafkaQuestion.configuration()
        let reviews = try reviews(invocation, configuration)
        show(reviews, configuration, invocation)
        return reviews.contains { !$0.refusals.isEmpty } ? .refusedBySafetyRule : .ok
    }

    private static func runApply(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let configuration = try KafkaQuestion.configuration()
        let order = try HandOrder(
            "topics",
            why: invocation.value("--why"),
            now: Timestamp(milliseconds: WallClock.nowMilliseconds())
        )
        let reviews = try reviews(invocation, configuration)
        let due = reviews.filter { !$0.isRight }
        show(reviews, configuration, invocation)
        guard !due.contains(where: { !$0.refusals.isEmpty }) else {
            Console.say("nothing was changed")
            return .refusedBySafetyRule
        }
        guard !due.isEmpty else {
            return .ok
        }
        guard invocation.has("--yes") else {
            Console.say("nothing was changed; say --yes to do it")
            return .refusedBySafetyRule
        }
        try record(due, among: reviews, order, configuration)
        // Each is done when a broker shows it, so that a worker that is started next finds what it
        // needs.
        try change(due, order, configuration)
        try changeRest(invocation, order, configuration)
        Console.say("done")
        return .ok
    }

    /// A broker that is behind the others shows no topic where there is one: making it leaves it as
    /// it is, and only another look finds what it lacks.
    private static func changeRest(
        _ invocation: Invocation,
        _ order: HandOrder,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        let reviews = try reviews(invocation, configuration)
        let rest = reviews.filter { !$0.isRight }
        guard rest.allSatisfy(\.refusals.isEmpty) else {
            throw CommandFailure(
                .partlyDone,
                code: "topics.partly_done",
                "topics changed meanwhile; see tollway topics plan"
            )
        }
        guard !rest.isEmpty else {
            return
        }
        try record(rest, among: reviews, order, configuration)
        try change(rest, order, configuration)
    }

    /// Writes the audit of what is due, before it is done.
    ///
    /// Not where the audit topic lacks something itself: what repairs it must not wait for it.
    private static func record(
        _ due: [TopicReview],
        among reviews: [TopicReview],
        _ order: HandOrder,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        guard reviews.contains(where: { $0.topic == .audit && $0.isRight }) else {
            let name = Topic.audit.name(prefix: configuration.topicPrefix)
            return Console.say("not in the audit, as \(name) is to be made or repaired itself")
        }
        let audit = TopicsAudit(order: order, reviews: due, at: WallClock.nowMilliseconds())
        try LoneRecord.audit(runID: order.id, transactionalName: "topics.apply")
            .store(configuration, audit.write)
    }

    private static func show(
        _ reviews: [TopicReview],
        _ configuration: Configuration,
        _ invocation: Invocation
    ) {
        Console.write(TopicsReport.text(reviews, format: invocation.output))
        Console.say(TopicsReport.summary(reviews))
        if configuration.durability == .trial {
            Console.say(Durability.trialSentence)
        }
    }

    private static func change(
        _ reviews: [TopicReview],
        _ order: HandOrder,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        var doneCount = 0
        let failure = try KafkaQuestion.ask(configuration) { admin -> (String, CommandFailure)? in
            for review in reviews {
                do throws(CommandFailure) {
                    try change(review, admin, configuration, runID: order.id)
                    doneCount += 1
                } catch {
                    return (review.name, error)
                }
            }
            return nil
        }
        guard let (name, because) = failure else {
            return
        }
        guard doneCount > 0 else {
            throw because
        }
        throw CommandFailure(
            .partlyDone,
            code: "topics.partly_done",
            "\(doneCount) of \(reviews.count) topics were done, then \(name) failed:"
                + " \(because.message); run it again"
        )
    }

    /// What is written down of lost replays goes to their topic, so what may keep that from being
    /// written goes first.
    ///
    /// It is written once more after the change, as Kafka removes records until then.
    private static func change(
        _ review: TopicReview,
        _ admin: KafkaAdmin,
        _ configuration: Configuration,
        runID: String
    ) throws(CommandFailure) {
        var changes = Dictionary(
            uniqueKeysWithValues: review.differences.map {
                ($0.setting.name, $0.setting.constraint.text)
            }
        )
        if review.topic == .deadLetterReplays,
            review.present.map({ ReplayMemory.isUnfinished($0.configuration) }) ?? true
        {
            return try makeReplays(review, changes, admin, configuration, runID: runID)
        }
        let memory = changes.filter { ReplayMemory.settings.contains($0.key) }
        if let present = review.present, review.topic == .deadLetterReplays, !memory.isEmpty {
            changes = changes.filter { memory[$0.key] == nil }
            if !changes.isEmpty {
                try alter(review, changes, admin, configuration)
            }
            try ReplayMemory.noteLoss(under: present.configuration, configuration, runID: runID)
            try alter(review, memory, admin, configuration)
            return try ReplayMemory.noteLoss(
                under: present.configuration,
                configuration,
                runID: runID
            )
        }
        try alter(review, changes, admin, configuration)
    }

    /// Makes the topic of replays, or what a run left that ended before it was whole.
    ///
    /// It has its retention last, so that the next run finds what is missing.
    private static func makeReplays(
        _ review: TopicReview,
        _ changes: [String: String],
        _ admin: KafkaAdmin,
        _ configuration: Configuration,
        runID: String
    ) throws(CommandFailure) {
        var changes = changes
        if review.present == nil {
            let plan = ReplayMemory.unfinished(review.plan)
            let shown = try KafkaQuestion.failing(configuration) {
                () throws(LogFault) -> [String: String] in
                try admin.create([plan])
                return try admin.configuration(ofTopic: review.name)
            }
            guard ReplayMemory.isUnfinished(shown) else {
                // One that was there is as it was: a broker that is behind the others had not shown it,
                // and another look finds what it lacks.
                return
            }
            changes = review.plan.configuration.filter { plan.configuration[$0.key] != $0.value }
        }
        try ReplayMemory.noteMadeAnew(configuration, runID: runID)
        try KafkaQuestion.failing(configuration) { () throws(LogFault) in
            try admin.alterConfiguration(ofTopic: review.name, changes)
        }
    }

    private static func alter(
        _ review: TopicReview,
        _ changes: [String: String],
        _ admin: KafkaAdmin,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        try KafkaQuestion.failing(configuration) { () throws(LogFault) in
            if review.present == nil {
                try admin.create([review.plan])
            } else {
                try admin.alterConfiguration(ofTopic: review.name, changes)
            }
        }
    }

    private static func reviews(
        _ invocation: Invocation,
        _ configuration: Configuration
    ) throws(CommandFailure) -> [TopicReview] {
        var wanted = TopicReview.Wanted(
            partitionCount: try number("--partitions", invocation, in: 1...partitionCountMax),
            replicationFactor: try number(
                "--replication",
                invocation,
                in: 1...replicationFactorMax
            ),
            durability: configuration.durability
        )
        let prefix = configuration.topicPrefix
        typealias Answer = (present: [String: TopicReview.Present], brokerCount: Int)
        let answer = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Answer? in
            guard !EmbeddedBroker.isClusterID(try admin.clusterID()) else {
                return nil
            }
            return (try admin.present(Topic.all, prefix: prefix), try admin.brokerCount())
        }
        guard let answer else {
            throw CommandFailure(
                .failed,
                code: "topics.embedded_broker",
                "the embedded broker makes its topics itself and has no settings for them"
            )
        }
        wanted.brokerCount = answer.brokerCount
        return TopicReview.all(prefix: prefix, wanted: wanted, present: answer.present)
    }

    private static func number(
        _ option: String,
        _ invocation: Invocation,
        in range: ClosedRange<Int>
    ) throws(CommandFailure) -> Int? {
        guard invocation.has(option) else {
            return nil
        }
        return try invocation.integer(option, default: range.lowerBound, in: range)
    }
}
