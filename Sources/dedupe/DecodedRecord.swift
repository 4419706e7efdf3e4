internal import TokenDomain
internal import TokenWire

/// A value of `tokens.decoded.v1` as far as `dedupe` needs it, without an allocation per field: its
/// texts lie, unescaped, in an arena of the caller's.
struct DecodedRecord: Equatable {
    var externalPurchaseID: Range<Int>
    var environment: AppleEnvironment
    var appAppleID: Int64
    var bundleID: Range<Int>
    var tokenType: Range<Int>?
    var tokenCreationDate: Int64
    var tokenExpirationDate: Int64?
    var customer: Range<Int>?
    var receivedAt: Int64
    /// Its period, where it has one and names a customer.
    var period: TokenPeriod?

    /// The fields while they are read.
    private struct Fields {
        var externalPurchaseID: Range<Int>?
        var appAppleID: Int64?
        var bundleID: Range<Int>?
        var tokenType: Range<Int>?
        var tokenCreationDate: Int64?
        var tokenExpirationDate: Int64?
        var customer: Range<Int>?
        var receivedAt: Int64?
    }

    /// - Throws: what is wrong with the value; the arena may have grown all the same.
    init(reading value: Span<UInt8>, texts: inout [UInt8]) throws(WireFault) {
        var fields = Fields()
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "externalPurchaseId":
                try Self.fill(&fields.externalPurchaseID, from: &scanner, texts: &texts)
            case "appAppleId": try scanner.fill(&fields.appAppleID)
            case "bundleId": try Self.fill(&fields.bundleID, from: &scanner, texts: &texts)
            case "tokenType": try Self.fill(&fields.tokenType, from: &scanner, texts: &texts)
            case "tokenCreationDate": try scanner.fill(&fields.tokenCreationDate)
            case "tokenExpirationDate": try scanner.fill(&fields.tokenExpirationDate)
            case "customer": try Self.fill(&fields.customer, from: &scanner, texts: &texts)
            case "receivedAt": try scanner.fill(&fields.receivedAt)
            default: try scanner.skip()
            }
        }
        let id = try JSONScanner.require(fields.externalPurchaseID, "externalPurchaseId")
        guard !id.isEmpty else {
            throw .outOfRange(field: "externalPurchaseId")
        }
        externalPurchaseID = id
        environment = AppleEnvironment(ofExternalPurchaseID: texts.span.extracting(id))
        appAppleID = try JSONScanner.require(fields.appAppleID, "appAppleId")
        bundleID = try JSONScanner.require(fields.bundleID, "bundleId")
        tokenType = fields.tokenType
        tokenCreationDate = try JSONScanner.require(fields.tokenCreationDate, "tokenCreationDate")
        tokenExpirationDate = fields.tokenExpirationDate
        // An empty customer is none: decode lets none through.
        customer = fields.customer.flatMap { $0.isEmpty ? nil : $0 }
        receivedAt = try JSONScanner.require(fields.receivedAt, "receivedAt")
        period =
            customer == nil
            ? nil
            : TokenPeriod(
                environment: environment,
                appAppleID: appAppleID,
                tokenType: tokenType.map { Self.tokenType(texts.span.extracting($0)) },
                creation: Timestamp(milliseconds: tokenCreationDate),
                expiration: tokenExpirationDate.map { Timestamp(milliseconds: $0) }
            )
    }

    /// When the keys of this token may be forgotten.
    var keysExpire: Timestamp {
        SeenBefore.keysExpire(
            creation: Timestamp(milliseconds: tokenCreationDate),
            expiration: tokenExpirationDate.map { Timestamp(milliseconds: $0) },
            receivedAt: Timestamp(milliseconds: receivedAt)
        )
    }

    /// Writes the value of `tokens.distinct.v1`, in the order of `TokenDistinct.write`.
    ///
    /// - Parameters:
    ///   - first: the id of the first token of the period, UTF-8, where this is a duplicate.
    ///   - texts: the arena of ``init(reading:texts:)``.
    ///   - arena: grows by the value.
    func write(duplicateOf first: [UInt8]?, texts: [UInt8], to arena: inout [UInt8]) {
        let texts = texts.span
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("externalPurchaseId", utf8: texts.extracting(externalPurchaseID))
            writer.field("environment", environment.rawValue)
            writer.field("appAppleId", appAppleID)
            writer.field("bundleId", utf8: texts.extracting(bundleID))
            if let tokenType {
                writer.field("tokenType", utf8: texts.extracting(tokenType))
            }
            writer.field("tokenCreationDate", tokenCreationDate)
            writer.field("tokenExpirationDate", tokenExpirationDate)
            if let customer {
                writer.field("customer", utf8: texts.extracting(customer))
            }
            writer.field("receivedAt", receivedAt)
            writer.field("role", first == nil ? "primary" : "duplicate")
            if let first {
                writer.field("primaryExternalPurchaseId", utf8: first.span)
            }
            writer.endObject()
        }
    }

    private static func fill(
        _ slot: inout Range<Int>?,
        from scanner: inout JSONScanner,
        texts: inout [UInt8]
    ) throws(WireFault) {
        slot = try scanner.appendString(to: &texts, isFirstTime: slot == nil)
    }

    /// The types that have periods by name; of the others only that they are others.
    private static func tokenType(_ text: Span<UInt8>) -> TokenType {
        if equals(text, "ACQUISITION") {
            return .acquisition
        }
        return equals(text, "SERVICES") ? .services : .other("")
    }

    private static func equals(_ text: Span<UInt8>, _ word: StaticString) -> Bool {
        guard text.count == word.utf8CodeUnitCount else {
            return false
        }
        for index in text.indices {
            guard unsafe text[index] == word.utf8Start[index] else {
                return false
            }
        }
        return true
    }
}
