/// One purchase in the App Store, as far as Set App Account Token looks at it (S13).
package struct StoreTransaction: Equatable, Sendable {
    package var transactionID: String
    package var originalTransactionID: String
    package var environment: StoreEnvironment
    package var bundleID: String
    /// The download this purchase belongs to; naming it instead of a purchase is error 4000048.
    package var appTransactionID: String?
    package var isFamilyShared: Bool
    package var productID: String
    /// Apple's word, such as `Consumable`.
    package var productType: String

    package init(
        transactionID: String,
        originalTransactionID: String,
        environment: StoreEnvironment,
        bundleID: String,
        appTransactionID: String? = nil,
        isFamilyShared: Bool = false,
        productID: String = "demo.product",
        productType: String = "Auto-Renewable Subscription"
    ) {
        self.transactionID = transactionID
        self.originalTransactionID = originalTransactionID
        self.environment = environment
        self.bundleID = bundleID
        self.appTransactionID = appTransactionID
        self.isFamilyShared = isFamilyShared
        self.productID = productID
        self.productType = productType
    }
}

/// Purchases of both environments and the account tokens set on them.
struct AccountTokens: Sendable {
    /// What the admin call fills it up to; some 400 bytes each.
    static let countMax = 1_000_000

    struct Entry: Sendable {
        let transaction: StoreTransaction
        /// The newest, lower case; nil while none is set.
        var appAccountToken: String?
        var setCount = 0
    }

    private(set) var entries: [Entry] = []
    private var indexByID: [Key: Int] = [:]
    private var appTransactions: Set<Key> = []

    private struct Key: Hashable {
        var environment: StoreEnvironment
        var id: String
    }

    /// False where the identifier is taken.
    mutating func add(_ transaction: StoreTransaction) -> Bool {
        let key = Key(environment: transaction.environment, id: transaction.transactionID)
        guard indexByID[key] == nil else { return false }
        indexByID[key] = entries.count
        entries.append(Entry(transaction: transaction))
        if let id = transaction.appTransactionID {
            appTransactions.insert(Key(environment: transaction.environment, id: id))
        }
        return true
    }

    /// Set App Account Token: all rows of section 5.2 that come from the request itself.
    mutating func set(
        _ body: [UInt8],
        transactionID: String,
        environment: StoreEnvironment,
        bundleID: String
    ) -> AppleAnswer {
        guard let request = Self.read(body) else {
            return .malformedWithoutCode
        }
        let key = Key(environment: environment, id: transactionID)
        if appTransactions.contains(key) {
            return .error(400, code: 4_000_048, "Simulated: an app transaction identifier")
        }
        guard !transactionID.isEmpty, transactionID.count <= 20,
            transactionID.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return .error(400, code: 4_000_006, "Simulated: invalid transaction identifier") }
        guard let token = UUIDKey(request) else {
            return .error(400, code: 4_000_183, "Simulated: appAccountToken is no UUID")
        }
        guard let index = indexByID[key], entries[index].transaction.bundleID == bundleID else {
            return .error(404, code: 4_040_005, "Simulated: original transaction not found")
        }
        let transaction = entries[index].transaction
        guard transaction.originalTransactionID == transactionID else {
            return .error(400, code: 4_000_187, "Simulated: not an original transaction identifier")
        }
        guard !transaction.isFamilyShared else {
            return .error(400, code: 4_000_185, "Simulated: a family transaction")
        }
        entries[index].appAccountToken = token.text
        entries[index].setCount += 1
        return AppleAnswer(status: 200)
    }

    /// The text of `appAccountToken`; nil where the body is no such request.
    private static func read(_ body: [UInt8]) -> String? {
        do { return try JSONValue(reading: body)["appAccountToken"]?.text } catch {
            // All malformed bodies get one answer.
            return nil
        }
    }
}

extension AppleWorld {
    /// Makes a purchase known; false where its identifier is taken in its environment.
    @discardableResult
    package func register(_ transaction: StoreTransaction) -> Bool {
        accountTokens.add(transaction)
    }

    /// The account token set on a purchase, lower case; nil for none.
    package func appAccountToken(
        originalTransactionID: String,
        environment: StoreEnvironment
    ) -> String? {
        accountTokens.entries.first {
            $0.transaction.transactionID == originalTransactionID
                && $0.transaction.environment == environment
        }?.appAccountToken
    }

    /// A `JWSTransaction` as the app receives it from StoreKit.
    package func signedTransaction(
        _ transaction: StoreTransaction,
        now: UnixMilliseconds,
        forgery: NotificationForgery? = nil
    ) -> String {
        let members = [
            JSONMember("transactionId", .string(transaction.transactionID)),
            JSONMember("originalTransactionId", .string(transaction.originalTransactionID)),
            JSONMember(
                "bundleId",
                .string(transaction.bundleID + (forgery == .wrongBundle ? ".foreign" : ""))
            ),
            JSONMember("productId", .string(transaction.productID)),
            JSONMember("purchaseDate", .integer(now)),
            JSONMember("originalPurchaseDate", .integer(now)),
            JSONMember("quantity", .integer(1)),
            JSONMember("type", .string(transaction.productType)),
            JSONMember(
                "inAppOwnershipType",
                .string(transaction.isFamilyShared ? "FAMILY_SHARED" : "PURCHASED")
            ),
            JSONMember("signedDate", .integer(now)),
            JSONMember("environment", .string(transaction.environment.signedName)),
            JSONMember("transactionReason", .string("PURCHASE")),
            JSONMember("storefront", .string("ESP")),
            JSONMember("storefrontId", .string("143454")),
        ]
        return signer.sign(.object(members), forgery: forgery)
    }
}
