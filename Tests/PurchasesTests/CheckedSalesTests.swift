import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import purchases
@testable import tollway

/// `tollway purchase check` beside the worker: the same sales, told one after the other.
///
/// Each must make the same line items under the same tokens, and refuse the same events by the same
/// rules.
@Suite struct `Sales that were checked offline` {
    private static let start = PurchasesBench.start

    /// A file of sales, and whose tokens are known.
    struct Case: CustomTestStringConvertible, Sendable {
        var testDescription: String
        /// What finds no token is not owed before the next event is told.
        var isPatient: Bool
        var events: @Sendable (Shop) -> [PurchaseEvent]

        init(
            _ description: String,
            isPatient: Bool = false,
            _ events: @escaping @Sendable (Shop) -> [PurchaseEvent]
        ) {
            testDescription = description
            self.isPatient = isPatient
            self.events = events
        }
    }

    @Test(arguments: cases + startCases + paidDayCases)
    func `come to what the worker makes of them`(_ sales: Case) throws {
        let trial = try CheckTrial(sales.events(Shop()), isPatient: sales.isPatient)
        #expect(trial.checked == trial.worked)
    }

    @Test(arguments: 0..<100 as Range<UInt64>)
    func `come to what the worker makes of them, whatever is told`(seed: UInt64) throws {
        var life = ToldLife(seed: seed)
        let isPatient = seed % 4 == 0
        let events = (0..<(isPatient ? 25 : 40)).map { _ in life.next() }
        let trial = try CheckTrial(events, isPatient: isPatient)
        #expect(trial.heldCount == 0, "seed \(seed)\n\(life.story)")
        #expect(trial.checked == trial.worked, "seed \(seed)\n\(life.story)")
    }

    private static let cases = [
        Case("a token of nobody, asked for by a customer") { shop in
            [shop.buy("a") { $0.externalPurchaseID = TokenID("nobody's") }]
        },
        Case("a token of nobody, asked for by nobody") { shop in
            [
                shop.buy("a") {
                    $0.customer = nil
                    $0.externalPurchaseID = TokenID("nobody's")
                }
            ]
        },
        Case("a token of a customer, asked for by nobody") { shop in
            [
                shop.buy("a") {
                    $0.customer = nil
                    $0.externalPurchaseID = TokenID("anna's")
                }
            ]
        },
        Case("another sale under the name of one that is not owed") { shop in
            [
                shop.buy("a") { $0.customer = shop.otto },
                shop.buy("a") {
                    $0.customer = shop.otto
                    $0.taxCountry = AlphaCode("FRA")
                },
            ]
        },
        Case("another sale under the name of one that waits for a rate") { shop in
            [
                shop.buy("a") { $0.pricingCurrency = AlphaCode("UYU") },
                shop.buy("a") { $0.quantity = 2 },
                shop.restate("a") { $0.pricingCurrency = AlphaCode("EUR") },
                shop.buy("a") { $0.pricingCurrency = AlphaCode("UYU") },
            ]
        },
        Case("a bad correction of what is not owed") { shop in
            [
                shop.buy("a") { $0.customer = shop.otto },
                shop.restate("a") {
                    $0.customer = shop.otto
                    $0.creationDate = shop.date + .days(1)
                },
            ]
        },
        Case("another country for a buy with a refund") { shop in
            [shop.buy("a"), shop.refund("r", of: "a"), shop.restate("a", shop.france)]
        },
        Case("another country for a buy with a refund of tax alone") { shop in
            [
                shop.buy("a"),
                shop.refund("r", of: "a") {
                    $0.amountTaxExclusive = .zero
                    $0.taxAmount = Milliunits(2_000)
                }, shop.restate("a", shop.france),
            ]
        },
        Case("refunds that were refused, of a buy that goes to another currency") { shop in
            let inKronur: (inout PurchaseEvent) -> Void = { $0.pricingCurrency = AlphaCode("ISK") }
            return [
                shop.buy("a"), shop.refund("r", of: "a", shop.france),
                shop.refund("q", of: "a", shop.france), shop.restate("a", inKronur),
                shop.refund("r", of: "a", shop.france), shop.refund("r", of: "a"),
                shop.refund("r", of: "a"),
                shop.refund("r", of: "a") { $0.amountTaxExclusive = Milliunits(2_000) },
                shop.refund("q", of: "a"), shop.refund("q", of: "a", inKronur),
            ]
        },
        Case("another rate alone for a converted buy with a refund") { shop in
            shop.restatedTerms("ISK", rate: "0.0069")
        },
        Case("another rate alone for a converted buy") { shop in
            shop.restatedTerms("ISK", rate: "0.0069").filter { $0.kind != .refund }
        },
        Case("what a buy with a refund is reported in, said with a change") { shop in
            shop.restatedTerms("EUR", currency: "EUR")
        },
        Case("what a converted buy with a refund is reported in, said with a change") { shop in
            shop.restatedTerms("ISK", currency: "EUR")
        },
        Case("the same with the rate that Apple has") { shop in
            shop.restatedTerms("ISK", currency: "EUR", rate: "0.0068")
        },
        Case("the same with another rate") { shop in
            shop.restatedTerms("ISK", currency: "EUR", rate: "0.0069")
        },
        Case("another reporting currency for a buy with a refund") { shop in
            shop.restatedTerms("ISK", currency: "USD")
        },
        Case("another currency for a buy whose refund was retracted, and that refund again") {
            shop in
            [
                shop.buy("a"), shop.refund("r", of: "a"), shop.retract("r"),
                shop.restate("a") { $0.pricingCurrency = AlphaCode("ISK") },
                shop.restate("r") { _ in },
            ]
        },
        Case("another currency for a buy that is not owed, with a refund", isPatient: true) {
            $0.restatedCurrencyOfOtto([])
        },
        Case("another currency for a buy that waits for a token, with a refund") {
            $0.restatedCurrencyOfOtto([])
        },
        Case("another currency for a buy that is not owed, its refund retracted", isPatient: true) {
            $0.restatedCurrencyOfOtto([.retract])
        },
        Case("another currency for a buy that waits for a token, its refund retracted") {
            $0.restatedCurrencyOfOtto([.retract])
        },
        Case("another country for a refund") { shop in
            [shop.buy("a"), shop.refund("r", of: "a"), shop.restate("r", shop.france)]
        },
        Case("a refund restated after its buy was retracted") { shop in
            [
                shop.buy("a"), shop.refund("r", of: "a"), shop.retract("a"),
                shop.restate("r") {
                    $0.taxAmount = .zero
                    $0.amountTaxExclusive = Milliunits(3_000)
                },
            ]
        },
        Case("a month of a start with a refund") { shop in
            [shop.month(0), shop.refund("r", of: "m0"), shop.month(1)]
        },
        Case("a month restated after its start was retracted") { shop in
            [
                shop.month(0), shop.month(1), shop.retract("m0"),
                shop.restate("m1") { $0.quantity = 2 },
            ]
        },
        Case("a retraction with all that refers to it") { shop in
            [
                shop.month(0), shop.month(1),
                shop.refund("r", of: "m1") {
                    $0.creationDate = shop.date + .days(31)
                }, shop.month(2), shop.retract("m2"), shop.retract("m0"), shop.retract("r"),
                shop.restate("m0") { _ in }, shop.restate("m1") { _ in },
            ]
        },
        Case("a refund behind the retraction of a buy that stands last") { shop in
            [shop.retract("a"), shop.buy("a"), shop.refund("r", of: "a")]
        },
        Case("a month of the first start that is told after the second") { shop in
            [
                shop.month(0), shop.month(5, .start), shop.month(1), shop.month(6),
                shop.restate("m1") { $0.quantity = 2 },
            ]
        },
        Case("a month restated after a second start") { shop in
            [
                shop.month(0), shop.month(1), shop.month(2, .start),
                shop.restate("m1") { $0.quantity = 2 }, shop.retract("m2"), shop.month(3),
            ]
        },
        Case("months in any order") { shop in
            [0, 3, 1, 2, 4].map { shop.month($0) }
        },
        Case("months before their start") { shop in
            [3, 1, 2, 0].map { shop.month($0) }
        },
        Case("months after one that was retracted, and one that was restated") { shop in
            [
                shop.month(0), shop.month(1), shop.retract("m1"), shop.month(2),
                shop.restate("m2") {
                    $0.taxAmount = .zero
                    $0.amountTaxExclusive = .zero
                }, shop.month(3), shop.restate("m1") { _ in }, shop.month(4),
            ]
        },
        Case("months after one that was refused") { shop in
            [
                shop.month(0), shop.month(12) { $0.creationDate = shop.date + .days(-1) },
                shop.month(1), shop.month(2),
            ]
        },
        Case("what refers to another customer's sale, or has its name") { shop in
            [
                shop.buy("a"),
                shop.buy("a") {
                    $0.customer = nil
                    $0.externalPurchaseID = TokenID("nobody's")
                },
                shop.refund("r", of: "a") { $0.customer = shop.otto },
                shop.restate("a") {
                    $0.customer = shop.otto
                    $0.taxCountry = AlphaCode("FRA")
                },
            ]
        },
    ]

    private static let startCases = [
        Case("a start that was sent instead of a refused one") { shop in
            [
                shop.taken, shop.month(3, .start, named: "taken"), shop.month(1, .start),
                shop.month(4),
            ]
        },
        Case("a start of the next life after a refused one") { shop in
            [
                shop.taken, shop.month(0), shop.month(2, .start, named: "taken"), shop.month(3),
                shop.month(5, .start), shop.month(6), shop.retract("m5"), shop.month(7),
            ]
        },
        Case("a month before the start of the next life, where the first one was refused") {
            shop in
            [
                shop.taken, shop.month(0, named: "taken"), shop.month(3), shop.month(5, .start),
                shop.month(6),
            ]
        },
        Case("a refused start again, after the one that was sent instead") { shop in
            [
                shop.taken, shop.month(0, named: "taken"), shop.month(0), shop.month(1),
                shop.month(0, named: "taken"), shop.month(2),
            ]
        },
        Case("a month that waits for a refused start, and one that was sent instead") { shop in
            [
                shop.taken, shop.month(3, .start, named: "taken"), shop.month(4),
                shop.month(2, .start), shop.retract("m2"),
            ]
        },
        Case("a month with the name of its start that was refused") { shop in
            [shop.taken, shop.month(0, named: "taken"), shop.month(1, named: "taken")]
        },
        Case("a month of a retracted start before the next one") { shop in
            [shop.month(0), shop.retract("m0"), shop.month(5, .start), shop.month(3)]
        },
        Case("a start instead of one that was not owed and retracted", isPatient: true) { shop in
            [
                shop.monthOfCarla(1, .start, day: 12), shop.retractOfCarla("m1"),
                shop.monthOfCarla(0, .start, day: 0), shop.monthOfCarla(2, day: 22),
            ]
        },
        Case("a start not owed, retracted and restated", isPatient: true) { shop in
            [
                shop.monthOfCarla(0, .start, day: 0), shop.monthOfCarla(1, .start, day: 12),
                shop.retractOfCarla("m1"), shop.restateOfCarla("m1") { $0.quantity = 2 },
                shop.monthOfCarla(2, day: 22),
            ]
        },
    ]

    private static let paidDayCases = [
        Case("another product of a month that is not owed", isPatient: true) { shop in
            shop.monthsOfCarla(shop.restateOfCarla("m1") { $0.productIdentifier = "gems" })
        },
        Case("no price of a month that is not owed", isPatient: true) { shop in
            shop.monthsOfCarla(
                shop.restateOfCarla("m1") {
                    $0.amountTaxExclusive = .zero
                    $0.taxAmount = .zero
                }
            )
        },
        Case("the retraction of a month that is not owed", isPatient: true) { shop in
            shop.monthsOfCarla(shop.retractOfCarla("m1"))
        },
        Case("months that are not owed, in any order", isPatient: true) { shop in
            [
                shop.monthOfCarla(2, .start, day: 21), shop.monthOfCarla(0, .start, day: 11),
                shop.monthOfCarla(1, day: 12), shop.monthOfCarla(3, day: 22),
            ]
        },
        Case("months of a customer who comes back, one of them late") { shop in
            [
                shop.month(0), shop.month(1), shop.month(2), shop.month(5, .start),
                shop.month(6), shop.month(3), shop.month(7),
                shop.restate("m6") { $0.quantity = 2 }, shop.month(8),
            ]
        },
        Case("a month of a customer who comes back that waits for a rate") { shop in
            [
                shop.month(0), shop.month(5, .start),
                shop.month(6) { $0.pricingCurrency = AlphaCode("UYU") }, shop.month(7),
            ]
        },
        Case("a plan that is changed on the day of a renewal") { shop in
            [
                shop.month(0), shop.month(1),
                shop.month(1, .change, named: "b") { sale in
                    sale.creationDate = shop.date + .days(1) + .hours(1)
                    sale.subscriptionEndDate = shop.date + .days(30 + 365 - 500)
                }, shop.month(14), shop.restate("m0") { $0.quantity = 2 }, shop.month(15),
            ]
        },
        Case("a payment that is sent before its start") { shop in
            [
                shop.month(0, .payment, named: "a"),
                shop.month(0) { sale in
                    sale.amountTaxExclusive = .zero
                    sale.taxAmount = .zero
                }, shop.month(1),
            ]
        },
        Case("paid days that are given") { shop in
            [
                shop.month(0), shop.month(12) { $0.subscriptionDaysOfPaidService = 360 },
                shop.month(13), shop.restate("m13") { $0.quantity = 2 }, shop.month(14),
                shop.restate("m13") { $0.subscriptionDaysOfPaidService = 500 }, shop.month(15),
            ]
        },
    ]
}

/// Sales of a customer whose token is known.
struct Shop {
    let bench = PurchasesBench()
    let date = PurchasesBench.start + .days(-100)

    var anna: CustomerID { bench.customer(1) }
    /// Has no token.
    var otto: CustomerID { bench.customer(2) }
    var carla: CustomerID { bench.customer(3) }

    let france: (inout PurchaseEvent) -> Void = { $0.taxCountry = AlphaCode("FRA") }

    func buy(
        _ id: String,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        bench.buy(id, anna) { sale in
            sale.creationDate = date
            change(&sale)
        }
    }

    func refund(
        _ id: String,
        of buy: String,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        bench.refund(id, of: buy, anna, exclusive: 3_000) { sale in
            sale.creationDate = date + .days(1)
            change(&sale)
        }
    }

    func restate(
        _ id: String,
        _ change: (inout PurchaseEvent) -> Void
    ) -> PurchaseEvent {
        bench.change(id, anna, .restate, change)
    }

    /// Makes Apple refuse a sale of Anna that has its name.
    var taken: PurchaseEvent {
        buy("taken") {
            $0.customer = nil
            $0.externalPurchaseID = TokenID("nobody's")
        }
    }

    /// A month of a customer who has no token from day 10 to day 20.
    func monthOfCarla(
        _ number: Int64,
        _ event: SubscriptionEvent = .renewal,
        day: Int64
    ) -> PurchaseEvent {
        month(number, event) { sale in
            sale.customer = carla
            sale.creationDate = date + .days(day)
        }
    }

    /// Two months that are not owed, a change of the second, and two that have a token.
    func monthsOfCarla(_ change: PurchaseEvent) -> [PurchaseEvent] {
        [
            monthOfCarla(0, .start, day: 11), monthOfCarla(1, day: 12), change,
            monthOfCarla(2, .start, day: 21), monthOfCarla(3, day: 22),
        ]
    }

    func restateOfCarla(
        _ id: String,
        _ change: (inout PurchaseEvent) -> Void
    ) -> PurchaseEvent {
        bench.change(id, carla, .restate, change)
    }

    func retractOfCarla(_ id: String) -> PurchaseEvent { bench.change(id, carla, .retract) }

    /// A buy with a refund, and a change of it that says what it is reported in.
    func restatedTerms(
        _ pricing: String,
        currency: String? = nil,
        rate: String? = nil
    ) -> [PurchaseEvent] {
        [
            buy("a") { $0.pricingCurrency = AlphaCode(pricing) }, refund("r", of: "a"),
            restate("a") {
                $0.quantity = 2
                $0.reportingCurrency = currency.flatMap { AlphaCode($0) }
                $0.exchangeRate = rate.flatMap { try? ExchangeRate($0) }
            },
        ]
    }

    func retract(_ id: String) -> PurchaseEvent { bench.change(id, anna, .retract) }

    /// A buy of whom no token is known, its refund, changes of that, and the buy's other currency.
    func restatedCurrencyOfOtto(_ changes: [PurchaseEvent.Kind]) -> [PurchaseEvent] {
        let refund = refund("r", of: "a") { $0.customer = otto }
        return [buy("a") { $0.customer = otto }, refund]
            + changes.map { bench.change("r", otto, $0) }
            + [bench.change("a", otto, .restate) { $0.pricingCurrency = AlphaCode("ISK") }]
    }

    /// A month of a subscription; the first is its start where nothing else is said.
    func month(
        _ number: Int64,
        _ event: SubscriptionEvent? = nil,
        named name: String? = nil,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        buy(name ?? "m\(number)") { sale in
            let start = date + .days(30 * number - 500)
            sale.creationDate = date + .days(number)
            sale.subscriptionID = "s"
            sale.subscriptionEvent = event ?? (number == 0 ? .start : .renewal)
            sale.subscriptionStartDate = start
            sale.subscriptionEndDate = start + .days(30)
            change(&sale)
        }
    }
}

/// Events drawn from a seed, of few names, so that they meet: right ones and wrong ones in any order.
struct ToldLife {
    private let shop = Shop()
    private var generator: SeededGenerator
    private var told: [PurchaseEvent] = []

    init(seed: UInt64) {
        generator = SeededGenerator(seed: seed)
    }

    private mutating func draw(_ range: Range<Int64>) -> Int64 {
        Int64.random(in: range, using: &generator)
    }

    private mutating func draw(_ names: [String]) -> String {
        names[Int(draw(0..<Int64(names.count)))]
    }

    /// What was told, a line each.
    var story: String {
        told.map { event in
            var words = ["\(event.kind) \(event.lineItemID) of"]
            words.append(event.customer.map { $0 == shop.otto ? "otto" : "anna" } ?? "nobody")
            words += event.subscriptionEvent.map { ["\($0)"] } ?? []
            words += event.referenceLineItemID.map { ["to \($0)"] } ?? []
            words += event.creationDate.map { ["day \(($0 - shop.date).count / 86_400_000)"] } ?? []
            words += event.amountTaxExclusive.map { ["\($0.count)"] } ?? []
            words += event.taxAmount.map { ["tax \($0.count)"] } ?? []
            words += [event.taxCountry, event.pricingCurrency].compactMap { $0 }.map { "\($0)" }
            return words.joined(separator: " ")
        }.joined(separator: "\n")
    }

    mutating func next() -> PurchaseEvent {
        let event = draw()
        told.append(event)
        return event
    }

    private mutating func draw() -> PurchaseEvent {
        if !told.isEmpty, generator.oneIn(12) {
            return told[Int(draw(0..<Int64(told.count)))]
        }
        var event: PurchaseEvent
        switch draw(0..<9) {
        case 0, 1: event = buy()
        case 2, 3: event = refund()
        case 4, 5, 6: event = month()
        case 7: event = restatement()
        default: event = shop.retract(draw(["a", "b", "r", "q", "m0", "m1", "m2", "m3"]))
        }
        switch draw(0..<8) {
        case 0: event.customer = shop.otto
        case 1, 2:
            event.customer = nil
            event.externalPurchaseID = TokenID("nobody's")
        default: break
        }
        return event
    }

    private mutating func price(_ sale: inout PurchaseEvent) {
        sale.amountTaxExclusive = Milliunits(draw(0..<5) * 1_000)
        sale.taxAmount = Milliunits(draw(0..<2) * 100)
    }

    private mutating func place(_ sale: inout PurchaseEvent) {
        if generator.oneIn(4) {
            sale.taxCountry = AlphaCode("FRA")
        }
        if generator.oneIn(5) {
            sale.pricingCurrency = AlphaCode("ISK")
        }
    }

    private mutating func buy() -> PurchaseEvent {
        var sale = shop.buy(draw(["a", "b"]))
        price(&sale)
        place(&sale)
        sale.creationDate = shop.date + .days(draw(0..<3))
        return sale
    }

    private mutating func refund() -> PurchaseEvent {
        var sale = shop.refund(draw(["r", "q"]), of: draw(["a", "b", "a", "b", "m0", "m1", "m2"]))
        price(&sale)
        if generator.oneIn(8) {
            sale.taxCountry = AlphaCode("FRA")
        }
        sale.creationDate = shop.date + .days(draw(0..<5))
        return sale
    }

    private mutating func month() -> PurchaseEvent {
        let number = draw(0..<4)
        let event: SubscriptionEvent? = generator.oneIn(5) ? .start : nil
        var sale = shop.month(number, event)
        price(&sale)
        place(&sale)
        if generator.oneIn(8), sale.subscriptionEvent != .start {
            sale.referenceLineItemID = draw(["m0", "a"])
        }
        return sale
    }

    private mutating func restatement() -> PurchaseEvent {
        var change = shop.restate(draw(["a", "b", "r", "m0", "m1", "m2"])) { _ in }
        if generator.oneIn(2) {
            price(&change)
        }
        place(&change)
        return change
    }
}

/// The same sales offline and at the worker.
struct CheckTrial {
    /// What each made of the sales, in one order.
    private(set) var checked: [String]
    private(set) var worked: [String]
    /// Events that have no end at the worker.
    private(set) var heldCount: Int

    /// Of a token.
    private struct Owner {
        var id: String
        /// In days of the bench.
        var from: Int64
        var days: Int64 = 365
        var customer: CustomerID?

        var created: Timestamp { PurchasesBench.start + .days(from) }
    }

    private static let rates = "2025-10-02,ISK,EUR,0.0068\n2025-10-05,ISK,EUR,0.0069\n"

    /// `isPatient`: what finds no token is not owed before the next event is told.
    init(_ events: [PurchaseEvent], isPatient: Bool = false) throws {
        let bench = PurchasesBench()
        bench.rates.rates = try ExchangeRates(csv: Array(Self.rates.utf8))
        bench.launch()
        let owners = [
            Owner(id: "anna's", from: -200, customer: bench.customer(1)),
            Owner(id: "nobody's", from: -200),
            Owner(id: "carla's", from: -101, days: 11, customer: bench.customer(3)),
            Owner(id: "carla's second", from: -80, days: 11, customer: bench.customer(3)),
        ]
        for owner in owners {
            bench.token(owner.id, from: owner.created, days: owner.days, customer: owner.customer)
        }
        try bench.settle()
        for event in events {
            bench.sale(event)
            try isPatient ? bench.pass(.hours(25)) : bench.settle()
        }
        let now = bench.clock.now
        try bench.pass(.hours(25))
        // What refers to nothing is waited for so long.
        for _ in 0..<3 {
            try bench.pass(.days(31))
        }
        heldCount =
            bench.count(.received) + bench.count(.reopened) - bench.count(.repeated)
            - bench.count(.reported) - bench.count(.notOwed) - bench.count(.deadLetter)
        let codes = bench.deadLetters().map(\.code)
        worked = try bench.outcomes().compactMap { outcome in
            switch outcome.outcome {
            case .reported:
                "\(outcome.item ?? "") under \(outcome.externalPurchaseID?.text ?? "")"
            case .notOwed: "\(outcome.lineItemID) not_owed"
            case .rejected: "\(outcome.lineItemID) \(outcome.reason)"
            }
        }.sorted()
        #expect(
            codes.sorted()
                == (try bench.outcomes()).filter { $0.outcome == .rejected }.map(\.reason).sorted()
        )

        var book = PurchaseCheckBook(
            tokens: owners.map { owner in
                PurchaseCheckInput.OwnedToken(
                    token: ExternalPurchaseToken(
                        externalPurchaseID: TokenID(owner.id),
                        appAppleID: 1,
                        bundleID: "com.example.1",
                        tokenType: TokenType(.services),
                        tokenCreationDate: owner.created,
                        tokenExpirationDate: owner.created + .days(owner.days)
                    ),
                    customer: owner.customer?.text
                )
            },
            rates: bench.rates.rates,
            now: now
        )
        let lines = events.enumerated().map { index, event in
            var text: [UInt8] = []
            event.write(to: &text)
            return PurchaseCheckLine(line: index + 1, text: text)
        }
        checked = book.check(lines).compactMap { result in
            switch result.end {
            case .lineItem(let json, let token):
                "\(String(decoding: json, as: UTF8.self)) under \(token?.text ?? "")"
            case .faults(let faults): "\(result.lineItemID) \(faults[0].code)"
            case .settled("not_owed"): "\(result.lineItemID) not_owed"
            case .settled, .waits: nil
            }
        }.sorted()
    }
}
