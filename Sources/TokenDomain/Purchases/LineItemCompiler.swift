/// What a buy and its refunds come to, in both currencies: one net calculation of Apple's.
///
/// Source: Apple, "netAmountTaxExclusive"
package struct NetFamily: Hashable, Sendable {
    /// Of the buy as Apple has it, tax exclusive; nil before it is accepted.
    package var bought: Share?
    /// Of the refunds that Apple has and that are not retracted, together.
    package var refunded = Share.none

    package init(bought: Share? = nil, refunded: Share = .none) {
        self.bought = bought
        self.refunded = refunded
    }

    /// The same amount, tax exclusive, in the pricing and in the reporting currency.
    package struct Share: Hashable, Sendable {
        package static let none = Share(priced: .zero, reported: .zero)

        package var priced: Milliunits
        package var reported: Milliunits

        package init(priced: Milliunits, reported: Milliunits) {
            self.priced = priced
            self.reported = reported
        }

        func adding(_ other: Share) -> Share? {
            guard let priced = priced.adding(other.priced),
                let reported = reported.adding(other.reported)
            else {
                return nil
            }
            return Share(priced: priced, reported: reported)
        }

        /// Of what was added before: never below zero.
        func subtracting(_ other: Share) -> Share {
            Share(
                priced: Milliunits(max(0, priced.count - other.priced.count)),
                reported: Milliunits(max(0, reported.count - other.reported.count))
            )
        }
    }

    /// The family once an item is accepted.
    ///
    /// - Parameters:
    ///   - share: of the item as it is now.
    ///   - previous: of the same item as it was before, where it counted.
    ///   - isRefund: whether the item is one of the refunds.
    ///   - isRetracted: whether it counts no longer.
    /// - Returns: this family with the item in it.
    package func accepting(
        _ share: Share,
        insteadOf previous: Share?,
        isRefund: Bool,
        isRetracted: Bool
    ) -> NetFamily {
        var family = self
        guard isRefund else {
            family.bought = share
            return family
        }
        let rest = refunded.subtracting(previous ?? .none)
        // It was checked against the buy when it was compiled: the sum cannot overflow.
        family.refunded = isRetracted ? rest : rest.adding(share) ?? rest
        return family
    }
}

/// Turns a sale into the line item that Apple wants.
package struct LineItemCompiler {
    /// What a line item needs to know besides its sale.
    package struct Context: Hashable, Sendable {
        package var revision: LineItem.Revision
        package var terms: ReportingTerms
        /// Of the item itself where it is a buy, of its buy where it is a refund.
        package var family: NetFamily
        /// What this item counted for in the family until now: a restated refund.
        package var previous: NetFamily.Share?
        /// The buy of a refund.
        package var buy: PurchaseEvent?
        /// The start of the subscription of a later event.
        package var startLineItemID: String?
        package var daysOfPaidService: Int64

        package init(
            revision: LineItem.Revision,
            terms: ReportingTerms,
            family: NetFamily = NetFamily(),
            previous: NetFamily.Share? = nil,
            buy: PurchaseEvent? = nil,
            startLineItemID: String? = nil,
            daysOfPaidService: Int64 = 0
        ) {
            self.revision = revision
            self.terms = terms
            self.family = family
            self.previous = previous
            self.buy = buy
            self.startLineItemID = startLineItemID
            self.daysOfPaidService = daysOfPaidService
        }
    }

    /// A line item, and what it counts for in its family.
    package struct Compiled: Hashable, Sendable {
        package var item: LineItem
        package var share: NetFamily.Share
    }

    private let sale: PurchaseEvent
    private let context: Context

    /// - Parameters:
    ///   - sale: normalized, and without fault by ``PurchaseRules`` and ``ReferenceRules``.
    ///   - context: what the sale itself does not say.
    /// - Returns: the line item, which breaks no rule of Apple's that is known here.
    /// - Throws: refunds that come to more than their buy, a payment that comes to nothing in the
    ///   reporting currency, and sums beyond `Int64`.
    package static func compile(
        _ sale: PurchaseEvent,
        _ context: Context
    ) throws(PurchaseFault) -> Compiled {
        try LineItemCompiler(sale: sale, context: context).compile()
    }

    private func compile() throws(PurchaseFault) -> Compiled {
        guard let priced = AmountTriple(sale), let date = sale.creationDate,
            let currency = (context.buy ?? sale).pricingCurrency,
            let country = (context.buy ?? sale).taxCountry
        else {
            preconditionFailure("a sale passes the rules before it is compiled")
        }
        let others = context.family.refunded.subtracting(context.previous ?? .none)
        let (amounts, net) = try isRefund ? refund(priced, besides: others) : buy(priced)
        let share = NetFamily.Share(priced: priced.exclusive, reported: amounts.exclusive)
        return Compiled(
            item: LineItem(
                lineItemID: sale.lineItemID,
                referenceLineItemID: isRefund
                    ? sale.referenceLineItemID : context.startLineItemID,
                creationDate: date,
                product: product,
                pricingCurrency: currency,
                terms: context.terms,
                amounts: amounts,
                netAmountTaxExclusive: net,
                taxCountry: country,
                revision: context.revision
            ),
            share: share
        )
    }

    private var isRefund: Bool { sale.kind == .refund }

    private var product: LineItem.Product {
        guard !isRefund else {
            return .refund
        }
        let goods = LineItem.Goods(
            productIdentifier: sale.productIdentifier ?? "",
            quantity: sale.quantity ?? 1
        )
        guard let event = sale.subscriptionEvent, let start = sale.subscriptionStartDate,
            let end = sale.subscriptionEndDate
        else {
            return .oneTimeBuy(goods)
        }
        return .subscription(
            goods,
            LineItem.Subscription(
                event: event,
                startDate: start,
                endDate: end,
                daysOfPaidService: event == .start
                    ? 0 : sale.subscriptionDaysOfPaidService ?? context.daysOfPaidService
            )
        )
    }

    // MARK: Amounts

    /// Exclusive and inclusive are converted each; the tax is what lies between them, so that the
    /// sum is exact.
    private func buy(
        _ priced: AmountTriple
    ) throws(PurchaseFault) -> (AmountTriple, Milliunits) {
        let refunded = context.family.refunded
        guard priced.exclusive >= refunded.priced || context.revision == .retraction else {
            throw tooLarge
        }
        guard let converted = context.terms.convert(priced.exclusive),
            let inclusive = context.terms.convert(priced.inclusive)
        else {
            throw .beyondRange
        }
        // Refunds were rounded one by one: together they may be a thousandth more.
        let exclusive = max(converted, refunded.reported)
        let amounts = try triple(exclusive: exclusive, inclusive: max(inclusive, exclusive))
        if sale.subscriptionEvent == .payment, amounts.inclusive == .zero,
            context.revision != .retraction
        {
            throw .paymentOfNothing
        }
        let net =
            context.revision == .retraction
            ? .zero : Milliunits(exclusive.count - refunded.reported.count)
        return (amounts, net)
    }

    /// All refunds of a buy are converted together, so that a full refund in parts comes to the buy
    /// and not to a thousandth more.
    private func refund(
        _ priced: AmountTriple,
        besides others: NetFamily.Share
    ) throws(PurchaseFault) -> (AmountTriple, Milliunits) {
        guard let bought = context.family.bought else {
            preconditionFailure("a refund is compiled when its buy is accepted")
        }
        guard let together = others.priced.adding(priced.exclusive), together <= bought.priced
        else {
            throw tooLarge
        }
        guard let converted = context.terms.convert(together),
            let withTax = context.terms.convert(priced.inclusive),
            let withoutTax = context.terms.convert(priced.exclusive),
            let ofTax = context.terms.convert(priced.tax)
        else {
            throw .beyondRange
        }
        // A refund of all of it has the three amounts of the buy, whose tax is made so.
        let isOfAll = others.priced == .zero && priced.exclusive == bought.priced
        let room = bought.reported.count - others.reported.count
        let exclusive = Milliunits(
            min(max(0, converted.count - others.reported.count), max(0, room))
        )
        let tax = isOfAll ? Milliunits(withTax.count - withoutTax.count) : ofTax
        let net = context.revision == .retraction ? room : room - exclusive.count
        return try (triple(exclusive: exclusive, tax: tax), Milliunits(max(0, net)))
    }

    private func triple(
        exclusive: Milliunits,
        tax: Milliunits
    ) throws(PurchaseFault) -> AmountTriple {
        guard let inclusive = exclusive.adding(tax) else {
            throw .beyondRange
        }
        return AmountTriple(tax: tax, exclusive: exclusive, inclusive: inclusive)
    }

    private func triple(
        exclusive: Milliunits,
        inclusive: Milliunits
    ) throws(PurchaseFault) -> AmountTriple {
        AmountTriple(
            tax: Milliunits(inclusive.count - exclusive.count),
            exclusive: exclusive,
            inclusive: inclusive
        )
    }

    private var tooLarge: PurchaseFault {
        isRefund
            ? PurchaseFault(
                .refundTooLarge,
                .amountTaxExclusive,
                repair: "Send no more than what is left of the buy after its other refunds."
            )
            : PurchaseFault(
                .refundTooLarge,
                .amountTaxExclusive,
                repair: "Send no less than what was refunded, or restate the refunds first."
            )
    }
}

/// What the conversion into the reporting currency may come to, and no line item may hold.
extension PurchaseFault {
    static let paymentOfNothing = PurchaseFault(
        .paymentWithoutAmount,
        .amountTaxInclusive,
        repair: "Send SUBSCRIPTION_PAYMENT only of what is not 0 in the reporting currency."
    )
    static let beyondRange = PurchaseFault(
        .outOfRange,
        .amountTaxInclusive,
        repair: "Send amounts in thousandths of the currency's unit: this is beyond 64 bits."
    )
}
