/// The settings of the report rules, and how an intent gets its name.
package struct ReportPolicy: Sendable {
    /// How long a primary token is held for a purchase before NO_LINE_ITEM (`REPORT_HOLD`).
    package var hold: Milliseconds
    /// How long a duplicate is held before DUPLICATE_TOKEN: by then its primary has been reported,
    /// and Apple has refused it where it is forged; the duplicate then takes its place.
    package var duplicateHold: Milliseconds { Milliseconds(hold.count * 2) }
    /// How long an unknown token's notice waits before the guard begins (`REPORT_UNRECOGNIZED_GRACE`).
    package var unrecognizedGrace: Milliseconds
    /// Days after creation within which a token without expiry is reported (`REPORT_DEADLINE_DAYS`).
    package var deadlineDays: Int64
    /// Whether a custom-link token that stays active owes NO_LINE_ITEM for every calendar month.
    package var repeatsMonthly: Bool
    /// Whether a reminder about a token not known ends as UNRECOGNIZED_TOKEN, like an UNREPORTED
    /// notice; else it is only remembered (`REPORT_UNKNOWN_REMINDERS`).
    package var reportsUnknownReminders: Bool
    /// Makes the `requestIdentifier` of intent `number` of a token: UUID v5 of ``nameSpace`` and
    /// ``intentName(of:number:)``.
    ///
    /// Handed in, because hashing is no rule.
    package var requestIdentifier: @Sendable (_ id: TokenID, _ number: Int) -> String
    /// A hash of what line items say, however that is spelt: to detect mistakes, not forgeries.
    ///
    /// Handed in, because reading JSON is no rule; else it is that of their bytes.
    package var contentHash: @Sendable (_ lineItems: String) -> UInt64

    /// The name space of every request identifier of ours.
    package static let nameSpace = "e48679a5-3e90-4844-bd7e-490c1e5f8947"

    /// A report is due this long before its deadline, so that a short trouble does not miss it.
    package static let deadlineMargin = Milliseconds.hours(1)
    /// How long a duplicate waits behind its primary where both are due for their deadline: Apple's answer
    /// and dedupe's word about it take two or three seconds.
    package static let primaryLead = Milliseconds.seconds(20)
    /// What came in longer ago has no lag; the clock is ahead.
    package static let primaryLagMax = Milliseconds.days(7)
    /// How long a duplicate is put off at a time, where its primary may not have been sent: each time
    /// writes its account.
    package static let putOff = Milliseconds.hours(1)
    /// Likewise, with less than ``nearDeadline`` to its deadline, or ``soonAfterDeadline`` behind it.
    package static let putOffNear = Milliseconds.minutes(10)
    package static let nearDeadline = Milliseconds.hours(2)
    package static let soonAfterDeadline = Milliseconds.hours(24)
    /// A token with expiry is due this long after it at the latest.
    package static let deadlineAfterExpiry = Milliseconds.days(1)
    /// A month's report is due this long after the month: Apple's help page, second hand.
    package static let deadlineAfterMonth = Milliseconds.days(15)
    /// What is known of a token is forgotten this long after its expiry (creation, where there is
    /// none) and after the last record of it.
    package static let memory = Milliseconds.days(400)
    /// Apple answers code 1, and GET finds nothing: after this long a person must look.
    package static let unverifiableAfter = Milliseconds.hours(24)
    /// A date refused as future (code 6) is sent again after this, if it is that near.
    package static let clockSkew = Milliseconds.minutes(5)

    /// No retry waits longer: Apple's `Retry-After` counts for up to 65 minutes.
    package static let retryWaitMax = Milliseconds.minutes(70)

    package init(
        hold: Milliseconds = .hours(24),
        unrecognizedGrace: Milliseconds = .minutes(15),
        deadlineDays: Int64 = 10,
        repeatsMonthly: Bool = false,
        reportsUnknownReminders: Bool = true,
        requestIdentifier: @escaping @Sendable (_ id: TokenID, _ number: Int) -> String,
        contentHash: @escaping @Sendable (_ lineItems: String) -> UInt64 = {
            FNV1a.hash(of: $0.utf8)
        }
    ) {
        self.hold = hold
        self.unrecognizedGrace = unrecognizedGrace
        self.deadlineDays = deadlineDays
        self.repeatsMonthly = repeatsMonthly
        self.reportsUnknownReminders = reportsUnknownReminders
        self.requestIdentifier = requestIdentifier
        self.contentHash = contentHash
    }

    /// The name whose UUID v5 is the `requestIdentifier` of a token's intent.
    package static func intentName(of id: TokenID, number: Int) -> String {
        "\(id.text)/\(number)"
    }

    /// Until when Apple wants the report of a sale: apple-api 2.9, second hand.
    package static func deadline(ofSale creation: Timestamp) -> Timestamp {
        CalendarMonth(of: creation).adding(1).start + deadlineAfterMonth
    }

    /// Until when Apple wants the report of a token; nil where its dates are not known.
    ///
    /// Source: apple-api 2.9: 10 days after creation for tokens without expiry, soon after expiry
    /// for custom link tokens.
    package func deadline(creation: Timestamp?, expiration: Timestamp?) -> Timestamp? {
        if let expiration {
            return expiration + Self.deadlineAfterExpiry
        }
        return creation.map { $0 + .days(deadlineDays) }
    }

    /// When the report of a token with an expiry is due at the latest: a margin before its deadline.
    static func latestDue(expiration: Timestamp) -> Timestamp {
        expiration + deadlineAfterExpiry + -deadlineMargin
    }
}

extension Timestamp {
    /// When a retry is due on a clock that was set back since it was decided.
    package func movedRetry(by setBack: Milliseconds, now: Timestamp) -> Timestamp {
        max(now, min(self + -setBack, now + ReportPolicy.retryWaitMax))
    }
}
