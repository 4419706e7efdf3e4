internal import Glibc
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway account`: whether every token and every sale that came in is accounted for, app by app.
enum AccountCommand {
    /// A second look, where the first was taken while a transaction was being committed.
    private static let againMilliseconds: Int32 = 3_000
    /// Where the next stage writes what it makes of a topic's records.
    static let tokenOutcomes: [Topic: Topic] = [
        .tokensReceived: .tokensDecoded, .tokensDecoded: .tokensDistinct,
    ]

    static let verb = Verb(
        words: ["account"],
        summary:
            "whether every token and sale that came in is accounted for; months and what is owed",
        options: [
            .value("--month", "YYYY-MM", "of the UTC calendar: what came in then, and its table"),
            .value("--since", "TIME", "what came in then or later: 2026-03-01, 12h, 7d (ago)"),
            .value("--until", "TIME", "what came in before then; default: now"),
            .value("--app", "ID", "appAppleId or bundle id; default: all", isRepeatable: true),
        ],
        details: """
            tokens: accepted at the door = repeats + dead letters + reported + held, and what is on
            its way between the stages; sales: received = repeats + reported + not owed + dead
            letters + held, and what is on its way. Counted from the topics, not from counters of
            processes: tokens by each stage on both sides, so that one that was lost or doubled
            shows as the stage and the count; sales one by one, so that one of which neither the
            ledger, the worker's state nor a dead letter knows shows as lost. On its way may be no
            more than the group's lag. A dead letter that was sent back came in once more. A change
            of a sale that asks for what is so already counts as a repeat, and so does one that was
            lost: nothing tells the two apart. App 0 is what names no app.
            Kafka keeps token topics for 7 days: what came in before cannot be counted any more,
            and a sentence says since when it can, in JSON an object of "window". closes says that
            nothing that was counted contradicts, also where nothing could be. The table of a
            month does not need them: it comes from report's state (400 days) and the ledger.
            active = reported + owed + owes none, and each token is in one of them. active: tokens
            whose period touches the month, or that were made in it; reported: with an accepted
            report for it, which is a month's own (however late), one accepted in it, or a token's
            first within 15 days after the month it was made in; owed: not reported, and a report
            for it is still to come; owes none: neither, as Apple has another status of the token, its
            report counts in another month, or months are not repeated for it. with sales are some of the
            reported, refused some of the owed. Apple wants a report 15 days after the month. late
            reports: accepted reports for the month, or with a sale of it, of which it was known
            after their deadline that Apple has them; they are reports and not tokens, and no part
            of the sum. Of production alone, as the sandbox has no deadline.
            Reads every token topic once and the states, and the whole ledger of sales where one is
            missing that may repeat an older one: ten million tokens take some minutes, and
            memory is 40 bytes for each token of one partition, 100 to 200 for each of its accounts
            (half as much again while they grow), some 50 for each sale of it, and 150 for each sale
            of all that repeats one whose record has left the topic: only their names are compared.
            Exit 1 if an account does not close, 3 without a topic or where nothing of an app of
            --app came in, 6 without Kafka, 75 if a transaction in a topic does not end.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let month = try LedgerSelection.month(invocation)
        guard month == nil || !invocation.has("--since") && !invocation.has("--until") else {
            throw .usage("bad_value", "--month says from when to when")
        }
        let since = try invocation.instant("--since", now: now) ?? month?.start
        let until = min(
            try invocation.instant("--until", now: now) ?? month?.adding(1).start ?? now,
            now
        )
        guard since.map({ $0 < until }) ?? true else {
            throw .usage(
                "bad_value",
                month == nil
                    ? "--since must be before --until, and before now"
                    : "the month of --month has not begun"
            )
        }
        let configuration = try KafkaQuestion.configuration()
        let selection = try LedgerSelection(invocation, configuration)
        try requireTopics(configuration)
        var page = try count(month, since, until, now: now, configuration)
        page.apps = selection.apps
        if !page.closes {
            // What was being committed shows a moment later.
            Console.say("it does not close; looking once more")
            // No handler of signals: the second reading must end by one as the first does.
            _ = poll(nil, 0, againMilliseconds)
            page = try count(month, since, until, now: now, configuration)
            page.apps = selection.apps
        }
        let missing = page.missingApps
        guard missing.isEmpty || missing.count < selection.apps.count else {
            throw noAccount(missing)
        }
        Console.write(page.text(invocation.output))
        guard missing.isEmpty else {
            Console.say(noAccount(missing).message)
            return page.closes ? .nothingMatched : .failed
        }
        return page.closes ? .ok : .failed
    }

    private static func noAccount(_ apps: [Int64]) -> CommandFailure {
        let names = apps.map { "app \($0)" }.joined(separator: ", ")
        return CommandFailure(
            .nothingMatched,
            code: "account.unknown_app",
            "no token or sale of \(names) came in then, and no month has one"
        )
    }

    private static func count(
        _ month: CalendarMonth?,
        _ since: Timestamp?,
        _ until: Timestamp,
        now: Timestamp,
        _ configuration: Configuration
    ) throws(CommandFailure) -> AccountPage {
        // First of all: whatever was read by now must show in what is counted later.
        let positions = try AccountPositions(configuration)
        let ends = try AccountEnds(configuration)
        let tokens = try AccountWindow.open(
            [.tokensReceived, .tokensDecoded, .tokensDistinct],
            outcomes: tokenOutcomes,
            from: since,
            to: until,
            now: now,
            configuration
        )
        var sales = try AccountWindow.open(
            [.purchasesReceived],
            outcomes: [.purchasesReceived: .purchasesOutcomes],
            from: since,
            to: until,
            now: now,
            configuration
        )
        try sales.noteLostSales(configuration)
        var months = month.map { MonthCount($0, configuration, now: now) }
        try months?.noteLostReports(now: now)
        var tokenCount = TokenCount(configuration, tokens, positions, ends)
        try tokenCount.run(months: &months)
        var salesCount = SalesCount(
            configuration,
            sales,
            positions,
            appIDs: appIDs(configuration)
        )
        try salesCount.run()
        if salesCount.unnamedCount > 0 {
            Console.say(
                "under app 0: \(CountText.of(salesCount.unnamedCount, "sale")) with a bundle alone,"
                    + " whose app \(Setting.appsFile.fullName) must have"
            )
        }
        return AccountPage(
            tokens: tokenCount.lines,
            tokenWindow: tokens,
            sales: salesCount.lines,
            salesWindow: sales,
            months: months,
            unnamedSalesCount: salesCount.unnamedCount
        )
    }

    /// Of sales that name their bundle; empty where no apps file is set or it cannot be read.
    private static func appIDs(_ configuration: Configuration) -> [BundleID: Int64] {
        guard let path = configuration.appsFile else {
            return [:]
        }
        do throws(ConfigurationFault) {
            return Dictionary(
                try AppsFile.load(path).apps.map { (BundleID($0.bundleID), $0.appAppleID) }
            ) { first, _ in first }
        } catch {
            Console.say("sales that name a bundle count as app 0: \(error.sentence)")
            return [:]
        }
    }

    private static func requireTopics(_ configuration: Configuration) throws(CommandFailure) {
        // What is counted from one that is not there would look like nothing, or like a loss.
        let topics: [Topic] = [
            .tokensReceived, .tokensDecoded, .dedupeState, .tokensDistinct, .reportState,
            .reportsOutcomes,
        ]
        for topic in topics {
            let name = topic.name(prefix: configuration.topicPrefix)
            _ = try TopicScan.places(of: name, from: .earliest, configuration)
        }
    }
}
