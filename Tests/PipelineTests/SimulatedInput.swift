import AppleSimulator
import Foundation
import TokenDomain

/// One thing that comes to the door, and what is owed for it in the end.
struct SimulatedInput {
    enum Carrier {
        case token(text: String, customer: CustomerID?)
        case notice(IssuedToken, forgery: NotificationForgery?)
    }

    enum Owed: Equatable {
        /// Exactly one report of the token.
        case report(id: String, status: String)
        /// One report of the token, of either status: it depends on when Apple refused another.
        case promotion(id: String)
        /// A report that Apple refuses, for it does not know the token: exactly one dead letter more.
        case refusal(id: String)
        /// Exactly one dead letter more.
        case deadLetter
        /// Another input of the same token already owes it.
        case nothing
    }

    var carrier: Carrier
    var owed: Owed
}

/// Draws inputs of every kind from a seed, with the truth about them.
struct SimulatedInputs {
    static let apps: [Int64: String] = [1_234_567_890: "com.example", 2_000_000_001: "com.music"]

    private(set) var issued: [IssuedToken] = []
    private var generator: TokenDomain.SeededGenerator
    private var tokens: [(token: IssuedToken, customer: CustomerID?)] = []
    private var periods: [(token: IssuedToken, customer: CustomerID)] = []
    /// Periods whose only token so far is one that Apple never issued.
    private var forgedPeriods: Set<CustomerID> = []
    private var counter = 0

    init(seed: UInt64) {
        generator = TokenDomain.SeededGenerator(seed: seed)
    }

    mutating func next(now: Timestamp) -> SimulatedInput {
        switch Int.random(in: 0..<20, using: &generator) {
        case 0..<4 where !tokens.isEmpty:
            let (token, customer) = tokens.randomElement(using: &generator) ?? tokens[0]
            return SimulatedInput(
                carrier: .token(text: text(token), customer: customer),
                owed: .nothing
            )
        case 4..<7 where !periods.isEmpty:
            let (first, customer) = periods.randomElement(using: &generator) ?? periods[0]
            var token = first
            token.externalPurchaseID = id(isSandbox: first.externalPurchaseID.hasPrefix("SANDBOX"))
            issued.append(token)
            let isFirstReal = forgedPeriods.remove(customer) != nil
            return SimulatedInput(
                carrier: .token(text: text(token), customer: customer),
                owed: isFirstReal
                    ? .promotion(id: token.externalPurchaseID)
                    : .report(id: token.externalPurchaseID, status: "DUPLICATE_TOKEN")
            )
        case 7:
            return SimulatedInput(carrier: .token(text: "n*t", customer: nil), owed: .deadLetter)
        case 8:
            var token = make(type: nil, now: now)
            token.bundleID = "com.nobody"
            return SimulatedInput(
                carrier: .token(text: text(token), customer: nil),
                owed: .deadLetter
            )
        case 9 where !tokens.isEmpty:
            let (token, _) = tokens.randomElement(using: &generator) ?? tokens[0]
            return SimulatedInput(carrier: .notice(token, forgery: nil), owed: .nothing)
        case 10:
            let token = make(type: nil, now: now)
            issued.append(token)
            return SimulatedInput(
                carrier: .notice(token, forgery: nil),
                owed: .report(id: token.externalPurchaseID, status: "UNRECOGNIZED_TOKEN")
            )
        case 11:
            let token = make(type: nil, now: now)
            issued.append(token)
            return SimulatedInput(carrier: .notice(token, forgery: .wrongRoot), owed: .deadLetter)
        case 12:
            let type = ["SERVICES", "ACQUISITION"].randomElement(using: &generator)
            let token = make(type: type, now: now)
            let customer = makeCustomer()
            periods.append((token, customer))
            forgedPeriods.insert(customer)
            return SimulatedInput(
                carrier: .token(text: text(token), customer: customer),
                owed: .refusal(id: token.externalPurchaseID)
            )
        case 13..<16:
            let type = ["SERVICES", "ACQUISITION"].randomElement(using: &generator)
            let token = make(type: type, now: now)
            let customer = makeCustomer()
            periods.append((token, customer))
            return primary(token, customer)
        default:
            let type = [nil, "IN_APP", "UNHEARD_OF"].randomElement(using: &generator) ?? nil
            let customer = Bool.random(using: &generator) ? makeCustomer() : nil
            return primary(make(type: type, now: now), customer)
        }
    }

    /// Three tokens of one period and one customer, of which Apple never issued one.
    mutating func forgedPeriod(forgedIndex: Int, now: Timestamp) -> [SimulatedInput] {
        let customer = makeCustomer()
        var token = make(type: "SERVICES", now: now)
        return (0..<3).map { index in
            token.externalPurchaseID = id(isSandbox: token.externalPurchaseID.hasPrefix("SANDBOX"))
            let isForged = index == forgedIndex
            if !isForged {
                issued.append(token)
            }
            let isFirstReal = index == (forgedIndex == 0 ? 1 : 0)
            let status = isFirstReal ? "NO_LINE_ITEM" : "DUPLICATE_TOKEN"
            return SimulatedInput(
                carrier: .token(text: text(token), customer: customer),
                owed: isForged
                    ? .refusal(id: token.externalPurchaseID)
                    : .report(id: token.externalPurchaseID, status: status)
            )
        }
    }

    private mutating func primary(
        _ token: IssuedToken,
        _ customer: CustomerID?
    ) -> SimulatedInput {
        issued.append(token)
        tokens.append((token, customer))
        return SimulatedInput(
            carrier: .token(text: text(token), customer: customer),
            owed: .report(id: token.externalPurchaseID, status: "NO_LINE_ITEM")
        )
    }

    private mutating func make(type: String?, now: Timestamp) -> IssuedToken {
        let isSandbox = Int.random(in: 0..<4, using: &generator) == 0
        let app = Self.apps.sorted { $0.key < $1.key }.randomElement(using: &generator)
        let created = now.milliseconds - Int64.random(in: 0..<60, using: &generator) * 60_000
        let hasPeriod = type == "SERVICES" || type == "ACQUISITION"
        return IssuedToken(
            externalPurchaseID: id(isSandbox: isSandbox),
            appAppleID: app?.key ?? 0,
            bundleID: app?.value ?? "",
            tokenType: type,
            tokenCreationDate: created,
            tokenExpirationDate: hasPeriod ? created + 86_400_000 : nil
        )
    }

    private mutating func id(isSandbox: Bool) -> String {
        counter += 1
        return (isSandbox ? "SANDBOX_" : "") + "00000000-0000-4000-8000-"
            + String(format: "%012d", counter)
    }

    private mutating func makeCustomer() -> CustomerID {
        counter += 1
        let digest = String(format: "%042d0", counter)
        return CustomerID("c1." + digest)
    }

    private mutating func text(_ token: IssuedToken) -> String {
        token.text(isPadded: Bool.random(using: &generator))
    }
}

extension IssuedToken {
    /// As an app receives it.
    func text(isPadded: Bool) -> String {
        var fields: [String: Any] = [
            "externalPurchaseId": externalPurchaseID,
            "appAppleId": appAppleID,
            "bundleId": bundleID,
            "tokenCreationDate": tokenCreationDate,
        ]
        fields["tokenType"] = tokenType
        fields["tokenExpirationDate"] = tokenExpirationDate
        guard let json = try? JSONSerialization.data(withJSONObject: fields) else {
            preconditionFailure("plain fields are plain JSON")
        }
        let padded = json.base64EncodedString()
        return isPadded ? padded : padded.replacingOccurrences(of: "=", with: "")
    }
}

extension SimulatedInputs {
    /// A rate for every day around a time.
    static func rates(around now: Timestamp) throws -> ExchangeRates {
        let days = (-70...2).map { day in
            let date = Date(timeIntervalSince1970: Double(now.milliseconds) / 1_000)
            return (date + Double(day) * 86_400).formatted(.iso8601.year().month().day())
                + ",ISK,EUR,0.0068333\n"
        }
        return try ExchangeRates(csv: Array(days.joined().utf8))
    }
}
