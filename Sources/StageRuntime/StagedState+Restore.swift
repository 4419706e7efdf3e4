internal import StateStore

/// What a store makes of changelog records alone.
extension StagedState {
    /// Writes changelog records to a store as the stage reads them: on restore.
    static func apply(
        _ records: [(key: [UInt8], value: [UInt8]?)],
        changelogOffset: Int64,
        to store: any PartitionStore,
        stage: any StatefulStage
    ) throws(StoreFault) {
        var changes = StoreChanges()
        // On restore a key may stand in a batch more than once: its predecessor is then the one
        // before it in the batch, not the one in the store.
        let stored = stage.derivesFromPrevious ? try store.get(records.map(\.key)) : []
        var newest: [Key: [UInt8]?] = [:]
        for (index, record) in records.enumerated() {
            var previous: [UInt8]?
            if stage.derivesFromPrevious {
                let key = Key(bytes: record.key)
                previous = newest[key] ?? stored[index]
                newest[key] = .some(record.value)
            }
            stage.deriveChanges(
                key: record.key,
                value: record.value,
                previous: previous,
                into: &changes
            )
            try refuseIfUnreadable(changes, index)
        }
        try store.apply(changes, changelogOffset: changelogOffset)
    }

    private static func refuseIfUnreadable(
        _ changes: StoreChanges,
        _ index: Int
    ) throws(StoreFault) {
        guard let refusal = changes.refusal else {
            return
        }
        throw .unreadable(recordIndex: index, message: refusal)
    }
}
