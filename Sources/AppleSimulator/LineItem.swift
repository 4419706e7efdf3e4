enum LineItemEvent: String, Sendable {
    case buy = "BUY"
    case refund = "REFUND"
}

enum LineItemProduct: String, Sendable {
    case oneTimeBuy = "ONE_TIME_BUY"
    case subscription = "SUBSCRIPTION"
}

enum SubscriptionEvent: String, Sendable {
    case start = "SUBSCRIPTION_START"
    case renewal = "RENEWAL"
    case change = "SUBSCRIPTION_CHANGE"
    case payment = "SUBSCRIPTION_PAYMENT"
}

/// One line item as it came, all members optional; section 2.4 of the reference.
///
/// Dates are UNIX milliseconds, amounts thousandths of the reporting currency.
struct LineItem: Equatable, Sendable {
    var lineItemID: String?
    var referenceLineItemID: String?
    var creationDate: Int64?
    var event: LineItemEvent?
    var product: LineItemProduct?
    var productIdentifier: String?
    var quantity: Int64?
    var pricingCurrency: String?
    var reportingCurrency: String?
    /// The literal: digits with at most one point.
    var exchangeRate: String?
    var amountTaxExclusive: Int64?
    var taxAmount: Int64?
    var amountTaxInclusive: Int64?
    var netAmountTaxExclusive: Int64?
    var taxCountry: String?
    var subscriptionEvent: SubscriptionEvent?
    var subscriptionStartDate: Int64?
    var subscriptionEndDate: Int64?
    var subscriptionDaysOfPaidService: Int64?
    var restatement: Bool?
    var erroneouslySubmitted: Bool?

    var isRestatement: Bool { restatement == true }
    var isRetraction: Bool { erroneouslySubmitted == true }
}

extension LineItem {
    init(reading value: JSONValue) throws(MalformedReport) {
        guard case .object = value else {
            throw MalformedReport(sentence: "a line item is no object")
        }
        let members = TypedMembers(value: value)
        lineItemID = try members.text("lineItemId")
        referenceLineItemID = try members.text("referenceLineItemId")
        creationDate = try members.integer("creationDate")
        event = try members.word("eventType", as: LineItemEvent.self)
        product = try members.word("productType", as: LineItemProduct.self)
        productIdentifier = try members.text("productIdentifier")
        quantity = try members.integer("quantity")
        pricingCurrency = try members.text("pricingCurrency")
        reportingCurrency = try members.text("reportingCurrency")
        exchangeRate = try members.decimal("exchangeRate")
        amountTaxExclusive = try members.integer("amountTaxExclusive")
        taxAmount = try members.integer("taxAmount")
        amountTaxInclusive = try members.integer("amountTaxInclusive")
        netAmountTaxExclusive = try members.integer("netAmountTaxExclusive")
        taxCountry = try members.text("taxCountry")
        subscriptionEvent = try members.word("subscriptionEvent", as: SubscriptionEvent.self)
        subscriptionStartDate = try members.integer("subscriptionStartDate")
        subscriptionEndDate = try members.integer("subscriptionEndDate")
        subscriptionDaysOfPaidService = try members.integer("subscriptionDaysOfPaidService")
        if let days = subscriptionDaysOfPaidService, Int32(exactly: days) == nil {
            throw MalformedReport(sentence: "subscriptionDaysOfPaidService is no int32")
        }
        restatement = try members.flag("restatement")
        erroneouslySubmitted = try members.flag("erroneouslySubmitted")
    }

    var json: JSONValue {
        var members: [JSONMember] = []
        func add(_ name: String, _ text: String?) {
            members += JSONMember.present(name, text.map { .string($0) })
        }
        func add(_ name: String, _ integer: Int64?) {
            members += JSONMember.present(name, integer.map { .integer($0) })
        }
        func add(_ name: String, _ flag: Bool?) {
            members += JSONMember.present(name, flag.map { .bool($0) })
        }
        add("lineItemId", lineItemID)
        add("referenceLineItemId", referenceLineItemID)
        add("creationDate", creationDate)
        add("eventType", event?.rawValue)
        add("productType", product?.rawValue)
        add("productIdentifier", productIdentifier)
        add("quantity", quantity)
        add("pricingCurrency", pricingCurrency)
        add("reportingCurrency", reportingCurrency)
        members += JSONMember.present("exchangeRate", exchangeRate.map { .number($0) })
        add("amountTaxExclusive", amountTaxExclusive)
        add("taxAmount", taxAmount)
        add("amountTaxInclusive", amountTaxInclusive)
        add("netAmountTaxExclusive", netAmountTaxExclusive)
        add("taxCountry", taxCountry)
        add("subscriptionEvent", subscriptionEvent?.rawValue)
        add("subscriptionStartDate", subscriptionStartDate)
        add("subscriptionEndDate", subscriptionEndDate)
        add("subscriptionDaysOfPaidService", subscriptionDaysOfPaidService)
        add("restatement", restatement)
        add("erroneouslySubmitted", erroneouslySubmitted)
        return .object(members)
    }
}
