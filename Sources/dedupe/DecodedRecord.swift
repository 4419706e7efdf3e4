internal import TokenDomain
internal import TokenWire

/// A value of `tokens.decoded.v1` as far as `dedupe` needs it: its texts lie, unescaped, in an arena of
/// the caller's.
///
/// A value in the form in which `decode` writes it costs no allocation.
struct DecodedRecord {
    var externalPurchaseID: Range<Int>
    var environment: AppleEnvironment
    var appAppleID: Int64
    var tokenType: Range<Int>?
    var tokenCreationDate: Int64
    var tokenExpirationDate: Int64?
    var customer: Range<Int>?
    var receivedAt: Int64
    /// What stands in `tokens.distinct.v1` as it is.
    private var kept: Kept

    fileprivate enum Kept {
        /// So many of the value's first bytes.
        case value(byteCount: Int)
        /// Written anew, among the texts.
        case texts(Range<Int>)
    }

    /// What is needed of a record once its keys are made: a batch hands it on three times, and all of it
    /// would be a call to copy memory each time.
    struct Taken {
        var externalPurchaseID: Range<Int>
        var appAppleID: Int64
        /// When the keys of this token may be forgotten.
        var keysExpire: Timestamp
        fileprivate var kept: Kept

        /// Appends the value of `tokens.distinct.v1` up to the role.
        ///
        /// - Parameters:
        ///   - value: what this was read from.
        ///   - texts: the arena of ``DecodedRecord/init(reading:texts:)``.
        ///   - arena: grows by the value.
        func writeToken(value: Span<UInt8>, texts: Span<UInt8>, to arena: inout [UInt8]) {
            let bytes =
                switch kept {
                case .value(let byteCount): value.extracting(0..<byteCount)
                case .texts(let range): texts.extracting(range)
                }
            unsafe bytes.withUnsafeBufferPointer { unsafe arena.append(contentsOf: $0) }
        }
    }

    var taken: Taken {
        Taken(
            externalPurchaseID: externalPurchaseID,
            appAppleID: appAppleID,
            keysExpire: keysExpire,
            kept: kept
        )
    }

    /// - Throws: what is wrong with the value; the arena may have grown all the same.
    init(reading value: Span<UInt8>, texts: inout [UInt8]) throws(WireFault) {
        if let (fields, keptEnd) = DecodedFields.readPlain(value) {
            self = try Self(fields, .value(byteCount: keptEnd), texts: &texts) { range, texts in
                let start = texts.count
                unsafe value.extracting(range).withUnsafeBufferPointer { bytes in
                    unsafe texts.append(contentsOf: bytes)
                }
                return start..<texts.count
            }
            return
        }
        var fields = try DecodedFields<String>(reading: value)
        if fields.token.externalPurchaseID == "" {
            throw .outOfRange(field: "externalPurchaseId")
        }
        // An empty customer is none: decode lets none through.
        fields.customer = fields.customer.flatMap { $0.isEmpty ? nil : $0 }
        let start = texts.count
        fields.writeKept(to: &texts)
        self = try Self(fields, .texts(start..<texts.count), texts: &texts) { text, texts in
            let start = texts.count
            texts.append(contentsOf: text.utf8)
            return start..<texts.count
        }
    }

    @inline(__always)
    private init<Text>(
        _ fields: DecodedFields<Text>,
        _ kept: Kept,
        texts: inout [UInt8],
        place: (Text, inout [UInt8]) -> Range<Int>
    ) throws(WireFault) {
        let token = fields.token
        let id = try Self.require(token.externalPurchaseID, "externalPurchaseId")
        externalPurchaseID = place(id, &texts)
        environment = AppleEnvironment(
            ofExternalPurchaseID: texts.span.extracting(externalPurchaseID)
        )
        appAppleID = try Self.require(token.appAppleID, "appAppleId")
        _ = try Self.require(token.bundleID, "bundleId")
        tokenType = token.tokenType.map { place($0, &texts) }
        tokenCreationDate = try Self.require(token.tokenCreationDate, "tokenCreationDate")
        tokenExpirationDate = token.tokenExpirationDate
        customer = fields.customer.map { place($0, &texts) }
        receivedAt = try Self.require(fields.receivedAt, "receivedAt")
        self.kept = kept
    }

    /// As ``JSONScanner/require(_:_:)``, which is not compiled for the types of another module: each call
    /// looks them up, a fortieth of what a token costs.
    @inline(__always)
    private static func require<Value>(
        _ value: Value?,
        _ field: StaticString
    ) throws(WireFault) -> Value {
        guard let value else {
            throw .missing(field: "\(field)")
        }
        return value
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

    private var keysExpire: Timestamp {
        SeenBefore.keysExpire(
            creation: Timestamp(milliseconds: tokenCreationDate),
            expiration: tokenExpirationDate.map { Timestamp(milliseconds: $0) },
            receivedAt: Timestamp(milliseconds: receivedAt)
        )
    }

    /// What follows the token of a primary, as most tokens are.
    private static let primaryRole: [UInt8] = {
        var fields = DistinctFields()
        fields.role = .primary
        var bytes: [UInt8] = []
        fields.writeOwn(to: &bytes)
        return bytes
    }()

    /// Appends what follows: the role, and the primary of a duplicate.
    static func writeRole(duplicateOf primary: TokenID?, to arena: inout [UInt8]) {
        guard let primary else {
            return arena.append(contentsOf: primaryRole)
        }
        var fields = DistinctFields()
        fields.role = .duplicate(of: primary)
        fields.writeOwn(to: &arena)
    }

    /// Appends the role of a token that takes another's place.
    static func writeRole(promotedFrom refused: TokenID, to arena: inout [UInt8]) {
        var fields = DistinctFields()
        fields.role = .primary
        fields.promotedFrom = refused
        fields.writeOwn(to: &arena)
    }
}
