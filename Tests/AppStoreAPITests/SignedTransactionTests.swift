import AppStoreAPI
import Testing
import TokenDomain

@Suite struct `A signed transaction` {
    private func transaction(_ text: String) throws -> SignedTransaction {
        let payload = try #require(JSONValue(Array(text.utf8)))
        return SignedTransaction(payload)
    }

    @Test func `gives the fields that are asked for`() throws {
        let transaction = try transaction(
            """
            {"bundleId":"com.example","environment":"Sandbox","price":10990,
             "inAppOwnershipType":"FAMILY_SHARED","originalTransactionId":"20","transactionId":"21"}
            """
        )
        #expect(transaction.bundleID == "com.example")
        #expect(transaction.environment == .sandbox)
        #expect(transaction.isFamilyShared)
        #expect(transaction.originalTransactionID == "20")
    }

    @Test(arguments: [
        #"{"environment":"Moon","bundleId":7,"originalTransactionId":[],"inAppOwnershipType":""}"#,
        "{}",
    ])
    func `takes what nobody knows yet, and another type, for absent`(text: String) throws {
        let transaction = try transaction(text)
        #expect(transaction.bundleID == nil)
        #expect(transaction.environment == nil)
        #expect(!transaction.isFamilyShared)
        #expect(transaction.originalTransactionID == nil)
    }
}

@Suite struct `Whom signed data speaks of` {
    private func identity(_ text: String) throws -> SignedIdentity {
        SignedIdentity(try #require(JSONValue(Array(text.utf8))))
    }

    @Test func `compares bundle ids as bytes, where Swift takes U+212A for K`() throws {
        let identity = try identity(#"{"bundleId":"a.K"}"#)
        try identity.check(bundleID: "a.K")
        #expect(throws: JWSFault.self) { try identity.check(bundleID: "a.\u{212A}") }
    }

    @Test(arguments: ["data", "summary", "appData"])
    func `is named in a section of a notification`(section: String) throws {
        let identity = try identity(
            """
            {"notificationType":"X","\(section)":{"bundleId":"b","appAppleId":5,
             "environment":"Production"}}
            """
        )
        try identity.check(bundleID: "b", appAppleID: 5, environment: .production)
        #expect(throws: JWSFault.self) { try identity.check(bundleID: "c") }
        #expect(throws: JWSFault.self) { try identity.check(appAppleID: 6) }
        #expect(throws: JWSFault.wrongEnvironment) { try identity.check(environment: .sandbox) }
    }

    @Test(arguments: [("1c2d", AppleEnvironment.production), ("SANDBOX_1", .sandbox)])
    func `is read off a token's id`(id: String, environment: AppleEnvironment) throws {
        let identity = try identity(
            """
            {"notificationType":"X","externalPurchaseToken":{"externalPurchaseId":"\(id)",
             "bundleId":"b","appAppleId":5}}
            """
        )
        #expect(identity.worlds == [.apple(environment)])
        try identity.check(bundleID: "b", appAppleID: 5, environment: environment)
    }

    @Test func `is refused where it is asked for and not said`() throws {
        let silent = try identity("{}")
        try silent.check()
        try silent.check(appAppleID: 5)
        #expect(throws: JWSFault.self) { try silent.check(bundleID: "b") }
        #expect(throws: JWSFault.wrongEnvironment) { try silent.check(environment: .sandbox) }
    }

    @Test func `is refused where two places disagree`() throws {
        let identity = try identity(
            #"{"bundleId":"a","environment":"Sandbox","data":{"bundleId":"b","environment":"Xcode"}}"#
        )
        #expect(throws: JWSFault.self) { try identity.check(bundleID: "a") }
        #expect(throws: JWSFault.self) { try identity.check(bundleID: "b") }
        #expect(throws: JWSFault.wrongEnvironment) { try identity.check(environment: .sandbox) }
    }

    @Test func `may lack the Apple id, but not in a production notification`() throws {
        func notification(_ environment: String) throws -> SignedIdentity {
            try identity(#"{"notificationType":"X","data":{"environment":"\#(environment)"}}"#)
        }
        try notification("Sandbox").check(appAppleID: 5)
        #expect(throws: JWSFault.self) { try notification("Production").check(appAppleID: 5) }
        try identity(#"{"environment":"Production"}"#).check(appAppleID: 5)
    }
}
