@testable import AppleSimulator

/// Apple's side as the simulator has it: a second opinion that shares no rule with the worker.
struct AppleBook {
    /// One of Apple's reasons.
    struct Reason: Equatable, CustomStringConvertible {
        var code: Int64
        var field: String?
        var lineItemID: String?

        var description: String { "\(code) \(field ?? "") \(lineItemID ?? "")" }
    }

    private var book = LineItemBook()
    private var tokens: [String: IssuedToken] = [:]
    /// Every item that was accepted, in order, with the token it went under.
    private(set) var accepted: [(token: String, item: String)] = []

    mutating func issue(
        _ id: String,
        app: Int64 = 1,
        type: String?,
        from creation: Int64,
        until expiration: Int64?
    ) {
        tokens[id] = IssuedToken(
            externalPurchaseID: id,
            appAppleID: app,
            bundleID: "com.example.\(app)",
            tokenType: type,
            tokenCreationDate: creation,
            tokenExpirationDate: expiration
        )
    }

    /// Takes the line items of one report, all or none.
    mutating func put(_ lineItems: String, under id: String, now: Int64) throws -> [Reason] {
        guard case .array(let values) = try JSONValue(reading: Array(lineItems.utf8)) else {
            return [Reason(code: 4, field: "lineItems")]
        }
        guard let token = tokens[id] else {
            return [Reason(code: 3, field: "externalPurchaseId")]
        }
        let items = try values.map { try LineItem(reading: $0) }
        let rules = LineItemRules(
            items,
            token: token,
            book: book,
            dateFloor: 1_420_070_400_000,
            now: now
        )
        let errors = rules.violations()
        guard errors.isEmpty else {
            return errors.map {
                Reason(code: Int64($0.code.rawValue), field: $0.field, lineItemID: $0.lineItemID)
            }
        }
        book.apply(items)
        accepted += items.map { (id, $0.lineItemID ?? "") }
        return []
    }

    /// What Apple holds of an item in the end.
    struct Held: Equatable, CustomStringConvertible {
        var exclusive: Int64
        var net: Int64
        var days: Int64?
        var isRetracted: Bool
        var reference: String?
        var country: String?

        var description: String {
            "\(exclusive) net \(net) days \(days ?? -1) retracted \(isRetracted)"
                + " reference \(reference ?? "") \(country ?? "")"
        }
    }

    func held(_ id: String) -> Held? {
        book.item(id).map { item in
            Held(
                exclusive: item.amountTaxExclusive ?? -1,
                net: item.netAmountTaxExclusive ?? -1,
                days: item.subscriptionDaysOfPaidService,
                isRetracted: item.isRetraction,
                reference: item.referenceLineItemID,
                country: item.taxCountry
            )
        }
    }
}
