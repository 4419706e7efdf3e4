import StageRuntime
import StateStore
import Testing
import TokenDomain

@testable import purchases

@Suite struct `The bits of what is waited for` {
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

    private func mayWait(_ bits: WaitingGroups, for name: String) throws -> Bool {
        try bits.mayWait(in: group(name), partition: 0, state, recent)
    }

    @Test func `deny what nobody waits for, and nothing that was stored or put since`() throws {
        try store(waitingFor: ["stored"])
        recent.note(
            BookPlace(partition: 0, key: item("new")),
            waitingIn: group("noted")
        )
        let bits = WaitingGroups()
        #expect(try mayWait(bits, for: "stored"))
        #expect(try mayWait(bits, for: "noted"))
        #expect(try !mayWait(bits, for: "added"))
        bits.add(group("added"), partition: 0)
        #expect(try mayWait(bits, for: "added"))
        #expect(try !mayWait(bits, for: "other"))
    }

    @Test func `are the same for a turn at a buy and for the buy itself`() throws {
        let bits = WaitingGroups()
        #expect(try !mayWait(bits, for: "buy"))
        bits.add(BookDue.turns(of: item("buy")), partition: 0)
        #expect(try mayWait(bits, for: "buy"))
    }

    @Test func `are made anew when one more was added than they have room for`() throws {
        var limits = WaitingGroups.Limits()
        limits.addedCountMax = 3
        let bits = WaitingGroups(limits: limits)
        #expect(try !mayWait(bits, for: "1"))
        for number in 1...3 {
            bits.add(group("\(number)"), partition: 0)
        }
        #expect(try mayWait(bits, for: "1"))
        // Of these only one is stored, and one is on its way there.
        try store(waitingFor: ["2"])
        recent.note(BookPlace(partition: 0, key: item("new")), waitingIn: group("3"))
        bits.add(group("4"), partition: 0)
        #expect(try !mayWait(bits, for: "1"))
        #expect(try mayWait(bits, for: "2"))
        #expect(try mayWait(bits, for: "3"))
        #expect(try !mayWait(bits, for: "4"))
        // And there is room for as many again.
        for number in 5...7 {
            bits.add(group("\(number)"), partition: 0)
        }
        #expect(try mayWait(bits, for: "5"))
    }

    @Test(arguments: [(4, false), (5, true), (6, true)])
    func `deny nothing where more items wait than are looked at`(
        count: Int,
        isDoubted: Bool
    ) throws {
        var limits = WaitingGroups.Limits()
        limits.entryCountMax = 5
        limits.addedCountMax = 1
        let bits = WaitingGroups(limits: limits)
        try store(waitingFor: (0..<count).map { "\($0)" })
        #expect(try mayWait(bits, for: "nobody") == isDoubted)
        for number in 0..<count {
            #expect(try mayWait(bits, for: "\(number)"))
        }
    }

    @Test func `deny again once fewer items wait`() throws {
        var limits = WaitingGroups.Limits()
        limits.entryCountMax = 5
        limits.addedCountMax = 1
        let bits = WaitingGroups(limits: limits)
        let names = (0..<6).map { "\($0)" }
        try store(waitingFor: names)
        #expect(try mayWait(bits, for: "nobody"))
        var changes = StoreChanges()
        for name in names.dropFirst() {
            changes.remove(key: group(name) + item("waits for \(name)").bytes, from: .due)
        }
        try store.apply(changes, changelogOffset: 2)
        bits.add(group("x"), partition: 0)
        #expect(try mayWait(bits, for: "nobody"))
        bits.add(group("x"), partition: 0)
        #expect(try !mayWait(bits, for: "nobody"))
        #expect(try mayWait(bits, for: "0"))
    }

    @Test func `are of each partition its own`() throws {
        state.open(MemoryStore(), partition: 1)
        let bits = WaitingGroups()
        #expect(try !mayWait(bits, for: "a"))
        #expect(try !bits.mayWait(in: group("a"), partition: 1, state, recent))
        bits.add(group("a"), partition: 1)
        #expect(try !mayWait(bits, for: "a"))
        #expect(try bits.mayWait(in: group("a"), partition: 1, state, recent))
    }
}
