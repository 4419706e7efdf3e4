internal import Foundation
internal import TokenDomain

/// The demo's sales, all made from one seed, the tokens that they are sold under, and the truth.
///
/// Months lie between the events of a subscription, so tokens and sales lie in the past: the workers
/// and Apple's simulator live by the real clock.
struct DemoSales {
    static let day: Int64 = 86_400_000

    var sales: [DemoSale] = []
    /// The tokens of all customers.
    var buyers: [Buyer] = []
    /// What Apple must hold, by line item.
    var items: [String: DemoItem] = [:]

    let now: Int64
    private var generator: SeededGenerator
    private var buyerCount = 0
    private var saleCount = 0
    /// Of the sale that is made now.
    var saleClass = DemoSaleClass.oneTime

    /// `roundCount` times every kind of sale; each fault once.
    init(roundCount: Int, seed: UInt64, now: Int64) {
        generator = SeededGenerator(seed: seed ^ 0x5a1e)
        self.now = now
        for _ in 0..<roundCount {
            sellOnce()
            sellSubscription()
            sellTrial()
            sellAndRefund()
            sellAndRestate()
            sellAndRetract()
            sellAbroad()
            sellWithoutToken()
            sellTwice()
        }
        breakEachRule()
    }

    /// A file of exchange rates for the days in which the demo sells abroad.
    var rates: String {
        let formatter = ISO8601DateFormatter()
        formatter.formatOptions = [.withFullDate]
        let lines = (0..<10).map { number -> String in
            let date = Date(timeIntervalSince1970: Double(now - Int64(number) * Self.day) / 1_000)
            return "\(formatter.string(from: date)),UYU,EUR,0.0215"
        }
        return (["date,from,to,rate"] + lines).joined(separator: "\n") + "\n"
    }

    // MARK: Kinds of sales

    private mutating func sellOnce() {
        saleClass = .oneTime
        let buyer = makeBuyer()
        for number in 1...4 {
            buy(from: buyer, age: Int64(10 * number), inclusive: 4_990, tax: 797)
        }
        // Named by the bundle, and quantity and all three amounts said.
        let app = buyer.token.bundleID
        buy(
            from: buyer,
            age: 1,
            inclusive: 9_980,
            tax: 1_594,
            [
                ("appAppleId", nil), ("bundleId", "\"\(app)\""), ("quantity", "2"),
                ("amountTaxExclusive", "8386"),
            ]
        )
        // Under a token without expiry, a day after it; and under one that only its id names.
        buy(from: makeBuyer(type: nil, age: 2), age: 1, inclusive: 990, tax: 158)
        buy(from: makeBuyer(hasCustomer: false), age: 1, inclusive: 1_990, tax: 318)
        buy(from: makeBuyer(isSandbox: true), age: 0, inclusive: 2_990, tax: 477)
    }

    private mutating func sellSubscription() {
        saleClass = .subscriptions
        let buyer = makeBuyer()
        let id = "subscription-\(buyerCount)"
        for (number, event) in [
            "SUBSCRIPTION_START", "RENEWAL", "RENEWAL", "SUBSCRIPTION_CHANGE", "RENEWAL",
        ].enumerated() {
            let age = Int64(150 - 30 * number)
            let price = event == "SUBSCRIPTION_CHANGE" || number == 4 ? Int64(14_990) : 9_990
            buy(
                from: buyer,
                age: age,
                inclusive: price,
                tax: price / 6,
                subscription(id, event, from: age, days: 30)
            )
        }
    }

    private mutating func sellTrial() {
        saleClass = .trials
        let buyer = makeBuyer()
        let id = "trial-\(buyerCount)"
        buy(
            from: buyer,
            age: 60,
            inclusive: 0,
            tax: 0,
            subscription(id, "SUBSCRIPTION_START", from: 60, days: 7)
        )
        buy(
            from: buyer,
            age: 53,
            inclusive: 4_990,
            tax: 797,
            subscription(id, "SUBSCRIPTION_PAYMENT", from: 53, days: 30)
        )
        buy(
            from: buyer,
            age: 23,
            inclusive: 4_990,
            tax: 797,
            subscription(id, "RENEWAL", from: 23, days: 30)
        )
    }

    private mutating func sellAndRefund() {
        saleClass = .refunds
        let buyer = makeBuyer()
        let bought = buy(from: buyer, age: 40, inclusive: 11_900, tax: 1_900)
        refund(bought, of: buyer, age: 30, inclusive: 3_570, tax: 570)
        let last = refund(bought, of: buyer, age: 20, inclusive: 2_380, tax: 380)
        // 10,000 without tax were bought, 3,000 and 2,000 given back. What the buy itself says hangs
        // on whether they went in one report.
        items[bought]?.net = nil
        items[last]?.net = 5_000
    }

    private mutating func sellAndRestate() {
        saleClass = .restatements
        let buyer = makeBuyer()
        let first = buy(from: buyer, age: 40, inclusive: 4_990, tax: 797)
        restate(first, of: buyer, [("taxCountry", "\"FRA\"")])
        let second = buy(from: buyer, age: 40, inclusive: 4_990, tax: 797)
        restate(
            second,
            of: buyer,
            [("amountTaxInclusive", "3990"), ("taxAmount", "637")]
        )
        items[second]?.net = 3_353
    }

    private mutating func sellAndRetract() {
        saleClass = .retractions
        let buyer = makeBuyer()
        let mistaken = buy(from: buyer, age: 40, inclusive: 4_990, tax: 797)
        retract(mistaken, of: buyer)
        // A retraction undone.
        let restored = buy(from: buyer, age: 39, inclusive: 4_990, tax: 797)
        retract(restored, of: buyer)
        restate(restored, of: buyer, [("productIdentifier", "\"demo.gems.500\"")])
        items[restored]?.isRetracted = false
    }

    private mutating func sellAbroad() {
        saleClass = .currencies
        let buyer = makeBuyer()
        // By the file of rates: 100 pesos are 2.15 euros.
        let bought = buy(
            from: buyer,
            age: 5,
            inclusive: 122_000,
            tax: 22_000,
            [("pricingCurrency", "\"UYU\""), ("taxCountry", "\"URY\"")]
        )
        let last = refund(bought, of: buyer, age: 4, inclusive: 12_200, tax: 2_200)
        items[bought]?.net = nil
        items[last]?.net = 1_935
        // At a rate of the platform's own.
        buy(
            from: buyer,
            age: 40,
            inclusive: 122_000,
            tax: 22_000,
            [
                ("pricingCurrency", "\"UYU\""), ("taxCountry", "\"URY\""),
                ("reportingCurrency", "\"USD\""), ("exchangeRate", "0.0255"),
            ]
        )
        buy(
            from: buyer,
            age: 3,
            inclusive: 5_000,
            tax: 0,
            [("pricingCurrency", "\"JPY\""), ("taxCountry", "\"JPN\"")]
        )
    }

    private mutating func sellWithoutToken() {
        saleClass = .tokenless
        var buyer = makeBuyer()
        buyers.removeLast()
        buy(from: buyer, age: 3, inclusive: 4_990, tax: 797, end: .notOwed)
        // Of a customer whose token without expiry is older than the window.
        buyer = makeBuyer(type: nil, age: 60, isSoldWith: false)
        buy(from: buyer, age: 3, inclusive: 4_990, tax: 797, end: .notOwed)
    }

    private mutating func sellTwice() {
        saleClass = .repeats
        let buyer = makeBuyer()
        let bought = buy(from: buyer, age: 12, inclusive: 4_990, tax: 797)
        guard let sent = sales.last, sent.lineItemID == bought else {
            preconditionFailure("the last sale is the one just made")
        }
        var again = sent
        again.end = .repeated
        sales.append(again)
    }

    // MARK: Making

    /// A customer and their token.
    struct Buyer {
        var token: DemoToken
        /// Nil for a sale that only the token's id names.
        var customer: String?
        /// Whether a sale of theirs is reported.
        var isSoldWith: Bool
    }

    /// A customer with a token, made and used at the given ages in days.
    mutating func makeBuyer(
        type: String? = "SERVICES",
        age: Int64 = 200,
        isSandbox: Bool = false,
        hasCustomer: Bool = true,
        isSoldWith: Bool = true
    ) -> Buyer {
        buyerCount += 1
        let apps = DemoStream.apps
        let app = apps[Int.random(in: 0..<apps.count, using: &generator)]
        let minute: Int64 = 60_000
        let created = (now - (isSandbox ? 20 * minute : age * Self.day)) / minute * minute
        let id = "00000000-0000-4000-8000-" + Self.padded(buyerCount)
        let token = DemoToken(
            externalPurchaseID: (isSandbox ? "SANDBOX_" : "") + id,
            appAppleID: app.appAppleID,
            bundleID: app.bundleID,
            tokenType: type,
            created: created,
            expires: type == nil ? nil : created + (isSandbox ? 60 * minute : 365 * Self.day)
        )
        let buyer = Buyer(
            token: token,
            customer: hasCustomer ? "buyer-\(buyerCount)" : nil,
            isSoldWith: isSoldWith
        )
        buyers.append(buyer)
        return buyer
    }

    private static func padded(_ number: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: 12 - text.count) + text
    }

    func subscription(
        _ id: String,
        _ event: String,
        from age: Int64,
        days: Int64
    ) -> [(String, String?)] {
        let start = now - age * Self.day
        return [
            ("subscriptionId", "\"\(id)\""), ("subscriptionEvent", "\"\(event)\""),
            ("subscriptionStartDate", "\(start)"),
            ("subscriptionEndDate", "\(start + days * Self.day)"),
        ]
    }

    /// - Returns: its line item.
    @discardableResult
    mutating func buy(
        from buyer: Buyer,
        age: Int64,
        inclusive: Int64,
        tax: Int64,
        _ changes: [(String, String?)] = [],
        end: DemoSale.End = .reported
    ) -> String {
        let id = makeID("sale")
        // Of today: some minutes ago, so that a token of today is older.
        let date = age == 0 ? now - 600_000 : now - age * Self.day
        send(
            "buy",
            id,
            of: buyer,
            [
                ("creationDate", "\(date)"), ("productIdentifier", "\"demo.coins.500\""),
                ("taxCountry", "\"DEU\""), ("pricingCurrency", "\"EUR\""),
                ("amountTaxInclusive", "\(inclusive)"), ("taxAmount", "\(tax)"),
            ],
            changes,
            end: end
        )
        if end == .reported {
            items[id, default: DemoItem()].net = changes.isEmpty ? inclusive - tax : nil
        }
        return id
    }

    @discardableResult
    mutating func refund(
        _ bought: String,
        of buyer: Buyer,
        age: Int64,
        inclusive: Int64,
        tax: Int64,
        _ changes: [(String, String?)] = [],
        end: DemoSale.End = .reported
    ) -> String {
        let id = makeID("refund")
        send(
            "refund",
            id,
            of: buyer,
            [
                ("referenceLineItemId", "\"\(bought)\""),
                ("creationDate", "\(now - age * Self.day)"),
                ("amountTaxInclusive", "\(inclusive)"), ("taxAmount", "\(tax)"),
            ],
            changes,
            end: end
        )
        return id
    }

    mutating func restate(
        _ id: String,
        of buyer: Buyer,
        _ changes: [(String, String?)],
        end: DemoSale.End = .reported
    ) {
        send("restate", id, of: buyer, changes, [], end: end)
    }

    mutating func retract(_ id: String, of buyer: Buyer) {
        send("retract", id, of: buyer, [], [], end: .reported)
        items[id]?.isRetracted = true
        items[id]?.net = nil
    }

    mutating func makeID(_ word: String) -> String {
        saleCount += 1
        return "\(word)-\(saleCount)"
    }

    /// Sends an event of a buyer; `changes` replace members, or take them away where nil.
    mutating func send(
        _ type: String,
        _ id: String,
        of buyer: Buyer,
        _ members: [(String, String?)],
        _ changes: [(String, String?)],
        end: DemoSale.End
    ) {
        var all: [(String, String?)] = [
            ("type", "\"\(type)\""), ("lineItemId", "\"\(id)\""),
            ("customer", buyer.customer.map { "\"\($0)\"" }),
            (
                "externalPurchaseId",
                buyer.customer == nil ? "\"\(buyer.token.externalPurchaseID)\"" : nil
            ),
            ("appAppleId", "\(buyer.token.appAppleID)"),
            (
                "environment",
                buyer.token.externalPurchaseID.hasPrefix("SANDBOX") ? "\"sandbox\"" : nil
            ),
        ]
        all += members
        for (name, json) in changes {
            all.removeAll { $0.0 == name }
            all.append((name, json))
        }
        let pairs = all.compactMap { name, json in json.map { "\"\(name)\":\($0)" } }
        append(type, id, "{" + pairs.joined(separator: ",") + "}", end: end)
    }

    mutating func append(_ type: String, _ id: String, _ line: String, end: DemoSale.End) {
        sales.append(
            DemoSale(saleClass: saleClass, lineItemID: id, type: type, line: line, end: end)
        )
        if end == .reported {
            items[id, default: DemoItem()].versionCount += 1
        }
    }
}
