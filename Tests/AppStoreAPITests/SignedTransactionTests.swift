import AppStoreAPI
import Testing
import TokenDomain

@Suite struct `A signed transaction` {
    private func transaction(_ text: String) throws -> SignedTransaction {
        let value = try #require(JSONValue(Array(text.utf8)))
        return SignedTransaction(fields: try #require(value.members))
    }

    @Test func `gives every field that Apple documents`() throws {
        let transaction = try transaction(
            """
            {"appAccountToken":"7e3fb2b5-2f4b-4b3c-9f5e-1b2c3d4e5f60","appTransactionId":"7",
             "bundleId":"com.example","currency":"EUR","environment":"Sandbox",
             "expiresDate":1,"inAppOwnershipType":"FAMILY_SHARED","isUpgraded":true,
             "offerDiscountType":"FREE_TRIAL","offerIdentifier":"o","offerPeriod":"P1M",
             "offerType":4,"originalPurchaseDate":2,"originalTransactionId":"20","price":10990,
             "productId":"p","purchaseDate":3,"quantity":1,"revocationDate":4,
             "revocationPercentage":50000,"revocationReason":1,"revocationType":"REFUND_FULL",
             "signedDate":5,"storefront":"ESP","storefrontId":"143454",
             "subscriptionGroupIdentifier":"g","transactionId":"21","transactionReason":"RENEWAL",
             "type":"Auto-Renewable Subscription","webOrderLineItemId":"w",
             "advancedCommerceInfo":{"taxRate":"0.21","items":[{"SKU":"s"}]},
             "billingPlanType":"MONTHLY","commitmentInfo":{"totalBillingPeriods":12},
             "previousOriginalTransactionId":"19"}
            """
        )
        #expect(transaction.appAccountToken == "7e3fb2b5-2f4b-4b3c-9f5e-1b2c3d4e5f60")
        #expect(transaction.appTransactionID == "7")
        #expect(transaction.bundleID == "com.example")
        #expect(transaction.currency == "EUR")
        #expect(transaction.environment == .sandbox)
        #expect(transaction.expiresDate == Timestamp(milliseconds: 1))
        #expect(transaction.isFamilyShared)
        #expect(transaction.isUpgraded)
        #expect(transaction.offerDiscountType == "FREE_TRIAL")
        #expect(transaction.offerIdentifier == "o")
        #expect(transaction.offerPeriod == "P1M")
        #expect(transaction.offerType == 4)
        #expect(transaction.originalPurchaseDate == Timestamp(milliseconds: 2))
        #expect(transaction.originalTransactionID == "20")
        #expect(transaction.price == 10_990)
        #expect(transaction.productID == "p")
        #expect(transaction.purchaseDate == Timestamp(milliseconds: 3))
        #expect(transaction.quantity == 1)
        #expect(transaction.revocationDate == Timestamp(milliseconds: 4))
        #expect(transaction.revocationPercentage == 50_000)
        #expect(transaction.revocationReason == 1)
        #expect(transaction.revocationType == "REFUND_FULL")
        #expect(transaction.signedDate == Timestamp(milliseconds: 5))
        #expect(transaction.storefront == "ESP")
        #expect(transaction.storefrontID == "143454")
        #expect(transaction.subscriptionGroupIdentifier == "g")
        #expect(transaction.transactionID == "21")
        #expect(transaction.transactionReason == "RENEWAL")
        #expect(transaction.type == "Auto-Renewable Subscription")
        #expect(transaction.webOrderLineItemID == "w")
        #expect(transaction.advancedCommerceInfo?["items"]?.elements?.first?["SKU"]?.text == "s")
        #expect(transaction.billingPlanType == "MONTHLY")
        #expect(transaction.commitmentInfo?["totalBillingPeriods"]?.integer == 12)
        #expect(transaction.previousOriginalTransactionID == "19")
    }

    @Test func `keeps what nobody knows yet`() throws {
        let transaction = try transaction(
            #"{"environment":"Moon","type":"New Type","brandNew":[1.5],"price":"free"}"#
        )
        #expect(transaction.environment == nil)
        #expect(transaction.environmentText == "Moon")
        #expect(transaction.type == "New Type")
        #expect(transaction.fields["brandNew"] == JSONValue(Array("[1.50]".utf8)))
        #expect(transaction.price == nil)
        #expect(transaction.fields["price"]?.text == "free")
        #expect(!transaction.isFamilyShared)
        #expect(!transaction.isUpgraded)
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
