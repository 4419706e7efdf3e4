internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Which tokens were active in a calendar month (UTC), which were reported for it, which had sales,
/// which are still owed, and which owe none.
///
/// From report's state, which keeps a token for 400 days after its end, and the ledger. A report
/// belongs to months as ``OpenMonth`` says; one with line items, to the months of its sales as well.
/// Of production alone: the sandbox has no deadline.
struct MonthCount {
    struct Marks {
        var isReported = false
        var hasSales = false
    }

    let month: CalendarMonth
    private let configuration: Configuration
    private(set) var lines: [Int64: MonthLine] = [:]
    /// Active tokens of the sandbox: in no line.
    private(set) var sandboxCount = 0

    /// Why some of its tokens, or of their reports, are not counted; nil where all are.
    private(set) var cannotKnow: String?

    init(_ month: CalendarMonth, _ configuration: Configuration, now: Timestamp) {
        self.month = month
        self.configuration = configuration
        let remembered = now + -ReportPolicy.memory
        cannotKnow =
            month.start < remembered
            ? "tokens that ended before \(WallClock.rfc3339(milliseconds: remembered.milliseconds))"
                + " cannot be counted: report has forgotten them; the ledger has their reports"
            : nil
    }

    /// No report of the month is older in the ledger; the clocks of workers and brokers differ.
    private var readsFrom: Timestamp { month.start + -.hours(1) }

    /// Says so where the ledger has lost records that may be reports of the month.
    ///
    /// - Throws: exit 6 without Kafka.
    mutating func noteLostReports(now: Timestamp) throws(CommandFailure) {
        let name = Topic.reportsOutcomes.name(prefix: configuration.topicPrefix)
        guard let complete = try AccountWindow.completeFrom(name, now: now, configuration),
            complete > readsFrom
        else {
            return
        }
        let reader = LedgerReader(configuration, LedgerSelection())
        for sentence in try reader.lostBeginnings(of: [.reportsOutcomes]) {
            cannotKnow =
                (cannotKnow.map { $0 + "; " } ?? "")
                + sentence + ", and may be reports of this month"
        }
    }

    /// Until when Apple wants the month's reports.
    var deadline: Timestamp { ReportPolicy.deadline(ofSale: month.start) }

    /// Takes in the tokens of some partitions of `tokens.distinct`, and their reports.
    mutating func take(
        _ accounts: ReportAccounts,
        _ partitions: Range<Int32>
    ) throws(CommandFailure) {
        let marks = try marks(partitions)
        for (digest, token) in accounts.tokens {
            take(token, marks[digest] ?? Marks())
        }
    }

    /// Takes in one token, and what the ledger has of it.
    mutating func take(_ token: ReportAccounts.Token, _ mark: Marks) {
        guard isActive(token) else {
            return
        }
        guard token.environment == .production else {
            sandboxCount += 1
            return
        }
        var line = lines[token.app, default: MonthLine()]
        // Every active token counts in exactly one of the three: their sum is what is active.
        if mark.isReported {
            line.reported += 1
            line.withSales += mark.hasSales ? 1 : 0
        } else if let openSince = token.openSince, openSince <= month {
            line.owed += 1
            line.refused += month <= token.parkedUntil ? 1 : 0
        } else {
            line.owesNone += 1
        }
        lines[token.app] = line
    }

    private func isActive(_ token: ReportAccounts.Token) -> Bool {
        guard token.fate != nil, let created = token.created, created < month.adding(1).start else {
            return false
        }
        guard let expires = token.expires else {
            return created >= month.start
        }
        return expires > month.start
    }

    private mutating func marks(
        _ partitions: Range<Int32>
    ) throws(CommandFailure) -> [UInt64: Marks] {
        var marks: [UInt64: Marks] = [:]
        var lateReports = LateReports()
        let month = month
        try AccountScan.run(
            ledger: .reportsOutcomes,
            of: .tokensDistinct,
            partitions,
            from: .timestamp(max(0, readsFrom.milliseconds)),
            "reports of the ledger",
            configuration
        ) { record, batch in
            guard !record.key.isAbsent, !record.value.isAbsent else {
                return
            }
            let outcome: ReportOutcome
            do throws(WireFault) {
                let value = batch.arena.span.extracting(record.value.indices)
                outcome = try ReportOutcome(reading: value)
            } catch {
                // Counted by ledger export.
                return
            }
            guard outcome.outcome != .rejected else {
                return
            }
            let belonging = Self.belongs(outcome, to: month)
            guard belonging.isCounted else {
                return
            }
            let digest = TextDigest.of(batch.arena.span.extracting(record.key.indices))
            var mark = marks[digest] ?? Marks()
            mark.isReported = true
            mark.hasSales = mark.hasSales || belonging.hasSales
            marks[digest] = mark
            lateReports.take(outcome, belonging)
        }
        for (app, count) in lateReports.countByApp {
            lines[app, default: MonthLine()].late += count
        }
        return marks
    }

    /// What a report is to a month; one whose line items cannot be read has no sales.
    static func belongs(_ outcome: ReportOutcome, to month: CalendarMonth) -> MonthBelonging {
        do throws(WireFault) {
            let items =
                try outcome.details.lineItems.map { (text) throws(WireFault) in
                    try LedgerLineItem.list(text)
                } ?? []
            return MonthBelonging(outcome, items, to: month)
        } catch {
            return MonthBelonging(outcome, [], to: month)
        }
    }
}
