internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway notifications backfill`: what Apple sent and we did not get, fetched from its history.
enum BackfillCommand {
    /// Left between the oldest that Apple keeps and the oldest that is asked for: a run takes time.
    private static let slack = Milliseconds.hours(1)

    /// Options that say what is fetched: a run that is resumed has its own.
    private static let selecting = [
        "--from", "--to", "--app", "--environment", "--only-failures",
    ]

    static let verb = Verb(
        words: ["notifications", "backfill"],
        summary: "fetch Apple's notifications of a span of time again, as if they came in now",
        options: [
            .value("--from", "TIME", "signed then or later: 2026-03-01T12:00:00Z, 7d (ago)"),
            .value("--to", "TIME", "signed then or before; default: now"),
            .flag("--only-failures", "those that Apple could not deliver, and no others"),
            .value("--app", "ID", "appAppleId or bundle id; default: all", isRepeatable: true),
            .value("--environment", "NAME", "production or sandbox; default: both"),
            .value(
                "--rate",
                "N",
                "requests a second and lane, 1 to 50, Apple's limit (50); in the sandbox 5 at most"
            ),
            .value("--why", "TEXT", "a sentence for the audit"),
            .value("--resume", "RUN-ID", "go on where a run ended, with its span, apps and so on"),
            .flag("--dry-run", "fetch and count, and store nothing"),
        ],
        details: """
            For when nothing could come in for longer than Apple tries: 6.5 days in production,
            not once again in the sandbox. Asks Get Notification History with the keys of
            TOLLWAY_APPS_FILE, page by page (20 each), and writes what it gets into
            notifications.received, as ingest does; the worker verifies it, and report settles
            by its UUID what had come in before: fetching too much does no harm. Apple keeps 180
            days. Its progress is in the audit topic, in the transaction of the notifications:
            stopped or killed, it goes on with --resume and skips nothing. Lanes (an app in one
            environment) are asked at once, up to 16 of them. A page is one request, and each
            waits for the one before in its lane: a million notifications of one lane are 50,000
            requests, an hour or three. A lane that could not be fetched is fetched by --resume.
            Memory is bounded by one transaction (2,000 notifications).
            Exit 3 if there were none, 4 if a lane could not be fetched, 6 without
            Kafka, 7 without Apple, and nothing fetched so far, 130 interrupted.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let rate = try invocation.integer(
            "--rate",
            default: NotificationHistoryQuery.requestsPerSecondMax,
            in: 1...NotificationHistoryQuery.requestsPerSecondMax
        )
        let resumedID = invocation.value("--resume")
        if resumedID != nil, let option = selecting.first(where: invocation.has) {
            throw .usage("bad_value", "--resume goes on with its run's own \(option)")
        }
        var order = try HandOrder("backfill", why: invocation.value("--why"), now: now)
        let configuration = try KafkaQuestion.configuration()
        let keys = try AppleKeys(configuration)
        var start = BackfillRun.Start(plan: try plan(invocation, keys, now: now), order: order)
        if let runID = resumedID {
            guard runID.hasPrefix("backfill-"), runID.utf8.count <= 64 else {
                throw .usage("bad_value", "--resume is \"\(runID)\": it must be a run of this verb")
            }
            order.id = runID
            start = try BackfillRun.resumed(order, configuration)
        }
        let run = try BackfillRun(
            start: start,
            keys: keys,
            requestsPerSecond: rate,
            isReal: !invocation.has("--dry-run"),
            configuration: configuration
        )
        let ending = try run.run(stop: StopSignal())
        Console.write(
            invocation.output == .table ? ending.text : ending.json + "\n"
        )
        return ending.exit
    }

    /// What is asked for; of no importance where a run is resumed.
    private static func plan(
        _ invocation: Invocation,
        _ keys: AppleKeys,
        now: Timestamp
    ) throws(CommandFailure) -> BackfillPlan {
        let lanes = try lanes(invocation, keys)
        let oldest = now + -.days(NotificationHistoryQuery.daysMax) + slack
        guard invocation.value("--resume") == nil else {
            return BackfillPlan(from: now, to: now, onlyFailures: false, lanes: lanes)
        }
        guard let from = try invocation.instant("--from", now: now) else {
            throw .usage("missing_from", "say --from: since when something is missing")
        }
        let to = try invocation.instant("--to", now: now) ?? now
        guard from >= oldest else {
            throw .usage(
                "bad_value",
                "Apple keeps 180 days: --from may be"
                    + " \(WallClock.rfc3339(milliseconds: oldest.milliseconds)) at the earliest"
            )
        }
        guard from < to, to <= now else {
            throw .usage("bad_value", "--from must lie before --to, and --to not in the future")
        }
        return BackfillPlan(
            from: from,
            to: to,
            onlyFailures: invocation.has("--only-failures"),
            lanes: lanes
        )
    }

    private static func lanes(
        _ invocation: Invocation,
        _ keys: AppleKeys
    ) throws(CommandFailure) -> [Lane] {
        let environments = try invocation.environment().map { [$0] } ?? AppleEnvironment.allCases
        return try keys.apps(invocation).flatMap { app in
            environments.map { Lane(appAppleID: app.appAppleID, environment: $0) }
        }
    }
}

/// How a backfill ended.
struct BackfillEnding {
    var runID: String
    var plan: BackfillPlan
    var isReal: Bool
    var isInterrupted: Bool
    /// Notifications of this run, earlier parts included.
    var count: Int
    /// In this process.
    var pageCount: Int
    var troubles: [(lane: Lane, failure: CommandFailure)]

    var exit: ExitCode {
        if isInterrupted {
            return .interrupted
        }
        guard troubles.isEmpty else {
            // Nothing at all was fetched: that is no part.
            let isNothing = count == 0 && troubles.count == plan.places.count
            return isNothing ? troubles[0].failure.exit : .partlyDone
        }
        return count == 0 ? .nothingMatched : .ok
    }

    private var state: String {
        isInterrupted ? "interrupted" : troubles.isEmpty ? "finished" : "stopped"
    }

    var text: String {
        let what = isReal ? "stored" : "found, and nothing was stored"
        var text = "\(runID): \(state), " + CountText.of(count, "notification") + " \(what)\n"
        text += "\(plan.filter)\n"
        for (lane, failure) in troubles {
            text +=
                "app \(lane.appAppleID) (\(lane.environment.rawValue)) was not fetched:"
                + " \(PlainText.printable(failure.message, characterCountMax: 400))\n"
        }
        if !troubles.isEmpty, !isInterrupted, isReal {
            text += "later: tollway notifications backfill --resume \(runID)\n"
        }
        return text
    }

    var json: String {
        let failed = troubles.map { trouble in
            JSONLines.object(
                Fact.number("appAppleId", trouble.lane.appAppleID)
                    + Fact.text("environment", trouble.lane.environment.rawValue)
                    + Fact.text("code", trouble.failure.code)
                    + Fact.text("message", trouble.failure.message)
            )
        }
        return JSONLines.object(
            Fact.text("runId", runID) + Fact.text("state", state)
                + [("isWritten", "\(isReal)")]
                + Fact.number("notificationCount", Int64(count))
                + Fact.number("requestCount", Int64(pageCount))
                + Fact.number("from", plan.from.milliseconds)
                + Fact.number("to", plan.to.milliseconds)
                + [("failed", JSONLines.list(failed))]
        )
    }
}
