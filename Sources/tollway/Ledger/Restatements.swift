internal import TokenDomain
internal import TokenWire

/// Where a record of the ledger lies.
struct LedgerPlace {
    var topic: String
    var partition: Int32
    var offset: Int64

    /// `topic/partition/offset`.
    var text: String { "\(topic)/\(partition)/\(offset)" }
}

/// Which line items were reported again, and by which report last: only the newest version counts.
///
/// One entry for each line item that was restated or retracted, which are few. All versions of one lie
/// in one partition, in the order in which Apple took them: the clocks of two replicas, or one that was
/// set back, may say otherwise. Records that were copied elsewhere by hand go by their times.
struct Restatements {
    static let countMax = 1_000_000

    private struct Newest {
        var partition: Int32
        var offset: Int64
        var settledAt: Timestamp
        var report: UInt64

        func isLater(than place: LedgerPlace, _ settledAt: Timestamp) -> Bool {
            place.partition == partition
                ? offset > place.offset : self.settledAt >= settledAt
        }
    }

    private var newest: [UInt64: Newest] = [:]
    var count: Int { newest.count }

    init() {}

    /// Takes in the next record.
    ///
    /// `isSuspect`: its report may have been read before. Such a one is no news where it is older by its
    /// time as well: a copy of what has been superseded.
    ///
    /// - Throws: exit 1 where there are more than fit.
    mutating func take(
        _ outcome: ReportOutcome,
        at place: LedgerPlace,
        isSuspect: Bool
    ) throws(CommandFailure) {
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
            if let known = newest[key] {
                let isCopy = isSuspect && known.settledAt > outcome.settledAt
                guard !isCopy, !known.isLater(than: place, outcome.settledAt) else {
                    continue
                }
            }
            newest[key] = Newest(
                partition: place.partition,
                offset: place.offset,
                settledAt: outcome.settledAt,
                report: report
            )
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
    func isSuperseded(
        _ outcome: ReportOutcome,
        _ item: LedgerLineItem,
        at place: LedgerPlace
    ) -> Bool {
        guard !newest.isEmpty,
            let newest = newest[Self.key(outcome, item)]
        else {
            return false
        }
        let report = TextDigest.of(Array(outcome.requestIdentifier.utf8).span)
        return newest.report != report && newest.isLater(than: place, outcome.settledAt)
    }

    /// A name is one item's in an app's production, and another one's in its sandbox.
    private static func key(_ outcome: ReportOutcome, _ item: LedgerLineItem) -> UInt64 {
        let lane = "\(outcome.appAppleID)/\(outcome.externalPurchaseID.environment.rawValue)"
        return TextDigest.of(Array("\(lane)/\(item.lineItemID)".utf8).span)
    }
}
