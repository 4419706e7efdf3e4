/// What can be judged of a purchase event alone: `ingest` asks at the door, `purchases` asks again
/// of what platforms wrote into the topic themselves.
///
/// Source: Apple, "Line item fields", "Error messages and codes"
package struct PurchaseRules {
    /// Of `lineItemId`, `referenceLineItemId` and `subscriptionId`; Apple counts characters.
    package static let idLengthMax = 128
    package static let productIdentifierLengthMax = 256
    /// Of the platform's own name for a customer, in tokens and in sales.
    package static let customerByteCountMax = 1_024
    /// How far ahead a platform's clock may be; `report` waits such a date out.
    package static let clockSkewMax = Milliseconds.minutes(5)
    /// 2015-01-01: before every sale outside the App Store that Apple takes reports of.
    ///
    /// What lies before is mostly a date in seconds. Apple does not publish its own threshold.
    package static let dateFloor = Timestamp(milliseconds: 1_420_070_400_000)

    private let event: PurchaseEvent
    /// Fields that could not be read, for which there is a fault already.
    private let unreadable: [PurchaseField]
    private let codes: SalesCodes
    private let now: Timestamp
    private var found: [PurchaseFault] = []

    /// Every fault of an event, in no more than one pass over its fields.
    ///
    /// - Parameters:
    ///   - event: as it was read.
    ///   - unreadable: fields whose value had a fault of its own: no rule is asked about them.
    ///   - codes: the currencies and countries there are.
    ///   - now: dates after it, and ``clockSkewMax``, are in the future.
    /// - Returns: none where the event may be stored.
    package static func faults(
        of event: PurchaseEvent,
        unreadable: [PurchaseField] = [],
        codes: SalesCodes = .current,
        now: Timestamp
    ) -> [PurchaseFault] {
        var rules = PurchaseRules(event, unreadable, codes, now)
        rules.judge()
        return rules.found
    }

    private init(
        _ event: PurchaseEvent,
        _ unreadable: [PurchaseField],
        _ codes: SalesCodes,
        _ now: Timestamp
    ) {
        self.event = event
        self.unreadable = unreadable
        self.codes = codes
        self.now = now
    }

    private mutating func judge() {
        judgeIdentity()
        switch event.kind {
        case .buy: judgeBuy()
        case .refund: judgeRefund()
        case .restate: judgeRestatement()
        // Of a retraction only the names count: what else it repeats of its item is not read.
        case .retract: return
        }
        judgeDates()
        judgeCodes()
        judgeAmounts()
    }

    private mutating func add(_ rule: PurchaseRule, _ field: PurchaseField, _ repair: String) {
        add(PurchaseFault(rule, field, repair: repair))
    }

    private mutating func add(_ fault: PurchaseFault) {
        if !unreadable.contains(where: { $0.rawValue == fault.field }) {
            found.append(fault)
        }
    }

    private mutating func require(_ isPresent: Bool, _ field: PurchaseField, of what: String) {
        if !isPresent {
            add(.missingField, field, "\(what) needs it: send it.")
        }
    }

    private mutating func forbid(_ isPresent: Bool, _ field: PurchaseField, of what: String) {
        if isPresent {
            add(.fieldNotAllowed, field, "\(what) has no such field: leave it out.")
        }
    }

    // MARK: Whose it is

    private mutating func judgeIdentity() {
        judgeLength(event.lineItemID, .lineItemID, Self.idLengthMax)
        if event.lineItemID.isEmpty {
            add(
                .missingField,
                .lineItemID,
                "Send an identifier of your own that is never used twice."
            )
        }
        let isWhoUnread = unreadable.contains(.externalPurchaseID)
        if event.purchaseKey == nil, !isWhoUnread {
            add(.missingField, .customer, "Send the customer or the externalPurchaseId of a token.")
        }
        let isAppUnread = unreadable.contains(.bundleID)
        if event.appAppleID == nil, event.bundleID == nil, !isAppUnread {
            add(.missingField, .appAppleID, "Send the appAppleId or the bundleId of the app.")
        }
        if let id = event.appAppleID, id <= 0 {
            add(.outOfRange, .appAppleID, "Send the app's number from App Store Connect.")
        }
        if let token = event.externalPurchaseID, token.environment != event.environment {
            add(.wrongEnvironment, .environment, "Send the environment of the token, or none.")
        }
        judgeLength(event.subscriptionID, .subscriptionID, Self.idLengthMax)
        judgeLength(event.referenceLineItemID, .referenceLineItemID, Self.idLengthMax)
        judgeLength(event.productIdentifier, .productIdentifier, Self.productIdentifierLengthMax)
        if event.referenceLineItemID?.utf8.elementsEqual(event.lineItemID.utf8) == true {
            add(.selfReference, .referenceLineItemID, "Name the other line item that is meant.")
        }
    }

    private mutating func judgeLength(_ text: String?, _ field: PurchaseField, _ lengthMax: Int) {
        guard let text, text.utf8.count > lengthMax, text.unicodeScalars.count > lengthMax else {
            return
        }
        add(.tooLong, field, "Send at most \(lengthMax) characters.")
    }

    // MARK: Which fields belong to it

    private var isSubscription: Bool {
        event.subscriptionEvent != nil || event.subscriptionID != nil
            || event.subscriptionStartDate != nil || event.subscriptionEndDate != nil
            || event.subscriptionDaysOfPaidService != nil
            || unreadable.contains(.subscriptionEvent)
    }

    private mutating func judgeBuy() {
        let what = "A buy"
        require(event.creationDate != nil, .creationDate, of: what)
        require(event.productIdentifier?.isEmpty == false, .productIdentifier, of: what)
        require(event.taxCountry != nil, .taxCountry, of: what)
        require(event.pricingCurrency != nil, .pricingCurrency, of: what)
        requireAmounts()
        guard isSubscription else {
            return forbid(event.referenceLineItemID != nil, .referenceLineItemID, of: what)
        }
        let event = event
        require(event.subscriptionEvent != nil, .subscriptionEvent, of: "A subscription")
        require(event.subscriptionID?.isEmpty == false, .subscriptionID, of: "A subscription")
        require(event.subscriptionStartDate != nil, .subscriptionStartDate, of: "A subscription")
        require(event.subscriptionEndDate != nil, .subscriptionEndDate, of: "A subscription")
        if event.subscriptionEvent == .start {
            forbid(event.referenceLineItemID != nil, .referenceLineItemID, of: "SUBSCRIPTION_START")
            if event.subscriptionDaysOfPaidService ?? 0 > 0 {
                add(
                    .paidDaysOnStart,
                    .subscriptionDaysOfPaidService,
                    "Send 0 on SUBSCRIPTION_START, or leave it out."
                )
            }
        }
    }

    private mutating func judgeRefund() {
        let what = "A refund"
        require(event.creationDate != nil, .creationDate, of: what)
        require(event.referenceLineItemID?.isEmpty == false, .referenceLineItemID, of: what)
        requireAmounts()
        forbid(event.productIdentifier != nil, .productIdentifier, of: what)
        forbid(event.quantity != nil, .quantity, of: what)
        forbid(event.subscriptionEvent != nil, .subscriptionEvent, of: what)
        forbid(event.subscriptionStartDate != nil, .subscriptionStartDate, of: what)
        forbid(event.subscriptionEndDate != nil, .subscriptionEndDate, of: what)
        forbid(
            event.subscriptionDaysOfPaidService != nil,
            .subscriptionDaysOfPaidService,
            of: what
        )
    }

    /// The fields that a restatement leaves out come from the item; of amounts two must be there,
    /// since it is unknown which of the others a single one would change.
    private mutating func judgeRestatement() {
        let count = amounts.count { $0.1 != nil }
        if count == 1 {
            requireAmounts()
        }
    }

    // MARK: Dates (6, 17, 27)

    private mutating func judgeDates() {
        let dates: [(PurchaseField, Timestamp?)] = [
            (.creationDate, event.creationDate),
            (.subscriptionStartDate, event.subscriptionStartDate),
            (.subscriptionEndDate, event.subscriptionEndDate),
        ]
        for (field, date) in dates {
            if let date, date < Self.dateFloor {
                add(.dateTooOld, field, "Send UNIX milliseconds: this lies before 2015.")
            }
        }
        if let date = event.creationDate, date > now + Self.clockSkewMax {
            add(.futureDate, .creationDate, "Send the sale when it has happened.")
        }
        if let start = event.subscriptionStartDate, let end = event.subscriptionEndDate, end < start
        {
            add(.endBeforeStart, .subscriptionEndDate, "Send an end that is not before the start.")
        }
    }

    // MARK: Codes and rates (5, 7, 18)

    private mutating func judgeCodes() {
        if let country = event.taxCountry, !codes.countries.contains(country) {
            add(.unknownCountry, .taxCountry, "Send a country code of ISO 3166-1 alpha-3, as DEU.")
        }
        if let pricing = event.pricingCurrency, !codes.currencies.contains(pricing) {
            add(.unknownCurrency, .pricingCurrency, "Send a currency code of ISO 4217, as EUR.")
        }
        guard let reporting = event.reportingCurrency else {
            guard event.exchangeRate != nil, event.kind == .buy else {
                return
            }
            if let pricing = event.pricingCurrency, codes.reportingCurrencies.contains(pricing) {
                forbid(true, .exchangeRate, of: "A sale in a reporting currency")
            } else {
                add(
                    .missingField,
                    .reportingCurrency,
                    "Say which currency the exchangeRate leads to, or leave the rate out."
                )
            }
            return
        }
        guard codes.reportingCurrencies.contains(reporting) else {
            return add(
                .unknownCurrency,
                .reportingCurrency,
                "Send a currency that Apple takes reports in, or leave it out."
            )
        }
        guard let pricing = event.pricingCurrency else {
            return
        }
        if pricing == reporting {
            forbid(event.exchangeRate != nil, .exchangeRate, of: "A sale in a reporting currency")
        } else if codes.reportingCurrencies.contains(pricing)
            || !codes.convertedCurrencies.contains(reporting)
        {
            add(
                .conversionNotAllowed,
                .reportingCurrency,
                "Leave it out: a reporting currency is never converted, every other one to "
                    + codes.convertedCurrencies.map(\.text).joined(separator: " or ") + "."
            )
        }
    }

    // MARK: Amounts (4, 11, 15, 16, 35)

    private var amounts: [(PurchaseField, Milliunits?)] {
        [
            (.amountTaxInclusive, event.amountTaxInclusive), (.taxAmount, event.taxAmount),
            (.amountTaxExclusive, event.amountTaxExclusive),
        ]
    }

    private mutating func requireAmounts() {
        let unread = amounts.contains { unreadable.contains($0.0) }
        let missingCount = amounts.count { $0.1 == nil }
        guard missingCount > 1, !unread, let first = amounts.first(where: { $0.1 == nil }) else {
            return
        }
        add(
            .missingField,
            first.0,
            "Send two of amountTaxInclusive, taxAmount and amountTaxExclusive."
        )
    }

    private mutating func judgeAmounts() {
        let negative = amounts.filter { $0.1 ?? .zero < .zero }
        for (field, _) in negative {
            add(.negativeValue, field, "Send it positive, also in a refund.")
        }
        if let days = event.subscriptionDaysOfPaidService {
            if days < 0 {
                add(.negativeValue, .subscriptionDaysOfPaidService, "Send 0 or more paid days.")
            } else if days > Int64(Int32.max) {
                add(.outOfRange, .subscriptionDaysOfPaidService, "Send days, not milliseconds.")
            }
        }
        if let quantity = event.quantity, quantity <= 0 {
            add(.notPositive, .quantity, "Send how many were sold, at least 1.")
        }
        guard negative.isEmpty else {
            return
        }
        guard let sum = AmountTriple(event) else {
            if amounts.count(where: { $0.1 != nil }) >= 2 {
                add(
                    .amountsDisagree,
                    .amountTaxInclusive,
                    "Send amounts of which inclusive is exclusive and tax, in thousandths."
                )
            }
            return
        }
        if event.subscriptionEvent == .payment, sum.inclusive == .zero {
            add(
                .paymentWithoutAmount,
                .amountTaxInclusive,
                "Send SUBSCRIPTION_PAYMENT only where money was paid."
            )
        } else if event.kind == .buy, let rate = event.exchangeRate {
            judgeConverted(sum, at: rate)
        }
    }

    /// What the sale's own rate makes of it: known before any rates file is asked.
    private mutating func judgeConverted(_ amounts: AmountTriple, at rate: ExchangeRate) {
        guard let inclusive = rate.convert(amounts.inclusive) else {
            return add(.beyondRange)
        }
        if event.subscriptionEvent == .payment, inclusive == .zero {
            add(.paymentOfNothing)
        }
    }
}

/// The three amounts of an item: tax inclusive = exclusive + tax, none below zero.
package struct AmountTriple: Hashable, Sendable {
    package let inclusive: Milliunits
    package let tax: Milliunits
    package let exclusive: Milliunits

    package init(tax: Milliunits, exclusive: Milliunits, inclusive: Milliunits) {
        self.tax = tax
        self.exclusive = exclusive
        self.inclusive = inclusive
    }

    /// From two or three of an event's amounts; nil where there are fewer, where they disagree or
    /// where one is below zero or beyond `Int64`.
    package init?(_ event: PurchaseEvent) {
        let triple: (Milliunits, Milliunits, Milliunits)? =
            switch (event.amountTaxInclusive, event.taxAmount, event.amountTaxExclusive) {
            case (let inclusive?, let tax?, let exclusive):
                inclusive.subtracting(tax).flatMap { computed in
                    exclusive ?? computed == computed ? (inclusive, tax, computed) : nil
                }
            case (let inclusive?, nil, let exclusive?):
                inclusive.subtracting(exclusive).map { (inclusive, $0, exclusive) }
            case (nil, let tax?, let exclusive?):
                exclusive.adding(tax).map { ($0, tax, exclusive) }
            default: nil
            }
        guard let triple, triple.0 >= .zero, triple.1 >= .zero, triple.2 >= .zero else {
            return nil
        }
        (inclusive, tax, exclusive) = triple
    }
}
