/// Whether the report that Apple holds is the one that we sent: identifier, token, status and line
/// items by meaning.
///
/// The order of line items and of their members, and the spelling of numbers, are nothing. A member
/// that we did not send may stand in Apple's answer if it says what its absence says, or if Apple
/// added it: a name that is none of a line item's.
enum ReportComparison {
    /// Every field of a line item, of any of the three types.
    ///
    /// Source: Line item fields
    private static let lineItemFields: Set<String> = [
        "lineItemId", "referenceLineItemId", "creationDate", "eventType", "productType",
        "productIdentifier", "quantity", "pricingCurrency", "reportingCurrency", "exchangeRate",
        "amountTaxExclusive", "taxAmount", "amountTaxInclusive", "netAmountTaxExclusive",
        "taxCountry", "subscriptionEvent", "subscriptionStartDate", "subscriptionEndDate",
        "subscriptionDaysOfPaidService", "restatement", "erroneouslySubmitted",
    ]

    static func isSame(sent: JSONValue, held: JSONValue) -> Bool {
        guard let identifier = sent["requestIdentifier"]?.text,
            let heldIdentifier = held["requestIdentifier"]?.text,
            identifier.lowercased() == heldIdentifier.lowercased(),
            sent["externalPurchaseId"] == held["externalPurchaseId"],
            sent["status"] == held["status"]
        else {
            return false
        }
        var rest = held["lineItems"]?.elements ?? []
        for item in sent["lineItems"]?.elements ?? [] {
            guard let index = rest.firstIndex(where: { isSameItem(sent: item, held: $0) }) else {
                return false
            }
            rest.remove(at: index)
        }
        return rest.isEmpty
    }

    /// Which of the line items that were sent are held, by id, and whether as they were sent.
    static func itemsHeld(sent: JSONValue, held: JSONValue) -> [String: Bool] {
        let items = held["lineItems"]?.elements ?? []
        var found: [String: Bool] = [:]
        for item in sent["lineItems"]?.elements ?? [] {
            guard let id = item["lineItemId"]?.text,
                let other = items.first(where: { $0["lineItemId"]?.text == id })
            else {
                continue
            }
            found[id] = isSameItem(sent: item, held: other)
        }
        return found
    }

    private static func isSameItem(sent: JSONValue, held: JSONValue) -> Bool {
        guard let sentMembers = sent.members, let heldMembers = held.members else {
            return false
        }
        let names = Set(sentMembers.keys).union(lineItemFields.intersection(heldMembers.keys))
        return names.allSatisfy { name in
            let (left, right) = (meaning(sent[name]), meaning(held[name]))
            return left == right || name == "exchangeRate" && isSameDouble(left, right)
        }
    }

    /// False is what the absence of either flag means.
    private static func meaning(_ value: JSONValue?) -> JSONValue? {
        value == .bool(false) ? nil : value
    }

    /// Apple calls the rate a double: what comes back has gone through one.
    private static func isSameDouble(_ left: JSONValue?, _ right: JSONValue?) -> Bool {
        guard case .number(let left) = left, case .number(let right) = right else {
            return false
        }
        return left.double == right.double
    }
}
