internal import TokenDomain

/// What the book knows of a token of a customer.
struct BookedToken: Equatable {
    /// Nil where only its refusal is known.
    var token: ExternalPurchaseToken?
    /// The lowest in `tokens.decoded`.
    var offset: Int64 = 0
    var hasCustomer = false
    /// Apple does not know it.
    var isRefused = false
    /// The line items of the report that is under way.
    var inFlight: [String] = []
    /// The app of the last report.
    var reportedApp: Int64?
    /// Items may wait for its next report; where not, none does.
    var wantsReport = false
    /// Sales that wait for a token are to be woken, from this entry of the due table on.
    var wakesFrom: [UInt8]?
    var touchedAt: Timestamp

    init(touchedAt: Timestamp) {
        self.touchedAt = touchedAt
    }

    var candidate: CustomerToken? {
        token.map {
            CustomerToken(
                token: $0,
                offset: offset,
                hasCustomer: hasCustomer,
                isRefused: isRefused
            )
        }
    }

    var forgetAt: Timestamp {
        let known = token.map { $0.tokenExpirationDate ?? $0.tokenCreationDate }
        return max(known ?? touchedAt, touchedAt) + SeenBefore.keyLifetime
    }
}

/// What the book knows of a subscription.
struct BookedSubscription: Equatable {
    /// The line item of its newest start.
    var startLineItemID: String?
    var startDate: Timestamp?
    /// Nil where it must be counted anew from the items.
    var paid: PaidService? = PaidService()
    /// As of a token.
    var wakesFrom: [UInt8]?
    var touchedAt: Timestamp

    init(touchedAt: Timestamp) {
        self.touchedAt = touchedAt
    }
}

/// An event that is not settled, as it came.
struct BookedEvent: Equatable {
    /// Byte for byte; empty where this worker made the event itself: a retraction that follows from
    /// another one.
    var value: [UInt8]
    var offset: Int64
    var receivedAt: Timestamp
    var trace: TraceParent?
    var history: ReplayHistory?

    var isOurs: Bool { value.isEmpty }
}
