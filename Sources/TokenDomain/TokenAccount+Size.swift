/// How large an account's record in the changelog can be, computed without writing it.
extension TokenAccount {
    /// JSON writes a control character as `\u00XX`.
    private static let textFactor = 6
    /// Line items are JSON already: only quotes, backslashes and line ends grow, to two bytes.
    private static let lineItemFactor = 2
    /// All of an account but its texts and its lists: names, numbers, dates, the trace.
    private static let frameByteCount = 2_048
    /// The same of an intent, with the exchanges that its requests may yet add, or of what is left
    /// of it once it is accepted.
    private static let intentByteCount = 3_072
    /// What Apple may yet refuse of the report under way, and the line items among it that are looked
    /// for; see ``ReportIntent/keep(_:)``.
    private static let refusalByteCount =
        ReportIntent.refusalCountMax * 2 * 96
        + ReportIntent.refusalTextByteCountMax * 2 * textFactor + holderByteCount
    /// The identifiers of the reports that Apple holds those line items by.
    ///
    /// Ours and those of others are UUIDs, so JSON writes them as they are, with quotes and comma.
    package static let holderByteCount =
        16 + ReportIntent.refusalCountMax * (TextLimit.identifier.byteCountMax + 3)
    private static let listedByteCount = 96

    /// Never less than the bytes of key and value of its record.
    ///
    /// Now and after every answer of Apple to what is
    /// under way, waits in line or falls due, for an answer has no record whose dead letter could stand
    /// for it.
    ///
    /// The record of each report that waits is smaller.
    package var byteCountBound: Int {
        let primaryCount: Int
        if case .duplicate(let primary) = role {
            primaryCount = primary.text.utf8.count
        } else {
            primaryCount = 0
        }
        var textCount = externalPurchaseID.text.utf8.count + primaryCount
        textCount += (bundleID?.utf8.count ?? 0) + (tokenType?.text.utf8.count ?? 0)
        textCount += customer?.text.utf8.count ?? 0
        for customer in otherCustomers {
            textCount += customer.text.utf8.count
        }
        // The next in line takes the place of the one under way; those before it end up among the
        // parked or the accepted, until others are dropped.
        let askedCount = (current == nil ? 0 : 1) + line.count
        let askedTextCount = max(current?.textByteCount ?? 0, line.textByteCountMax)
        let lineItemCount = max(current?.lineItemByteCount ?? 0, line.lineItemByteCountMax)
        let parkedCount = min(parked.count + askedCount, max(Self.parkedCountMax, parked.count))
        let acceptedCount = min(
            accepted.count + askedCount,
            max(Self.acceptedCountMax, accepted.count)
        )
        textCount += askedTextCount * (1 + parkedCount - parked.count)
        textCount += askedTextCount * (acceptedCount - accepted.count)
        // One more than there are: its own debt becomes one by itself.
        let intentCount = 2 + parkedCount
        for intent in parked {
            textCount += intent.textByteCount
        }
        for notice in notices {
            textCount += notice.uuid.utf8.count
        }
        for report in accepted {
            textCount += report.identifier?.utf8.count ?? 0
        }
        let listed = (notices.count + 2 * acceptedCount) * Self.listedByteCount
        return Self.frameByteCount + externalPurchaseID.text.utf8.count
            + textCount * Self.textFactor + lineItemCount * Self.lineItemFactor
            + intentCount * Self.intentByteCount + Self.refusalByteCount + listed
    }

    /// Why a record cannot be taken in: its account would be too large for Kafka.
    package func tooLarge(byteCountMax: Int) -> Fault {
        Fault(
            code: "report.account_full",
            message: "what is known and asked for this token would be up to \(byteCountBound) bytes"
                + " of state, more than \(byteCountMax)",
            externalPurchaseID: externalPurchaseID
        )
    }
}
