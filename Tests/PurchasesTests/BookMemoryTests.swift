import Kafka
import StageRuntime
import StateStore
import Testing
import TokenDomain

@testable import purchases

@Suite struct `Records kept in memory` {
    private static let lane = Lane(appAppleID: 1, environment: .production)
    private static let anna = PurchaseKey("c1.anna")
    private static let now = Timestamp(milliseconds: 1_768_003_200_000)

    private func item(_ number: Int) -> BookPlace {
        BookPlace(partition: 0, key: .item("\(number)", of: Self.anna, Self.lane))
    }

    private func token(_ number: Int) -> BookPlace {
        BookPlace(partition: 0, key: .token(TokenID("\(number)"), of: Self.anna))
    }

    private func known(_ memory: BookMemory, _ places: [BookPlace]) -> [Bool] {
        places.map { memory.slot($0) != nil }
    }

    @Test func `are three quarters of the most, or more, and never more than that and a batch`() {
        let memory = BookMemory(recordCountMax: 8, tokenCountMax: 2)
        for number in 0..<3 {
            memory.keep(BookMemory.Slot(item(number), nil))
        }
        memory.trim()
        // Each two are a quarter, and make room for as many again.
        for number in 3..<9 {
            #expect(memory.slot(item(number)) == nil)
            memory.keep(BookMemory.Slot(item(number), nil))
            memory.trim()
        }
        #expect(
            known(memory, (0..<9).map(item)) == [false, false, false] + [
                true, true, true, true, true, true,
            ]
        )
    }

    @Test func `stay where they are looked at again`() {
        let memory = BookMemory(recordCountMax: 4, tokenCountMax: 4)
        memory.keep(BookMemory.Slot(item(0), nil))
        memory.keep(BookMemory.Slot(item(1), nil))
        memory.trim()
        for number in 2..<6 {
            #expect(memory.slot(item(0)) != nil)
            memory.keep(BookMemory.Slot(item(number), nil))
            memory.trim()
        }
        #expect(known(memory, [0, 1, 2, 5].map(item)) == [true, false, false, true])
    }

    @Test func `are gone at once where they are released, in whatever part they lie`() {
        let memory = BookMemory(recordCountMax: 4, tokenCountMax: 4)
        for number in 0..<3 {
            memory.keep(BookMemory.Slot(item(number), nil))
            memory.trim()
        }
        for number in 0..<3 {
            memory.release(item(number))
            #expect(memory.slot(item(number)) == nil)
        }
    }

    @Test func `of tokens stay whatever is sold`() {
        let memory = BookMemory(recordCountMax: 2, tokenCountMax: 8)
        memory.keep(BookMemory.Slot(token(0), nil))
        memory.keep(tokens: .init(places: [token(0)], isWhole: true), of: item(99))
        for number in 0..<20 {
            memory.keep(BookMemory.Slot(item(number), nil))
            memory.trim()
        }
        #expect(memory.slot(token(0)) != nil)
        #expect(memory.tokens(of: item(99))?.places == [token(0)])
        #expect(memory.slot(item(0)) == nil)
        memory.dropAll()
        #expect(memory.slot(token(0)) == nil)
        #expect(memory.tokens(of: item(99)) == nil)
    }

    /// A book over a store in memory, in which nothing is committed.
    private struct Rig {
        let state = StagedState()
        let recent = RecentChanges()
        let waiting = WaitingGroups()
        let memory: BookMemory

        init(_ memory: BookMemory) {
            self.memory = memory
            state.open(MemoryStore(), partition: 0)
        }

        func open() -> Book {
            Book(state: state, recent: recent, memory: memory, waiting: waiting)
        }
    }

    private func live(_ revision: Int) -> BookedItem {
        var item = BookedItem(touchedAt: Self.now)
        item.standing = .live
        item.revision = revision
        return item
    }

    @Test func `that made room before their commit are read as they were put last`() throws {
        let rig = Rig(BookMemory(recordCountMax: 2, tokenCountMax: 2))
        var outputs = OutputBatch()
        var held = HeldCount().noChanges
        for revision in 1...2 {
            for number in 0..<5 {
                var book = rig.open()
                #expect(try book.item(item(number))?.revision ?? 0 == revision - 1)
                book.put(live(revision), at: item(number))
                // Nothing makes room for another while it is not staged.
                for other in 10..<15 {
                    _ = try book.item(item(other))
                }
                #expect(try book.item(item(number))?.revision == revision)
                book.flush(into: &outputs, &held)
            }
            #expect(rig.memory.slot(item(0)) == nil)
        }
        var book = rig.open()
        try book.forget(item(3))
        book.flush(into: &outputs, &held)
        rig.memory.dropAll()
        book = rig.open()
        #expect(try book.item(item(3)) == nil)
        #expect(try book.item(item(4)) == live(2))
    }

    @Test func `of a customer's tokens are complete though the newest is not committed`() throws {
        let rig = Rig(BookMemory(recordCountMax: 2, tokenCountMax: 2))
        var outputs = OutputBatch()
        var held = HeldCount().noChanges
        func put(_ number: Int) throws {
            var book = rig.open()
            #expect(try book.token(token(number)) == nil)
            var record = BookedToken(touchedAt: Self.now)
            record.token = ExternalPurchaseToken(
                externalPurchaseID: TokenID("\(number)"),
                appAppleID: 1,
                bundleID: "com.example.1",
                tokenType: nil,
                tokenCreationDate: Self.now,
                tokenExpirationDate: nil
            )
            try book.putNew(record, at: token(number), now: Self.now)
            book.flush(into: &outputs, &held)
        }
        func count() throws -> Int {
            var book = rig.open()
            defer { book.flush(into: &outputs, &held) }
            let anna = BookPlace(partition: 0, key: .customer(Self.anna))
            return try book.tokens(of: anna, named: [], now: Self.now).count
        }
        for number in 0..<4 {
            try put(number)
            #expect(try count() == number + 1)
        }
        rig.memory.dropAll()
        #expect(try count() == 4)
    }
}
