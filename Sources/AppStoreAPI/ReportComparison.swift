internal import TokenDomain

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

    /// Which of the line items that were sent are held, by the bytes of their ids, and whether as
    /// they were sent.
    static func itemsHeld(sent: JSONValue, held: JSONValue) -> [[UInt8]: Bool] {
        let items = held["lineItems"]?.elements ?? []
        var found: [[UInt8]: Bool] = [:]
        for item in sent["lineItems"]?.elements ?? [] {
            guard let id = idBytes(item), let other = items.first(where: { idBytes($0) == id })
            else {
                continue
            }
            found[id] = isSameItem(sent: item, held: other)
        }
        return found
    }

    /// Line items are paired by these: two texts of Swift are equal where Unicode says that they
    /// look alike.
    private static func idBytes(_ item: JSONValue) -> [UInt8]? {
        guard let id = item["lineItemId"]?.text else {
            return nil
        }
        return Array(id.utf8)
    }

    private static func isSameItem(sent: JSONValue, held: JSONValue) -> Bool {
        fields(sent, held).isEmpty
    }

    /// Where the two differ, in the order of our line items.
    ///
    /// Empty where ``isSame(sent:held:)`` is true. Line items are paired by their `lineItemId`.
    static func differences(sent: JSONValue, held: JSONValue) -> [ReportDifference] {
        guard !isSame(sent: sent, held: held) else {
            return []
        }
        var found: [ReportDifference] = []
        for name in ["requestIdentifier", "externalPurchaseId", "status"] {
            let (ours, theirs) = (sent[name], held[name])
            let isSame =
                name == "requestIdentifier"
                ? ours?.text?.lowercased() == theirs?.text?.lowercased() : ours == theirs
            if !isSame {
                found.append(ReportDifference(nil, name, ours, theirs))
            }
        }
        var rest = held["lineItems"]?.elements ?? []
        for item in sent["lineItems"]?.elements ?? [] {
            let id = item["lineItemId"]?.text
            let bytes = idBytes(item)
            guard let index = rest.firstIndex(where: { idBytes($0) == bytes }) else {
                found.append(ReportDifference(id, "lineItemId", item["lineItemId"], nil))
                continue
            }
            let theirs = rest.remove(at: index)
            found += fields(item, theirs).sorted().map { name in
                ReportDifference(id, name, item[name], theirs[name])
            }
        }
        found += rest.map { item in
            ReportDifference(item["lineItemId"]?.text, "lineItemId", nil, item["lineItemId"])
        }
        return found
    }

    /// The fields of two line items that differ.
    private static func fields(_ sent: JSONValue, _ held: JSONValue) -> Set<String> {
        guard let sentMembers = sent.members, let heldMembers = held.members else {
            return ["lineItems"]
        }
        let names = Set(sentMembers.keys).union(lineItemFields.intersection(heldMembers.keys))
        return names.filter { name in
            let (left, right) = (meaning(sent[name]), meaning(held[name]))
            return left != right && !(name == "exchangeRate" && isSameDouble(left, right))
        }
    }

    /// One hash for all texts of line items that say the same.
    ///
    /// Two rates that differ only beyond a double are two. That of its bytes where a text is no JSON
    /// array.
    static func hash(ofLineItems text: String) -> UInt64 {
        guard let items = JSONValue(Array(text.utf8))?.elements else {
            return FNV1a.hash(of: text.utf8)
        }
        var hash: UInt64 = 0
        for item in items {
            // A sum, for their order is nothing.
            hash &+= FNV1a.hash(of: spelling(ofItem: item).utf8)
        }
        return hash
    }

    private static func spelling(ofItem item: JSONValue) -> String {
        guard let members = item.members else {
            return item.spelling
        }
        let said = members.filter { _, value in
            value != .null && meaning(value) != nil
        }
        return JSONValue.object(said).spelling
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

extension JSONValue {
    /// One spelling of what it says: for a hash, not for a reader.
    ///
    /// Each text has its length before it, so that no two values have one spelling.
    fileprivate var spelling: String {
        switch self {
        case .object(let members):
            var text = "{"
            for (name, value) in members.sorted(by: { $0.key < $1.key }) {
                text += JSONValue.string(name).spelling + value.spelling + ","
            }
            return text + "}"
        case .array(let elements):
            var text = "["
            for element in elements {
                text += element.spelling + ","
            }
            return text + "]"
        case .string(let text): return "\(text.utf8.count):\(text)"
        case .number(let number): return number.text
        case .bool(let flag): return flag ? "true" : "false"
        case .null: return "null"
        }
    }
}
