import Testing

@testable import StateStore

@Suite struct `A table of changes` {
    @Test func `finds the newest change to a key, and nothing of others`() {
        let table = ChangeTable()
        #expect(table.isEmpty)
        #expect(found("a", in: table) == nil)
        put("1", "a", in: table)
        put("", "", in: table)
        put("22", "a", in: table)
        table.remove(key: bytes("b").span)
        #expect(found("a", in: table) == .some(bytes("22")))
        #expect(found("", in: table) == .some([]))
        #expect(found("b", in: table) == .some(nil))
        #expect(found("c", in: table) == nil)
        put("3", "b", in: table)
        #expect(found("b", in: table) == .some(bytes("3")))
    }

    /// Keys that differ in their first byte, their last one and their length only.
    @Test func `keeps thousands of like keys apart`() throws {
        let table = ChangeTable()
        let keys = (0..<3_000).map { number in
            let digits = bytes("\(number)")
            return digits + [UInt8](repeating: 0, count: number % 20) + digits
        }
        for (number, key) in keys.enumerated() {
            table.put(bytes("\(number)").span, forKey: key.span)
        }
        for (number, key) in keys.enumerated() {
            #expect(found(key, in: table) == .some(bytes("\(number)")))
        }
        let store = MemoryStore()
        try store.apply(table.changes, changelogOffset: 1)
        #expect(try store.get(keys) == keys.indices.map { bytes("\($0)") })
    }

    private func put(_ value: String, _ key: String, in table: ChangeTable) {
        let (key, value) = (bytes(key), bytes(value))
        table.put(value.span, forKey: key.span)
    }

    /// The outer nil: no change; the inner: removed.
    private func found(_ key: [UInt8], in table: ChangeTable) -> [UInt8]?? {
        switch table.find(key.span) {
        case nil: nil
        case .removed: .some(nil)
        case .value(let range): .some(Array(table.bytes[range]))
        }
    }

    private func found(_ key: String, in table: ChangeTable) -> [UInt8]?? {
        found(bytes(key), in: table)
    }
}
