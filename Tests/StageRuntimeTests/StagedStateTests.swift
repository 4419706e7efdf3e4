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
        /// With its entries, or without.
        case put([UInt8]?, key: UInt8, withEntries: Bool)
        /// What is put goes under way; the one before it is committed first.
        case submit
        case abort
    }

    private let store = MemoryStore()
    private let state = StagedState()
    private let stage = ByteStage()

    init() {
        state.open(store, partition: 0)
    }

    private func run(_ steps: [Step], withEntries: Bool) throws -> [[[UInt8]]] {
        var offset: Int64 = 0
        func commit() throws {
            offset += 1
            state.settle()
            try state.learn(changelogOffsets: [0: offset], stage: stage)
        }
        func submit() throws {
            try commit()
            var outputs = OutputBatch()
            state.submit(to: &outputs, topic: 0)
        }
        for step in steps {
            switch step {
            case .put(let value, let key, let hasEntries):
                guard withEntries, hasEntries else {
                    state.put(value, forKey: [key], partition: 0)
                    continue
                }
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
            case .abort: state.abort()
            }
        }
        try submit()
        try commit()
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
            [.put([1, 2], key: 9, withEntries: true)],
            // Twice in one transaction: the store never has the first.
            [
                .put([1, 2], key: 9, withEntries: true),
                .put([2, 3, 4], key: 9, withEntries: true),
            ],
            // Again while the first is under way, and after its commit.
            [
                .put([1, 2], key: 9, withEntries: true), .submit,
                .put([2, 3], key: 9, withEntries: true), .submit,
                .put([3], key: 9, withEntries: true), .put([5], key: 9, withEntries: true), .submit,
                .submit, .put([6], key: 9, withEntries: true),
            ],
            // Removed, alone and before another one.
            [
                .put([1], key: 9, withEntries: true), .submit, .put(nil, key: 9, withEntries: true),
            ],
            [
                .put([1], key: 9, withEntries: true), .submit,
                .put(nil, key: 9, withEntries: false),
                .put([2], key: 9, withEntries: true),
            ],
            // With and without entries in one transaction, in both orders.
            [
                .put([1], key: 9, withEntries: true), .put([7], key: 8, withEntries: false),
                .submit,
                .put([2], key: 9, withEntries: true), .put([3], key: 9, withEntries: false),
                .put([8], key: 8, withEntries: false), .put([9], key: 8, withEntries: true),
            ],
            // What was aborted leaves nothing, and what comes after it replaces what is stored.
            [
                .put([1], key: 9, withEntries: true), .submit, .submit,
                .put([2], key: 9, withEntries: true), .abort, .put([3], key: 9, withEntries: true),
            ],
        ] as [[Step]]
    )
    func `leave in the store what is derived from the changelog`(steps: [Step]) throws {
        let other = `Values that are put with their entries`()
        let expected = try other.run(steps, withEntries: false)
        #expect(try run(steps, withEntries: true) == expected)
        #expect(!expected.isEmpty || steps.count == 3)
    }
}
