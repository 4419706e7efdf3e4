import StageRuntime
import StateStore
import Testing
import TokenDomain

@testable import purchases

@Suite struct `The counts of what is waited for` {
    private static let lane = Lane(appAppleID: 1, environment: .production)
    private static let anna = PurchaseKey("c1.anna")
    private let store = MemoryStore()
    private let state = StagedState()
    private let recent = RecentChanges()

    init() {
        state.open(store, partition: 0)
    }

    private func item(_ name: String) -> BookKey { .item(name, of: Self.anna, Self.lane) }

    /// Where the entries begin of items that wait for one.
    private func group(_ name: String) -> [UInt8] {
        BookDue.start(.reference, of: item(name).bytes)
    }

    /// Items wait in the store for one each.
    private func store(waitingFor names: [String]) throws {
        var changes = StoreChanges()
        for name in names {
            let entry = group(name) + item("waits for \(name)").bytes
            changes.put([], forKey: entry, in: .due)
        }
        try store.apply(changes, changelogOffset: (store.changelogOffset ?? 0) + 1)
    }

    private func mayWait(_ counts: WaitingGroups, for name: String) throws -> Bool {
        try counts.mayWait(in: group(name), partition: 0, state, recent)
    }

    /// What the due table has of an item that waits for each of some.
    private func entries(_ waiter: String, waitingFor names: [String]) -> DueEntries {
        DueEntries(names.map { (group($0) + item(waiter).bytes, []) })
    }

    private func move(
        _ counts: WaitingGroups,
        _ waiter: String = "waits",
        from before: [String],
        to after: [String],
        partition: Int32 = 0
    ) {
        let change = DueChange(
            before: entries(waiter, waitingFor: before),
            after: entries(waiter, waitingFor: after)
        )
        counts.change(change, partition: partition)
    }

    @Test func `deny what nobody waits for, and nothing that was stored or put since`() throws {
        try store(waitingFor: ["stored"])
        recent.note(
            BookPlace(partition: 0, key: item("new")),
            waitingIn: group("noted")
        )
        let counts = WaitingGroups()
        #expect(try mayWait(counts, for: "stored"))
        #expect(try mayWait(counts, for: "noted"))
        #expect(try !mayWait(counts, for: "added"))
        move(counts, from: [], to: ["added"])
        #expect(try mayWait(counts, for: "added"))
        #expect(try !mayWait(counts, for: "other"))
    }

    @Test func `tell whether more wait than those who are known`() throws {
        try store(waitingFor: ["buy"])
        let counts = WaitingGroups()
        func hasMore(than count: Int, for name: String) -> Bool {
            counts.mayHaveMore(than: count, in: group(name), partition: 0)
        }
        #expect(hasMore(than: 0, for: "other"), "nothing was counted yet")
        #expect(try mayWait(counts, for: "buy"))
        #expect(hasMore(than: 0, for: "buy"))
        #expect(!hasMore(than: 1, for: "buy"))
        #expect(!hasMore(than: 0, for: "other"))
        move(counts, from: [], to: ["buy"])
        #expect(hasMore(than: 1, for: "buy"))
        #expect(!hasMore(than: 2, for: "buy"))
        for number in 0..<300 {
            move(counts, "waits \(number)", from: [], to: ["buy"])
        }
        #expect(hasMore(than: 302, for: "buy"), "a byte that is full counts no more")
    }

    @Test func `are the same for a turn at a buy and for the buy itself`() throws {
        let counts = WaitingGroups()
        #expect(try !mayWait(counts, for: "buy"))
        let turn = DueEntries([(BookDue.turns(of: item("buy")) + item("waits").bytes, [])])
        counts.change(DueChange(before: DueEntries(), after: turn), partition: 0)
        #expect(try mayWait(counts, for: "buy"))
        counts.change(DueChange(before: turn, after: DueEntries()), partition: 0)
        #expect(try !mayWait(counts, for: "buy"))
    }

    @Test func `deny what the last item has left, and not before`() throws {
        let counts = WaitingGroups()
        #expect(try !mayWait(counts, for: "a"))
        move(counts, "1", from: [], to: ["a"])
        move(counts, "2", from: [], to: ["a"])
        move(counts, "1", from: ["a"], to: ["b"])
        #expect(try mayWait(counts, for: "a"))
        #expect(try mayWait(counts, for: "b"))
        move(counts, "2", from: ["a"], to: ["a", "b"])
        #expect(try mayWait(counts, for: "a"))
        move(counts, "2", from: ["a", "b"], to: [])
        #expect(try !mayWait(counts, for: "a"))
        #expect(try mayWait(counts, for: "b"))
    }

    @Test func `count an item from its put to its flush, and then while it stays`() throws {
        let counts = WaitingGroups()
        #expect(try !mayWait(counts, for: "a"))
        let joined = counts.join(group("a"), partition: 0)
        #expect(try mayWait(counts, for: "a"))
        move(counts, from: [], to: ["a"])
        counts.leave(joined, partition: 0)
        #expect(try mayWait(counts, for: "a"))
        // Put there and elsewhere before the flush.
        let passed = counts.join(group("b"), partition: 0)
        move(counts, from: ["a"], to: ["c"])
        #expect(try mayWait(counts, for: "b"))
        counts.leave(passed, partition: 0)
        #expect(try !mayWait(counts, for: "a"))
        #expect(try !mayWait(counts, for: "b"))
        #expect(try mayWait(counts, for: "c"))
    }

    @Test func `have what was put before they were made, and before it is flushed`() throws {
        let counts = WaitingGroups()
        recent.note(BookPlace(partition: 0, key: item("new")), waitingIn: group("a"))
        let joined = counts.join(group("a"), partition: 0)
        #expect(try mayWait(counts, for: "a"))
        move(counts, from: [], to: ["a"])
        counts.leave(joined, partition: 0)
        #expect(try mayWait(counts, for: "a"))
        move(counts, from: ["a"], to: [])
        #expect(try !mayWait(counts, for: "a"))
    }

    @Test func `count each item that the store does not show`() throws {
        for number in 0..<3 {
            recent.note(
                BookPlace(partition: 0, key: item("\(number)")),
                waitingIn: group("a")
            )
        }
        let counts = WaitingGroups()
        for number in 0..<3 {
            #expect(try mayWait(counts, for: "a"))
            move(counts, "\(number)", from: ["a"], to: [])
        }
        #expect(try !mayWait(counts, for: "a"))
    }

    @Test func `deny nothing where more wait for one than are counted`() throws {
        let counts = WaitingGroups()
        #expect(try !mayWait(counts, for: "a"))
        for number in 0..<300 {
            move(counts, "\(number)", from: [], to: ["a"])
        }
        for number in 0..<299 {
            move(counts, "\(number)", from: ["a"], to: [])
        }
        #expect(try mayWait(counts, for: "a"))
    }

    @Test func `never deny what is waited for where groups share their bytes`() throws {
        var limits = WaitingGroups.Limits()
        limits.byteCount = 4
        let counts = WaitingGroups(limits: limits)
        #expect(try !mayWait(counts, for: "0"))
        var generator = SystemRandomNumberGenerator()
        var places = [Int?](repeating: nil, count: 20)
        for _ in 0..<500 {
            let waiter = Int.random(in: 0..<places.count, using: &generator)
            let next = [nil, 0, 1, 2, 3, 4, 5, 6, 7].randomElement(using: &generator) ?? nil
            move(
                counts,
                "\(waiter)",
                from: places[waiter].map { ["\($0)"] } ?? [],
                to: next.map { ["\($0)"] } ?? []
            )
            places[waiter] = next
            for case let place? in places {
                #expect(try mayWait(counts, for: "\(place)"))
            }
        }
    }

    @Test func `are made anew when they were dropped`() throws {
        let counts = WaitingGroups()
        #expect(try !mayWait(counts, for: "a"))
        move(counts, from: [], to: ["a"])
        counts.dropAll()
        #expect(try !mayWait(counts, for: "a"))
    }

    @Test(arguments: [(4, false), (5, true), (6, true)])
    func `deny nothing where more items wait than are looked at`(
        count: Int,
        isDoubted: Bool
    ) throws {
        var limits = WaitingGroups.Limits()
        limits.entryCountMax = 5
        limits.addedCountMax = 1
        let counts = WaitingGroups(limits: limits)
        try store(waitingFor: (0..<count).map { "\($0)" })
        #expect(try mayWait(counts, for: "nobody") == isDoubted)
        for number in 0..<count {
            #expect(try mayWait(counts, for: "\(number)"))
        }
    }

    @Test func `deny again once fewer items wait`() throws {
        var limits = WaitingGroups.Limits()
        limits.entryCountMax = 5
        limits.addedCountMax = 1
        let counts = WaitingGroups(limits: limits)
        let names = (0..<6).map { "\($0)" }
        try store(waitingFor: names)
        #expect(try mayWait(counts, for: "nobody"))
        var changes = StoreChanges()
        for name in names.dropFirst() {
            changes.remove(key: group(name) + item("waits for \(name)").bytes, from: .due)
        }
        try store.apply(changes, changelogOffset: 2)
        move(counts, from: [], to: ["x"])
        #expect(try mayWait(counts, for: "nobody"))
        move(counts, from: [], to: ["x"])
        #expect(try !mayWait(counts, for: "nobody"))
        #expect(try mayWait(counts, for: "0"))
    }

    @Test func `are of each partition its own`() throws {
        state.open(MemoryStore(), partition: 1)
        let counts = WaitingGroups()
        #expect(try !mayWait(counts, for: "a"))
        #expect(try !counts.mayWait(in: group("a"), partition: 1, state, recent))
        move(counts, from: [], to: ["a"], partition: 1)
        #expect(try !mayWait(counts, for: "a"))
        #expect(try counts.mayWait(in: group("a"), partition: 1, state, recent))
    }
}
