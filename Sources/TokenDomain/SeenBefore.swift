/// The answer to "was this token seen before?", by the lowest offset in `tokens.decoded`.
package enum SeenBefore: Equatable, Sendable {
    /// The same customer (or none, both times) and the same id: nothing more is owed for it.
    case again
    /// Another token of a period that has this primary.
    case duplicate(of: TokenID)
    /// The first of its period that Apple has not refused, or a token that has none.
    case primary

    /// The rule, given what the state holds.
    ///
    /// - Parameters:
    ///   - isKnown: whether this customer's token of this id was taken before.
    ///   - primary: the primary of this customer's period; nil where the token has no period, no
    ///     customer, or where Apple has refused every token before it.
    package init(isKnown: Bool, primaryOfPeriod primary: TokenID?) {
        // A known id stays a repeat whatever its dates say now: the first claim stands.
        if isKnown {
            self = .again
        } else if let primary {
            self = .duplicate(of: primary)
        } else {
            self = .primary
        }
    }

    /// How long a key outlives its token, so that the latest notice Apple may send still finds it.
    package static let keyLifetime = Milliseconds.days(400)

    /// When the keys of a token may be forgotten.
    ///
    /// Counted from its expiry, from its creation where it has none. A token that came in later than
    /// that is kept as long from its receipt: its dates are a claim, and a repeat of an old token
    /// is a repeat all the same. Saturates instead of overflowing.
    package static func keysExpire(
        creation: Timestamp,
        expiration: Timestamp?,
        receivedAt: Timestamp
    ) -> Timestamp {
        max(expiration ?? creation, receivedAt) + keyLifetime
    }
}
