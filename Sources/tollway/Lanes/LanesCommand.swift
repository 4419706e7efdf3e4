internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// `tollway lanes`: what is sent to Apple for one app in one environment, seen and ordered by hand.
enum LanesCommand {
    enum Action: String {
        case pause, resume, reset
    }

    /// Of every order for a lane, behind the prefix: one at a time.
    private static let transactionalName = "lanes"

    private static let admin = Verb.Option.value(
        "--admin",
        "HOST:PORT",
        "a report's admin port; default: 9404 here",
        isRepeatable: true
    )

    static let list = Verb(
        words: ["lanes", "list"],
        summary: "each lane to Apple: its state and why, its rate, what is due, who paused it",
        options: [admin],
        details: """
            A lane is one app in one environment; reports and account tokens go through it side
            by side. What is ordered comes from Kafka, and how a lane stands from the report
            workers whose admin ports are named, else from the one on this machine; they tell of
            lanes that had something to send. RATE/S is what all that were asked allow
            themselves together, SET/S what TOLLWAY_APPS_FILE says. Exit 3 if there is no lane,
            6 without Kafka.
            """,
        run: runList
    )

    static let pause = verb(
        .pause,
        "send nothing to Apple for one app and environment; a dry run until --yes",
        """
        No request of the lane leaves any replica from then on, also one that starts later, until
        it is resumed. Requests under way end as usual. What is due stays due, and its deadline
        goes on: watch the slack. A lane that is paused already gets the new reason.
        """
    )

    static let resume = verb(
        .resume,
        "let a lane that was paused go on; a dry run until --yes",
        """
        What became due meanwhile goes out, the least time to its deadline first, at the lane's
        rate. Exit 3 if the lane is not paused.
        """
    )

    static let reset = verb(
        .reset,
        "try a stopped or held lane at once, at its configured rate; a dry run until --yes",
        """
        Every replica forgets the rate that it found and the hold of a 429, also one that Apple
        named, and tries a stopped lane at its next turn, with the key read again. What waits
        after an HTTP 5xx keeps its time, five minutes at most. Exit 5 for a lane that is paused:
        resume it first.
        """
    )

    private static func verb(_ action: Action, _ summary: String, _ details: String) -> Verb {
        Verb(
            words: ["lanes", action.rawValue],
            summary: summary,
            operands: "APP ENVIRONMENT",
            operandCountMax: 2,
            options: [
                .value("--why", "TEXT", "a sentence for the audit; required with --yes"), admin,
                .flag("--yes", "do it; without, it is only shown"),
            ],
            details: details + """

                APP is an appAppleId, or a bundle ID of TOLLWAY_APPS_FILE; ENVIRONMENT is
                production or sandbox. The order goes into lanes.control.v1, and who gave it,
                when and why into the audit topic, in one transaction; each report follows
                within a second: tollway lanes list. Exit 3 if the app is unknown, 5 without
                --yes, 6 without Kafka, 75 if another order came in between.
                """,
            run: { (invocation) throws(CommandFailure) in try run(action, invocation) }
        )
    }

    private static func runList(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        var world = try LaneWorld(invocation, now: now)
        let list = LaneList(world)
        show(list, invocation.output)
        try world.countReports()
        world.troubles.forEach(Console.say)
        return list.rows.isEmpty ? .nothingMatched : .ok
    }

    private static func show(_ list: LaneList, _ output: OutputFormat) {
        Console.write(
            output == .table
                ? list.text : JSONLines.text(list.objects, list: "lanes", format: output)
        )
    }

    // MARK: - Orders

    private static func run(
        _ action: Action,
        _ invocation: Invocation
    ) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let hand = try HandOrder(action.rawValue, why: invocation.value("--why"), now: now)
        let isReal = invocation.has("--yes")
        guard !isReal || hand.why != nil else {
            throw .usage("missing_why", "say --why: whoever reads the audit will ask")
        }
        let world = try LaneWorld(invocation, now: now)
        let lane = try world.lane(invocation.operands)
        try refuse(action, lane, isPaused: world.orders.pause(of: lane) != nil)
        guard isReal, let why = hand.why else {
            showDry(action, lane, LaneList(world, only: lane), invocation.output)
            return .refusedBySafetyRule
        }
        let (order, place) = try write(action, lane, hand, why: why, world)
        if invocation.output == .table {
            Console.write("\(hand.id): \(done(action)) \(name(of: lane))\n")
            Console.say("each report follows within a second: tollway lanes list")
        } else {
            var members = Fact.text("action", action.rawValue) + Fact.text("orderId", hand.id)
            members += Fact.number("appAppleId", lane.appAppleID)
            members += Fact.text("environment", lane.environment.rawValue)
            members.append(("order", LaneList.json(order)))
            members += Fact.text("position", place)
            members.append(("isWritten", "true"))
            Console.write(JSONLines.object(members) + "\n")
        }
        return .ok
    }

    private static func refuse(
        _ action: Action,
        _ lane: Lane,
        isPaused: Bool
    ) throws(CommandFailure) {
        switch action {
        case .resume where !isPaused:
            throw CommandFailure(
                .nothingMatched,
                code: "lanes.not_paused",
                "\(name(of: lane)) is not paused"
            )
        case .reset where isPaused:
            throw CommandFailure(
                .refusedBySafetyRule,
                code: "lanes.paused",
                "refused: \(name(of: lane)) is paused; resume it first"
            )
        case .pause, .resume, .reset: break
        }
    }

    /// Refuses to end or to try what was ordered otherwise since the orders were read first.
    static func refuse(
        _ action: Action,
        before: LaneOrder?,
        now: LaneOrder?
    ) throws(CommandFailure) {
        // A pause goes through whatever else was ordered: nothing is sent after either.
        guard action != .pause, let now, now != before else {
            return
        }
        throw CommandFailure(
            .tryAgain,
            code: "lanes.changed",
            "\(name(of: now.lane)) was \(now.state == .paused ? "paused" : "changed") meanwhile by"
                + " \(now.by): \(now.why); nothing was written: see tollway lanes list"
        )
    }

    /// Writes the order, unless another came between what this command has read and now.
    private static func write(
        _ action: Action,
        _ lane: Lane,
        _ hand: HandOrder,
        why: String,
        _ world: LaneWorld
    ) throws(CommandFailure) -> (order: LaneOrder, place: String) {
        let configuration = world.configuration
        let record = OrderedRecord(
            topic: .laneOrders,
            key: LaneOrder.key(of: lane),
            order: hand,
            configuration: configuration
        )
        let transactor = try KafkaQuestion.failing(configuration) { () throws(LogFault) in
            try record.takeOver(as: transactionalName)
        }
        defer { transactor.close() }
        let newest = try world.ordersNow().byLane[lane]
        try refuse(action, before: world.orders.byLane[lane], now: newest)
        let order = LaneOrder(
            lane: lane,
            state: action == .pause ? .paused : .open,
            resetAt: action == .reset ? world.now : newest?.resetAt,
            by: hand.by,
            why: why,
            at: world.now
        )
        let audit = LaneAudit(action: action, order: hand, lane: lane, at: order.at.milliseconds)
        do throws(LogFault) {
            let place = try record.write(by: transactor, order.write, audit: audit.write)
            let topic = Topic.laneOrders.name(prefix: configuration.topicPrefix)
            return (order, "\(topic)/\(place.partition)/\(place.offset)")
        } catch {
            let failure = KafkaQuestion.failure(error, configuration)
            throw CommandFailure(
                [.noKafka, .tryAgain].contains(failure.exit) ? failure.exit : .failed,
                code: "lanes.unknown_result",
                "\(failure.message); whether \(hand.id) was written, tollway lanes list shows"
            )
        }
    }

    private static func showDry(
        _ action: Action,
        _ lane: Lane,
        _ list: LaneList,
        _ output: OutputFormat
    ) {
        if output == .table {
            Console.write(
                list.rows.isEmpty
                    ? "no worker has answered that it has anything to send for \(name(of: lane))\n"
                    : list.text
            )
        } else {
            var members = Fact.text("action", action.rawValue)
            members += Fact.number("appAppleId", lane.appAppleID)
            members += Fact.text("environment", lane.environment.rawValue)
            members.append(("lanes", JSONLines.list(list.objects)))
            members.append(("isWritten", "false"))
            Console.write(JSONLines.object(members) + "\n")
        }
        Console.say(
            "nothing was written; say --yes and --why to \(action.rawValue) \(name(of: lane))"
        )
    }

    private static func name(of lane: Lane) -> String {
        "app \(lane.appAppleID) (\(lane.environment.rawValue))"
    }

    private static func done(_ action: Action) -> String {
        switch action {
        case .pause: "paused"
        case .resume: "resumed"
        case .reset: "reset"
        }
    }
}
