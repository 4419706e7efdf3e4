/// A token of a customer, as attribution sees it: once for each claim about its dates.
package struct CustomerToken: Hashable, Sendable {
    package var token: ExternalPurchaseToken
    /// In `tokens.decoded`: the lowest of a period is its primary.
    package var offset: Int64
    /// Without one, a token has no period.
    package var hasCustomer: Bool
    /// Apple does not know it.
    package var isRefused: Bool
    /// A copy of the token that came after another one, and says something else.
    ///
    /// It is in no period: for `dedupe` it is a repeat.
    package var isLaterClaim: Bool

    package init(
        token: ExternalPurchaseToken,
        offset: Int64,
        hasCustomer: Bool,
        isRefused: Bool = false,
        isLaterClaim: Bool = false
    ) {
        self.token = token
        self.offset = offset
        self.hasCustomer = hasCustomer
        self.isRefused = isRefused
        self.isLaterClaim = isLaterClaim
    }

    package var period: TokenPeriod? {
        hasCustomer && !isLaterClaim ? TokenPeriod(of: token) : nil
    }

    /// Active: creation ≤ t < expiration; a token without expiry from its creation on.
    package func isActive(at time: Timestamp) -> Bool {
        token.tokenCreationDate <= time && token.tokenExpirationDate.map { time < $0 } ?? true
    }
}

/// Which token carries a sale.
///
/// 1. The one that was asked for, or the primary of its period.
/// 2. The primary that is active at the sale's date: SERVICES before ACQUISITION before other types.
/// 3. The newest token without expiry that is not much older than the sale.
///
/// A refund goes under the token of its buy while that is active; a renewal that no token is active
/// for goes under the token of its start only where that has no expiry.
///
/// A function of the set of the customer's tokens and of those that Apple refused: the order in
/// which their records were read changes nothing.
package struct PurchaseAttribution {
    /// What a sale is to the choice.
    package struct Sale: Hashable, Sendable {
        package var date: Timestamp
        package var lane: Lane
        /// The token that was asked for.
        package var asked: TokenID?
        package var kind: Kind
        /// Tokens that it goes under no more: Apple says that its date lies outside of them, or
        /// `report` takes no sale under them.
        package var excluded: [TokenID]

        package enum Kind: Hashable, Sendable {
            case buy
            /// A later event of a subscription whose start was reported under a token.
            case later(startedUnder: TokenID)
            /// A refund of a buy that was reported under a token.
            case refund(boughtUnder: TokenID)
        }

        package init(
            date: Timestamp,
            lane: Lane,
            asked: TokenID?,
            kind: Kind,
            excluded: [TokenID] = []
        ) {
            self.date = date
            self.lane = lane
            self.asked = asked
            self.kind = kind
            self.excluded = excluded
        }
    }

    package enum Choice: Hashable, Sendable {
        case token(TokenID)
        /// The token that was asked for has not come yet.
        case askedUnknown
        /// No token fits.
        case none
    }

    private let sale: Sale
    private let tokens: [CustomerToken]
    private let window: Milliseconds

    /// - Parameters:
    ///   - sale: what is to be reported.
    ///   - tokens: all of the customer's, each once for each claim, in any order.
    ///   - window: how much older than the sale a token without expiry may be.
    ///   - isWaitOver: whether the token that was asked for is waited for no longer.
    /// - Returns: the choice, which stands once it is reported.
    package static func choose(
        for sale: Sale,
        among tokens: [CustomerToken],
        window: Milliseconds,
        isWaitOver: Bool = false
    ) -> Choice {
        let tokens =
            tokens.allSatisfy { $0.token.lane == sale.lane }
            ? tokens : tokens.filter { $0.token.lane == sale.lane }
        return PurchaseAttribution(
            sale: sale,
            tokens: withoutClaimsOfDuplicates(tokens),
            window: window
        ).choose(isWaitOver: isWaitOver)
    }

    /// `report` has a token's role by its first claim: under a duplicate it takes no sale, whatever
    /// a later copy says.
    private static func withoutClaimsOfDuplicates(_ tokens: [CustomerToken]) -> [CustomerToken] {
        guard tokens.contains(where: \.isLaterClaim) else {
            return tokens
        }
        let first = firstOffsets(tokens)
        let duplicates = Set(
            tokens.lazy.filter { token in
                token.period.map { first[$0] != token.offset } ?? false
            }.map(\.token.externalPurchaseID)
        )
        return tokens.filter {
            !$0.isLaterClaim || !duplicates.contains($0.token.externalPurchaseID)
        }
    }

    private func choose(isWaitOver: Bool) -> Choice {
        if case .refund(let buy) = sale.kind, isOpen(buy) {
            return .token(buy)
        }
        if let asked = sale.asked {
            let claims = tokens.filter { $0.token.externalPurchaseID == asked }
            guard !claims.isEmpty else {
                return isWaitOver ? byDate() : .askedUnknown
            }
            // The first claim goes first: `report` has the token's role by it.
            let carrier = claims.sorted { $0.offset < $1.offset }
                .compactMap { primary(of: $0) }
                .first { isAllowed($0) && $0.isActive(at: sale.date) }
            if let carrier {
                return .token(carrier.token.externalPurchaseID)
            }
        }
        return byDate()
    }

    private func byDate() -> Choice {
        switch sale.kind {
        case .buy:
            return active() ?? recent() ?? .none
        case .later(let start):
            // Apple takes a date after the expiry under no token: only one without expiry is left.
            return active() ?? recent() ?? unlimited(start) ?? .none
        case .refund(let buy):
            return active() ?? recent() ?? (isExcluded(buy) ? .none : .token(buy))
        }
    }

    /// Whether a refund stays with the token of its buy, whatever it asks for: that one has no
    /// expiry, or is not expired, by any claim.
    private func isOpen(_ buy: TokenID) -> Bool {
        tokens.contains { own in
            own.token.externalPurchaseID == buy && isAllowed(own)
                && own.token.tokenExpirationDate.map { sale.date < $0 } ?? true
        }
    }

    private func unlimited(_ start: TokenID) -> Choice? {
        let isUnlimited = tokens.contains { token in
            token.token.externalPurchaseID == start && token.token.tokenExpirationDate == nil
                && isAllowed(token)
        }
        return isUnlimited ? .token(start) : nil
    }

    // MARK: The customer's tokens

    private func isExcluded(_ id: TokenID) -> Bool { sale.excluded.contains(id) }

    /// Whether a token may carry the sale at all, whatever its dates.
    private func isAllowed(_ token: CustomerToken) -> Bool {
        !token.isRefused && !isExcluded(token.token.externalPurchaseID)
    }

    /// Of a token's period the lowest offset that Apple has not refused.
    private func primary(of token: CustomerToken) -> CustomerToken? {
        guard let period = token.period else {
            return token.isRefused ? nil : token
        }
        return tokens.lazy.filter { !$0.isRefused && $0.period == period }
            .min { $0.offset < $1.offset }
    }

    /// The best of the tokens that expire and are active: SERVICES before ACQUISITION before other
    /// types, then first claims, then the youngest, then the one that came first.
    private func active() -> Choice? {
        let fitting = tokens.filter { token in
            token.token.tokenExpirationDate != nil && token.isActive(at: sale.date)
                && isAllowed(token)
        }
        guard !fitting.isEmpty else {
            return nil
        }
        guard tokens.count > 1 else {
            // The only one is the first of its period.
            return .token(fitting[0].token.externalPurchaseID)
        }
        let first = Self.firstOffsets(tokens)
        return fitting.lazy.filter { token in
            token.period.map { first[$0] == token.offset } ?? true
        }.min { Self.rank($0) < Self.rank($1) }.map { .token($0.token.externalPurchaseID) }
    }

    /// The offset of each period's primary, in one pass: an app that asks at each launch makes a
    /// thousand tokens of one period.
    private static func firstOffsets(_ tokens: [CustomerToken]) -> [TokenPeriod: Int64] {
        var first: [TokenPeriod: Int64] = [:]
        for token in tokens where !token.isRefused {
            if let period = token.period {
                first[period] = min(first[period] ?? token.offset, token.offset)
            }
        }
        return first
    }

    private static func rank(_ token: CustomerToken) -> (Int, Int, Int64, Int64) {
        let type =
            switch token.token.tokenType?.known {
            case .services: 0
            case .acquisition: 1
            default: 2
            }
        return (type, token.isLaterClaim ? 1 : 0, youngestFirst(token), token.offset)
    }

    /// Lower for a later creation: of every date there is, which the negative is not.
    private static func youngestFirst(_ token: CustomerToken) -> Int64 {
        ~token.token.tokenCreationDate.milliseconds
    }

    /// The newest token without expiry that is not too old.
    private func recent() -> Choice? {
        tokens.lazy.filter { token in
            token.token.tokenExpirationDate == nil && isAllowed(token)
                && token.token.tokenCreationDate <= sale.date
                && sale.date - token.token.tokenCreationDate <= window
        }.min {
            (Self.youngestFirst($0), $0.offset) < (Self.youngestFirst($1), $1.offset)
        }.map { .token($0.token.externalPurchaseID) }
    }
}
