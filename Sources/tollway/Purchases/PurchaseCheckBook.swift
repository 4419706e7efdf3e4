internal import TokenDomain
internal import TokenWire

/// What an event becomes.
struct PurchaseCheckResult {
    enum End {
        case lineItem(json: [UInt8], token: TokenID?)
        case faults([PurchaseFault])
        /// `repeat` or `not_owed`.
        case settled(String)
        /// `rate`: the file of rates has none.
        case waits(String)
    }

    var line: Int
    var lineItemID: String
    var end: End

    var isFault: Bool {
        guard case .faults = end else {
            return false
        }
        return true
    }
}

/// A book that begins empty and takes every line item for accepted: the rules of `purchases` without
/// its queues.
struct PurchaseCheckBook {
    struct Item {
        var sale: PurchaseEvent
        var first: PurchaseEvent
        var terms: ReportingTerms
        var share: NetFamily.Share
        var family = NetFamily()
        var token: TokenID?
        /// The buy of a refund, the start of a later event of a subscription.
        var parent: Key?
        var days: Int64
        /// Of a refund: the currency of its buy, which its amounts are in.
        var saidIn: AlphaCode?
        var isRetracted = false
        /// A restatement of it waits for a rate, and what comes after that waits behind it.
        var waitsForRate = false

        var target: ReferenceRules.Target {
            ReferenceRules.Target(sale: sale, terms: terms, isRetracted: isRetracted)
        }
    }

    /// What has no line item, as far as the file goes.
    struct Unreported {
        var sale: PurchaseEvent
        /// As it was sent: its repeats are known by it.
        var first: PurchaseEvent
        /// False: it waits for a rate, or with what it refers to.
        var isNotOwed: Bool
        /// It waits for a rate alone: its month counts, as at the worker.
        var isCounted = false
        /// Before Apple was told of it.
        var isRetracted = false
    }

    /// Customers have books of their own, as at the worker.
    struct Key: Hashable {
        var owner: String
        var app: Int64
        var environment: AppleEnvironment
        var id: String
        var isSubscription = false

        /// Names are compared byte for byte, as by the worker.
        static func == (one: Key, other: Key) -> Bool {
            one.app == other.app && one.environment == other.environment
                && one.isSubscription == other.isSubscription
                && one.id.utf8.elementsEqual(other.id.utf8)
                && one.owner.utf8.elementsEqual(other.owner.utf8)
        }

        func hash(into hasher: inout Hasher) {
            hasher.combine(app)
            for text in [id, owner] {
                for byte in text.utf8 {
                    hasher.combine(byte)
                }
            }
        }

        /// At Apple it is a name for the whole app.
        var atApple: Key { Key(owner: "", app: app, environment: environment, id: id) }
    }

    /// What a step of an event says: nothing yet where it refers to what comes later.
    enum Step {
        case done(PurchaseCheckResult.End)
        case later
    }

    /// By the bytes of the purchase key; nil where nobody asks which token carries a sale.
    let tokens: [[UInt8]: [CustomerToken]]?
    /// How much older than the sale a token without expiry may be.
    let tokenWindow: Milliseconds
    let rates: ExchangeRates
    let now: Timestamp
    var appsByBundle: [String: Int64] = [:]
    var items: [Key: Item] = [:]
    /// Names that Apple has, of whomever they are.
    private var taken: Set<Key> = []
    var unreported: [Key: Unreported] = [:]
    /// Refunds that were refused, as they came last, and the currency that their amounts are in.
    private var refused: [Key: (sale: PurchaseEvent, saidIn: AlphaCode)] = [:]
    /// What waits for an item, or for the start of a subscription.
    var waiting: [Key: [Entry]] = [:]
    /// Buys and refunds among that.
    var waitingSales: [Key: PurchaseEvent] = [:]
    /// By the index of the line.
    var ends: [Int: [(id: String, end: PurchaseCheckResult.End)]] = [:]
    /// What refers to an item that Apple has.
    var children: [Key: [Key]] = [:]
    /// Line items of a step beside its own: what is retracted with the item that it refers to.
    var retracted: [(id: String, end: PurchaseCheckResult.End)] = []
    var subscriptions: [Key: Subscription] = [:]
    /// Paid days before events of subscriptions, as they were counted when those came.
    var daysAtArrival: [Key: Int64] = [:]

    init(
        tokens: [PurchaseCheckInput.OwnedToken]?,
        tokenWindow: Milliseconds = .days(7),
        rates: ExchangeRates,
        now: Timestamp
    ) {
        self.tokens = tokens.map(Self.byKey)
        self.tokenWindow = tokenWindow
        self.rates = rates
        self.now = now
        for token in tokens ?? [] {
            appsByBundle[token.token.bundleID] = token.token.appAppleID
        }
    }

    // MARK: One event

    func key(_ event: PurchaseEvent, _ id: String) -> Key {
        // An app that is only named by its bundle has no number here.
        let app = event.appAppleID ?? event.bundleID.flatMap { appsByBundle[$0] } ?? 0
        return Key(
            owner: event.purchaseKey ?? "",
            app: app,
            environment: event.environment,
            id: id
        )
    }

    func subscription(_ event: PurchaseEvent, _ id: String) -> Key {
        var key = key(event, id)
        key.isSubscription = true
        return key
    }

    mutating func step(_ event: PurchaseEvent) -> Step {
        let key = key(event, event.lineItemID)
        do throws(PurchaseFault) {
            switch event.kind {
            case .buy, .refund:
                return try base(event.normalized(appAppleID: key.app), key)
            case .restate, .retract:
                if let item = items[key] {
                    return try change(event, item, key)
                }
                guard let waiting = unreported[key] else {
                    return .later
                }
                if !waiting.isNotOwed {
                    recount(waiting.sale)
                }
                guard event.kind == .restate else {
                    return notOwed(waiting.sale, waiting.first, key, isRetracted: true)
                }
                let restated = try waiting.sale.applying(
                    event,
                    to: parent(of: waiting.sale)?.id,
                    now: now
                )
                if waiting.isNotOwed,
                    let fault = ReferenceRules.fault(
                        ofRestatedCurrency: restated,
                        insteadOf: waiting.sale
                    ), hasUnreportedRefund(key)
                {
                    throw fault
                }
                return try waiting.isNotOwed
                    ? notOwed(restated, waiting.first, key)
                    : report(restated, first: waiting.first, key)
            }
        } catch {
            return .done(.faults([error]))
        }
    }

    /// Whether a refund of a buy that is not owed is known, and was not retracted.
    private func hasUnreportedRefund(_ buy: Key) -> Bool {
        unreported.values.contains { refund in
            refund.sale.kind == .refund && !refund.isRetracted && parent(of: refund.sale) == buy
        }
    }

    private mutating func base(
        _ sale: PurchaseEvent,
        _ key: Key
    ) throws(PurchaseFault) -> Step {
        let known =
            items[key].map { ($0.sale, $0.first) } ?? unreported[key].map { ($0.sale, $0.first) }
        if let known {
            return .done(again(isKnown: sale == known.0 || sale == known.1))
        }
        do throws(PurchaseFault) {
            return try report(sale, first: sale, key)
        } catch {
            recount(sale)
            noteRefused(sale, key)
            throw error
        }
    }

    /// A refund that comes again as it was is said in the same currency.
    private mutating func noteRefused(_ sale: PurchaseEvent, _ key: Key) {
        guard sale.kind == .refund, let buy = parent(of: sale).flatMap({ items[$0] }) else {
            return
        }
        let currency = saidIn(sale, key) ?? buy.sale.pricingCurrency
        refused[key] = currency.map { (sale: sale, saidIn: $0) }
    }

    /// What the amounts of a refund are in that was refused with them; nil of any other.
    private func saidIn(_ sale: PurchaseEvent, _ key: Key) -> AlphaCode? {
        refused[key].flatMap { sale.isSameRefund(as: $0.sale) ? $0.saidIn : nil }
    }

    /// A buy or a refund under a name that is there.
    func again(isKnown: Bool) -> PurchaseCheckResult.End {
        let conflict = PurchaseFault(
            .conflict,
            .lineItemID,
            repair: "To change it, send type restate; for another sale, another lineItemId."
        )
        return isKnown ? .settled("repeat") : .faults([conflict])
    }

    /// Compiles a sale that is new, or waited and was corrected.
    private mutating func report(
        _ sale: PurchaseEvent,
        first: PurchaseEvent,
        _ key: Key
    ) throws(PurchaseFault) -> Step {
        var parent: Item?
        var parentKey: Key?
        if refersToAnother(sale) {
            parentKey = self.parent(of: sale)
            guard let parentKey else {
                return .later
            }
            guard let found = items[parentKey] else {
                guard let waiting = unreported[parentKey] else {
                    return .later
                }
                return waiting.isNotOwed ? notOwed(sale, first, key) : waits(sale, first, key)
            }
            guard !found.waitsForRate else {
                return waits(sale, first, key)
            }
            parent = found
            let fault =
                sale.kind == .refund
                ? ReferenceRules.fault(ofRefund: sale, of: found.target, isNew: true, now: now)
                : ReferenceRules.fault(ofLater: sale, after: found.target)
            let said = saidIn(sale, key)
            if let fault = fault ?? ReferenceRules.fault(ofSaidIn: said, of: found.target) {
                throw fault
            }
        }
        let token = try token(of: sale, parent)
        guard tokens == nil || token != nil else {
            return notOwed(sale, first, key)
        }
        let buy = sale.kind == .refund ? parent : nil
        let terms = buy?.terms ?? ReportingTerms.of(sale, rates: rates)
        guard let terms else {
            let step = waits(sale, first, key)
            unreported[key]?.isCounted = true
            note(sale, key)
            return step
        }
        unreported[key] = nil
        let days = days(before: sale, key, after: parent?.sale)
        let compiled = try LineItemCompiler.compile(
            sale,
            LineItemCompiler.Context(
                revision: .first,
                terms: terms,
                family: buy.map { family(of: $0) } ?? NetFamily(),
                buy: buy?.sale,
                startLineItemID: sale.kind == .refund ? nil : parentKey?.id,
                daysOfPaidService: days
            )
        )
        guard taken.insert(key.atApple).inserted else {
            throw PurchaseFault(
                .conflict,
                .lineItemID,
                repair: "Send another lineItemId: another customer has a sale of this name."
            )
        }
        items[key] = Item(
            sale: sale,
            first: first,
            terms: terms,
            share: compiled.share,
            token: token,
            parent: parentKey,
            days: days,
            saidIn: buy?.sale.pricingCurrency
        )
        note(sale, key)
        if let parentKey {
            children[parentKey, default: []].append(key)
            if sale.kind == .refund {
                count(compiled.share, insteadOf: nil, isRetracted: false, in: parentKey)
            }
        }
        return .done(.lineItem(json: compiled.item.json, token: token))
    }

    func refersToAnother(_ sale: PurchaseEvent) -> Bool {
        sale.kind == .refund || sale.isLaterSubscriptionEvent
    }

    /// The buy of a refund, the start of a later event of a subscription; nil where it is not known.
    func parent(of sale: PurchaseEvent) -> Key? {
        (sale.referenceLineItemID ?? start(of: sale)).map { key(sale, $0) }
    }

    private mutating func notOwed(
        _ sale: PurchaseEvent,
        _ first: PurchaseEvent,
        _ key: Key,
        isRetracted: Bool = false
    ) -> Step {
        let item = Unreported(
            sale: sale,
            first: first,
            isNotOwed: true,
            isRetracted: isRetracted
        )
        if let old = unreported[key], old.isNotOwed {
            if period(of: old) != period(of: item) {
                recount(sale)
            }
        } else {
            note(sale, key)
        }
        unreported[key] = item
        return .done(.settled("not_owed"))
    }

    private mutating func waits(
        _ sale: PurchaseEvent,
        _ first: PurchaseEvent,
        _ key: Key
    ) -> Step {
        unreported[key] = Unreported(sale: sale, first: first, isNotOwed: false)
        return .done(.waits("rate"))
    }

    // MARK: Sums

    func family(of buy: Item) -> NetFamily {
        NetFamily(bought: buy.share, refunded: buy.family.refunded)
    }

    mutating func count(
        _ share: NetFamily.Share,
        insteadOf previous: NetFamily.Share?,
        isRetracted: Bool,
        in key: Key
    ) {
        guard var buy = items[key] else {
            return
        }
        buy.family = family(of: buy).accepting(
            share,
            insteadOf: previous,
            isRefund: true,
            isRetracted: isRetracted
        )
        items[key] = buy
    }
}
