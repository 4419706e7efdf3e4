internal import TokenDomain
internal import TokenWire

/// A line item as it was sent to Apple; numbers by their own digits.
struct LedgerLineItem: Equatable {
    /// Apple's amounts, in thousandths of the reporting currency.
    struct Amounts: Equatable {
        var taxExclusive: String?
        var tax: String?
        var taxInclusive: String?
        var netTaxExclusive: String?
    }

    var lineItemID = ""
    var referenceLineItemID: String?
    var creationDate: Timestamp?
    var eventType: String?
    var productType: String?
    var productIdentifier: String?
    var quantity: String?
    var subscriptionEvent: String?
    var taxCountry: String?
    var pricingCurrency: String?
    var reportingCurrency: String?
    var exchangeRate: String?
    var amounts = Amounts()
    var isRestatement = false
    var isErroneous = false

    /// When it was sold; nil of a restatement or retraction, whose sale was reported before.
    var newSaleDate: Timestamp? { isRestatement ? nil : creationDate }

    /// Those of a report: a JSON array of objects.
    static func list(_ text: String) throws(WireFault) -> [LedgerLineItem] {
        try JSONScanner.scan(text.utf8.span) { (scanner) throws(WireFault) in
            var items: [LedgerLineItem] = []
            try scanner.beginArray()
            while try scanner.nextElement() {
                items.append(try LedgerLineItem(&scanner))
            }
            return items
        }
    }

    /// One of which no more is known.
    init(lineItemID: String) {
        self.lineItemID = lineItemID
    }

    /// One alone: a JSON object.
    init(reading text: String) throws(WireFault) {
        self = try JSONScanner.scan(text.utf8.span) { (scanner) throws(WireFault) in
            try LedgerLineItem(&scanner)
        }
    }

    private init(_ scanner: inout JSONScanner) throws(WireFault) {
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            guard try !takeText(key, &scanner), try !takeNumber(key, &scanner) else {
                continue
            }
            switch key {
            case "creationDate": creationDate = try Self.date(&scanner)
            case "restatement": isRestatement = try Self.flag(&scanner)
            case "erroneouslySubmitted": isErroneous = try Self.flag(&scanner)
            default: try scanner.skip()
            }
        }
    }

    private mutating func takeText(
        _ key: JSONKey,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> Bool {
        switch key {
        case "lineItemId": lineItemID = try scanner.string()
        case "referenceLineItemId": try scanner.fill(&referenceLineItemID)
        case "eventType": try scanner.fill(&eventType)
        case "productType": try scanner.fill(&productType)
        case "productIdentifier": try scanner.fill(&productIdentifier)
        case "subscriptionEvent": try scanner.fill(&subscriptionEvent)
        case "taxCountry": try scanner.fill(&taxCountry)
        case "pricingCurrency": try scanner.fill(&pricingCurrency)
        case "reportingCurrency": try scanner.fill(&reportingCurrency)
        default: return false
        }
        return true
    }

    private mutating func takeNumber(
        _ key: JSONKey,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> Bool {
        switch key {
        case "quantity": quantity = try Self.digits(&scanner)
        case "exchangeRate": exchangeRate = try Self.digits(&scanner)
        case "amountTaxExclusive": amounts.taxExclusive = try Self.digits(&scanner)
        case "taxAmount": amounts.tax = try Self.digits(&scanner)
        case "amountTaxInclusive": amounts.taxInclusive = try Self.digits(&scanner)
        case "netAmountTaxExclusive": amounts.netTaxExclusive = try Self.digits(&scanner)
        default: return false
        }
        return true
    }

    /// As Apple takes a report by hand: null is absent.
    private static func flag(_ scanner: inout JSONScanner) throws(WireFault) -> Bool {
        try scanner.takeNull() ? false : scanner.bool()
    }

    /// A whole number, however it is written; what is none is left out.
    private static func date(_ scanner: inout JSONScanner) throws(WireFault) -> Timestamp? {
        try digits(&scanner).flatMap { text in
            Int64(text) ?? Double(text).flatMap { Int64(exactly: $0) }
        }.map { Timestamp(milliseconds: $0) }
    }

    /// The literal itself; what is no number is left out.
    private static func digits(_ scanner: inout JSONScanner) throws(WireFault) -> String? {
        guard try scanner.peekKind() == .number else {
            try scanner.skip()
            return nil
        }
        return String(decoding: try scanner.raw(), as: UTF8.self)
    }
}
