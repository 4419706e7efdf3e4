internal import AppStoreAPI
internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway report request`: a report by hand, under the rules of all others.
enum ReportCommand {
    private static let waitDefault = Milliseconds.seconds(30)
    private static let waitMax = Milliseconds.hours(1)

    static let request = Verb(
        words: ["report", "request"],
        summary: "report a token to Apple by hand; a dry run until --yes",
        operands: "EXTERNAL-PURCHASE-ID | TOKEN",
        operandCountMax: 1,
        options: [
            .value(
                "--status",
                "STATUS",
                "LINE_ITEM, NO_LINE_ITEM, UNRECOGNIZED_TOKEN, …; required"
            ),
            .value("--line-items", "FILE", "a JSON array as Apple takes it; with LINE_ITEM only"),
            .value("--identifier", "UUID", "of a refused report that this one takes up again"),
            .value(
                "--app",
                "ID",
                "appAppleId or bundle id, where report knows nothing of the token"
            ),
            .value("--bundle-id", "TEXT", "with an appAppleId as --app"),
            .value("--why", "TEXT", "a sentence for the audit; required with --yes"),
            .value("--wait", "TIME", "for Apple's answer, up to 1h; default 30s; 0s: not at all"),
            .flag("--yes", "do it; without, it is only shown"),
        ],
        details: """
            Shows what report knows of the token, which statuses may follow what Apple accepted
            last, and what would be sent. With --yes a record goes into reports.requested, under
            the right key, and who asked, when and why into the audit topic, in one transaction;
            report takes it from there, judges it again by the same rules, and sends it once, at
            once, behind what is under way for the token. Asking twice is two reports. A refused
            report is corrected under its own --identifier, which the ledger and tollway token
            trace show. A token that report does not know is refused unless --app and --bundle-id
            say whose it is; see first whether it is a dead letter: tollway token trace.
            Exit 1 if Apple or report refuses it, 3 if the token is not known, 4 if there was no
            answer in time or Kafka could not be read for it (it goes on), 5 without --yes or if the rules forbid it.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let id = try TokenOperand.id(
            try invocation.onlyOperand(named: "EXTERNAL-PURCHASE-ID")
        )
        let status = try status(invocation)
        let lineItems = try lineItems(invocation, status, id)
        let identifier = try identifier(invocation)
        let wait = try invocation.duration("--wait", default: waitDefault)
        guard wait <= waitMax else {
            throw .usage("bad_value", "--wait may be 1h at the most")
        }
        let isReal = invocation.has("--yes")
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let order = try HandOrder("request", why: invocation.value("--why"), now: now)
        guard !isReal || order.why != nil else {
            throw .usage("missing_why", "say --why: whoever reads the audit will ask")
        }
        let name = try AppName.all(invocation).last
        let configuration = try KafkaQuestion.configuration()
        let account = try account(of: id, configuration)
        let app = try app(of: id, account, name, invocation, configuration)
        let report = ReportByHand(
            request: ReportRequested(
                externalPurchaseID: id,
                appAppleID: app.number,
                bundleID: app.bundleID,
                status: status,
                requestIdentifier: identifier,
                lineItems: lineItems
            ),
            account: account,
            deadlineDays: configuration.reportDeadlineDays,
            now: now
        )
        let page = ReportPage(report: report, configuration: configuration)
        if let refusal = report.refusal {
            if invocation.output == .table {
                Console.write(page.text)
            }
            throw CommandFailure(
                .refusedBySafetyRule,
                code: refusal.code,
                "refused: \(refusal.sentence)"
            )
        }
        guard isReal else {
            Console.write(invocation.output == .table ? page.text : page.json + "\n")
            Console.say("nothing was written; say --yes and --why to do it")
            return .refusedBySafetyRule
        }
        return try send(
            ReportAsked(report: report, order: order, configuration: configuration),
            page,
            wait: wait,
            invocation.output
        )
    }

    private static func send(
        _ asked: ReportAsked,
        _ page: ReportPage,
        wait: Milliseconds,
        _ output: OutputFormat
    ) throws(CommandFailure) -> ExitCode {
        let id = asked.report.request.externalPurchaseID
        let stop = StopSignal()
        // Before it is written, so that nothing about it can be missed.
        let follower = try ReportFollower(
            id,
            identifier: asked.report.request.requestIdentifier,
            asked.configuration
        )
        let origin = try asked.write()
        if output == .table {
            Console.say("\(asked.order.id): written to \(page.place(origin))")
        }
        let ending = follower.wait(for: origin, atMost: wait, stop: stop)
        let result = ReportResult(
            order: asked.order,
            place: page.place(origin),
            number: follower.number,
            identifier: follower.identifier,
            ending: ending
        )
        Console.write(output == .table ? result.text : result.json + "\n")
        let trace = "tollway token trace \(ShellWord.of(id.text))"
        switch ending {
        case .settled: return .ok
        case .unread(let failure):
            Console.say(
                "\(failure.message); \(asked.order.id) was written to \(page.place(origin)) and"
                    + " goes on by itself: do not ask again, see \(trace)"
            )
            return .partlyDone
        case .deadLetter(let position, _, _):
            Console.say("see tollway dlq show \(position), and \(trace)")
            return .failed
        case .timedOut where wait.count == 0:
            Console.say("what follows: \(trace)")
            return .ok
        case .timedOut:
            Console.say("no answer yet; it goes on by itself: \(trace)")
            return .partlyDone
        case .interrupted:
            Console.say("not waited for any longer; it goes on by itself: \(trace)")
            return .interrupted
        }
    }

    // MARK: - What is asked

    private static func status(_ invocation: Invocation) throws(CommandFailure) -> ReportStatus {
        let known = ReportStatus.allCases.map(\.rawValue).joined(separator: ", ")
        guard let text = invocation.value("--status") else {
            throw .usage("missing_status", "say --status: one of \(known)")
        }
        guard let status = ReportStatus(rawValue: text.uppercased()) else {
            throw .usage("bad_value", "--status is \"\(text)\": it must be one of \(known)")
        }
        return status
    }

    private static func identifier(_ invocation: Invocation) throws(CommandFailure) -> String? {
        guard let text = invocation.value("--identifier") else {
            return nil
        }
        guard TokenAccount.isUUID(text) else {
            throw .usage("bad_value", "--identifier is \"\(text)\": it must be a UUID")
        }
        return text.lowercased()
    }

    private static func lineItems(
        _ invocation: Invocation,
        _ status: ReportStatus,
        _ id: TokenID
    ) throws(CommandFailure) -> String? {
        guard let path = invocation.value("--line-items") else {
            guard status != .lineItem else {
                throw .usage("missing_line_items", "LINE_ITEM says which: --line-items FILE")
            }
            return nil
        }
        guard status == .lineItem else {
            throw .usage("line_items", "line items go with LINE_ITEM and with nothing else")
        }
        let bytes = try InputFile.read(path, byteCountMax: ReportRequestBody.byteCountMax)
        let text = String(decoding: bytes, as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        do throws(ReportRequestFault) {
            // Any identifier has its length.
            _ = try ReportRequestBody(
                requestIdentifier: ReportPolicy.nameSpace,
                externalPurchaseID: id,
                lineItems: text
            )
        } catch {
            throw .usage("line_items", "--line-items \(path): \(error.message)")
        }
        return text
    }

    // MARK: - What is known

    /// The newest value of report's state.
    private static func account(
        of id: TokenID,
        _ configuration: Configuration
    ) throws(CommandFailure) -> TokenAccount? {
        let topics = try TopicSearch.open(stateOf: .report, configuration)
        var search = TraceSearch(id: id, configuration, topics)
        try KafkaQuestion.failing(configuration) { () throws(LogFault) in try search.readState() }
        return search.account
    }

    private static func app(
        of id: TokenID,
        _ account: TokenAccount?,
        _ name: AppName?,
        _ invocation: Invocation,
        _ configuration: Configuration
    ) throws(CommandFailure) -> (number: Int64, bundleID: String) {
        var given: (Int64, String)?
        if let name {
            var bundleID = invocation.value("--bundle-id")
            if case .bundle(let bundle) = name {
                guard bundleID == nil || bundleID == bundle.text else {
                    throw .usage("bad_value", "--app and --bundle-id name two bundles")
                }
                bundleID = bundle.text
            }
            guard let bundleID, !bundleID.isEmpty else {
                throw .usage("missing_bundle_id", "--app with an appAppleId goes with --bundle-id")
            }
            given = (try name.number(configuration), bundleID)
        }
        if let account, account.mayBeOfAnotherApp, let given {
            return given
        }
        if let number = account?.appAppleID, let bundleID = account?.bundleID {
            guard given == nil || given?.0 == number else {
                throw CommandFailure(
                    .refusedBySafetyRule,
                    code: "request.app_mismatch",
                    "refused: the token belongs to app \(number)"
                )
            }
            return (number, bundleID)
        }
        guard let given else {
            throw CommandFailure(
                .nothingMatched,
                code: "request.unknown_token",
                "report knows nothing of \(id.text), or not whose it is; see tollway token trace,"
                    + " then say --app and --bundle-id"
            )
        }
        return given
    }
}
