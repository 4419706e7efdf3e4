internal import Telemetry
internal import TokenDomain

/// One sale of those that a line item's name stands for: a customer's, of an app, in one of Apple's
/// environments.
struct TracedItem {
    /// What tells one from another; what a record leaves out is nil.
    struct Identity: Hashable {
        var purchaseKey: String
        var environment: AppleEnvironment?
        var app: Int64?
        /// Where no record says which app that is.
        var bundleID: String?

        init(_ purchaseKey: String, _ lane: Lane?) {
            self.purchaseKey = purchaseKey
            environment = lane?.environment
            app = lane?.appAppleID
        }

        init(_ purchaseKey: String, _ sale: TracedSale) {
            self.purchaseKey = purchaseKey
            environment = sale.environment
            app = sale.appAppleID
            bundleID = app == nil ? sale.bundleID : nil
        }

        var isExact: Bool { environment != nil && app != nil }

        /// Whether another one, which says as much or more, may be the same.
        func mayBe(_ other: Identity) -> Bool {
            purchaseKey == other.purchaseKey && (app ?? other.app) == other.app
                && (environment ?? other.environment) == other.environment
                && (bundleID == nil || other.app != nil || bundleID == other.bundleID)
        }
    }

    let identity: Identity
    /// As it came in last.
    var sale: TracedSale?
    /// How it stands by the ledger; a refused change leaves it as it was.
    private(set) var outcome: PurchaseOutcome?
    /// A change after it that was refused; nil where another one was settled since.
    private(set) var refusedChange: PurchaseOutcome?
    /// The newest change that is settled, whichever was settled last.
    private(set) var newestChange: PurchaseOutcome?
    /// When the sale came in that the last row of no change was of.
    private(set) var saleReceivedAt: Timestamp?
    /// Where it stands in the worker's book; nil where that was forgotten.
    var standing: BookStanding?
    var receivedCount = 0
    var deadLetters: [DeadLetterPosition] = []

    /// Takes in the ledger's next record of it.
    ///
    /// A refused restatement or retraction, or a second sale under the name, takes nothing back: neither from
    /// what Apple has, nor from what is not owed or still held.
    mutating func settle(_ next: PurchaseOutcome) {
        if next.outcome == .rejected, next.type.isChange || isOfSecondSale(next) {
            refusedChange = next
            return
        }
        outcome = next
        refusedChange = nil
        note(change: next)
        if !next.type.isChange {
            saleReceivedAt = next.receivedAt
        }
    }

    fileprivate mutating func note(change next: PurchaseOutcome) {
        if next.isSettledChange, next.cameInAt > newestChange?.cameInAt ?? .min {
            newestChange = next
        }
    }

    /// Whether a refused buy or refund is another one than the sale that stands.
    private func isOfSecondSale(_ refused: PurchaseOutcome) -> Bool {
        // What conflicts with a sale of the book was never sent to Apple.
        if refused.reason == PurchaseRule.conflict.code, refused.requestIdentifier == nil {
            return true
        }
        return switch outcome?.outcome {
        case .reported: true
        // The last row may be of a change, which came at another time than its sale; what has an
        // identifier was sent to Apple, as is owed since.
        case .notOwed:
            refused.requestIdentifier == nil && refused.receivedAt != outcome?.receivedAt
                && refused.receivedAt != saleReceivedAt
        case .rejected, nil: false
        }
    }

    /// A record that names none is one of production, as an event is.
    var environment: AppleEnvironment { identity.environment ?? .production }

    /// Which of several it is, for a person.
    func name(isOfOneCustomer: Bool) -> String {
        let app = identity.app.map { "\($0)" } ?? identity.bundleID
        return environment.rawValue + ", " + (app.map { "app \($0)" } ?? "an app not named")
            + (isOfOneCustomer ? "" : ", customer \(identity.purchaseKey)")
    }
}

/// What was found of a line item's name, sorted by whose it is.
struct TracedItems {
    private var items: [(identity: TracedItem.Identity, item: TracedItem)] = []
    private var apps: [String: Int64] = [:]

    /// Notes what a record says of the sale that it names.
    mutating func note(
        _ identity: TracedItem.Identity,
        _ change: (inout TracedItem) -> Void
    ) {
        if let index = items.firstIndex(where: { $0.identity == identity }) {
            return change(&items[index].item)
        }
        var item = TracedItem(identity: identity)
        change(&item)
        items.append((identity, item))
    }

    /// Notes an event as it came in.
    mutating func note(_ sale: TracedSale, of purchaseKey: String) {
        if let bundleID = sale.bundleID, let app = sale.appAppleID {
            apps[bundleID] = app
        }
        note(TracedItem.Identity(purchaseKey, sale)) { item in
            item.sale = sale.over(item.sale)
            item.receivedCount += 1
        }
    }

    /// The sales, those of production first.
    ///
    /// What leaves out app or environment is of the one sale that it may be of.
    var sorted: [TracedItem] {
        var sorted: [TracedItem] = items.map(\.item).filter(\.identity.isExact)
        for (identity, item) in items where !identity.isExact {
            var identity = identity
            identity.app = identity.app ?? identity.bundleID.flatMap { apps[$0] }
            let matches = sorted.indices.filter { identity.mayBe(sorted[$0].identity) }
            guard matches.count == 1 else {
                sorted.append(item)
                continue
            }
            sorted[matches[0]].merge(item)
        }
        return sorted.enumerated().sorted { one, other in
            let isSandbox = (one.element.environment, other.element.environment)
            return isSandbox.0 == isSandbox.1
                ? one.offset < other.offset : isSandbox.0 == .production
        }.map(\.element)
    }
}

extension TracedItem {
    /// Takes in what records say that leave out of which app or environment it is.
    fileprivate mutating func merge(_ other: TracedItem) {
        if let newer = other.sale, newer.receivedAt ?? 0 >= sale?.receivedAt ?? 0 {
            sale = newer.over(sale)
        }
        let others = [other.outcome, other.refusedChange].compactMap { $0 }
        let own = outcome?.settledAt
        for newer in others where newer.settledAt >= own ?? newer.settledAt {
            settle(newer)
        }
        if let change = other.newestChange {
            note(change: change)
        }
        receivedCount += other.receivedCount
        deadLetters += other.deadLetters
    }
}
