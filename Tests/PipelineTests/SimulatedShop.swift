import AppleSimulator
import Simulation
import TokenDomain
import TokenWire

/// Customers who buy, with their tokens: three of one customer, forged ones, late ones, none.
struct SimulatedShop {
    /// One thing that the platform sends.
    enum Sent {
        case sale(PurchaseEvent)
        case token(IssuedToken, customer: CustomerID?, isForged: Bool)
        /// A record of sales that nothing can be made of.
        case bad(key: String, value: [UInt8])
    }

    /// What Apple must have heard of a token.
    enum Owed {
        /// At most one NO_LINE_ITEM, then its sales.
        case primary
        /// The same, and perhaps DUPLICATE_TOKEN before: which, hangs on when Apple refused another.
        case promotion
        case duplicate
    }

    private enum Place: Int, CaseIterable {
        case threeTokens, forged, late, none, unnamed, sandbox, otherApp

        /// Poison sales are of those whose records have no request's name in them.
        var isPoisoned: Bool { self != .none && self != .unnamed }
    }

    private struct Arrival {
        var place: Place
        var token: IssuedToken
        var isForged = false
    }

    private static let app: Int64 = 1_234_567_890
    private static let otherApp: Int64 = 2_000_000_001
    private static let poison = "poison"

    private var generator: TokenDomain.SeededGenerator
    private(set) var lives: SalesLives
    private var arrivals: [Arrival] = []
    private var badCount = 0
    private(set) var owed: [String: Owed] = [:]
    /// Real tokens that came in.
    private(set) var brought: Set<String> = []
    /// The tokens that each customer's sales may go under.
    private(set) var carriers: [Int: Set<String>] = [:]
    /// Values that must become dead letters, each once.
    private(set) var badValues: [[UInt8]] = []

    init(seed: UInt64, now: Timestamp) {
        generator = TokenDomain.SeededGenerator(seed: seed)
        var manner = SalesLives.Manner()
        manner.ageMax = .days(50)
        manner.subscriptionAge = .days(20)
        manner.leavesRates = true
        lives = SalesLives(
            seed: seed ^ 0x11fe,
            customers: Place.allCases.map(Self.customer),
            manner: manner
        )
        makeTokens(now: now)
    }

    /// Every token of the customers who buy, forged ones too.
    private(set) var tokens: Set<String> = []

    /// Whether Apple must have this customer's sales in the end.
    static func isOwed(_ customer: Int) -> Bool { customer != Place.none.rawValue }

    /// Customers whose only token Apple has as a duplicate, as its promotion came too late: nothing may
    /// follow that, and a person must look at their sales.
    func parkedCustomers(told: [String: [String]]) -> Set<Int> {
        Set(
            carriers.filter { _, ids in
                ids.contains { told[$0] == ["DUPLICATE_TOKEN"] }
            }.keys
        )
    }

    /// Whether a dead letter is a good sale of such a customer.
    func isParked(_ value: [UInt8], _ code: String, of customer: Int) -> Bool {
        guard code == "purchases.rejected", !badValues.contains(value),
            let id = Place(rawValue: customer).flatMap(Self.customerID)
        else {
            return false
        }
        return String(decoding: value, as: UTF8.self).contains("\"\(id.text)\"")
    }

    private static func customer(_ place: Place) -> SalesLives.Customer {
        SalesLives.Customer(
            id: customerID(place),
            asked: place == .unnamed ? TokenID(id(.unnamed, 0)) : nil,
            appAppleID: place == .otherApp ? otherApp : app,
            environment: place == .sandbox ? .sandbox : .production
        )
    }

    private static func customerID(_ place: Place) -> CustomerID? {
        place == .unnamed
            ? nil : CustomerID("c1.sale" + String(repeating: "0", count: 37) + "\(place.rawValue)0")
    }

    private static func id(_ place: Place, _ number: Int) -> String {
        (place == .sandbox ? "SANDBOX_" : "") + "5a1e0000-0000-4000-8000-0000000000"
            + "\(place.rawValue)\(number)"
    }

    static func isPoison(_ id: String) -> Bool { id.hasPrefix(poison) }

    /// Apple refuses a poison sale, by whatever rule of its own, and names it or does not.
    static func refusal(of report: SimulatedApple.Sent) -> AppleAnswer? {
        report.lineItemIDs.first(where: isPoison).map { id in
            let isNamed = id.utf8.last.map { $0 % 2 == 0 } ?? true
            return .refusal(code: 4, field: "taxCountry", lineItemID: isNamed ? id : nil)
        }
    }

    // MARK: Tokens

    private mutating func makeTokens(now: Timestamp) {
        func token(
            _ place: Place,
            _ number: Int,
            _ type: String?,
            from: Int64 = -60,
            until: Int64? = 305
        ) -> Arrival {
            Arrival(
                place: place,
                token: IssuedToken(
                    externalPurchaseID: Self.id(place, number),
                    appAppleID: place == .otherApp ? Self.otherApp : Self.app,
                    bundleID: place == .otherApp ? "com.music" : "com.example",
                    tokenType: type,
                    tokenCreationDate: (now + .days(from)).milliseconds,
                    tokenExpirationDate: until.map { (now + .days($0)).milliseconds }
                )
            )
        }
        var forged = (0..<3).map { token(.forged, $0, "SERVICES") }
        forged[Int.random(in: 0..<3, using: &generator)].isForged = true
        // The one that is active all the time comes first: a refund needs one on the day.
        let three =
            [token(.threeTokens, 0, "ACQUISITION")]
            + [
                token(.threeTokens, 1, "SERVICES", from: -60, until: -30),
                token(.threeTokens, 2, "SERVICES", from: -30, until: 335),
            ].shuffled(using: &generator)
        let others = [
            token(.unnamed, 0, nil, until: nil), token(.sandbox, 0, "SERVICES"),
            token(.otherApp, 0, "SERVICES"),
        ]
        // Those of one customer keep their order; of all the order is chance.
        var queues = [three, forged] + others.map { [$0] }
        while !queues.isEmpty {
            let index = Int.random(in: 0..<queues.count, using: &generator)
            arrivals.append(queues[index].removeFirst())
            queues.removeAll { $0.isEmpty }
        }
        arrivals.append(token(.late, 0, "SERVICES"))
        tokens = Set(arrivals.map(\.token.externalPurchaseID))
        noteOwed(forged)
        for arrival in arrivals where !arrival.isForged {
            let id = arrival.token.externalPurchaseID
            if owed[id] == nil {
                owed[id] = .primary
            }
            if case .duplicate = owed[id] { continue }
            carriers[arrival.place.rawValue, default: []].insert(id)
        }
    }

    private mutating func noteOwed(_ period: [Arrival]) {
        var isFirstReal = true
        for (index, arrival) in period.enumerated() where !arrival.isForged {
            owed[arrival.token.externalPurchaseID] =
                isFirstReal ? (index > 0 ? .promotion : .primary) : .duplicate
            isFirstReal = false
        }
    }

    /// The next token; nil where only late ones are left.
    private mutating func nextToken() -> Sent? {
        guard let first = arrivals.first, first.place != .late else {
            return nil
        }
        arrivals.removeFirst()
        return bring(first)
    }

    private mutating func bring(_ arrival: Arrival) -> Sent {
        if !arrival.isForged {
            brought.insert(arrival.token.externalPurchaseID)
        }
        return .token(
            arrival.token,
            customer: Self.customerID(arrival.place),
            isForged: arrival.isForged
        )
    }

    /// Tokens that come when everything else has settled.
    mutating func restOfTokens() -> [Sent] {
        defer { arrivals = [] }
        return arrivals.map { bring($0) }
    }

    // MARK: Sales

    /// What the platform sends next; `reported` are the sales that our ledger has as reported.
    mutating func next(now: Timestamp, reported: () throws -> Set<String>) rethrows -> Sent? {
        let places = Place.allCases
        let place = places[Int.random(in: 0..<places.count, using: &generator)]
        switch Int.random(in: 0..<26, using: &generator) {
        case 0..<4: return nextToken()
        case 4: return bad(now: now)
        case 5 where place.isPoisoned:
            let event = lives.other(named: Self.poison, of: place.rawValue, now: now)
            badValues.append(Self.value(event, receivedAt: now))
            return .sale(event)
        case 6..<13: return .sale(lives.buy(of: place.rawValue, now: now))
        case 13..<17: return lives.refund(now: now).map { .sale($0) }
        case 17, 18: return lives.restate().map { .sale($0) }
        case 19, 20: return try lives.retract(among: reported()).map { .sale($0) }
        default: return lives.subscribe(place.rawValue, now: now).map { .sale($0) }
        }
    }

    /// As a platform writes it into the topic.
    static func value(_ event: PurchaseEvent, receivedAt: Timestamp) -> [UInt8] {
        var event = event
        event.receivedAt = receivedAt
        var value: [UInt8] = []
        event.write(to: &value)
        return value
    }

    private mutating func bad(now: Timestamp) -> Sent {
        badCount += 1
        let place = Place.threeTokens
        var event = lives.other(named: "bad", of: place.rawValue, now: now)
        var key = event.purchaseKey ?? ""
        var value: [UInt8]
        switch badCount % 4 {
        case 0: value = Array("{\"lineItemId\":\"bad-\(badCount)\"".utf8)
        case 1:
            event.appAppleID = 3
            value = Self.value(event, receivedAt: now)
        case 2:
            event.quantity = 0
            value = Self.value(event, receivedAt: now)
        default:
            key = "another"
            value = Self.value(event, receivedAt: now)
        }
        badValues.append(value)
        return .bad(key: key, value: value)
    }
}
