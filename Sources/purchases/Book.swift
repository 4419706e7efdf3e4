internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// The book as one batch or tick looks at it: what it changes is staged once, by ``flush(into:_:)``.
///
/// A look-up costs the same for a customer with one item and with ten thousand: each record lies
/// under a key of its own.
struct Book {
    let state: StagedState
    let recent: RecentChanges
    let memory: BookMemory
    let waiting: WaitingGroups
    /// In the order in which they changed first.
    private var changed: [BookMemory.Slot] = []
    /// The groups that items joined since the last flush, as ``WaitingGroups`` counts them.
    private var joined: [(partition: Int32, index: Int)] = []
    /// Records that items may wait for, and that changed since these were looked at.
    private var woken: Set<BookPlace> = []
    /// Items whose next event has come to its turn since.
    private var inTurn: Set<BookPlace> = []

    init(
        state: StagedState,
        recent: RecentChanges,
        memory: BookMemory,
        waiting: WaitingGroups
    ) {
        self.state = state
        self.recent = recent
        self.memory = memory
        self.waiting = waiting
    }

    // MARK: Reading

    func slot(_ place: BookPlace) throws(StoreFault) -> BookMemory.Slot {
        if let known = memory.slot(place) {
            return known
        }
        let value = try state.value(place.key.bytes, partition: place.partition)
        let slot = BookMemory.Slot(place, value.map { Self.read($0, place.key) })
        memory.keep(slot)
        return slot
    }

    /// Reads records that are looked at next, with one question a partition: a question about one
    /// record costs as much as one about a dozen.
    func load(_ places: [BookPlace]) throws(StoreFault) {
        var missing: [Int32: [BookPlace]] = [:]
        for place in places where memory.slot(place) == nil {
            missing[place.partition, default: []].append(place)
        }
        for (partition, places) in missing {
            let values = try state.values(places.map(\.key.bytes), partition: partition)
            for (place, value) in zip(places, values) where memory.slot(place) == nil {
                memory.keep(BookMemory.Slot(place, value.map { Self.read($0, place.key) }))
            }
        }
    }

    /// A record of the store is one that this worker wrote and read before.
    static func read(_ value: [UInt8], _ key: BookKey) -> BookRecord {
        do throws(WireFault) {
            return try BookRecord(reading: value, key: key)
        } catch {
            preconditionFailure("a record of the local book cannot be read: \(error.message)")
        }
    }

    func item(_ place: BookPlace) throws(StoreFault) -> BookedItem? {
        guard case .item(let item)? = try slot(place).record else {
            return nil
        }
        return item
    }

    func token(_ place: BookPlace) throws(StoreFault) -> BookedToken? {
        guard case .token(let token)? = try slot(place).record else {
            return nil
        }
        return token
    }

    func subscription(_ place: BookPlace) throws(StoreFault) -> BookedSubscription? {
        guard case .subscription(let subscription)? = try slot(place).record else {
            return nil
        }
        return subscription
    }

    /// The event of an item with a number; `place` is the item's.
    ///
    /// That of the buy or refund is in the item's record; where it is too long for that, or was
    /// written by an earlier version, it has a record of its own, as all others have.
    func event(_ number: Int64, of place: BookPlace) throws(StoreFault) -> BookedEvent? {
        if number == 0, let event = try item(place)?.event {
            return event
        }
        return try storedEvent(number, of: place)
    }

    /// The same, of an item that was just read.
    func event(
        _ number: Int64,
        of item: BookedItem,
        at place: BookPlace
    ) throws(StoreFault) -> BookedEvent? {
        if number == 0, let event = item.event {
            return event
        }
        return try storedEvent(number, of: place)
    }

    private func storedEvent(
        _ number: Int64,
        of place: BookPlace
    ) throws(StoreFault) -> BookedEvent? {
        guard case .event(let event)? = try slot(place.at(place.key.event(number))).record else {
            return nil
        }
        return event
    }

    /// Items in the order in which their events in turn came; those without one come first.
    func inOrderOfEvents(_ places: [BookPlace]) throws(StoreFault) -> [BookPlace] {
        var items: [(offset: Int64, place: BookPlace)] = []
        for place in places {
            var offset: Int64 = 0
            if let number = try item(place)?.turn {
                offset = try event(number, of: place)?.offset ?? 0
            }
            items.append((offset, place))
        }
        return items.sorted { ($0.offset, $0.place) < ($1.offset, $1.place) }.map(\.place)
    }

    // MARK: Writing

    /// Puts a record that was read before, or an event.
    mutating func put(_ record: BookRecord?, at place: BookPlace) {
        change(slotToChange(place), to: record)
    }

    private mutating func change(_ slot: BookMemory.Slot, to record: BookRecord?) {
        if !slot.isChanged {
            slot.isChanged = true
            slot.entries =
                slot.entries ?? slot.record?.entries(slot.place.key)
            changed.append(slot)
        }
        slot.record = record
    }

    /// What the due table has of a record before it changes must be known; of an event it has nothing.
    private func slotToChange(_ place: BookPlace) -> BookMemory.Slot {
        if let known = memory.slot(place) {
            return known
        }
        precondition(place.key.kind == .event, "a record is read before it is changed")
        let slot = BookMemory.Slot(place, nil)
        memory.keep(slot)
        return slot
    }

    mutating func put(_ item: BookedItem?, at place: BookPlace) {
        let slot = slotToChange(place)
        notePeriod(of: item, insteadOf: slot)
        change(slot, to: item.map { .item($0) })
        if let group = item.flatMap({ BookDue.group(of: $0.wait, place.key) }) {
            recent.note(place, waitingIn: group)
            joined.append((place.partition, waiting.join(group, partition: place.partition)))
        }
        if let item, let parent = item.parent {
            let group = BookDue.start(.child, of: place.key.sibling(parent).bytes)
            recent.note(place, waitingIn: group)
        }
    }

    /// Whoever counts a subscription's paid days looks at the periods that changed since.
    private func notePeriod(of item: BookedItem?, insteadOf slot: BookMemory.Slot) {
        // Most sales are of none: what was there before need not be copied to see that.
        guard item?.sale == nil || item?.sale?.subscriptionID != nil else {
            return
        }
        var old: BookedItem?
        if case .item(let item)? = slot.record {
            old = item
        }
        guard let id = (item?.sale ?? old?.sale)?.subscriptionID,
            old.flatMap(BookDue.period(of:))?.1 != item.flatMap(BookDue.period(of:))?.1
        else {
            return
        }
        let subscription = slot.place.key.subscription(id)
        recent.note(slot.place, waitingIn: BookDue.start(.period, of: subscription.bytes))
    }

    mutating func put(_ token: BookedToken, at place: BookPlace) {
        put(.token(token), at: place)
    }

    mutating func put(_ subscription: BookedSubscription, at place: BookPlace) {
        put(.subscription(subscription), at: place)
    }

    mutating func put(_ event: BookedEvent?, number: Int64, of place: BookPlace) {
        put(event.map { .event($0) }, at: place.at(place.key.event(number)))
    }

    /// Keeps the event of a buy or refund: with the item, which the caller puts.
    mutating func keep(_ event: BookedEvent, of item: inout BookedItem, at place: BookPlace) {
        guard event.value.count > Self.eventByteCountMax else {
            item.event = event
            return
        }
        item.event = nil
        put(event, number: 0, of: place)
    }

    /// An event is settled, and not needed again; the caller puts the item.
    mutating func drop(
        _ number: Int64,
        of item: inout BookedItem,
        at place: BookPlace
    ) {
        guard number == 0, item.event != nil else {
            return put(nil as BookedEvent?, number: number, of: place)
        }
        item.event = nil
    }

    /// Bytes of an event that are written again with the item each time that it changes; beyond, the
    /// event has a record of its own.
    static let eventByteCountMax = 4_096

    /// Removes a record for which nothing waits.
    mutating func forget(_ place: BookPlace) throws(StoreFault) {
        _ = try slot(place)
        put(nil as BookRecord?, at: place)
    }

    /// Items may wait for a record that changed.
    mutating func note(woken place: BookPlace) {
        woken.insert(place)
    }

    /// Whether items are to be looked at.
    var hasWoken: Bool { !woken.isEmpty || !inTurn.isEmpty }

    /// The records that items may wait for, in order; each is named once.
    mutating func takeWoken() -> [BookPlace] {
        defer { woken = [] }
        return woken.sorted()
    }

    /// The next event of an item is in its turn.
    mutating func note(inTurn place: BookPlace) {
        inTurn.insert(place)
    }

    /// The items that came to their turn, in the order in which their events came.
    mutating func takeInTurn() throws(StoreFault) -> [BookPlace] {
        guard !inTurn.isEmpty else {
            return []
        }
        let places = try inOrderOfEvents(Array(inTurn))
        inTurn = []
        return places
    }

    /// Whether a record that the store still has was removed since the last commit.
    func isRemoved(_ place: BookPlace) -> Bool {
        if let slot = memory.slot(place), slot.isChanged {
            return slot.record == nil
        }
        return state.stagedValue(forKey: place.key.bytes, partition: place.partition) == .some(nil)
    }

    /// Stages what changed, and counts what is held; its bytes go into the arena of `outputs`, those of the
    /// next transaction.
    mutating func flush(into outputs: inout OutputBatch, _ held: inout HeldCount.Changes) {
        for slot in changed {
            let (partition, key) = (slot.place.partition, slot.place.key)
            let entries = slot.record?.entries(key) ?? DueEntries()
            let due = DueChange(before: slot.entries ?? DueEntries(), after: entries)
            waiting.change(due, partition: partition)
            held.note(due, partition: partition)
            let keyRange = outputs.place(key.bytes.span)
            var value = ByteRange.absent
            if let record = slot.record {
                let start = outputs.arena.count
                record.write(to: &outputs.arena)
                value = outputs.placed(from: start)
            }
            slot.put = state.put(
                recordWithKey: keyRange,
                value: value,
                partition: partition,
                due: due,
                insteadOf: slot.put,
                in: outputs
            )
            var note = DueNote()
            note.note(entries)
            recent.note(note, in: partition)
            slot.entries = entries
            slot.isChanged = false
            if slot.record?.isAtRest ?? true {
                memory.release(slot.place)
            }
        }
        for (partition, index) in joined {
            waiting.leave(index, partition: partition)
        }
        joined = []
        changed = []
        memory.trim()
    }
}
