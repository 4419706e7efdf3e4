internal import AppStoreAPI
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway ledger verify`: whether Apple holds what the ledger says that it holds.
enum LedgerVerifyCommand {
    private static let sampleDefault = 1_000
    private static let sampleMax = 10_000
    /// Of a lane's rate, so that reports do not wait for it.
    private static let rateShare = 0.25
    /// Asked and not yet answered, where all are asked.
    private static let waitingCountMax = 2_000

    static let verb = Verb(
        words: ["ledger", "verify"],
        summary: "ask Apple whether it holds what the ledger says, and name each difference",
        options: LedgerSelection.options + [
            .value("--sample", "N", "so many reports by chance, up to 10000; default 1000"),
            .flag("--all", "every report"),
            .value("--seed", "N", "which ones, so that a sample can be had again"),
            .value("--rate", "N", "questions a second and lane; default: a quarter of its rate"),
        ],
        details: """
            Asks Apple by GET for reports that the ledger calls accepted or verified, and compares
            token, status and each field of each line item by meaning. Reports that Apple refused
            are not asked for. With --month those of which ledger export --month shows a row: with
            a line item of a sale of the month, whenever it was reported, or without line items and
            settled in it (--by told: all that Apple accepted in the month). A report of an older
            version of Tollway has no line items in the ledger: that Apple holds it is all
            that can be said then (unproven). Needs the keys of TOLLWAY_APPS_FILE. --rate may be
            the lane's whole rate: report then has less. A million reports at 1.25 a second are
            nine days: take a sample for a ledger of that size. One pass over the ledger; memory
            is bounded by the sample. Exit 1 if something differs or is not held, 3 if there is
            nothing to ask for, 4 if Apple could not be asked for an app or environment, 6 without Kafka, 7
            without Apple, 75 if a transaction in the ledger does not end, 130 interrupted.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let configuration = try KafkaQuestion.configuration()
        let selection = try LedgerSelection(invocation, configuration)
        let isAll = invocation.has("--all")
        guard !isAll || !invocation.has("--sample") else {
            throw .usage("bad_value", "--all or --sample, not both")
        }
        let sampleCount = try invocation.integer(
            "--sample",
            default: sampleDefault,
            in: 1...sampleMax
        )
        let seed = try invocation.integer("--seed", default: -1, in: 0...Int(Int32.max))
        let keys = try AppleKeys(configuration)
        let rate = try rate(invocation, keys)
        let stop = StopSignal()
        let run = LedgerVerification(
            queue: try AppleReports.queue(configuration, keys, rate: rate),
            isStopped: { stop.wait(milliseconds: 0) != nil },
            isKnownApp: { keys.app($0) != nil }
        )
        var reader = LedgerReader(configuration, selection)
        try reader.lostBeginnings(of: [.reportsOutcomes]).forEach { Console.say($0) }
        do throws(CommandFailure) {
            if isAll {
                try run.askAll(&reader, waitingCountMax: waitingCountMax)
            } else {
                let random = seed < 0 ? UInt64.random(in: 0...UInt64(Int32.max)) : UInt64(seed)
                try run.askSample(&reader, count: sampleCount, seed: random)
            }
        } catch {
            guard run.hasAnswers else {
                throw error
            }
            // What was found in days is not lost with the rest.
            run.breakOff(error)
            Console.write(run.text(invocation.output))
            throw error
        }
        Console.write(run.text(invocation.output))
        return run.exit
    }

    private static func rate(
        _ invocation: Invocation,
        _ keys: AppleKeys
    ) throws(CommandFailure) -> (Lane) -> Double {
        guard let text = invocation.value("--rate") else {
            return { keys.reportsPerSecond(of: $0) * rateShare }
        }
        guard let rate = Double(text), rate > 0, rate <= AppsFile.reportsPerSecondMax else {
            throw .usage("bad_value", "--rate is \"\(text)\": it must be a number above zero")
        }
        return { min(rate, keys.reportsPerSecond(of: $0)) }
    }
}

/// One verification, from the ledger to what differs.
final class LedgerVerification {
    /// More are counted, and not shown.
    private static let findingCountMax = 10_000

    struct Finding {
        var claim: AppleReports.Claim
        /// `differs`, `not_held` or `unclear`.
        var kind: String
        var difference: ReportDifference?
        var because: String?
    }

    private let queue: AppleRequestQueue<AppleReports.Claim>
    /// Whether a signal came since it was asked last.
    private let isStopped: () -> Bool
    private let isKnownApp: (Int64) -> Bool
    private(set) var ledgerCount = 0
    private(set) var askedCount = 0
    private(set) var equalCount = 0
    private(set) var unprovenCount = 0
    private(set) var wrongCount = 0
    private(set) var findings: [Finding] = []
    /// One for each lane that could not be asked.
    private(set) var troubles: [Lane: CommandFailure] = [:]
    private(set) var unansweredCount = 0
    private(set) var unknownAppCount = 0
    private(set) var unreadableCount = 0
    private(set) var isInterrupted = false
    /// Why it ended before all were asked for; nil where it did not.
    private var failure: CommandFailure?
    private var seed: UInt64?

    init(
        queue: AppleRequestQueue<AppleReports.Claim>,
        isStopped: @escaping () -> Bool,
        isKnownApp: @escaping (Int64) -> Bool
    ) {
        self.queue = queue
        self.isStopped = isStopped
        self.isKnownApp = isKnownApp
    }

    // MARK: Which

    func askAll(
        _ reader: inout LedgerReader,
        waitingCountMax: Int
    ) throws(CommandFailure) {
        let selection = reader.selection
        let progress = ProgressLine("reports asked for")
        reader.isStopped = { [self] in look() }
        try reader.reports { (outcome, place) throws(CommandFailure) in
            guard isAskable(outcome, selection) else {
                return true
            }
            let claim = AppleReports.Claim(outcome: outcome, position: place.text)
            queue.add(claim, in: claim.lane)
            while queue.waitingCount >= waitingCountMax, !isInterrupted {
                turn()
                progress?.show(askedCount, "\(wrongCount) differ")
            }
            return !isInterrupted
        }
        unreadableCount = reader.unreadableCount
        while queue.isBusy, !isInterrupted {
            turn()
            progress?.show(askedCount, "\(wrongCount) differ")
        }
        progress?.end()
    }

    /// Every report has the same chance.
    ///
    /// Interrupted before the sample is drawn from the whole ledger, nothing is asked.
    func askSample(
        _ reader: inout LedgerReader,
        count: Int,
        seed: UInt64
    ) throws(CommandFailure) {
        self.seed = seed
        var sample = ClaimSample(countMax: count, seed: seed)
        let selection = reader.selection
        reader.isStopped = { [self] in look() }
        try reader.reports { (outcome, place) throws(CommandFailure) in
            if isAskable(outcome, selection) {
                sample.take(AppleReports.Claim(outcome: outcome, position: place.text))
            }
            return true
        }
        unreadableCount = reader.unreadableCount
        guard !isInterrupted else {
            return
        }
        let claims = sample.finish()
        for claim in claims {
            queue.add(claim, in: claim.lane)
        }
        let bar = ProgressLine()
        while queue.isBusy, !isInterrupted {
            turn()
            bar?.show(askedCount, of: claims.count)
        }
        bar?.end()
    }

    private func isAskable(_ outcome: ReportOutcome, _ selection: LedgerSelection) -> Bool {
        guard outcome.outcome != .rejected, selection.mayShow(outcome) else {
            return false
        }
        guard isKnownApp(outcome.appAppleID) else {
            unknownAppCount += 1
            return false
        }
        ledgerCount += 1
        return true
    }

    var hasAnswers: Bool { askedCount + unansweredCount > 0 }

    /// Nothing more is asked for: what there is, is not all.
    func breakOff(_ failure: CommandFailure) {
        self.failure = failure
    }

    /// A signal shows once: it is kept.
    private func look() -> Bool {
        isInterrupted = isInterrupted || isStopped()
        return isInterrupted
    }

    // MARK: What Apple says

    private func turn() {
        guard !look() else {
            return
        }
        for result in queue.turn() {
            switch result.outcome {
            case .failure(let trouble):
                unansweredCount += 1
                troubles[result.lane] = trouble.failure
            case .success(let answer):
                askedCount += 1
                take(AppleReports.verdict(answer, on: result.subject), on: result.subject)
            }
        }
    }

    private func take(_ verdict: AppleReports.Verdict, on claim: AppleReports.Claim) {
        switch verdict {
        case .equal: equalCount += 1
        case .heldUnproven: unprovenCount += 1
        case .notHeld: add([Finding(claim: claim, kind: "not_held")])
        case .unclear(let because):
            add([Finding(claim: claim, kind: "unclear", because: because)])
        case .differs(let differences):
            add(differences.map { Finding(claim: claim, kind: "differs", difference: $0) })
        }
    }

    private func add(_ more: [Finding]) {
        wrongCount += 1
        findings += more.prefix(max(0, Self.findingCountMax - findings.count))
    }

    // MARK: Shown

    var exit: ExitCode {
        if isInterrupted {
            return .interrupted
        }
        if wrongCount > 0 || unreadableCount > 0 {
            return .failed
        }
        if let failure = troubles.values.first {
            return askedCount == 0 ? failure.exit : .partlyDone
        }
        if unknownAppCount > 0 {
            return .partlyDone
        }
        return askedCount == 0 ? .nothingMatched : .ok
    }

    func text(_ format: OutputFormat) -> String {
        switch format {
        case .table: (findings.isEmpty ? "" : table + "\n") + summary
        case .ndjson: findings.map { object($0) + "\n" }.joined() + total + "\n"
        case .json:
            JSONLines.object([
                ("differences", JSONLines.list(findings.map(object))),
                ("total", total),
            ]) + "\n"
        }
    }

    private var table: String {
        var table = TextTable(columns: [
            .init(title: "REQUEST"), .init(title: "LINE ITEM"), .init(title: "FIELD"),
            .init(title: "OURS"), .init(title: "APPLE'S"),
        ])
        table.rows = findings.map { finding in
            let difference = finding.difference
            return [
                finding.claim.outcome.requestIdentifier,
                PlainText.printable(difference?.lineItemID ?? "-", characterCountMax: 40),
                difference?.field ?? finding.kind,
                PlainText.printable(
                    difference.map { $0.ours ?? "absent" }
                        ?? finding.claim.outcome.status.rawValue,
                    characterCountMax: 60
                ),
                PlainText.printable(
                    difference.map { $0.apples ?? "absent" } ?? finding.because ?? "absent",
                    characterCountMax: 60
                ),
            ]
        }
        return table.text
    }

    private var summary: String {
        var lines = [
            "Apple was asked for \(askedCount) of " + CountText.of(ledgerCount, "report")
                + (seed.map { " (sample of seed \($0))" } ?? "")
                + ": \(equalCount) equal, \(wrongCount) not"
        ]
        if isInterrupted {
            lines.append("interrupted: not all were asked for, and the ledger may have more")
        }
        if let failure {
            lines.append("not all were asked for: \(failure.message)")
        }
        if unprovenCount > 0 {
            lines.append(
                CountText.of(unprovenCount, "is", "are")
                    + " held whose line items are not in the ledger"
            )
        }
        if unknownAppCount > 0 {
            lines.append(
                CountText.of(unknownAppCount, "is", "are") + " of apps that"
                    + " \(Setting.appsFile.fullName) does not have: not asked for"
            )
        }
        if unreadableCount > 0 {
            lines.append(CountText.of(unreadableCount, "record") + " of the ledger cannot be read")
        }
        if !troubles.isEmpty {
            lines.append(CountText.of(unansweredCount, "was", "were") + " not answered:")
            lines += troubles.values.map(\.message).sorted()
        }
        return lines.map { $0 + "\n" }.joined()
    }

    private func object(_ finding: Finding) -> String {
        let outcome = finding.claim.outcome
        return JSONLines.object(
            Fact.text("kind", finding.kind)
                + Fact.text("requestIdentifier", outcome.requestIdentifier)
                + Fact.text("externalPurchaseId", outcome.externalPurchaseID.text)
                + Fact.number("appAppleId", outcome.appAppleID)
                + Fact.text("status", outcome.status.rawValue)
                + Fact.text("lineItemId", finding.difference?.lineItemID)
                + Fact.text("field", finding.difference?.field)
                + Fact.text("ours", finding.difference?.ours)
                + Fact.text("apples", finding.difference?.apples)
                + Fact.text("because", finding.because)
                + Fact.text("position", finding.claim.position)
        )
    }

    private var total: String {
        JSONLines.object(
            Fact.text("kind", "total") + Fact.number("ledgerCount", Int64(ledgerCount))
                + Fact.number("askedCount", Int64(askedCount))
                + Fact.number("equalCount", Int64(equalCount))
                + Fact.number("unprovenCount", Int64(unprovenCount))
                + Fact.number("wrongCount", Int64(wrongCount))
                + Fact.number("unansweredCount", Int64(unansweredCount))
                + Fact.number("unknownAppCount", Int64(unknownAppCount))
                + Fact.number("unreadableCount", Int64(unreadableCount))
                + Fact.number("seed", seed.map { Int64($0) })
                + Fact.text("code", failure?.code) + Fact.text("message", failure?.message)
        )
    }
}
