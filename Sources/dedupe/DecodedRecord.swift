internal import TokenDomain
internal import TokenWire

/// A value of `tokens.decoded.v1` as far as `dedupe` needs it, without an allocation per field: its
/// texts lie, unescaped, in an arena of the caller's.
struct DecodedRecord {
    var externalPurchaseID: Range<Int>
    var environment: AppleEnvironment
    var appAppleID: Int64
    var bundleID: Range<Int>
    var tokenType: Range<Int>?
    var tokenCreationDate: Int64
    var tokenExpirationDate: Int64?
    var customer: Range<Int>?
    var receivedAt: Int64
    /// How many of the value's first bytes stand in `tokens.distinct.v1` as they are; nil where it
    /// has to be written anew, and only then there is a bundle.
    var keptByteCount: Int?

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
        if let plain = PlainDecoded.read(value) {
            self.init(plain, of: value, texts: &texts)
        } else {
            try self.init(scanning: value, texts: &texts)
        }
    }

    private init(_ plain: PlainDecoded.Fields, of value: Span<UInt8>, texts: inout [UInt8]) {
        externalPurchaseID = Self.copy(plain.externalPurchaseID, of: value, to: &texts)
        environment = AppleEnvironment(
            ofExternalPurchaseID: value.extracting(plain.externalPurchaseID)
        )
        appAppleID = plain.appAppleID
        bundleID = 0..<0
        tokenType = plain.tokenType.map { Self.copy($0, of: value, to: &texts) }
        tokenCreationDate = plain.tokenCreationDate
        tokenExpirationDate = plain.tokenExpirationDate
        customer = plain.customer.map { Self.copy($0, of: value, to: &texts) }
        receivedAt = plain.receivedAt
        keptByteCount = plain.keptEnd
    }

    private static func copy(
        _ range: Range<Int>,
        of value: Span<UInt8>,
        to texts: inout [UInt8]
    ) -> Range<Int> {
        let start = texts.count
        unsafe value.extracting(range).withUnsafeBufferPointer { bytes in
            unsafe texts.append(contentsOf: bytes)
        }
        return start..<texts.count
    }

    private init(scanning value: Span<UInt8>, texts: inout [UInt8]) throws(WireFault) {
        var fields = Fields()
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "externalPurchaseId":
                try Self.fill(&fields.externalPurchaseID, .tokenField, &scanner, &texts)
            case "appAppleId": try scanner.fill(&fields.appAppleID)
            case "bundleId": try Self.fill(&fields.bundleID, .tokenField, &scanner, &texts)
            case "tokenType": try Self.fill(&fields.tokenType, .tokenField, &scanner, &texts)
            case "tokenCreationDate": try scanner.fill(&fields.tokenCreationDate)
            case "tokenExpirationDate": try scanner.fill(&fields.tokenExpirationDate)
            case "customer": try Self.fill(&fields.customer, .customer, &scanner, &texts)
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
    }

    /// Its period, where it has one and names a customer.
    func period(texts: Span<UInt8>) -> TokenPeriod? {
        guard customer != nil else {
            return nil
        }
        return TokenPeriod(
            environment: environment,
            appAppleID: appAppleID,
            tokenType: tokenType.flatMap { KnownTokenType(utf8: texts.extracting($0)) },
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

    /// Appends the value of `tokens.distinct.v1` up to the role, in the order of `TokenDistinct.write`.
    ///
    /// - Parameters:
    ///   - value: what this was read from.
    ///   - texts: the arena of ``init(reading:texts:)``.
    ///   - arena: grows by the value.
    func writeToken(value: Span<UInt8>, texts: Span<UInt8>, to arena: inout [UInt8]) {
        guard let keptByteCount else {
            return writeAnew(texts: texts, to: &arena)
        }
        unsafe value.extracting(0..<keptByteCount).withUnsafeBufferPointer { bytes in
            unsafe arena.append(contentsOf: bytes)
        }
    }

    /// Appends what follows: the role, and the primary of a duplicate.
    static func writeRole(duplicateOf primary: TokenID?, to arena: inout [UInt8]) {
        guard let primary else {
            return append(",\"role\":\"primary\"}", to: &arena)
        }
        append(",\"role\":\"duplicate\",\"primaryExternalPurchaseId\":", to: &arena)
        JSONWriter.append(to: &arena) { $0.string(primary.text) }
        arena.append(UInt8(ascii: "}"))
    }

    /// Appends the role of a token that takes another's place.
    static func writeRole(promotedFrom refused: TokenID, to arena: inout [UInt8]) {
        append(",\"role\":\"primary\",\"promotedFrom\":", to: &arena)
        JSONWriter.append(to: &arena) { $0.string(refused.text) }
        arena.append(UInt8(ascii: "}"))
    }

    private static func append(_ text: StaticString, to arena: inout [UInt8]) {
        unsafe arena.append(
            contentsOf: UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
        )
    }

    private func writeAnew(texts: Span<UInt8>, to arena: inout [UInt8]) {
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
            writer.endObject()
        }
        // The role follows.
        arena.removeLast()
    }

    private static func fill(
        _ slot: inout Range<Int>?,
        _ limit: TextLimit,
        _ scanner: inout JSONScanner,
        _ texts: inout [UInt8]
    ) throws(WireFault) {
        slot = try scanner.appendString(to: &texts, isFirstTime: slot == nil, atMost: limit)
    }
}
