@testable import AppleSimulator

/// Members to set on a sample; nil takes the member away.
typealias Changes = [String: JSONValue?]

/// Good line items of every kind, to be spoilt one member at a time.
enum SampleItems {
    static let date = SimulatedApp.start - 1000

    static func oneTime(_ id: String = "a", _ changes: Changes = [:]) -> JSONValue {
        item(
            [
                "lineItemId": .string(id), "creationDate": .integer(date),
                "eventType": .string("BUY"), "productType": .string("ONE_TIME_BUY"),
                "productIdentifier": .string("demo.coins.500"), "quantity": .integer(1),
            ],
            changes
        )
    }

    static func subscription(
        _ id: String = "s",
        event: String = "SUBSCRIPTION_START",
        _ changes: Changes = [:]
    ) -> JSONValue {
        item(
            [
                "lineItemId": .string(id), "creationDate": .integer(date),
                "eventType": .string("BUY"), "productType": .string("SUBSCRIPTION"),
                "productIdentifier": .string("demo.plan"), "quantity": .integer(1),
                "subscriptionEvent": .string(event), "subscriptionStartDate": .integer(date),
                "subscriptionEndDate": .integer(date + 30 * SimulatedApp.day),
                "subscriptionDaysOfPaidService": .integer(event == "SUBSCRIPTION_START" ? 0 : 30),
            ],
            changes
        )
    }

    /// Of a thousand of the 4126 of a sample buy, unless said otherwise.
    static func refund(
        _ id: String = "r",
        of target: String = "a",
        _ changes: Changes = [:]
    ) -> JSONValue {
        item(
            [
                "lineItemId": .string(id), "referenceLineItemId": .string(target),
                "creationDate": .integer(date + 1), "eventType": .string("REFUND"),
                "amountTaxExclusive": .integer(1000), "taxAmount": .integer(210),
                "amountTaxInclusive": .integer(1210), "netAmountTaxExclusive": .integer(3126),
            ],
            changes
        )
    }

    private static let common: Changes = [
        "pricingCurrency": .string("EUR"), "reportingCurrency": .string("EUR"),
        "amountTaxExclusive": .integer(4126), "taxAmount": .integer(864),
        "amountTaxInclusive": .integer(4990), "netAmountTaxExclusive": .integer(4126),
        "taxCountry": .string("ESP"),
    ]

    private static func item(_ own: Changes, _ changes: Changes) -> JSONValue {
        let members = common.merging(own) { $1 }.merging(changes) { $1 }
        return .object(
            members.sorted { $0.key < $1.key }.compactMap { name, value in
                value.map { JSONMember(name, $0) }
            }
        )
    }
}

extension SimulatedApp {
    /// Reports line items for the token `t`, under an identifier of its own.
    func put(_ number: Int, _ items: [JSONValue], now: UnixMilliseconds = start) -> AppleAnswer {
        let body = JSONValue.object([
            JSONMember("requestIdentifier", .string(identifier(number))),
            JSONMember("externalPurchaseId", .string("t")),
            JSONMember("status", .string("LINE_ITEM")), JSONMember("lineItems", .array(items)),
        ])
        return put(String(decoding: body.bytes, as: UTF8.self), now: now)
    }
}

extension JSONValue {
    /// The item once more, with other members.
    func with(_ changes: Changes) -> JSONValue {
        guard case .object(let members) = self else { return self }
        let kept = members.filter { changes[$0.name] == nil }
        let added = changes.compactMap { name, value in value.map { JSONMember(name, $0) } }
        return .object(kept + added)
    }

    /// The item once more as a restatement.
    func restated(_ changes: Changes = [:]) -> JSONValue {
        with(changes.merging(["restatement": .bool(true)]) { $1 })
    }
}
