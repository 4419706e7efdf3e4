internal import StageRuntime
internal import StateStore

/// Records of the book as they were read or put last, kept from batch to batch: a sale is looked at
/// when it comes, when it is reported and when Apple answered, mostly within seconds.
///
/// Whatever is put goes through here, so a record here is never older than the state. What was put
/// and then aborted must be dropped: see ``dropAll()``.
final class BookMemory {
    /// One record, or that there is none.
    final class Slot {
        let place: BookPlace
        var record: BookRecord?
        /// What the due table has of it once everything staged is committed; nil until that is asked
        /// for.
        var entries: DueEntries?
        /// What was staged of it last.
        var put: StagedState.PutRecord?
        /// Put since the last flush.
        var isChanged = false

        init(_ place: BookPlace, _ record: BookRecord?) {
            self.place = place
            self.record = record
        }
    }

    /// Sales that are not settled, and subscriptions, kept at most, beside those of the batch in hand:
    /// about two kilobytes each.
    static let recordCountMax = 4_096
    /// The same of tokens, and of customers whose tokens are known, some hundred bytes each.
    ///
    /// Customers come again, and to look for their tokens is the dearest question to the store.
    static let tokenCountMax = 4_096

    /// Tokens of a customer that are looked at.
    struct Tokens {
        var places: [BookPlace]
        /// Whether there are no others.
        var isWhole: Bool
    }

    private var records: Kept<Slot>
    private var tokens: Kept<Slot>
    /// The tokens of a customer, by the key of their list.
    private var customers: Kept<Tokens>
    private var traffic: Kept<TokenTraffic>

    init(
        recordCountMax: Int = BookMemory.recordCountMax,
        tokenCountMax: Int = BookMemory.tokenCountMax
    ) {
        records = Kept(countMax: recordCountMax)
        tokens = Kept(countMax: tokenCountMax)
        customers = Kept(countMax: tokenCountMax)
        traffic = Kept(countMax: tokenCountMax)
    }

    func slot(_ place: BookPlace) -> Slot? {
        Self.isOfTokens(place) ? tokens.find(place) : records.find(place)
    }

    private static func isOfTokens(_ place: BookPlace) -> Bool {
        place.key.kind == .token || place.key.kind == .customer
    }

    func keep(_ slot: Slot) {
        if Self.isOfTokens(slot.place) {
            tokens.keep(slot, at: slot.place)
        } else {
            records.keep(slot, at: slot.place)
        }
    }

    /// A sale or an event that is not looked at soon.
    func release(_ place: BookPlace) {
        records.drop(place)
    }

    /// Nil where nobody has looked.
    func tokens(of customer: BookPlace) -> Tokens? { customers.find(customer) }

    func keep(tokens: Tokens, of customer: BookPlace) {
        customers.keep(tokens, at: customer)
    }

    func forget(tokensOf customer: BookPlace) {
        customers.drop(customer)
    }

    /// What is under way and queued under a token; nil where nobody has looked.
    func traffic(of token: BookPlace) -> TokenTraffic? { traffic.find(token) }

    func keep(_ known: TokenTraffic, of token: BookPlace) {
        traffic.keep(known, at: token)
    }

    /// Between two batches, when nobody holds a slot.
    func trim() {
        records.trim()
        tokens.trim()
        customers.trim()
        traffic.trim()
    }

    /// What was put did not happen, or its partition is not ours any more.
    func dropAll() {
        records.dropAll()
        tokens.dropAll()
        customers.dropAll()
        traffic.dropAll()
    }
}

/// What was looked at lately: each time that it was a share of what may be kept, a new round begins, and what
/// nobody looked at for some rounds is forgotten.
private struct Kept<Value> {
    private struct Entry {
        var value: Value
        /// In which it was looked at last.
        var round: Int
    }

    /// The one that began last with them: three quarters of what may be kept are never forgotten.
    private static var roundCount: Int { 4 }

    let countMax: Int
    private var entries: [BookPlace: Entry] = [:]
    private var round = 0
    /// Looked at in this round.
    private var count = 0

    init(countMax: Int) {
        self.countMax = countMax
    }

    mutating func find(_ place: BookPlace) -> Value? {
        guard let index = entries.index(forKey: place) else {
            return nil
        }
        let entry = entries.values[index]
        if entry.round != round {
            entries.values[index].round = round
            count += 1
        }
        return entry.value
    }

    mutating func keep(_ value: Value, at place: BookPlace) {
        let before = entries.updateValue(Entry(value: value, round: round), forKey: place)
        if before?.round != round {
            count += 1
        }
    }

    mutating func drop(_ place: BookPlace) {
        if entries.removeValue(forKey: place)?.round == round {
            count -= 1
        }
    }

    mutating func trim() {
        guard count >= max(countMax / Self.roundCount, 1) else {
            return
        }
        round += 1
        count = 0
        let last = round - Self.roundCount
        var old: [BookPlace] = []
        for (place, entry) in entries where entry.round <= last {
            old.append(place)
        }
        for place in old {
            entries[place] = nil
        }
    }

    mutating func dropAll() {
        entries = [:]
        count = 0
    }
}
