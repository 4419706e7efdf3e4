internal import StateStore
internal import TokenDomain

/// The due table of the book: what waits for what, so that nothing is ever searched for.
///
/// A region's byte comes first. Regions that end in a time are ordered by it; the others by the key
/// of what is waited for.
enum BookDue {
    enum Region: UInt8 {
        /// An app's sales that wait for their own buy: base.
        case base = 0x61  // a
        /// referred item + referring item: that is live or under way.
        case child = 0x63  // c
        /// token + item: sent to Apple.
        case sent = 0x66  // f
        /// token + date + item: in the queue of a token.
        case queued = 0x71  // q
        /// record + item: waits for the record. record + mark + item: for its turn in the net
        /// calculation of a buy; one look finds both.
        case reference = 0x72  // r
        /// subscription + start + item: a period of what is live, not owed, or settled one day; see
        /// ``BookDue/period(of:)``.
        case period = 0x73  // s
        /// purchase key + lane + item: waits for a token.
        case token = 0x74  // t
        /// item: waits for an exchange rate.
        case rate = 0x76  // v
        /// time + item.
        case waiting = 0x77  // w
        /// time + record.
        case forgotten = 0x78  // x
        /// record whose waiting items are to be woken.
        case waking = 0x79  // y
    }

    // MARK: Keys

    /// Where the entries begin that wait for something, or belong to it.
    static func start(_ region: Region, of key: [UInt8]) -> [UInt8] { entry(region, of: key) }

    /// Made in one piece: a sale makes a dozen entries.
    private static func entry(
        _ region: Region,
        of key: [UInt8],
        at number: Int64? = nil,
        _ item: [UInt8] = []
    ) -> [UInt8] {
        var entry: [UInt8] = []
        entry.reserveCapacity(3 + key.count + 8 + item.count)
        append(region, of: key, at: number, item, to: &entry)
        return entry
    }

    private static func append(
        _ region: Region,
        of key: [UInt8],
        at number: Int64? = nil,
        _ item: [UInt8],
        to entry: inout [UInt8]
    ) {
        entry.append(region.rawValue)
        entry.append(UInt8(key.count >> 8))
        entry.append(UInt8(key.count & 0xff))
        entry.append(contentsOf: key)
        if let number {
            BigEndian.append(number, to: &entry)
        }
        entry.append(contentsOf: item)
    }

    /// No kind of key begins with it.
    private static let turnMark: UInt8 = 0x7a  // z

    /// Where the entries begin of the items that wait for a record, and for no turn.
    static func references(to key: BookKey) -> [UInt8] {
        start(.reference, of: key.bytes) + [BookKey.Kind.item.rawValue]
    }

    /// Where the entries begin of those that wait for their turn in the net calculation of a buy.
    static func turns(of buy: BookKey) -> [UInt8] { start(.reference, of: buy.bytes) + [turnMark] }

    /// Whether an entry behind the start of those that wait for a record is of one that waits for its
    /// turn.
    static func isTurn(_ entry: [UInt8], after start: [UInt8]) -> Bool {
        entry.count > start.count && entry[start.count] == turnMark
    }

    /// What the entries of a customer's sales that wait for a token have in common.
    static func tokenGroup(_ purchaseKey: PurchaseKey, _ lane: Lane) -> [UInt8] {
        BookKey.item("", of: purchaseKey, lane).bytes
    }

    /// What the sales have in common that a token may carry.
    static func tokenGroup(of token: BookedToken, _ key: BookKey) -> [UInt8] {
        let lane =
            token.token?.lane ?? Lane(appAppleID: 0, environment: key.tokenID.environment)
        return tokenGroup(key.purchaseKey, lane)
    }

    /// Where the entry of an item lies that waits for a record, before its own key; nil where it
    /// waits for none.
    static func group(of wait: BookedItem.Wait, _ key: BookKey) -> [UInt8]? {
        switch wait {
        case .idle, .now, .rate, .base: return nil
        case .token, .reference, .turn, .queued, .sent, .reopening: break
        }
        var group: [UInt8] = []
        group.reserveCapacity(key.bytes.count + groupSpareByteCount)
        appendGroup(of: wait, key, to: &group)
        return group
    }

    /// A group names a token or another item, which is mostly as long as the item.
    private static let groupSpareByteCount = 16

    /// Appends nothing where the item waits for no record.
    private static func appendGroup(
        of wait: BookedItem.Wait,
        _ key: BookKey,
        to entry: inout [UInt8]
    ) {
        switch wait {
        case .idle, .now, .rate, .base: break
        case .token, .reopening(nil, _):
            append(.token, of: tokenGroup(key.purchaseKey, key.lane), [], to: &entry)
        case .reference(let other, _), .reopening(let other?, _):
            append(.reference, of: other.bytes, [], to: &entry)
        case .turn(let buy):
            append(.reference, of: buy.bytes, [turnMark], to: &entry)
        case .queued(let token): append(.queued, ofToken: token, key, to: &entry)
        case .sent(let token): append(.sent, ofToken: token, key, to: &entry)
        }
    }

    /// Appends the region and a token of the customer whose item has a key.
    private static func append(
        _ region: Region,
        ofToken token: TokenID,
        _ key: BookKey,
        to entry: inout [UInt8]
    ) {
        let start = entry.count
        entry.append(region.rawValue)
        entry.append(0)
        entry.append(0)
        key.append(token, to: &entry)
        let count = entry.count - start - 3
        entry[start + 1] = UInt8(count >> 8)
        entry[start + 2] = UInt8(count & 0xff)
    }

    static func start(_ region: Region) -> [UInt8] { [region.rawValue] }

    /// Where those begin of a region ordered by time that have a time, or a later one.
    static func start(_ region: Region, at time: Timestamp) -> [UInt8] {
        var start = start(region)
        BigEndian.append(time.milliseconds, to: &start)
        return start
    }

    /// Region and record that an entry, or a group of entries, waits for: what stands before the
    /// waiting item, and before the mark of a turn.
    static func target(of entry: [UInt8]) -> [UInt8] {
        Array(entry.prefix(targetByteCount(of: entry[...])))
    }

    /// The kind of the record that an entry waits for.
    static func targetKind(of entry: ArraySlice<UInt8>) -> BookKey.Kind? {
        entry.count > 3 ? BookKey.Kind(rawValue: entry[entry.startIndex + 3]) : nil
    }

    /// How many bytes of an entry these are.
    static func targetByteCount(of entry: ArraySlice<UInt8>) -> Int {
        guard entry.count > 2 else {
            return entry.count
        }
        let count = 3 + Int(entry[entry.startIndex + 1]) << 8 + Int(entry[entry.startIndex + 2])
        return min(count, entry.count)
    }

    /// The key behind a group of ``start(_:of:)``, and behind the eight bytes of a number where there
    /// is one.
    static func key(
        of entry: [UInt8],
        after start: [UInt8],
        numberByteCount: Int = 0
    ) -> BookKey? {
        guard entry.starts(with: start), entry.count > start.count + numberByteCount else {
            return nil
        }
        return BookKey(bytes: Array(entry[(start.count + numberByteCount)...]))
    }

    /// The time of an entry of a timed region.
    static func time(of entry: ArraySlice<UInt8>) -> Timestamp {
        Timestamp(milliseconds: BigEndian.number(entry, at: entry.startIndex + 1))
    }

    /// The time and the key of an entry of a timed region.
    static func timed(_ entry: [UInt8], _ region: Region) -> (time: Timestamp, key: BookKey)? {
        guard entry.count > 9, entry[0] == region.rawValue else {
            return nil
        }
        return (
            time(of: entry[...]),
            BookKey(bytes: Array(entry[9...]))
        )
    }

    /// The app and the environment of the item of an entry.
    static func lane(of entry: ArraySlice<UInt8>, _ region: Region) -> Lane? {
        let start = itemStart(in: entry, region)
        guard start + 3 <= entry.endIndex else {
            return nil
        }
        // Behind the kind, the purchase key with its length, and the environment.
        let app = start + 3 + Int(entry[start + 1]) << 8 + Int(entry[start + 2]) + 1
        guard app + 8 <= entry.endIndex else {
            return nil
        }
        return Lane(
            appAppleID: BigEndian.number(entry, at: app),
            environment: entry[app - 1] == 1 ? .sandbox : .production
        )
    }

    /// Where the item of an entry begins, whatever stands before it.
    private static func itemStart(in entry: ArraySlice<UInt8>, _ region: Region) -> Int {
        let start =
            switch region {
            case .base, .rate: entry.startIndex + 1
            case .waiting: entry.startIndex + 9
            case .reference, .token, .queued, .sent:
                entry.startIndex + targetByteCount(of: entry) + (region == .queued ? 8 : 0)
            default: entry.endIndex
            }
        let isTurn =
            region == .reference && start < entry.endIndex && entry[start] == turnMark
        return isTurn ? start + 1 : start
    }

    // MARK: Entries of a record

    static func entries(of item: BookedItem, _ key: BookKey) -> DueEntries {
        var entries = DueEntries()
        appendWait(of: item, key, to: &entries)
        if item.wakesFrom != nil {
            entries.append(.waking, key)
        }
        if let parent = parent(of: item, key) {
            entries.append { append(.child, of: parent.bytes, key.bytes, to: &$0) }
        }
        if let (sale, period) = period(of: item), let id = sale.subscriptionID {
            let note = BigEndian.bytes(period.end.milliseconds) + [period.isPaid ? 1 : 0]
            entries.append(note: note) {
                append(
                    .period,
                    of: key.subscription(id).bytes,
                    at: period.start.milliseconds,
                    key.bytes,
                    to: &$0
                )
            }
        }
        return entries
    }

    /// Most items have one event that is not settled, or none.
    private static func heldNote(_ count: Int) -> [UInt8] {
        heldNotes.indices.contains(count) ? heldNotes[count] : BigEndian.bytes(Int64(count))
    }

    private static let heldNotes = (0...2).map { BigEndian.bytes(Int64($0)) }

    private static func appendWait(
        of item: BookedItem,
        _ key: BookKey,
        to entries: inout DueEntries
    ) {
        // Counted by ``HeldCount``.
        let note = heldNote(item.heldCount)
        func appendGroup(note: [UInt8]) {
            entries.append(note: note) {
                BookDue.appendGroup(of: item.wait, key, to: &$0)
                $0.append(contentsOf: key.bytes)
            }
        }
        switch item.wait {
        case .idle:
            entries.append(.forgotten, forgetAt(touched: item.touchedAt), key)
        case .now:
            entries.append(.waiting, item.waitingSince, key, note: note)
        case .token(let until):
            appendGroup(note: note)
            entries.append(.waiting, until, key)
        case .rate:
            entries.append(.rate, key, note: note)
        case .reference(_, let until):
            appendGroup(note: note)
            if let until {
                entries.append(.waiting, until, key)
            }
        case .turn, .sent:
            appendGroup(note: note)
        case .base(let until):
            entries.append(.base, key, note: note)
            entries.append(.waiting, until, key)
        case .queued(let token):
            entries.append(note: note) {
                append(.queued, ofToken: token, key, to: &$0)
                BigEndian.append(queueDate(of: item), to: &$0)
                $0.append(contentsOf: key.bytes)
            }
        case .reopening(_, let until):
            appendGroup(note: [])
            entries.append(.waiting, until, key)
        }
    }

    /// Where an item stands in the queue of a token: the oldest sale comes first.
    static func queueKey(of item: BookedItem, _ key: BookKey, in token: TokenID) -> [UInt8] {
        entry(
            .queued,
            of: key.token(token).bytes,
            at: queueDate(of: item),
            key.bytes
        )
    }

    /// Of its sale, as UNIX milliseconds.
    static func queueDate(of item: BookedItem) -> Int64 {
        item.sale?.creationDate?.milliseconds ?? 0
    }

    /// The item that this one points at, where Apple has this one or may soon have it.
    private static func parent(of item: BookedItem, _ key: BookKey) -> BookKey? {
        let isThere =
            item.isQueuedOrSent || item.live.map { !$0.isRetracted || item.hasChanges } ?? false
        guard isThere, let id = item.parent else {
            return nil
        }
        return key.sibling(id)
    }

    /// The period of a subscription that Apple has or may have, or that is not owed.
    ///
    /// Also of what only waits: months go under several tokens, and are reported in any order.
    static func period(
        of item: BookedItem
    ) -> (PurchaseEvent, PaidService.Period)? {
        let isThere =
            switch item.standing {
            case .pending: !item.isUndecided
            case .notOwed, .live: true
            case .unknown: false
            }
        // Most sales have none, and to take one out copies it.
        guard isThere, item.sale?.subscriptionStartDate != nil, !item.isRetracted,
            let sale = item.sale, let period = PaidService.Period(of: sale)
        else {
            return nil
        }
        return (sale, period)
    }

    /// The period of an entry of the due table.
    static func period(
        _ key: [UInt8],
        _ note: [UInt8],
        in group: [UInt8]
    ) -> PaidService.Period? {
        guard key.count > group.count + 8, note.count == 9 else {
            return nil
        }
        return PaidService.Period(
            start: Timestamp(milliseconds: BigEndian.number(key, at: group.count)),
            end: Timestamp(milliseconds: BigEndian.number(note, at: 0)),
            isPaid: note[8] == 1
        )
    }

    static func entries(of token: BookedToken, _ key: BookKey) -> DueEntries {
        entries(wakesFrom: token.wakesFrom, forgetAt: token.forgetAt, key)
    }

    private static func entries(
        wakesFrom: [UInt8]?,
        forgetAt: Timestamp,
        _ key: BookKey
    ) -> DueEntries {
        var entries = DueEntries()
        if wakesFrom != nil {
            entries.append(.waking, key)
        }
        entries.append(.forgotten, forgetAt, key)
        return entries
    }

    /// How much later than written the last change of a record may have been: each change of what
    /// refers to it would write it anew.
    static let touchInterval = Milliseconds.days(10)

    /// When what was touched may be forgotten.
    static func forgetAt(touched: Timestamp) -> Timestamp {
        touched + touchInterval + SeenBefore.keyLifetime
    }

    static func entries(of customer: BookedCustomer, _ key: BookKey) -> DueEntries {
        entries(wakesFrom: nil, forgetAt: forgetAt(touched: customer.touchedAt), key)
    }

    static func entries(of subscription: BookedSubscription, _ key: BookKey) -> DueEntries {
        entries(
            wakesFrom: subscription.wakesFrom,
            forgetAt: forgetAt(touched: subscription.touchedAt),
            key
        )
    }
}

extension DueEntries {
    /// Of a region ordered by the key of the record itself.
    fileprivate mutating func append(_ region: BookDue.Region, _ key: BookKey, note: [UInt8] = []) {
        append(note: note) {
            $0.append(region.rawValue)
            $0.append(contentsOf: key.bytes)
        }
    }

    /// Of a region ordered by time.
    fileprivate mutating func append(
        _ region: BookDue.Region,
        _ time: Timestamp,
        _ key: BookKey,
        note: [UInt8] = []
    ) {
        append(note: note) {
            $0.append(region.rawValue)
            BigEndian.append(time.milliseconds, to: &$0)
            $0.append(contentsOf: key.bytes)
        }
    }
}
