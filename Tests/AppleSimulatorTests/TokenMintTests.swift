import Testing

@testable import AppleSimulator

@Suite struct `S16: minting tokens` {
    private func order(
        _ app: SimulatedApp,
        _ event: MintEvent,
        type: String? = nil,
        in environment: StoreEnvironment = .production,
        customer: String = "p",
        refreshes: Bool = false
    ) -> MintOrder {
        MintOrder(
            event: event,
            environment: environment,
            appAppleID: app.appAppleID,
            bundleID: app.bundleID,
            customer: customer,
            tokenType: type,
            refreshes: refreshes
        )
    }

    private static let now = SimulatedApp.start
    private static let year = 365 * SimulatedApp.day

    @Test func `the first install brings both types, a later one only what is missing`() throws {
        let app = try SimulatedApp()
        let first = app.world.mint(order(app, .install), now: Self.now)
        #expect(first.map(\.tokenType) == ["ACQUISITION", "SERVICES"])
        #expect(first.allSatisfy { $0.tokenExpirationDate == Self.now + Self.year })
        #expect(app.world.mint(order(app, .install), now: Self.now + 1).isEmpty)
        let later = app.world.mint(order(app, .install), now: Self.now + Self.year)
        #expect(later.map(\.tokenType) == ["SERVICES"])
        let other = app.world.mint(order(app, .install, customer: "q"), now: Self.now)
        #expect(other.count == 2)
    }

    @Test func `an update brings SERVICES where none is active`() throws {
        let app = try SimulatedApp()
        #expect(app.world.mint(order(app, .update), now: Self.now).map(\.tokenType) == ["SERVICES"])
        #expect(app.world.mint(order(app, .update), now: Self.now + Self.year - 1).isEmpty)
        #expect(app.world.mint(order(app, .update), now: Self.now + Self.year).count == 1)
    }

    @Test func `a request brings the same token, or a refreshed one with its dates`() throws {
        let app = try SimulatedApp()
        let minted = app.world.mint(order(app, .update), now: Self.now)[0]
        let request = order(app, .request, type: "SERVICES")
        #expect(app.world.mint(request, now: Self.now + 5) == [minted])
        let fresh = order(app, .request, type: "SERVICES", refreshes: true)
        let refreshed = app.world.mint(fresh, now: Self.now + 5)[0]
        #expect(refreshed.externalPurchaseID != minted.externalPurchaseID)
        #expect(refreshed.tokenCreationDate == minted.tokenCreationDate)
        #expect(refreshed.tokenExpirationDate == minted.tokenExpirationDate)
        #expect(app.world.token(refreshed.externalPurchaseID) == refreshed)
    }

    @Test func `a request begins no period in production`() throws {
        let app = try SimulatedApp()
        #expect(app.world.mint(order(app, .request, type: "SERVICES"), now: Self.now).isEmpty)
    }

    @Test func `the sandbox gives one hour, SERVICES again and ACQUISITION never again`() throws {
        let app = try SimulatedApp()
        let hour: Int64 = 3_600_000
        for (type, again) in [("SERVICES", 1), ("ACQUISITION", 0)] {
            let request = order(app, .request, type: type, in: .sandbox)
            let first = app.world.mint(request, now: Self.now)
            #expect(first.first?.tokenExpirationDate == Self.now + hour)
            #expect(first.first?.externalPurchaseID.hasPrefix("SANDBOX_") == true)
            #expect(app.world.mint(request, now: Self.now + hour - 1) == first)
            #expect(app.world.mint(request, now: Self.now + hour).count == again)
        }
    }

    @Test(arguments: [nil, "IN_APP", "LINK_OUT", "CORE_TECHNOLOGY"])
    func `other tokens come one for each purchase, without an end`(type: String?) throws {
        let app = try SimulatedApp()
        let tokens = (0..<2).flatMap { _ in
            app.world.mint(order(app, .purchase, type: type), now: Self.now)
        }
        #expect(Set(tokens.map(\.externalPurchaseID)).count == 2)
        #expect(tokens.allSatisfy { $0.tokenType == type && $0.tokenExpirationDate == nil })
    }

    @Test(arguments: TokenText.Blanks.allCases, [true, false])
    func `texts differ as the published samples do and say the same`(
        blanks: TokenText.Blanks,
        isPadded: Bool
    ) throws {
        let token = IssuedToken(
            externalPurchaseID: "00000000-0000-0000-0000-000000000000",
            appAppleID: 1_234_567_890,
            bundleID: "com.example",
            tokenType: "SERVICES",
            tokenCreationDate: 1_750_896_000_000,
            tokenExpirationDate: 1_782_432_000_000
        )
        let text = TokenText(blanks: blanks, isPadded: isPadded).encode(token)
        #expect(text.hasSuffix("=") == (isPadded && text.utf8.count % 4 == 0 && text.contains("=")))
        let bytes = try #require(Base64Text.decodeURL(text.replacing("=", with: "")))
        #expect(try JSONValue(reading: bytes) == .object(token.claims))
    }

    @Test func `the admin call mints for many people and returns the texts`() throws {
        let app = try SimulatedApp()
        let body =
            #"{"mint":{"event":"install","environment":"sandbox","appAppleId":7,"#
            + #""bundleId":"b","customer":"c","count":3}}"#
        let answer = AdminAPI(world: app.world, real: SimulatedApp.start)
            .answer(method: "POST", path: "/tokens", query: "", body: Array(body.utf8))
        let tokens = try #require(answer.json?["tokens"]?.elements)
        #expect(tokens.count == 6)
        for token in tokens {
            let id = try #require(token["externalPurchaseId"]?.text)
            let text = try #require(token["token"]?.text)
            #expect(app.world.token(id) != nil)
            let bytes = try #require(Base64Text.decodeURL(text))
            let claims = try JSONValue(reading: bytes)
            #expect(claims["externalPurchaseId"]?.text == id)
        }
    }
}
