internal import TokenDomain

/// What the book knows of one line item: its newest content, what Apple has of it, and what its
/// event in turn waits for.
///
/// One event of an item is worked on at a time. The buy or refund comes first, whenever it comes;
/// restatements and retractions follow in the order in which they were received.
struct BookedItem: Equatable {
    enum Standing: String {
        /// Only restatements or retractions are known, or the buy was refused.
        case unknown
        /// Its buy or refund is being worked on.
        case pending
        /// Apple has it.
        case live
        /// Settled without a token.
        case notOwed
    }

    /// What the event in turn waits for.
    enum Wait: Equatable {
        /// Nothing is to be done.
        case idle
        /// To be looked at as soon as may be.
        case now
        /// A token, until a time.
        case token(until: Timestamp)
        /// An exchange rate.
        case rate
        /// Another record of the book; a time where it may never come.
        case reference(BookKey, until: Timestamp?)
        /// Its turn in the net calculation of its buy, which another item has.
        case turn(BookKey)
        /// Its own buy or refund.
        case base(until: Timestamp)
        /// The next report of a token.
        case queued(TokenID)
        /// Apple's answer to the report of a token.
        case sent(TokenID)
        /// Settled as not owed; a token or, for what refers to another item, that item reopens it.
        case reopening(BookKey?, until: Timestamp)
    }

    /// What Apple has.
    struct Live: Equatable {
        var token: TokenID
        var terms: ReportingTerms
        /// Tax exclusive, in the reporting currency.
        var reported: Milliunits
        var requestIdentifier: String
        /// Paid days before it, of a subscription's event.
        var days: Int64
        var isRetracted: Bool
    }

    /// What is under way to Apple.
    struct Flight: Equatable {
        /// As it was sent.
        var item: String
        /// What a restatement makes of the sale; nil where it stays as it is.
        @Boxed var sale: PurchaseEvent?
        var terms: ReportingTerms
        var share: NetFamily.Share
        var days: Int64
        var isRetraction: Bool
    }

    /// Where a restatement or retraction lies in `purchases.received`, and its time there.
    struct ChangePosition: Equatable {
        var offset: Int64
        var time: Timestamp
    }

    /// Before any sale.
    static let never = Timestamp(milliseconds: 0)

    var standing = Standing.unknown
    /// Normalized; nil while unknown.
    @Boxed var sale: PurchaseEvent?
    /// The event of the buy or refund, while it may be needed again: until Apple has it or it is refused.
    ///
    /// Nil where it has a record of its own; see ``Book/event(_:of:)``.
    @Boxed var event: BookedEvent?
    /// The content of the buy or refund as it was sent first, where it is another now: its repeats
    /// are known by it.
    ///
    /// Of a refund that was refused also where it is no other: who says the same again says it
    /// in ``saidIn``.
    @Boxed var first: PurchaseEvent?
    /// Of a sale that was refused: what settled restatements had made of it.
    ///
    /// They are in no dead letter: a replay of the event as it came, ``first``, tells this.
    @Boxed var restated: PurchaseEvent?
    @Boxed var live: Live?
    /// The item that it points at: the buy of a refund, the start of a subscription's later event.
    var parent: String?
    /// Of what is not owed: until when a token reopens it, or reopened it; ``never`` where it was retracted.
    ///
    /// Nil where an earlier version found that time over.
    var reopensUntil: Timestamp?
    /// Of what is retracted: where its retraction lies in `purchases.received`; nil where an earlier version
    /// retracted it.
    var retractedOffset: Int64?
    /// Of a refund: the currency that its buy had when it was said, which its amounts are in.
    ///
    /// It stays where the refund is refused. Nil where its buy is not known yet, or an earlier
    /// version took it.
    var saidIn: AlphaCode?
    /// Of a buy that was restated to another currency while it was not owed: where the last such change lies
    /// in `purchases.received`, and the currency before it.
    var currencyOffset: Int64?
    var currencyBefore: AlphaCode?
    /// How often Apple accepted it.
    var revision = 0
    /// Numbers of the restatements and retractions that wait: `changeFirst` to before `changeNext`.
    var changeFirst: Int64 = 1
    var changeNext: Int64 = 1
    /// Of these, the retractions that follow from another one: nobody sent them.
    ///
    /// Those that an earlier version made are not counted.
    var oursCount = 0
    /// Of the restatement or retraction that was taken last; nil where an earlier version took it.
    var lastChange: ChangePosition?
    /// Of a buy that waits for a rate: the changes before this number are in its content already.
    ///
    /// They stay until Apple has it: a refusal leaves the buy and its changes to a replay.
    var foldedTo: Int64?
    var wait = Wait.idle
    /// When it began to wait for what it waits for.
    var waitingSince = Timestamp(milliseconds: 0)
    /// Tokens that the event in turn goes under no more: Apple refused them for its date, or
    /// `report` takes no sale under them.
    var excluded: [TokenID] = []
    /// Apple refused a report without saying which item it meant: this one goes alone.
    var goesAlone = false
    /// How often the event in turn was refused for what may pass.
    var attempts = 0
    @Boxed var flight: Flight?
    /// Of a subscription's event: paid days before it, where they were counted when it came.
    var daysBefore: Int64?
    /// Of a buy: its refunds together.
    var refunded = NetFamily.Share.none
    /// Of a buy: the item of its net calculation that stands in a queue, is under way or is settled
    /// next.
    var busyWith: String?
    /// Items that wait for this one are to be woken, from this entry of the due table on.
    var wakesFrom: [UInt8]?
    /// When the last record about it, or about what refers to it, came.
    var touchedAt: Timestamp

    init(touchedAt: Timestamp) {
        self.touchedAt = touchedAt
    }

    var hasChanges: Bool { changeFirst < changeNext }

    /// Whether a sale that is sent again says its amounts in ``saidIn``: it was not owed, or is a
    /// refund that was refused with them.
    func isSaidAgain(by sale: PurchaseEvent) -> Bool {
        standing == .notOwed
            || [first, restated].contains { $0.map { sale.isSameRefund(as: $0) } ?? false }
    }

    /// Its retraction is settled; a repeat of that changes nothing.
    mutating func noteRetraction(at offset: Int64) {
        retractedOffset = isRetracted ? retractedOffset : offset
    }

    /// Apple has its retraction, or was never told of it.
    var isRetracted: Bool {
        live?.isRetracted ?? (standing == .notOwed && reopensUntil == Self.never)
    }

    /// A buy that waits may not be what it was: changes are known that are not in it.
    var isOutdated: Bool { standing == .pending && (foldedTo ?? changeFirst) < changeNext }

    /// Takes note of a restatement or retraction that comes in.
    ///
    /// Where offsets began anew, what is younger than all that was taken is new.
    ///
    /// - Returns: false where it was taken before, and is read again.
    mutating func takes(changeAt position: ChangePosition) -> Bool {
        guard let last = lastChange else {
            lastChange = position
            return true
        }
        guard position.offset > last.offset || position.time > last.time else {
            return false
        }
        lastChange = ChangePosition(
            offset: position.offset,
            time: max(position.time, last.time)
        )
        return true
    }

    /// Its event in turn stands in a token's queue, or Apple's answer to it is waited for.
    var isQueuedOrSent: Bool {
        switch wait {
        case .queued, .sent: true
        default: false
        }
    }

    /// Whether Apple is told of it, is not decided: it waits for the item that it refers to, which may
    /// never come.
    var isUndecided: Bool {
        switch wait {
        case .now: sale?.isLaterSubscriptionEvent == true && parent == nil
        // Who only waits for a time names its own event.
        case .reference(let key, _): key.kind != .event
        default: false
        }
    }

    /// The number of the event in turn; nil where there is none.
    var turn: Int64? {
        switch standing {
        case .pending: 0
        case .live, .notOwed: hasChanges ? changeFirst : nil
        case .unknown: nil
        }
    }

    /// How many events of it that were sent are not settled.
    var heldCount: Int {
        Int(changeNext - changeFirst) - oursCount + (standing == .pending ? 1 : 0)
    }

    var family: NetFamily {
        NetFamily(
            bought: live.flatMap { live in
                sale?.amountTaxExclusive.map {
                    NetFamily.Share(priced: $0, reported: live.reported)
                }
            },
            refunded: refunded
        )
    }

    /// What it counts for in the net calculation of its buy.
    var share: NetFamily.Share? {
        guard let live, !live.isRetracted, let priced = sale?.amountTaxExclusive else {
            return nil
        }
        return NetFamily.Share(priced: priced, reported: live.reported)
    }

    mutating func wait(for wait: Wait, now: Timestamp) {
        if self.wait != wait {
            waitingSince = now
        }
        self.wait = wait
    }

    /// The event in turn is settled: the next one, if there is one, is in turn.
    mutating func finishTurn(of event: BookedEvent, now: Timestamp) {
        if standing != .pending, hasChanges {
            changeFirst += 1
        }
        if event.isOurs {
            oursCount = max(oursCount - 1, 0)
        }
        excluded = []
        goesAlone = false
        attempts = 0
        flight = nil
        touchedAt = max(touchedAt, now)
    }
}
