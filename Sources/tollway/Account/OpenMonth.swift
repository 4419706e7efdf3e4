internal import TokenDomain

extension TokenAccount {
    /// The first calendar month that a report is still owed for, by the rules; nil where none is owed.
    ///
    /// An accepted LINE_ITEM or DUPLICATE_TOKEN ends what a token owes by itself. A refused report of
    /// the token's own is owed as long as it may still follow; what was asked for is none of these.
    var openSince: CalendarMonth? {
        guard lastAccepted != nil else {
            return CalendarMonth(number: .min)
        }
        let refused = parked.filter { !isOutdated($0) }
        var months = (refused + [current].compactMap { $0 }).compactMap(OpenMonth.month)
        if let debt {
            months.append(debt.month ?? CalendarMonth(number: .min))
        }
        return months.min()
    }
}

/// Which calendar month a report is for.
enum OpenMonth {
    /// Nil of what was asked for; the first there is of what is owed once alone.
    fileprivate static func month(of intent: ReportIntent) -> CalendarMonth? {
        switch intent.reason {
        case .month, .reminder: intent.month
        case .request: nil
        case .hold, .deadline, .duplicate, .unreported, .unknown: CalendarMonth(number: .min)
        }
    }

    /// Whether an accepted report is one for a month, whatever sales are in it.
    ///
    /// What was owed for a month that is over is due in the next: its deadline says which, however
    /// late it was accepted. A token's first is, in time, for the month in which it was made, as the
    /// hold may end after it. What was asked for is for the month in which it was accepted, too.
    static func isReport(_ outcome: ReportOutcome, for month: CalendarMonth) -> Bool {
        let told = CalendarMonth(of: outcome.settledAt)
        let details = outcome.details
        let isMonth = outcome.reason == ReportReason.month.rawValue
        if isMonth || outcome.reason == ReportReason.reminder.rawValue {
            let due = details.deadline.map { CalendarMonth(of: $0) } ?? told
            // Of a token that ended in the month it is the last report.
            let isLast = details.tokenExpirationDate.map {
                $0 <= outcome.settledAt && CalendarMonth(of: $0) == due
            }
            if due.adding(-1) == month || isLast ?? false && due == month {
                return true
            }
        }
        let created = details.tokenCreationDate.map { CalendarMonth(of: $0) }
        // In time for that of the creation, where it is.
        let first = max(
            created ?? told,
            CalendarMonth(of: outcome.settledAt + -ReportPolicy.deadlineAfterMonth)
        )
        return switch ReportReason(rawValue: outcome.reason) {
        case .month: false
        case .reminder: told == month
        case .request, nil: told == month || created == month && first == month
        case .hold, .deadline, .duplicate, .unreported, .unknown: first == month
        }
    }
}
