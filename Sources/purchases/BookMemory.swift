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
        var entries: [DueEntry]?
        /// Put since the last flush.
        var isChanged = false

        init(_ place: BookPlace, _ record: BookRecord?) {
            self.place = place
            self.record = record
        }
    }

    /// Records kept at most, beside those of the batch in hand.
    static let recordCountMax = 8_192

    private struct Generation {
        var slots: [BookPlace: Slot] = [:]
        /// All tokens of a customer, whose key's prefix stands for them.
        var tokens: [BookPlace: [BookPlace]] = [:]

        var count: Int { slots.count + tokens.count }
    }

    /// What was looked at lately, and what was before that: when ``now`` is half of what may be kept,
    /// it takes the place of ``before``.
    private var now = Generation()
    private var before = Generation()

    func slot(_ place: BookPlace) -> Slot? {
        if let slot = now.slots[place] {
            return slot
        }
        guard let slot = before.slots[place] else {
            return nil
        }
        now.slots[place] = slot
        return slot
    }

    func keep(_ slot: Slot) {
        now.slots[slot.place] = slot
    }

    /// The tokens of a customer, all of them; nil where nobody has looked.
    func tokens(of customer: BookPlace) -> [BookPlace]? {
        if let places = now.tokens[customer] {
            return places
        }
        guard let places = before.tokens[customer] else {
            return nil
        }
        now.tokens[customer] = places
        return places
    }

    func keep(tokens: [BookPlace], of customer: BookPlace) {
        now.tokens[customer] = tokens
    }

    /// Between two batches, when nobody holds a slot.
    func trim() {
        if now.count >= Self.recordCountMax / 2 {
            before = now
            now = Generation()
        }
    }

    /// What was put did not happen, or its partition is not ours any more.
    func dropAll() {
        now = Generation()
        before = Generation()
    }
}
