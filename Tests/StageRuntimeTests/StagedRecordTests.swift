import Kafka
import StateStore
import Testing

@testable import StageRuntime

/// Of a value one entry for each of its bytes.
private enum ByteEntries {
    static func change(_ key: [UInt8], from before: [UInt8]?, to after: [UInt8]?) -> DueChange {
        func entries(_ value: [UInt8]?) -> [DueEntry] { (value ?? []).map { ([$0] + key, []) } }
        return DueChange(before: entries(before), after: entries(after))
    }
}

/// A state whose records are put into the outputs, beside one that gets values.
@Suite struct `Records that are put with the changes of their entries` {
    private final class Side {
        let store = MemoryStore()
        let state = StagedState()
        var outputs = OutputBatch()
        private var offset: Int64 = 0

        init() {
            state.open(store, partition: 0)
        }

        /// What was put goes under way; the one before it is committed first.
        func submit() throws -> [[UInt8]: [UInt8]?] {
            offset += 1
            state.settle()
            try state.learn(changelogOffsets: [0: offset])
            state.submit(to: &outputs, topic: 0)
            var written: [[UInt8]: [UInt8]?] = [:]
            for output in outputs.outputs {
                let key = Array(outputs.arena[output.key.indices])
                #expect(written[key] == nil, "a key is written once")
                let value = output.value
                written[key] = .some(
                    value.isAbsent ? nil : Array(outputs.arena[value.indices])
                )
            }
            outputs = OutputBatch()
            return written
        }

        func stored() throws -> [[[UInt8]]] {
            var found: [[[UInt8]]] = []
            for table in StoreTable.allCases {
                try store.scan(table, from: [], within: []) { key, value in
                    found.append([[UInt8(table.rawValue)], key, value])
                    return true
                }
            }
            return found
        }
    }

    @Test(arguments: 0..<50)
    func `are written once a transaction, and stored as values are`(seed: Int) throws {
        var number = UInt64(seed) &* 0x9e37_79b9_7f4a_7c15 | 1
        func next(_ count: Int) -> Int {
            number = number &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(number >> 33) % count
        }
        let (other, put) = (Side(), Side())
        let keys: [[UInt8]] = [[1], [1, 2], [3]]
        var last: [[UInt8]: StagedState.PutRecord] = [:]
        for _ in 0..<60 {
            switch next(8) {
            case 0: #expect(try put.submit() == other.submit())
            case 1 where next(3) == 0:
                for side in [put, other] {
                    side.state.abort()
                    side.outputs = OutputBatch()
                }
            default:
                let key = keys[next(keys.count)]
                let value: [UInt8]? = next(4) == 0 ? nil : (0...next(3)).map { _ in UInt8(next(5)) }
                let old = try put.state.value(key, partition: 0)
                #expect(try other.state.value(key, partition: 0) == old)
                other.state.put(
                    value,
                    forKey: key,
                    partition: 0,
                    due: ByteEntries.change(key, from: old, to: value)
                )
                let keyRange = put.outputs.place(key)
                last[key] = put.state.put(
                    recordWithKey: keyRange,
                    value: value.map { put.outputs.place($0) } ?? .absent,
                    partition: 0,
                    due: ByteEntries.change(key, from: old, to: value),
                    insteadOf: last[key],
                    in: put.outputs
                )
                #expect(put.state.stagedValue(forKey: key, partition: 0) == .some(value))
            }
            #expect(
                try put.state.values(keys, partition: 0)
                    == other.state.values(keys, partition: 0)
            )
        }
        for _ in 0..<2 {
            #expect(try put.submit() == other.submit())
        }
        #expect(try put.stored() == other.stored())
    }
}
