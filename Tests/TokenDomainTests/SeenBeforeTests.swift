import Testing

@testable import TokenDomain

@Suite struct `Whether a token was seen before` {
    @Test(arguments: [
        (false, nil, SeenBefore.primary),
        (true, nil, .again),
        (false, "first", .duplicate(of: TokenID("first"))),
        (true, "first", .again),
    ])
    func `follows from its id and from the first of its period`(
        isKnown: Bool,
        first: String?,
        answer: SeenBefore
    ) {
        #expect(SeenBefore(isKnown: isKnown, primaryOfPeriod: first.map { TokenID($0) }) == answer)
    }

    @Test(
        arguments: [
            // expiration, receivedAt, keys expire
            (nil, 1_000, 1_000 + 34_560_000_000),
            (5_000, 1_000, 5_000 + 34_560_000_000),
            (5_000, 6_000, 6_000 + 34_560_000_000),
            (nil, 500, 1_000 + 34_560_000_000),
            (Int64.max, 1_000, .max),
            (Int64.max - 34_560_000_000, 0, .max),
            (Int64.max - 34_560_000_001, 0, .max - 1),
        ] as [(Int64?, Int64, Int64)]
    )
    func `is known for 400 days after expiry, creation or receipt, whichever is last`(
        expiration: Int64?,
        receivedAt: Int64,
        keysExpire: Int64
    ) {
        let time = SeenBefore.keysExpire(
            creation: Timestamp(milliseconds: 1_000),
            expiration: expiration.map { Timestamp(milliseconds: $0) },
            receivedAt: Timestamp(milliseconds: receivedAt)
        )
        #expect(time.milliseconds == keysExpire)
    }
}

@Suite struct `The period of a token` {
    private static func token(
        id: String = "id",
        app: Int64 = 1,
        type: TokenType? = .services,
        creation: Int64 = 10,
        expiration: Int64? = 20
    ) -> ExternalPurchaseToken {
        ExternalPurchaseToken(
            externalPurchaseID: TokenID(id),
            appAppleID: app,
            bundleID: "com.example",
            tokenType: type,
            tokenCreationDate: Timestamp(milliseconds: creation),
            tokenExpirationDate: expiration.map { Timestamp(milliseconds: $0) }
        )
    }

    @Test(arguments: [
        (TokenType?.none, Int64?(20), false),
        (.services, 20, true),
        (.acquisition, 20, true),
        (.services, nil, false),
        (.acquisition, nil, false),
        (TokenType(text: "CORE_TECHNOLOGY"), 20, false),
        (TokenType(text: "LINK_OUT"), 20, false),
        (TokenType(text: "services"), 20, false),
        (TokenType(text: ""), 20, false),
    ])
    func `is for the types with duplicates, where they expire`(
        type: TokenType?,
        expiration: Int64?,
        hasPeriod: Bool
    ) {
        let period = TokenPeriod(of: Self.token(type: type, expiration: expiration))
        #expect((period != nil) == hasPeriod)
    }

    /// Keys of the state hold these bytes: another byte for a type makes every token of it new.
    @Test func `has a byte of its own for each type with duplicates, and always the same`() {
        var bytes: [String: UInt8] = [:]
        for type in KnownTokenType.allCases {
            bytes[type.rawValue] = type.duplicateByte
            let name = Array(type.rawValue.utf8)
            let other = Array(type.rawValue.lowercased().utf8)
            let (found, none) = (KnownTokenType(utf8: name.span), KnownTokenType(utf8: other.span))
            #expect(found == type && none == nil)
        }
        #expect(bytes == ["ACQUISITION": 0, "SERVICES": 1])
        #expect(Set(bytes.values).count == bytes.count)
    }

    @Test(arguments: [
        (token(id: "another"), true),
        (token(id: "SANDBOX_id"), false),
        (token(app: 2), false),
        (token(type: .acquisition), false),
        (token(creation: 11), false),
        (token(expiration: 21), false),
    ])
    func `is the same with the same world, app, type and dates`(
        other: ExternalPurchaseToken,
        isSame: Bool
    ) {
        let period = TokenPeriod(of: Self.token())
        #expect((TokenPeriod(of: other) == period) == isSame)
        #expect(period != nil)
    }
}

@Suite struct `What is hashed into a key` {
    private func identity(_ id: String, _ customer: String) -> [UInt8] {
        var material: [UInt8] = []
        DedupeMaterial.appendIdentity(
            externalPurchaseID: id.utf8.span,
            customer: customer.utf8.span,
            to: &material
        )
        return material
    }

    private func period(
        customer: String = "c",
        environment: AppleEnvironment = .production,
        app: Int64 = 1,
        type: TokenType = .services,
        creation: Int64 = 10,
        expiration: Int64 = 20
    ) throws -> [UInt8] {
        var material: [UInt8] = []
        let period = try #require(
            TokenPeriod(
                environment: environment,
                appAppleID: app,
                tokenType: type.known,
                creation: Timestamp(milliseconds: creation),
                expiration: Timestamp(milliseconds: expiration)
            )
        )
        DedupeMaterial.appendPeriod(period, customer: customer.utf8.span, to: &material)
        return material
    }

    @Test func `tells every two subjects apart`() throws {
        let materials = [
            identity("a", ""), identity("a", "b"), identity("b", "a"), identity("ab", ""),
            identity("", "ab"), identity("a", "bc"), identity("ab", "c"),
            try period(), try period(customer: "d"), try period(environment: .sandbox),
            try period(app: 2), try period(type: .acquisition), try period(creation: 11),
            try period(expiration: 21), try period(creation: 20, expiration: 20),
            try period(app: 10, creation: 1),
        ]
        #expect(Set(materials).count == materials.count)
        for (index, material) in materials.enumerated() {
            for (otherIndex, other) in materials.enumerated() where otherIndex != index {
                #expect(!other.starts(with: material), "\(index) begins \(otherIndex)")
            }
        }
    }

    @Test func `is the same for the same subject`() throws {
        #expect(identity("a", "b") == identity("a", "b"))
        #expect(try period() == period())
    }

    @Test func `keeps the first sixteen bytes of a hash, in order`() {
        let hash = (0..<32).map { UInt8($0 * 8 % 251) }
        var bytes: [UInt8] = []
        DedupeKey(hash.span).write(to: &bytes)
        #expect(bytes == Array(hash.prefix(16)))
    }

    @Test(arguments: [
        ("SANDBOX", AppleEnvironment.sandbox), ("SANDBOX_1", .sandbox), ("SANDBO", .production),
        ("sandbox_1", .production), ("", .production), ("1SANDBOX", .production),
    ])
    func `knows the world of an id by its first seven bytes`(
        id: String,
        environment: AppleEnvironment
    ) {
        #expect(TokenID(id).environment == environment)
        #expect(AppleEnvironment(ofExternalPurchaseID: id.utf8.span) == environment)
    }
}
