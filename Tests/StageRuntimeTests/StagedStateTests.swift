import Kafka
import StateStore
import Testing
import TokenDomain

@testable import StageRuntime

/// Derives from a value one entry for each of its bytes; the entry's value is how many bytes there are.
private final class ByteStage: StatefulStage {
    let derivesFromPrevious = true

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {}

    static func entries(of value: [UInt8]?, key: [UInt8]) -> [DueEntry] {
        let value = value ?? []
        return value.map { byte in
            ([byte] + key, [UInt8(value.count)])
        }
    }

    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {
        changes.make(
            DueChange(
                before: Self.entries(of: previous, key: key),
                after: Self.entries(of: value, key: key)
            )
        )
        if let value {
            changes.put(value, forKey: key, in: .state)
        } else {
            changes.remove(key: key, from: .state)
        }
    }
}

@Suite struct `Values that are put with their entries` {
    enum Step {
        case put([UInt8]?, key: UInt8)
        /// What is put goes under way; the one before it is committed first.
        case submit
        case abort
    }

    private let store = MemoryStore()
    /// What a worker has that lost its disk.
    private let restored = MemoryStore()
    private let state = StagedState()

    init() {
        state.open(store, partition: 0)
    }

    private func run(_ steps: [Step]) throws {
        var offset: Int64 = 0
        var underWay: [(key: [UInt8], value: [UInt8]?)] = []
        func commit() throws {
            offset += 1
            state.settle()
            try state.learn(changelogOffsets: [0: offset])
            try StagedState.apply(
                underWay,
                changelogOffset: offset,
                to: restored,
                stage: ByteStage()
            )
        }
        func submit() throws {
            try commit()
            var outputs = OutputBatch()
            state.submit(to: &outputs, topic: 0)
            underWay = outputs.outputs.map { output in
                let value = output.value.isAbsent ? nil : outputs.arena[output.value.indices]
                return (Array(outputs.arena[output.key.indices]), value.map { Array($0) })
            }
        }
        for step in steps {
            switch step {
            case .put(let value, let key):
                let old = try state.values([[key]], partition: 0)[0]
                state.put(
                    value,
                    forKey: [key],
                    partition: 0,
                    due: DueChange(
                        before: ByteStage.entries(of: old, key: [key]),
                        after: ByteStage.entries(of: value, key: [key])
                    )
                )
            case .submit: try submit()
            case .abort:
                state.abort()
                underWay = []
            }
        }
        try submit()
        try commit()
    }

    private func entries(of store: MemoryStore) throws -> [[[UInt8]]] {
        var found: [[[UInt8]]] = []
        for table in StoreTable.allCases {
            try store.scan(table, from: [], within: []) { key, value in
                found.append([[UInt8(table.rawValue)], key, value])
                return true
            }
        }
        return found
    }

    @Test(
        arguments: [
            [.put([1, 2], key: 9)],
            // Twice in one transaction: the store never has the first.
            [
                .put([1, 2], key: 9),
                .put([2, 3, 4], key: 9),
            ],
            // Again while the first is under way, and after its commit.
            [
                .put([1, 2], key: 9), .submit,
                .put([2, 3], key: 9), .submit,
                .put([3], key: 9), .put([5], key: 9), .submit,
                .submit, .put([6], key: 9),
            ],
            // Removed, alone and before another one.
            [
                .put([1], key: 9), .submit, .put(nil, key: 9),
            ],
            [
                .put([1], key: 9), .submit,
                .put(nil, key: 9),
                .put([2], key: 9),
            ],
            // Of two keys in one transaction.
            [
                .put([1], key: 9), .put([7], key: 8), .submit,
                .put([2], key: 9), .put([3], key: 9), .put([8], key: 8), .put([9], key: 8),
            ],
            // What was aborted leaves nothing, and what comes after it replaces what is stored.
            [
                .put([1], key: 9), .submit, .submit,
                .put([2], key: 9), .abort, .put([3], key: 9),
            ],
        ] as [[Step]]
    )
    func `leave in the store what is derived from the changelog`(steps: [Step]) throws {
        try run(steps)
        let expected = try entries(of: restored)
        #expect(try entries(of: store) == expected)
        #expect(!expected.isEmpty || steps.count == 3)
    }
}
