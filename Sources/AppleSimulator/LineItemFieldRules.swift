/// What Apple says to one line item for itself: presence, lengths, codes, amounts, dates.
struct LineItemFieldRules {
    static let idLengthMax = 128
    static let productIdentifierLengthMax = 256
    static let pricingCurrencyLengthMax = 128
    static let exchangeRateLengthMax = 128

    let item: LineItem
    let token: IssuedToken?
    let dateFloor: UnixMilliseconds
    let now: UnixMilliseconds

    func violations() -> [ReportError] {
        presence() + lengths() + codes() + amounts() + dates() + flags()
    }

    private func error(_ code: ReportErrorCode, _ field: String) -> ReportError {
        ReportError(code, field: field, lineItemID: item.lineItemID)
    }

    // MARK: Presence (4, 5)

    /// What the matrix of section 2.4 says of a field for this kind of item.
    private enum Presence {
        case required, optional, forbidden
    }

    private func presence() -> [ReportError] {
        let isRefund = item.event == .refund
        let isSubscription = item.product == .subscription
        let buyOnly: Presence = isRefund ? .forbidden : .required
        let subscriptionOnly: Presence =
            isRefund || item.product == .oneTimeBuy
            ? .forbidden : isSubscription ? .required : .optional
        let rows: [(String, Bool, Presence)] = [
            ("lineItemId", item.lineItemID?.isEmpty == false, .required),
            ("creationDate", item.creationDate != nil, .required),
            ("eventType", item.event != nil, .required),
            ("referenceLineItemId", item.referenceLineItemID != nil, referencePresence),
            ("productType", item.product != nil, buyOnly),
            ("productIdentifier", item.productIdentifier != nil, buyOnly),
            ("quantity", item.quantity != nil, buyOnly),
            ("pricingCurrency", item.pricingCurrency != nil, .required),
            ("reportingCurrency", item.reportingCurrency != nil, .required),
            ("exchangeRate", item.exchangeRate != nil, exchangeRatePresence),
            ("amountTaxExclusive", item.amountTaxExclusive != nil, .required),
            ("taxAmount", item.taxAmount != nil, .required),
            ("amountTaxInclusive", item.amountTaxInclusive != nil, .required),
            ("netAmountTaxExclusive", item.netAmountTaxExclusive != nil, .required),
            ("taxCountry", item.taxCountry != nil, .required),
            ("subscriptionEvent", item.subscriptionEvent != nil, subscriptionOnly),
            ("subscriptionStartDate", item.subscriptionStartDate != nil, subscriptionOnly),
            ("subscriptionEndDate", item.subscriptionEndDate != nil, subscriptionOnly),
            (
                "subscriptionDaysOfPaidService", item.subscriptionDaysOfPaidService != nil,
                subscriptionOnly
            ),
        ]
        return rows.compactMap { field, isPresent, presence in
            switch (presence, isPresent) {
            case (.required, false): error(.omittedField, field)
            case (.forbidden, true): error(.fieldNotAllowed, field)
            default: nil
            }
        }
    }

    private var referencePresence: Presence {
        if item.event == .refund { return .required }
        switch (item.product, item.subscriptionEvent) {
        case (.oneTimeBuy, _), (.subscription, .start): return .forbidden
        case (.subscription, .some): return .required
        default: return .optional
        }
    }

    private var exchangeRatePresence: Presence {
        guard let pricing = item.pricingCurrency, let reporting = item.reportingCurrency else {
            return .optional
        }
        return pricing == reporting ? .forbidden : .required
    }

    // MARK: Lengths and codes (7, 18, 19)

    private func lengths() -> [ReportError] {
        let rows: [(String, String?, Int)] = [
            ("lineItemId", item.lineItemID, Self.idLengthMax),
            ("referenceLineItemId", item.referenceLineItemID, Self.idLengthMax),
            ("productIdentifier", item.productIdentifier, Self.productIdentifierLengthMax),
            ("pricingCurrency", item.pricingCurrency, Self.pricingCurrencyLengthMax),
            ("exchangeRate", item.exchangeRate, Self.exchangeRateLengthMax),
        ]
        return rows.compactMap { field, text, lengthMax in
            text?.unicodeScalars.count ?? 0 > lengthMax ? error(.maximumLengthExceeded, field) : nil
        }
    }

    private func codes() -> [ReportError] {
        var errors: [ReportError] = []
        if let country = item.taxCountry, !ReportingCodes.countries.contains(country[...]) {
            errors.append(error(.unknownEnum, "taxCountry"))
        }
        guard let reporting = item.reportingCurrency else { return errors }
        guard ReportingCodes.currencies.contains(reporting[...]) else {
            return errors + [error(.unknownEnum, "reportingCurrency")]
        }
        if let pricing = item.pricingCurrency, pricing != reporting {
            let isConvertible = !ReportingCodes.currencies.contains(pricing[...])
            if !isConvertible || !ReportingCodes.fallbackCurrencies.contains(reporting) {
                errors.append(error(.reportingCurrencyExchangeNotAllowed, "reportingCurrency"))
            }
        }
        return errors
    }

    // MARK: Amounts (11, 15, 16, 34, 35)

    private func amounts() -> [ReportError] {
        var errors: [ReportError] = []
        let rows: [(String, Int64?)] = [
            ("subscriptionDaysOfPaidService", item.subscriptionDaysOfPaidService),
            ("netAmountTaxExclusive", item.netAmountTaxExclusive), ("taxAmount", item.taxAmount),
            ("amountTaxExclusive", item.amountTaxExclusive),
            ("amountTaxInclusive", item.amountTaxInclusive),
        ]
        errors += rows.compactMap { field, value in
            value ?? 0 < 0 ? error(.negativeValueNotAllowed, field) : nil
        }
        if let quantity = item.quantity, quantity <= 0 {
            errors.append(error(.positiveValueRequired, "quantity"))
        }
        if let rate = item.exchangeRate, !Self.isPositive(rate) {
            errors.append(error(.positiveValueRequired, "exchangeRate"))
        }
        if let exclusive = item.amountTaxExclusive, let tax = item.taxAmount,
            let inclusive = item.amountTaxInclusive
        {
            let sum = exclusive.addingReportingOverflow(tax)
            if sum.overflow || sum.partialValue != inclusive {
                errors.append(error(.incorrectAmountTaxInclusive, "amountTaxInclusive"))
            }
        }
        if item.subscriptionEvent == .start, item.subscriptionDaysOfPaidService ?? 0 != 0 {
            errors.append(
                error(.subscriptionStartNonZeroDaysPaidService, "subscriptionDaysOfPaidService")
            )
        }
        if item.subscriptionEvent == .payment, item.amountTaxInclusive ?? 1 <= 0 {
            errors.append(
                error(.invalidTaxInclusiveAmountForSubscriptionPayment, "amountTaxInclusive")
            )
        }
        return errors
    }

    /// By its digits, since a double would make a very small rate zero.
    private static func isPositive(_ literal: String) -> Bool {
        !literal.hasPrefix("-") && literal.contains { ("1"..."9").contains($0) }
    }

    // MARK: Dates (6, 17, 27, 36)

    private func dates() -> [ReportError] {
        var errors: [ReportError] = []
        if let date = item.creationDate, date > now {
            errors.append(error(.futureDate, "creationDate"))
        }
        let rows: [(String, Int64?)] = [
            ("creationDate", item.creationDate),
            ("subscriptionStartDate", item.subscriptionStartDate),
            ("subscriptionEndDate", item.subscriptionEndDate),
        ]
        errors += rows.compactMap { field, date in
            date ?? dateFloor < dateFloor ? error(.dateTooFarInPast, field) : nil
        }
        if let start = item.subscriptionStartDate, let end = item.subscriptionEndDate, end < start {
            errors.append(error(.startDateAfterEndDate, "subscriptionEndDate"))
        }
        if let date = item.creationDate, let token, !token.isActive(at: date) {
            errors.append(error(.lineItemCreationDateOutOfRange, "creationDate"))
        }
        return errors
    }

    // MARK: Flags (20)

    private func flags() -> [ReportError] {
        item.isRetraction && !item.isRestatement
            ? [error(.erroneouslySubmittedNotRestatement, "erroneouslySubmitted")] : []
    }
}
