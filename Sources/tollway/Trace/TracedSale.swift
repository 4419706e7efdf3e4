internal import TokenDomain
internal import TokenWire

/// What a value of `purchases.received.v1` says, as far as a search needs it: also where it breaks
/// rules, for then its dead letter is looked for.
struct TracedSale: Equatable {
    var lineItemID: String?
    var type = PurchaseEvent.Kind.buy.rawValue
    var referenceLineItemID: String?
    var appAppleID: Int64?
    var bundleID: String?
    var customer: String?
    var externalPurchaseID: String?
    /// Production where the event says nothing, unless its token does.
    var environment: AppleEnvironment {
        statedEnvironment ?? externalPurchaseID.map { TokenID($0).environment } ?? .production
    }
    private var statedEnvironment: AppleEnvironment?
    var creationDate: Int64?
    var receivedAt: Int64?
    var requestID: String?
    var pricingCurrency: String?
    var reportingCurrency: String?

    /// A change says of the sale only what is to be another than it was.
    func over(_ earlier: TracedSale?) -> TracedSale {
        var whole = self
        whole.creationDate = creationDate ?? earlier?.creationDate
        whole.pricingCurrency = pricingCurrency ?? earlier?.pricingCurrency
        whole.reportingCurrency = reportingCurrency ?? earlier?.reportingCurrency
        whole.referenceLineItemID = referenceLineItemID ?? earlier?.referenceLineItemID
        return whole
    }

    /// What can be read; what stands behind a fault is not.
    init(_ value: Span<UInt8>) {
        var sale = TracedSale()
        do throws(WireFault) {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                switch (key, try scanner.peekKind()) {
                case ("lineItemId", .string): sale.lineItemID = try scanner.string()
                case ("type", .string): sale.type = try scanner.string()
                case ("referenceLineItemId", .string):
                    sale.referenceLineItemID = try scanner.string()
                case ("bundleId", .string): sale.bundleID = try scanner.string()
                case ("customer", .string): sale.customer = try scanner.string()
                case ("externalPurchaseId", .string):
                    sale.externalPurchaseID = try scanner.string()
                case ("environment", .string):
                    sale.statedEnvironment = AppleEnvironment(rawValue: try scanner.string())
                case ("requestId", .string): sale.requestID = try scanner.string()
                case ("pricingCurrency", .string): sale.pricingCurrency = try scanner.string()
                case ("reportingCurrency", .string): sale.reportingCurrency = try scanner.string()
                case ("appAppleId", .number): sale.appAppleID = try scanner.integerIfAny()
                case ("creationDate", .number): sale.creationDate = try scanner.integerIfAny()
                case ("receivedAt", .number): sale.receivedAt = try scanner.integerIfAny()
                default: try scanner.skip()
                }
            }
        } catch {
            // It lies among the dead letters because of that; what was read before counts.
        }
        self = sale
    }

    private init() {}

    /// A customer of the platform or a token: what keys its records.
    var purchaseKey: String? { customer ?? externalPurchaseID }
}

/// A byte pattern that stands in every JSON text with a line item's id, whoever wrote it.
struct LineItemNeedle {
    /// Nil where the id has nothing that every writer leaves as it is.
    private let needles: TokenNeedles?

    /// Writers differ in what they escape: quotes and backslashes all, slashes, letters beyond ASCII and
    /// what HTML or a URL gives a meaning some.
    ///
    /// So the longest run of the others is looked for.
    init(_ lineItemID: String) {
        let runs = lineItemID.utf8.split { byte in
            byte < 0x20 || byte > 0x7e || "\"\\/<>&'=+`".utf8.contains(byte)
        }
        let longest = runs.max { $0.count < $1.count }
        needles = longest.flatMap { String($0) }.map { TokenNeedles(texts: [$0]) }
    }

    func isIn(_ value: Span<UInt8>) -> Bool { needles?.isIn(value) ?? true }
}
