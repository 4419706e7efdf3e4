internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Which tokens were active in a calendar month (UTC), which were reported for it, which had sales,
/// and which are still owed.
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
    var deadline: Timestamp { Self.deadline(of: month) }

    private static func deadline(of month: CalendarMonth) -> Timestamp {
        month.adding(1).start + ReportPolicy.deadlineAfterMonth
    }

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
        line.active += 1
        line.reported += mark.isReported ? 1 : 0
        line.withSales += mark.hasSales ? 1 : 0
        if !mark.isReported, let openSince = token.openSince, openSince <= month {
            line.owed += 1
            line.refused += month <= token.parkedUntil ? 1 : 0
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
        // By request identifier: an accepted report that the ledger has twice was late once.
        var lateReports: [Int64: Set<UInt64>] = [:]
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
            guard outcome.outcome != .rejected,
                outcome.externalPurchaseID.environment == .production
            else {
                return
            }
            let belonging = Self.belongs(outcome, to: month)
            guard belonging.isFor || belonging.hasSales else {
                return
            }
            let digest = TextDigest.of(batch.arena.span.extracting(record.key.indices))
            var mark = marks[digest] ?? Marks()
            mark.isReported = true
            mark.hasSales = mark.hasSales || belonging.hasSales
            marks[digest] = mark
            if belonging.isLate {
                lateReports[outcome.appAppleID, default: []].insert(
                    TextDigest.of(outcome.requestIdentifier.lowercased())
                )
            }
        }
        for (app, reports) in lateReports {
            lines[app, default: MonthLine()].late += reports.count
        }
        return marks
    }

    /// What an accepted report is to a month.
    struct Belonging {
        /// Whatever sales are in it.
        var isFor: Bool
        var hasSales: Bool
        var isLate: Bool
    }

    static func belongs(_ outcome: ReportOutcome, to month: CalendarMonth) -> Belonging {
        let isFor = OpenMonth.isReport(outcome, for: month)
        let isAfterDeadline = outcome.settledAt > deadline(of: month)
        let isLate = outcome.details.lateBySeconds.map { $0 > 0 } ?? isAfterDeadline
        guard let text = outcome.details.lineItems else {
            return Belonging(
                isFor: isFor,
                hasSales: outcome.status == .lineItem && isFor,
                isLate: isLate
            )
        }
        do throws(WireFault) {
            let all = try LedgerLineItem.list(text)
            let items = all.filter { item in
                item.creationDate.map { CalendarMonth(of: $0) == month } ?? false
            }
            // How late the report was is how late its oldest sale was, which may be another month's.
            // A sale that is restated was reported before.
            let isSaleLate = isAfterDeadline && items.contains { !$0.isRestatement }
            let oldest = all.filter { !$0.isRestatement }.compactMap(\.creationDate).min()
            let isOthers = oldest.map { oldest in
                CalendarMonth(of: oldest) != month
                    && outcome.details.deadline == ReportPolicy.deadline(ofSale: oldest)
            }
            return Belonging(
                isFor: isFor,
                hasSales: !items.isEmpty,
                isLate: isFor && isOthers != true ? isLate : isSaleLate
            )
        } catch {
            return Belonging(isFor: isFor, hasSales: false, isLate: isLate)
        }
    }
}
