import Testing
import TokenDomain

private let euro = ReportingTerms(currency: code("EUR"), rate: nil)

@Suite struct `What an item refers to` {
    private static func target(
        _ sale: PurchaseEvent,
        retracted: Bool = false
    ) -> ReferenceRules.Target {
        ReferenceRules.Target(sale: sale, terms: euro, isRetracted: retracted)
    }

    @Test(
        arguments: [
            (sampleRefund(), target(sampleBuy()), nil),
            (sampleRefund { $0.taxCountry = code("DEU") }, target(sampleBuy()), nil),
            (sampleRefund(), target(sampleRefund("x")), .refundOfRefund),
            (sampleRefund(), target(sampleBuy(), retracted: true), .referenceRetracted),
            (
                sampleRefund { $0.creationDate = saleTime + Milliseconds(-1) }, target(sampleBuy()),
                .referenceYounger
            ),
            (
                sampleRefund { $0.pricingCurrency = code("USD") }, target(sampleBuy()),
                .pricingCurrencyMismatch
            ),
            (
                sampleRefund { $0.reportingCurrency = code("USD") }, target(sampleBuy()),
                .reportingCurrencyMismatch
            ),
            (
                sampleRefund { $0.taxCountry = code("FRA") }, target(sampleBuy()),
                .taxCountryMismatch
            ),
            (
                sampleRefund { $0.exchangeRate = rate("2") }, target(sampleBuy()),
                .exchangeRateMismatch
            ),
        ] as [(PurchaseEvent, ReferenceRules.Target, PurchaseRule?)]
    )
    func `is a buy that the refund fits`(
        refund: PurchaseEvent,
        target: ReferenceRules.Target,
        rule: PurchaseRule?
    ) {
        let fault = ReferenceRules.fault(
            ofRefund: refund,
            of: target,
            isNew: true,
            now: saleTime + .days(2)
        )
        #expect(fault?.rule == rule)
    }

    @Test(
        arguments: [
            (target(sampleSubscription("s", .start)), nil),
            (target(sampleSubscription("s", .renewal)), .referenceNotStart),
            (target(sampleBuy("s")), .referenceNotStart),
            (target(sampleRefund("s")), .referenceNotBuy),
            (target(sampleSubscription("s", .start), retracted: true), .referenceRetracted),
            (
                target(sampleSubscription("s", .start) { $0.subscriptionID = "s-2" }),
                .referenceNotStart
            ),
            (
                target(sampleSubscription("s", .start) { $0.creationDate = saleTime + .days(1) }),
                .referenceYounger
            ),
        ] as [(ReferenceRules.Target, PurchaseRule?)]
    )
    func `is the start of the subscription`(target: ReferenceRules.Target, rule: PurchaseRule?) {
        let renewal = sampleSubscription("r", .renewal)
        #expect(ReferenceRules.fault(ofLater: renewal, after: target)?.rule == rule)
    }

    @Test(
        arguments: [
            (sampleBuy("s"), .nonInitialBuyReferencedByBuy),
            (sampleSubscription("s", .renewal), .referenceInvalidSubscriptionEvent),
            // Apple knows no subscriptionId.
            (sampleSubscription("s", .start) { $0.subscriptionID = "s-2" }, nil),
        ] as [(PurchaseEvent, AppleErrorCode?)]
    )
    func `has the code that Apple answers`(named: PurchaseEvent, answer: AppleErrorCode?) {
        let renewal = sampleSubscription("r", .renewal)
        let fault = ReferenceRules.fault(ofNaming: named, in: renewal)
        #expect(fault?.rule == .referenceNotStart && fault?.appleCode == answer)
    }

    @Test func `may be a year old for a refund or a restatement, and not a millisecond more`() {
        let edge = saleTime.yearLater
        let buy = Self.target(sampleBuy())
        for (now, isLate) in [(edge, false), (edge + Milliseconds(1), true)] {
            let refund = ReferenceRules.fault(
                ofRefund: sampleRefund(),
                of: buy,
                isNew: true,
                now: now
            )
            #expect((refund?.rule == .refundTooLate) == isLate)
            let restated = ReferenceRules.fault(ofRestating: sampleBuy(), now: now)
            #expect((restated?.rule == .restatementTooLate) == isLate)
        }
        let restatedRefund = ReferenceRules.fault(
            ofRefund: sampleRefund(),
            of: buy,
            isNew: false,
            now: edge + .days(1)
        )
        #expect(restatedRefund == nil)
    }

    @Test(arguments: [
        ("2025-03-01", "2026-03-01"), ("2024-02-29", "2025-03-01"), ("2023-03-01", "2024-03-01"),
        ("2025-12-31", "2026-12-31"), ("2024-02-28", "2025-02-28"),
    ])
    func `is a year older on the same day`(day: String, later: String) throws {
        let start = try #require(CalendarDay(iso: day)).start
        #expect(start.yearLater == (try #require(CalendarDay(iso: later)).start))
    }
}

@Suite struct `Restating a sale` {
    @Test func `changes the fields it names and takes the rest from the book`() throws {
        var change = PurchaseEvent(lineItemID: "buy")
        change.kind = .restate
        change.taxCountry = code("FRA")
        change.amountTaxInclusive = Milliunits(11_000)
        change.taxAmount = Milliunits(1_000)
        let sale = try sampleBuy().applying(change, now: saleTime)
        #expect(
            sale
                == sampleBuy {
                    $0.taxCountry = code("FRA")
                    $0.amountTaxExclusive = Milliunits(10_000)
                    $0.taxAmount = Milliunits(1_000)
                }
        )
    }

    @Test(
        arguments: [
            ("USD", nil, nil), ("USD", "0.0081", "0.0081"), ("EUR", nil, "0.0068"),
            (nil, "0.0069", "0.0069"),
        ] as [(String?, String?, String?)]
    )
    func `keeps no rate of another reporting currency`(
        currency: String?,
        newRate: String?,
        expected: String?
    ) throws {
        let buy = sampleBuy {
            $0.pricingCurrency = code("ISK")
            $0.reportingCurrency = code("EUR")
            $0.exchangeRate = rate("0.0068")
        }
        var change = PurchaseEvent(lineItemID: "buy")
        change.kind = .restate
        change.reportingCurrency = currency.map(code)
        change.exchangeRate = newRate.map(rate)
        let sale = try buy.applying(change, now: saleTime)
        #expect(sale.reportingCurrency == code(currency ?? "EUR"))
        #expect(sale.exchangeRate == expected.map(rate))
    }

    @Test(
        arguments: [
            (
                PurchaseRule.creationDateChanged,
                { @Sendable in $0.creationDate = saleTime + .days(-1) }
            ),
            (.fieldNotAllowed, { @Sendable in $0.subscriptionEvent = .renewal }),
            (.fieldNotAllowed, { @Sendable in $0.referenceLineItemID = "other" }),
            (.unknownCountry, { @Sendable in $0.taxCountry = code("XXX") }),
            (.conversionNotAllowed, { @Sendable in $0.reportingCurrency = code("USD") }),
        ] as [(PurchaseRule, @Sendable (inout PurchaseEvent) -> Void)]
    )
    func `refuses what cannot change`(
        rule: PurchaseRule,
        edit: @Sendable (inout PurchaseEvent) -> Void
    ) {
        var change = PurchaseEvent(lineItemID: "buy")
        change.kind = .restate
        edit(&change)
        let fault = #expect(throws: PurchaseFault.self) {
            try sampleBuy().applying(change, now: saleTime + .days(1))
        }
        #expect(fault?.rule == rule)
    }
}
