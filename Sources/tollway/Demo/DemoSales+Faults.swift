/// Each rule of sales, broken once.
///
/// Not among them: what only Apple can find (`rejected`), and what takes a month
/// to be given up (`reference_unknown`) or a report of 256 KiB (`item_too_large`).
extension DemoSales {
    mutating func breakEachRule() {
        saleClass = .faults
        breakAtTheDoor()
        breakReferences()
        breakTerms()
        breakDates()
    }

    // MARK: Told at the door

    private mutating func breakAtTheDoor() {
        let buyer = makeBuyer()
        let day = Self.day
        append("buy", "none", "{\"lineItemId\":", end: .refused("purchases.not_json"))
        let date = now - day
        let subscribed = subscription("s", "SUBSCRIPTION_START", from: 3, days: 30)
        let rows: [(String, [(String, String?)])] = [
            ("wrong_type", [("lineItemId", "7")]),
            ("repeated_field", [("quantity", "1,\"quantity\":1")]),
            ("missing_field", [("creationDate", nil)]),
            ("out_of_range", [("appAppleId", "0")]),
            ("unknown_value", [("type", "\"sell\"")]),
            ("too_long", [("lineItemId", "\"" + String(repeating: "x", count: 129) + "\"")]),
            ("bad_customer", [("customer", "\"\"")]),
            (
                "wrong_environment",
                [("externalPurchaseId", "\"SANDBOX_1\""), ("environment", "\"production\"")]
            ),
            ("field_not_allowed", [("referenceLineItemId", "\"sale-1\"")]),
            ("unknown_currency", [("pricingCurrency", "\"XXB\"")]),
            ("unknown_country", [("taxCountry", "\"XXB\"")]),
            ("negative_value", [("taxAmount", "-1")]),
            ("not_positive", [("quantity", "0")]),
            ("amounts_disagree", [("amountTaxExclusive", "1")]),
            ("future_date", [("creationDate", "\(now + day)")]),
            ("date_too_old", [("creationDate", "\(date / 1_000)")]),
            ("end_before_start", subscribed + [("subscriptionEndDate", "\(now - 9 * day)")]),
            ("conversion_not_allowed", [("reportingCurrency", "\"USD\"")]),
            ("paid_days_on_start", subscribed + [("subscriptionDaysOfPaidService", "30")]),
            (
                "payment_without_amount",
                subscription("s", "SUBSCRIPTION_PAYMENT", from: 3, days: 30)
                    + [("amountTaxInclusive", "0"), ("taxAmount", "0")]
            ),
        ]
        for (rule, changes) in rows {
            buy(
                from: buyer,
                age: 1,
                inclusive: 4_990,
                tax: 797,
                changes,
                end: .refused("purchases.\(rule)")
            )
        }
        let id = makeID("refund")
        send(
            "refund",
            id,
            of: buyer,
            [
                ("referenceLineItemId", "\"\(id)\""), ("creationDate", "\(date)"),
                ("amountTaxInclusive", "1"), ("taxAmount", "0"),
            ],
            [],
            end: .refused("purchases.self_reference")
        )
        buyers.removeLast()
    }

    // MARK: Told by purchases

    private mutating func breakReferences() {
        let buyer = makeBuyer()
        buy(
            from: buyer,
            age: 9,
            inclusive: 4_990,
            tax: 797,
            [("appAppleId", "999999999")],
            end: .deadLetter("purchases.unknown_app")
        )
        let bought = buy(from: buyer, age: 9, inclusive: 4_990, tax: 797)
        conflict(with: bought, of: buyer)
        let later = subscription("subscription-x", "RENEWAL", from: 5, days: 30)
        buy(
            from: buyer,
            age: 5,
            inclusive: 4_990,
            tax: 797,
            later + [("referenceLineItemId", "\"\(bought)\"")],
            end: .deadLetter("purchases.reference_not_start")
        )
        let refunded = refund(bought, of: buyer, age: 8, inclusive: 1_190, tax: 190)
        items[bought]?.net = nil
        buy(
            from: buyer,
            age: 5,
            inclusive: 4_990,
            tax: 797,
            later + [("referenceLineItemId", "\"\(refunded)\"")],
            end: .deadLetter("purchases.reference_not_buy")
        )
        refund(
            refunded,
            of: buyer,
            age: 7,
            inclusive: 119,
            tax: 19,
            end: .deadLetter("purchases.refund_of_refund")
        )
        refund(
            bought,
            of: buyer,
            age: 30,
            inclusive: 119,
            tax: 19,
            end: .deadLetter("purchases.reference_younger")
        )
        refund(
            bought,
            of: buyer,
            age: 6,
            inclusive: 4_990,
            tax: 797,
            end: .deadLetter("purchases.refund_too_large")
        )
        let mistaken = buy(from: buyer, age: 9, inclusive: 4_990, tax: 797)
        retract(mistaken, of: buyer)
        refund(
            mistaken,
            of: buyer,
            age: 6,
            inclusive: 119,
            tax: 19,
            end: .deadLetter("purchases.reference_retracted")
        )
    }

    private mutating func conflict(with id: String, of buyer: Buyer) {
        guard let sent = sales.last(where: { $0.lineItemID == id }) else {
            preconditionFailure("there is no sale \(id)")
        }
        append(
            "buy",
            id,
            sent.line.replacing("demo.coins.500", with: "demo.coins.600"),
            end: .deadLetter("purchases.conflict")
        )
    }

    private mutating func breakTerms() {
        let buyer = makeBuyer()
        let bought = buy(
            from: buyer,
            age: 5,
            inclusive: 122_000,
            tax: 22_000,
            [("pricingCurrency", "\"UYU\""), ("taxCountry", "\"URY\"")]
        )
        let rows = [
            ("pricing_currency_mismatch", [("pricingCurrency", "\"PYG\"")]),
            ("tax_country_mismatch", [("taxCountry", "\"DEU\"")]),
            ("reporting_currency_mismatch", [("reportingCurrency", "\"USD\"")]),
            (
                "exchange_rate_mismatch",
                [("reportingCurrency", "\"EUR\""), ("exchangeRate", "0.03")]
            ),
        ]
        for (rule, changes) in rows {
            refund(
                bought,
                of: buyer,
                age: 4,
                inclusive: 1_220,
                tax: 220,
                changes,
                end: .deadLetter("purchases.\(rule)")
            )
        }
    }

    private mutating func breakDates() {
        let buyer = makeBuyer()
        let bought = buy(from: buyer, age: 9, inclusive: 4_990, tax: 797)
        restate(
            bought,
            of: buyer,
            [("creationDate", "\(now - 3 * Self.day)")],
            end: .deadLetter("purchases.creation_date_changed")
        )
        // Before its token was there, which is asked for by name.
        buy(
            from: buyer,
            age: 300,
            inclusive: 4_990,
            tax: 797,
            [("externalPurchaseId", "\"\(buyer.token.externalPurchaseID)\"")],
            end: .deadLetter("purchases.token_out_of_range")
        )
        // A token that has run out, and a sale of more than a year ago under it.
        let early = makeBuyer(age: 400)
        let old = buy(from: early, age: 390, inclusive: 4_990, tax: 797)
        refund(
            old,
            of: early,
            age: 2,
            inclusive: 1_190,
            tax: 190,
            end: .deadLetter("purchases.refund_too_late")
        )
        restate(
            old,
            of: early,
            [("taxCountry", "\"FRA\"")],
            end: .deadLetter("purchases.restatement_too_late")
        )
    }
}
