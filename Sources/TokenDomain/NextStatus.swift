/// What makes a report due, apart from the token's own past.
package enum DueEvent: Hashable, Sendable, CaseIterable {
    /// The hold of a primary token ended, or Apple asked for it.
    case primaryDue
    /// It was found to be another token of a period already known.
    case duplicateDue
    /// Apple named it, and it is proven that we do not have it.
    case provenUnknown
    /// Another calendar month of an active custom-link token has to be reported.
    case monthDue
}

/// The table: what the next report of a token says, given what Apple accepted last.
package enum NextStatus {
    /// The status owed by itself; nil where nothing is owed any more.
    ///
    /// An accepted report of any kind ends the token's own debt. Only a month's repeat follows a
    /// NO_LINE_ITEM; after LINE_ITEM it would be a regression (error 8).
    package static func owed(
        lastAccepted: ReportStatus?,
        event: DueEvent
    ) -> ReportStatus? {
        switch (lastAccepted, event) {
        case (nil, .primaryDue), (nil, .monthDue): .noLineItem
        case (nil, .duplicateDue): .duplicateToken
        case (nil, .provenUnknown): .unrecognizedToken
        case (.noLineItem, .monthDue): .noLineItem
        case (.noLineItem, _), (.lineItem, _), (.unrecognizedToken, _), (.duplicateToken, _): nil
        }
    }

    /// Whether a report asked for by hand may follow.
    ///
    /// LINE_ITEM never goes back (error 8). DUPLICATE_TOKEN neither follows another status nor is
    /// followed by one: Apple's documents are silent about both, so a person must look.
    package static func mayFollow(lastAccepted: ReportStatus?, requested: ReportStatus) -> Bool {
        switch (lastAccepted, requested) {
        case (nil, _): true
        case (.duplicateToken, _): false
        case (_, .duplicateToken): false
        case (_, .lineItem): true
        case (.lineItem, _): false
        case (.noLineItem, .noLineItem), (.unrecognizedToken, .noLineItem): true
        case (.noLineItem, .unrecognizedToken), (.unrecognizedToken, .unrecognizedToken): false
        }
    }
}
