internal import TokenDomain

/// The members of a token's JSON while it is read: what each turned out to be is judged only when
/// the whole text has proved to be JSON.
struct TokenMembers {
    enum Member {
        case null
        case text([UInt8])
        case integer(Int64)
        case integerOutOfRange
        /// Of another JSON type.
        case other
    }

    private var appAppleID: Member?
    private var bundleID: Member?
    private var tokenCreationDate: Member?
    private var externalPurchaseID: Member?
    private var tokenType: Member?
    private var tokenExpirationDate: Member?

    mutating func take(_ key: JSONKey, from scanner: inout JSONScanner) throws(WireFault) {
        switch key {
        case "appAppleId": try Self.take(&appAppleID, from: &scanner)
        case "bundleId": try Self.take(&bundleID, from: &scanner)
        case "tokenCreationDate": try Self.take(&tokenCreationDate, from: &scanner)
        case "externalPurchaseId": try Self.take(&externalPurchaseID, from: &scanner)
        case "tokenType": try Self.take(&tokenType, from: &scanner)
        case "tokenExpirationDate": try Self.take(&tokenExpirationDate, from: &scanner)
        default: try scanner.skip()
        }
    }

    private static func take(
        _ member: inout Member?,
        from scanner: inout JSONScanner
    ) throws(WireFault) {
        guard member == nil else {
            member = .other
            throw .notJSON(byteIndex: scanner.position)
        }
        switch try scanner.peekKind() {
        case .string: member = .text(try scanner.stringBytes())
        case .number:
            switch try scanner.takeNumber() {
            case .integer(let value): member = .integer(value)
            case .integerOutOfRange: member = .integerOutOfRange
            case .fractional: member = .other
            }
        case .null:
            _ = try scanner.takeNull()
            member = .null
        case .object, .array, .bool:
            try scanner.skip()
            member = .other
        }
    }

    /// What could be read of a token that is refused for something else.
    var known: TokenFields<String> {
        var known = TokenFields<String>()
        known.externalPurchaseID = Self.known(externalPurchaseID)
        known.appAppleID = Self.known(appAppleID)
        known.bundleID = Self.known(bundleID)
        known.tokenType = Self.known(tokenType)
        known.tokenCreationDate = Self.known(tokenCreationDate)
        known.tokenExpirationDate = Self.known(tokenExpirationDate)
        return known
    }

    private static func known(_ member: Member?) -> String? {
        guard case .text(let text) = member, !text.isEmpty else {
            return nil
        }
        return String(decoding: text, as: UTF8.self)
    }

    private static func known(_ member: Member?) -> Int64? {
        guard case .integer(let value) = member, value > 0 else {
            return nil
        }
        return value
    }

    func token() throws(DecodeFault) -> ExternalPurchaseToken {
        let appAppleID = try Self.positive(appAppleID, "appAppleId")
        let bundleID = try Self.nonempty(bundleID, "bundleId")
        let creation = try Self.positive(tokenCreationDate, "tokenCreationDate")
        let id = try Self.nonempty(externalPurchaseID, "externalPurchaseId")
        let type = try Self.optional(tokenType) { (member) throws(DecodeFault) in
            try Self.text(member, "tokenType")
        }
        let expiration = try Self.optional(tokenExpirationDate) { (member) throws(DecodeFault) in
            try Self.positive(member, "tokenExpirationDate")
        }
        guard expiration.map({ $0 >= creation }) ?? true else {
            throw .outOfRange(field: "tokenExpirationDate")
        }
        return ExternalPurchaseToken(
            externalPurchaseID: TokenID(id),
            appAppleID: appAppleID,
            bundleID: bundleID,
            tokenType: type.map { TokenType(text: $0) },
            tokenCreationDate: Timestamp(milliseconds: creation),
            tokenExpirationDate: expiration.map { Timestamp(milliseconds: $0) }
        )
    }

    private static func optional<Value>(
        _ member: Member?,
        _ read: (Member?) throws(DecodeFault) -> Value
    ) throws(DecodeFault) -> Value? {
        switch member {
        case nil, .null: nil
        default: try read(member)
        }
    }

    private static func positive(
        _ member: Member?,
        _ field: StaticString
    ) throws(DecodeFault) -> Int64 {
        switch member {
        case nil, .null: throw .missing(field: "\(field)")
        case .integer(let value) where value > 0: return value
        case .integer, .integerOutOfRange: throw .outOfRange(field: "\(field)")
        case .text, .other: throw .wrongType(field: "\(field)")
        }
    }

    private static func text(
        _ member: Member?,
        _ field: StaticString
    ) throws(DecodeFault) -> String {
        switch member {
        case nil, .null: throw .missing(field: "\(field)")
        case .text(let text): return String(decoding: text, as: UTF8.self)
        case .integer, .integerOutOfRange, .other: throw .wrongType(field: "\(field)")
        }
    }

    private static func nonempty(
        _ member: Member?,
        _ field: StaticString
    ) throws(DecodeFault) -> String {
        let text = try text(member, field)
        guard !text.isEmpty else {
            throw .outOfRange(field: "\(field)")
        }
        return text
    }
}
