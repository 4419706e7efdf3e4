internal import TokenDomain
internal import TokenWire

/// Which line items were reported again, and by which report last: only the newest version counts.
///
/// One entry for each line item that was restated or retracted, which are few.
struct Restatements {
    static let countMax = 1_000_000

    private struct Newest {
        var settledAt: Timestamp
        var report: UInt64
    }

    private var newest: [UInt64: Newest] = [:]
    var count: Int { newest.count }

    init() {}

    /// - Throws: exit 1 where there are more than fit.
    mutating func take(_ outcome: ReportOutcome) throws(CommandFailure) {
        guard outcome.outcome != .rejected, let text = outcome.details.lineItems else {
            return
        }
        let items: [LedgerLineItem]
        do throws(WireFault) {
            items = try LedgerLineItem.list(text)
        } catch {
            // Counted where the rows are read.
            return
        }
        let report = TextDigest.of(Array(outcome.requestIdentifier.utf8).span)
        for item in items where item.isRestatement {
            let key = Self.key(outcome, item)
            if let known = newest[key], known.settledAt > outcome.settledAt {
                continue
            }
            newest[key] = Newest(settledAt: outcome.settledAt, report: report)
        }
        guard newest.count <= Self.countMax else {
            throw CommandFailure(
                .failed,
                code: "ledger.too_many_restatements",
                "more than \(Self.countMax) line items were restated: export one app or month"
            )
        }
    }

    /// Whether a later report says this line item anew.
    func isSuperseded(_ outcome: ReportOutcome, _ item: LedgerLineItem) -> Bool {
        guard !newest.isEmpty,
            let newest = newest[Self.key(outcome, item)]
        else {
            return false
        }
        let report = TextDigest.of(Array(outcome.requestIdentifier.utf8).span)
        return newest.report != report && outcome.settledAt <= newest.settledAt
    }

    /// A name is one item's in an app's production, and another one's in its sandbox.
    private static func key(_ outcome: ReportOutcome, _ item: LedgerLineItem) -> UInt64 {
        let lane = "\(outcome.appAppleID)/\(outcome.externalPurchaseID.environment.rawValue)"
        return TextDigest.of(Array("\(lane)/\(item.lineItemID)".utf8).span)
    }
}
