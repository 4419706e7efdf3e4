internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// The newest change of each sale that is asked about, by the ledger of sales.
///
/// A change that goes back becomes the last word about its sale: it may undo a newer one. What the
/// worker still holds is not in the ledger, and not seen.
struct SettledChanges {
    private struct Sale: Hashable {
        /// Digests.
        var purchaseKey: UInt64
        var lineItemID: UInt64
    }

    /// When the newest change was received, by the app and environment of the sale; UNIX
    /// milliseconds.
    private var sales: [Sale: [Lane?: Int64]] = [:]
    private var purchaseKeys: Set<UInt64> = []
    private(set) var since = Int64.max
    /// Whether a change names its app by the bundle id alone.
    private(set) var namesBundles = false
    /// Says which app a bundle id is; nil: any may be.
    var apps: AppsFile?

    var isEmpty: Bool { sales.isEmpty }

    mutating func ask(_ question: LedgerQuestion.Change) {
        sales[Self.sale(question)] = [:]
        purchaseKeys.insert(question.purchaseKey)
        since = min(since, question.receivedAt)
        namesBundles = namesBundles || question.appAppleID == nil && question.bundleID != nil
    }

    func skipReason(_ question: LedgerQuestion.Change) -> SkipReason? {
        let newest = (sales[Self.sale(question)] ?? [:])
            .filter { question.mayBe(of: $0.key, apps) }.values.max()
        return newest ?? .min > question.receivedAt ? .orderRules : nil
    }

    func contains(_ purchaseKey: UInt64) -> Bool { purchaseKeys.contains(purchaseKey) }

    mutating func absorb(_ value: Span<UInt8>, of purchaseKey: UInt64) throws(WireFault) {
        let outcome = try PurchaseOutcome(reading: value)
        guard outcome.isSettledChange else {
            return
        }
        let sale = Sale(
            purchaseKey: purchaseKey,
            lineItemID: TextDigest.of(outcome.lineItemID)
        )
        guard var newest = sales[sale] else {
            return
        }
        newest[outcome.lane] = max(newest[outcome.lane] ?? .min, outcome.cameInAt)
        sales[sale] = newest
    }

    private static func sale(_ question: LedgerQuestion.Change) -> Sale {
        Sale(purchaseKey: question.purchaseKey, lineItemID: question.lineItemID)
    }
}

extension PurchaseOutcome {
    /// Whether it is of a change that another one may undo.
    ///
    /// What is not owed yet is reported as its newest change says.
    var isSettledChange: Bool { type.isChange && outcome != .rejected }

    /// When its event came in, UNIX milliseconds; of a replay at the latest when it failed first.
    var cameInAt: Int64 {
        let failedAt = firstFailedAt.flatMap { InstantText.read($0.utf8.span) }
        return min(receivedAt.milliseconds, failedAt ?? .max)
    }
}

extension LedgerQuestion.Change {
    /// When a change came in that is a dead letter; UNIX milliseconds, from 0.
    ///
    /// It failed after that, whatever it states, and may have waited for weeks before. A time that
    /// is too early holds it back at worst; by one that is too late it undoes a newer one.
    static func receivedAt(stated: Int64?, firstFailedAt: Int64) -> Int64 {
        max(0, min(stated ?? firstFailedAt, firstFailedAt))
    }
}
