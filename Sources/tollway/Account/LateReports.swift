internal import TokenDomain

/// The reports of a calendar month that were late, for the account and for the export.
///
/// Each counts once, by its request identifier: an accepted report that the ledger has twice was
/// late once. Memory is 16 to 32 bytes for each late report of the month.
struct LateReports {
    private var identifiers: [Int64: Set<UInt64>] = [:]
    private(set) var lateBySecondsMax: Int64 = 0

    var count: Int { identifiers.values.reduce(0) { $0 + $1.count } }
    var countByApp: [Int64: Int] { identifiers.mapValues(\.count) }

    /// Takes in a report, which counts where it belongs to the month and was late.
    mutating func take(_ outcome: ReportOutcome, _ belonging: MonthBelonging) {
        guard belonging.isCounted, belonging.isLate else {
            return
        }
        identifiers[outcome.appAppleID, default: []].insert(
            TextDigest.of(outcome.requestIdentifier.lowercased())
        )
        lateBySecondsMax = max(lateBySecondsMax, belonging.lateBySeconds)
    }
}
