/// A token that Apple has made, and to whom: only Apple's side knows the customer for certain.
package struct IssuedToken: Equatable, Sendable {
    package var externalPurchaseID: String
    package var appAppleID: Int64
    package var bundleID: String
    /// Apple's word; nil for the tokens of a notice sheet or a plain link.
    package var tokenType: String?
    package var tokenCreationDate: UnixMilliseconds
    package var tokenExpirationDate: UnixMilliseconds?
    /// The person in the simulated App Store, where the token was minted for one.
    package var customer: String?

    package init(
        externalPurchaseID: String,
        appAppleID: Int64,
        bundleID: String,
        tokenType: String? = nil,
        tokenCreationDate: UnixMilliseconds,
        tokenExpirationDate: UnixMilliseconds? = nil,
        customer: String? = nil
    ) {
        self.externalPurchaseID = externalPurchaseID
        self.appAppleID = appAppleID
        self.bundleID = bundleID
        self.tokenType = tokenType
        self.tokenCreationDate = tokenCreationDate
        self.tokenExpirationDate = tokenExpirationDate
        self.customer = customer
    }

    package var environment: StoreEnvironment {
        StoreEnvironment(externalPurchaseID: externalPurchaseID)
    }

    /// Custom link tokens: the only ones with a period that can hold a second token.
    var isCustomLink: Bool { tokenType == "ACQUISITION" || tokenType == "SERVICES" }

    /// Creation ≤ t < expiration; without an expiration for ever.
    func isActive(at time: UnixMilliseconds) -> Bool {
        time >= tokenCreationDate && tokenExpirationDate.map { time < $0 } ?? true
    }
}

/// What has been reported of a token so far.
struct TokenStanding: Equatable, Sendable {
    var lastStatus: ReportStatus?
    var hasLineItemReport = false
    var isReportedDuplicate: Bool { lastStatus == .duplicateToken }
    var reportCount: Int32 = 0
}

/// Every token of both environments, in the order of issue.
struct IssuedTokens: Sendable {
    /// What the admin calls fill it up to; some 350 bytes each.
    static let countMax = 10_000_000

    private(set) var tokens: [IssuedToken] = []
    private(set) var standings: [TokenStanding] = []
    private var indexByID: [String: Int32] = [:]
    /// Of every app that has a token.
    private(set) var appAppleIDByBundleID: [String: Int64] = [:]
    /// For the strict duplicate rule and for minting: tokens of one simulated person and app.
    private var indexesByHolder: [Holder: [Int32]] = [:]

    /// A simulated person's relation to one app in one environment.
    struct Holder: Hashable, Sendable {
        var customer: String
        var appAppleID: Int64
        var environment: StoreEnvironment
    }

    var count: Int { tokens.count }

    /// Adds a token; false where its identifier is taken.
    mutating func add(_ token: IssuedToken) -> Bool {
        guard indexByID[token.externalPurchaseID] == nil else { return false }
        let index = Int32(tokens.count)
        indexByID[token.externalPurchaseID] = index
        appAppleIDByBundleID[token.bundleID] = token.appAppleID
        tokens.append(token)
        standings.append(TokenStanding())
        if let holder = Self.holder(of: token) {
            indexesByHolder[holder, default: []].append(index)
        }
        return true
    }

    func index(of externalPurchaseID: String) -> Int? {
        indexByID[externalPurchaseID].map { Int($0) }
    }

    func token(_ externalPurchaseID: String) -> IssuedToken? {
        index(of: externalPurchaseID).map { tokens[$0] }
    }

    func tokens(of holder: Holder) -> [IssuedToken] {
        indexesByHolder[holder, default: []].map { tokens[Int($0)] }
    }

    /// Whether the same person holds another token of the same type and period, itself no duplicate.
    func hasSibling(_ token: IssuedToken) -> Bool {
        guard let holder = Self.holder(of: token) else { return false }
        return indexesByHolder[holder, default: []].contains { index in
            let other = tokens[Int(index)]
            return other.externalPurchaseID != token.externalPurchaseID
                && other.tokenType == token.tokenType
                && other.tokenCreationDate == token.tokenCreationDate
                && other.tokenExpirationDate == token.tokenExpirationDate
                && !standings[Int(index)].isReportedDuplicate
        }
    }

    mutating func noteReport(_ status: ReportStatus, at index: Int) {
        standings[index].lastStatus = status
        standings[index].reportCount += 1
        if status == .lineItem { standings[index].hasLineItemReport = true }
    }

    static func holder(of token: IssuedToken) -> Holder? {
        token.customer.map {
            Holder(customer: $0, appAppleID: token.appAppleID, environment: token.environment)
        }
    }
}
