internal import TokenDomain

/// What the book knows of a token of a customer.
struct BookedToken: Equatable {
    /// Nil where only its refusal is known.
    var token: ExternalPurchaseToken?
    /// The lowest in `tokens.decoded`.
    var offset: Int64 = 0
    /// When it was written there; zero where an earlier version put the token.
    var decodedAt = Timestamp(milliseconds: 0)
    var hasCustomer = false
    /// Apple does not know it.
    var isRefused = false
    /// What copies that came later say instead; see ``otherClaimCountMax``.
    var otherClaims: [Claim] = []
    /// When Apple accepted a report of it after all: what refused it before says no more.
    var knownAt: Timestamp?
    /// Sales that wait for a token are to be woken, from this entry of the due table on.
    var wakesFrom: [UInt8]?
    var touchedAt: Timestamp

    init(touchedAt: Timestamp) {
        self.touchedAt = touchedAt
    }

    /// What one copy of a token says: no token is signed, so its customer can write another one.
    struct Claim: Equatable {
        var tokenType: TokenType?
        var tokenCreationDate: Timestamp
        var tokenExpirationDate: Timestamp?
        /// The lowest in `tokens.decoded`.
        var offset: Int64
        /// When it was written there.
        var decodedAt: Timestamp
    }

    /// Claims kept beside the first one; of more, those that came first stand.
    static let otherClaimCountMax = 4

    /// Takes in a copy, of the first one's app alone: `report` takes sales under no other.
    ///
    /// - Returns: false where nothing is kept of it.
    mutating func take(
        _ copy: ExternalPurchaseToken,
        offset: Int64,
        decodedAt: Timestamp
    ) -> Bool {
        guard let first = token else {
            token = copy
            self.offset = offset
            self.decodedAt = decodedAt
            return true
        }
        var copy = copy
        copy.bundleID = first.bundleID
        guard copy != first, copy.appAppleID == first.appAppleID,
            otherClaims.count < Self.otherClaimCountMax
        else {
            return false
        }
        // Of a type that nobody knows the text says nothing, and may be long.
        if copy.tokenType?.known == nil {
            copy.tokenType = nil
        }
        guard !otherCandidates.contains(where: { $0.token.token == copy }) else {
            return false
        }
        otherClaims.append(
            Claim(
                tokenType: copy.tokenType,
                tokenCreationDate: copy.tokenCreationDate,
                tokenExpirationDate: copy.tokenExpirationDate,
                offset: offset,
                decodedAt: decodedAt
            )
        )
        return true
    }

    /// By the first claim.
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

    /// One for each other claim: Apple says by code 36 which of them are wrong.
    var otherCandidates: [(token: CustomerToken, decodedAt: Timestamp)] {
        guard !otherClaims.isEmpty, let candidate else {
            return []
        }
        return otherClaims.map { claim in
            var other = candidate
            other.token.tokenType = claim.tokenType
            other.token.tokenCreationDate = claim.tokenCreationDate
            other.token.tokenExpirationDate = claim.tokenExpirationDate
            other.offset = claim.offset
            other.isLaterClaim = true
            return (token: other, decodedAt: claim.decodedAt)
        }
    }

    var forgetAt: Timestamp {
        let first = token.map { $0.tokenExpirationDate ?? $0.tokenCreationDate }
        let others = otherClaims.map { $0.tokenExpirationDate ?? $0.tokenCreationDate }
        let known = others.reduce(first ?? touchedAt, max)
        return BookDue.forgetAt(touched: max(known, touchedAt))
    }
}

/// The tokens of a customer who bought something: where there is such a list, it names all that came.
///
/// To look for them among the keys of the store costs as much as the rest of a sale.
struct BookedCustomer: Equatable {
    var tokens: [TokenID]
    var touchedAt: Timestamp

    /// More are looked for each time.
    static let byteCountMax = 32 << 10

    var isTooLong: Bool {
        tokens.count > Book.tokenCountMax
            || tokens.reduce(0) { $0 + $1.text.utf8.count + 3 } > Self.byteCountMax
    }
}

/// What the book knows of a subscription.
struct BookedSubscription: Equatable {
    struct Start: Equatable {
        /// Its line item.
        var name: String
        /// Nil where an earlier version, which kept that of the newest one alone, put it there.
        var date: Timestamp?
        /// Of its event in `purchases.received`, the first of that name; nil where an earlier version put it
        /// there.
        var offset: Int64?
    }

    /// Its starts, the newest one first: a customer comes back, or one was retracted or refused and another
    /// sent in its place.
    var starts: [Start] = []
    /// Nil where it must be counted anew from the items.
    var paid: PaidService? = PaidService()
    /// Paid for in periods whose items were forgotten, of one life of the subscription.
    var forgotten = Milliseconds(0)
    /// The start of that life; nil where nothing was forgotten, or an earlier version kept one sum
    /// for all lives.
    var forgottenStart: String?
    /// When the latest of them began; nil where nothing was forgotten, or by an earlier version.
    var forgottenUntil: Timestamp?
    /// Whether ``paid`` counts events as they come, whatever token they go under: until one comes
    /// out of order, is refused or changed, or is another start.
    ///
    /// From then on they are counted from the items.
    var countsArrivals = true
    /// An event gave its paid days itself: the items say which.
    var givesDays = false
    /// As of a token.
    var wakesFrom: [UInt8]?
    var touchedAt: Timestamp

    /// Of more the oldest are forgotten.
    private static let startCountMax = 17

    init(touchedAt: Timestamp) {
        self.touchedAt = touchedAt
    }

    mutating func note(start name: String, at date: Timestamp, offset: Int64) {
        let first = starts.first { BookKey.isSame($0.name, name) }?.offset ?? offset
        starts.removeAll { BookKey.isSame($0.name, name) }
        let index = starts.firstIndex { $0.date.map { $0 <= date } ?? true } ?? starts.endIndex
        starts.insert(Start(name: name, date: date, offset: min(first, offset)), at: index)
        starts = Array(starts.prefix(Self.startCountMax))
    }

    /// Whether all its events are of one life: of several, only the items say which is of which.
    var hasOneLife: Bool { starts.count < 2 }

    /// What the forgotten periods came to of the life that a start began, beside those that are
    /// known: nothing where one behind them gives all days before it.
    func forgotten(of start: String, beside known: [PaidService.Period]) -> Milliseconds {
        let isReplaced = known.contains { period in
            period.daysBefore != nil && forgottenUntil.map { $0 <= period.start } ?? true
        }
        return BookKey.isSame(start, forgottenStart ?? starts.last?.name) && !isReplaced
            ? forgotten : Milliseconds(0)
    }

    /// Keeps what the life that a start began loses with one of its periods that is forgotten.
    mutating func forget(_ index: Int, of periods: [PaidService.Period], of start: String) {
        func age(_ name: String) -> Int {
            starts.firstIndex { BookKey.isSame($0.name, name) } ?? starts.endIndex
        }
        let known = forgottenStart ?? starts.last?.name ?? start
        let isKnown = BookKey.isSame(start, known)
        // Of an earlier life nothing is reported any more.
        guard isKnown || age(start) < age(known) else {
            return
        }
        let before = isKnown ? forgotten(of: start, beside: periods) : Milliseconds(0)
        forgotten = Milliseconds(
            before.count &+ PaidService.loss(of: index, in: periods).count
        )
        let last = isKnown ? forgottenUntil : nil
        forgottenUntil = max(last ?? periods[index].start, periods[index].start)
        forgottenStart = start
    }
}

/// An event that is not settled, as it came.
struct BookedEvent: Equatable {
    /// Byte for byte; empty where this worker made the event itself: a retraction that follows from
    /// another one.
    var value: [UInt8]
    var offset: Int64
    var receivedAt: Timestamp
    /// When it was read, where that was more than ``lateMin`` after it was received.
    ///
    /// The worker stood still then, and the token may lie unread in another topic.
    var readAt: Timestamp?
    var trace: TraceParent?
    var history: ReplayHistory?

    static let lateMin = Milliseconds.hours(1)

    /// A worker's clock may be ahead: topics keep seven days, and what came in earlier has no token there.
    static func readAt(_ now: Timestamp, receivedAt: Timestamp) -> Timestamp? {
        now - receivedAt > lateMin
            ? min(now, receivedAt + TokenReceived.receivedAtToleranceMax) : nil
    }

    var isOurs: Bool { value.isEmpty }
    /// Since when it waits for a token.
    var waitsSince: Timestamp { readAt ?? receivedAt }
}
