internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway dlq plan`, `replay` and `discard`: settling dead letters.
enum ReplayCommand {
    private static let yes = Verb.Option.flag("--yes", "do it; without, it is only shown")
    private static let why = Verb.Option.value("--why", "TEXT", "a sentence for the audit")
    private static let rate = Verb.Option.value(
        "--rate",
        "N",
        "dead letters a second; default: replay 1000, discard as fast as Kafka takes them"
    )
    private static let countMax = Verb.Option.value("--max", "N", "the oldest N only")
    private static let replaysMax = Verb.Option.value(
        "--replays-max",
        "N",
        "hold back what was replayed so often before; default 2"
    )

    private static let patch = Verb.Option.value(
        "--patch",
        "JSON",
        "change members of the value (@FILE: from there); null removes"
    )

    static let plan = Verb(
        words: ["dlq", "plan"],
        summary: "what a replay would do; with FILE, written down for replay to do exactly that",
        operands: "[FILE]",
        operandCountMax: 1,
        options: DeadLetterFilter.options + [
            rate, countMax, patch, replaysMax,
            .flag("--discard", "what a discard would do, and FILE is for discard"),
        ],
        details: """
            Changes nothing in Kafka. Counts by group, what is skipped and why, the headers
            that change, values before and after --patch, and how long it takes at --rate.
            FILE, which must not be there yet, keeps all of it for replay or discard: the dead
            letters one by one, whatever else matches by then.
            \(DeadLetterCommand.filterHelp)
            Exit 3 if nothing matched, or nothing would go: FILE is not written then. Exit 75 if a
            transaction that does not end may hide what matches, or what Apple has accepted.
            """,
        run: runPlan
    )

    static let replay = Verb(
        words: ["dlq", "replay"],
        summary: "send dead letters back to where they failed; a dry run until --yes",
        operands: "[PLAN]",
        operandCountMax: 1,
        options: DeadLetterFilter.options + [
            yes, rate, countMax,
            .value("--canary", "N", "send N of each stage first, and the rest if they do well"),
            .value(
                "--stop-on-failure-ratio",
                "R",
                "stop when more than this share fails again; with --canary 0.1"
            ),
            patch, replaysMax, why,
        ],
        details: """
            Mend the cause first. Then: run it with a filter (or a PLAN of dlq plan), read what it
            would do, and add --yes. A dead letter goes back once, never twice: stop it with Ctrl-C,
            kill it, run it again, run it from two terminals (the newer goes on, the older stops,
            exit 75); what is left goes with the next run. Skipped is a report or an app account
            token that Apple has accepted already, a report that would break Apple's order of
            statuses or names the identifier of another one that Apple has, a change of a sale that
            may undo a settled newer one (one that purchases still holds only purchase trace shows),
            and what came back twice; with --patch, as the patch makes it. A token goes in any case:
            what Apple has accepted a report for is reported no second time, and its sales find it.
            Key, value and own headers are kept (of a sale that waited before it was refused,
            the trace alone). Every step is in the audit topic.
            \(DeadLetterCommand.filterHelp)
            Exit 3 if nothing matched, 4 if some could not go after all, 5 without --yes or if too
            much fails again, 75 if another run took over, the canary says nothing, or a transaction
            that does not end may hide what matches or what Apple has accepted, 130 after Ctrl-C.
            """,
        run: runReplay
    )

    static let discard = Verb(
        words: ["dlq", "discard"],
        summary: "give dead letters up: into the archive topic, never back",
        operands: "[PLAN]",
        operandCountMax: 1,
        options: DeadLetterFilter.options + [
            .value("--why", "TEXT", "a sentence for the audit; required with --yes"),
            yes, rate, countMax,
        ],
        details: """
            For what will never be good, such as text that is no token. At least one filter is
            required, or a PLAN of dlq plan --discard; a dry run until --yes. The record goes
            byte for byte, with all its headers and yours, to the archive topic
            (dlq.tollway.archive.v1), kept for ever.
            \(DeadLetterCommand.filterHelp)
            Exit 3 if nothing matched, 4 if some could not go after all, 5 without --yes.
            """,
        run: runDiscard
    )

    // MARK: - Verbs

    private static func runPlan(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let action: DeadLetterAction = invocation.has("--discard") ? .discard : .replay
        let order = try order(action, invocation, now: now)
        if action == .discard {
            guard !invocation.has("--patch"), !invocation.has("--replays-max") else {
                throw .usage(
                    "discard_and_change",
                    "a discard changes nothing and holds nothing back"
                )
            }
            try refuseEverything(order)
        }
        let text = try planned(order, now: now)
        Console.write(text.text(format: invocation.output))
        guard !text.plan.records.isEmpty else {
            Console.say("nothing would go")
            return .nothingMatched
        }
        guard let path = invocation.operands.first else {
            return .ok
        }
        let clusterID = try clusterID(text.order)
        try ReplayPlanFile.write(text, clusterID: clusterID, now: now, to: path)
        let why = action == .discard ? " --why TEXT" : ""
        Console.say(
            "written to \(path); tollway dlq \(action.rawValue) \(path)\(why) --yes does it"
        )
        return .ok
    }

    private static func runReplay(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        var order = try order(.replay, invocation, now: now)
        if let path = invocation.operands.first {
            guard !invocation.has("--patch"), !invocation.has("--replays-max") else {
                throw .usage(
                    "plan_and_change",
                    "the plan says what is changed and skipped: make another with these options"
                )
            }
            try takePlan(path, &order)
        }
        return try carryOut(order, invocation, now: now)
    }

    private static func runDiscard(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        var order = try order(.discard, invocation, now: now)
        guard order.hand.why != nil || !invocation.has("--yes") else {
            throw .usage("missing_why", "say --why: whoever reads the audit will ask")
        }
        if let path = invocation.operands.first {
            try takePlan(path, &order)
        } else {
            try refuseEverything(order)
        }
        return try carryOut(order, invocation, now: now)
    }

    private static func order(
        _ action: DeadLetterAction,
        _ invocation: Invocation,
        now: Timestamp
    ) throws(CommandFailure) -> DeadLetterOrder {
        try DeadLetterOrder(action, invocation, KafkaQuestion.configuration(), now: now)
    }

    private static func refuseEverything(_ order: DeadLetterOrder) throws(CommandFailure) {
        guard !order.filter.words.isEmpty else {
            throw .usage("missing_filter", "say which: discard takes no everything")
        }
    }

    private static func takePlan(
        _ path: String,
        _ order: inout DeadLetterOrder
    ) throws(CommandFailure) {
        guard order.filter.words.isEmpty else {
            throw .usage("plan_and_filter", "a plan or a filter, not both")
        }
        let plan = try ReplayPlanFile(path: path)
        guard plan.action == order.action else {
            throw .usage(
                "other_plan",
                "\"\(path)\" is the plan of a \(plan.action.rawValue):"
                    + " tollway dlq \(plan.action.rawValue) takes it"
            )
        }
        guard plan.prefix == order.prefix, plan.clusterID == (try clusterID(order)) else {
            throw CommandFailure(
                .refusedBySafetyRule,
                code: "dlq.foreign_plan",
                "the plan was made for the prefix \"\(plan.prefix)\" on another Kafka"
                    + " (\(plan.clusterID))"
            )
        }
        order.filter.stages = plan.records.stages
        order.rate = order.rate ?? plan.rate
        order.patch = plan.patch
        order.replayCountMax = plan.replayCountMax ?? order.replayCountMax
        order.plan = plan
    }

    private static func carryOut(
        _ asked: DeadLetterOrder,
        _ invocation: Invocation,
        now: Timestamp
    ) throws(CommandFailure) -> ExitCode {
        let text = try planned(asked, now: now)
        let order = text.order
        guard invocation.has("--yes") else {
            Console.write(text.text(format: invocation.output))
            if text.plan.records.isEmpty {
                Console.say("nothing would go")
                return .nothingMatched
            }
            Console.say("nothing was changed; say --yes to do it")
            return .refusedBySafetyRule
        }
        guard !EmbeddedBroker.isClusterID(try clusterID(order)) else {
            throw CommandFailure(
                .refusedBySafetyRule,
                code: "dlq.embedded_broker",
                "the embedded broker has no real transactions: a dead letter could go back twice"
            )
        }
        let run = ReplayRun(order, plan: text.plan)
        let ending = text.plan.records.isEmpty ? .finished : try run.run()
        Console.write(summary(order, text.plan, run, ending, format: invocation.output))
        return exit(ending, text.plan, run)
    }

    private static func planned(
        _ asked: DeadLetterOrder,
        now: Timestamp
    ) throws(CommandFailure) -> ReplayPlanText {
        var order = asked
        order.forgottenBefore = try ReplayMemory.forgottenBefore(order.configuration, now: now)
        let plan = try ReplayPlanner(order: order).plan()
        let scan = DeadLetterScan(configuration: order.configuration, filter: order.filter)
        guard plan.matchedCount > 0 else {
            guard order.plan == nil else {
                throw CommandFailure(
                    .nothingMatched,
                    code: "dlq.nothing_matched",
                    "none of the plan's dead letters is open any more"
                )
            }
            throw try DeadLetterCommand.nothingMatched(scan, plan.otherNameCount)
        }
        // What lies in the plan of a file was seen when that was made.
        if order.plan == nil {
            try DeadLetterCommand.sayUnseen(scan, plan.otherNameCount)
        }
        return ReplayPlanText(order: order, plan: plan)
    }

    private static func clusterID(_ order: DeadLetterOrder) throws(CommandFailure) -> String {
        try KafkaQuestion.ask(order.configuration) { admin throws(LogFault) -> String in
            try admin.clusterID()
        }
    }

    // MARK: - The end

    private static func summary(
        _ order: DeadLetterOrder,
        _ plan: ReplayPlan,
        _ run: ReplayRun,
        _ ending: ReplayRun.Ending,
        format: OutputFormat
    ) -> String {
        let state = ReplayRun.auditState(of: ending).rawValue
        guard format == .table else {
            return JSONLines.object([
                ("runId", JSONText.quoted(order.runID)), ("state", JSONText.quoted(state)),
                ("sent", "\(run.sentCount)"), ("skipped", "\(plan.skippedCount)"),
                // Not only those: scripts read the name.
                ("tooLarge", "\(run.unsendableCount)"), ("planned", "\(plan.records.count)"),
            ]) + "\n"
        }
        var lines = [
            "\(order.runID): \(state), \(run.sentCount)"
                + (order.action == .replay ? " sent back" : " moved to the archive")
        ]
        for (why, skipped) in plan.skipped.sorted(by: { $0.value.count > $1.value.count }) {
            lines.append("\(skipped.count) skipped (\(why.rawValue)): \(why.sentence)")
        }
        if run.unsendableCount > 0 {
            lines.append("\(run.unsendableCount) could not go after all")
        }
        return lines.map { $0 + "\n" }.joined()
    }

    private static func exit(
        _ ending: ReplayRun.Ending,
        _ plan: ReplayPlan,
        _ run: ReplayRun
    ) -> ExitCode {
        let again = "the same command goes on with what is left"
        switch ending {
        case .finished:
            if plan.records.isEmpty {
                Console.say("nothing was to be done")
                return .nothingMatched
            }
            return run.unsendableCount > 0 ? .partlyDone : .ok
        case .interrupted:
            Console.say("stopped between two transactions; \(again)")
            return .interrupted
        case .failureRatio(let ratio):
            Console.say(
                "stopped: \(Int((ratio * 100).rounded())) % of what was read failed again; see"
                    + " tollway dlq groups --since 10m, mend it, then \(again)"
            )
            return .refusedBySafetyRule
        case .canaryUnread:
            Console.say(
                "stopped: the canary was not read within 60 s; does its worker run? \(again)"
            )
            return .tryAgain
        case .canaryUnsent(let readCount, let plannedCount):
            Console.say(
                "stopped: of the canary's \(plannedCount), this run has seen \(readCount) read;"
                    + " another run sent the others, a commit's result is unknown, or they could"
                    + " not go after all; \(again), in that case with a larger --canary"
            )
            return .tryAgain
        }
    }
}
