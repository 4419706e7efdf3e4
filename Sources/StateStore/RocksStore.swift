internal import CStore

/// A ``PartitionStore`` in RocksDB, one folder a partition.
///
/// It writes no log of its own, for the changelog is the log: changes are collected in memory and
/// reach the disk in a file together with the offset they belong to. After a crash the store is
/// behind its changelog, never ahead of it. What it reads is checked against checksums;
/// what does not hold is ``StoreFault/damaged(message:)``.
@safe
package final class RocksStore: PartitionStore {
    private static let metaTable: UInt8 = 2
    /// Entries read at once; a scan that is stopped early has read that many in vain.
    private static let scanCountMax = 512
    private static let scanCountFirst = 32

    private let shared: StoreShared
    private let handle: StoreHandle
    private let clockMilliseconds: () -> Int64
    private var meta: StoreMeta
    private var isClosed = false

    package var changelogOffset: Int64? { meta.changelogOffset }
    /// UNIX milliseconds of the last write.
    package var lastUsedMilliseconds: Int64 { meta.lastUsedMilliseconds }

    /// Opens a store, or makes an empty one; the parent folder exists.
    ///
    /// - Parameters:
    ///   - path: of the folder.
    ///   - changelogIdentity: the changelog it must belong to: topic, form and partition.
    ///   - shared: outlives the store.
    ///   - clockMilliseconds: UNIX milliseconds, for the time of the last write.
    /// - Throws: ``StoreFault/damaged(message:)`` where files are missing, cut or altered, or the
    ///   store is another changelog's or another version's; ``StoreFault/otherForm`` where it is
    ///   this one's in another form; ``StoreFault/locked(message:)`` where a process has it open.
    package init(
        path: String,
        changelogIdentity: String,
        shared: StoreShared,
        clockMilliseconds: @escaping () -> Int64
    ) throws(StoreFault) {
        self.shared = shared
        self.clockMilliseconds = clockMilliseconds
        handle = try StoreHandle(path: path, shared: shared)
        meta = StoreMeta(
            changelogIdentity: changelogIdentity,
            changelogOffset: nil,
            lastUsedMilliseconds: clockMilliseconds()
        )
        do {
            try checkMeta()
        } catch {
            close()
            throw error
        }
    }

    deinit {
        close()
    }

    package func get(_ lookup: StoreLookup) throws(StoreFault) {
        try endRestore()
        try get(lookup, table: UInt8(StoreTable.state.rawValue))
    }

    package func apply(_ changes: StoreChanges, changelogOffset: Int64) throws(StoreFault) {
        precondition(
            changelogOffset >= meta.changelogOffset ?? 0,
            "a store never goes back in its changelog"
        )
        var next = meta
        next.changelogOffset = changelogOffset
        next.lastUsedMilliseconds = clockMilliseconds()
        try write(changes.encoded, next)
        meta = next
    }

    /// Worth it for a store that is empty: one that is only behind has its filter already.
    package func beginRestore() throws(StoreFault) {
        guard meta.changelogOffset == nil else {
            return
        }
        unsafe cstore_restore_begin(handle.store)
    }

    /// Makes the filter from all keys, or begins to; what follows is collected for smaller files.
    package func endRestore() throws(StoreFault) {
        var error = cstore_error()
        guard unsafe cstore_restore_end(handle.store, &error) == 0 else {
            throw fault(error)
        }
    }

    package func scan(
        _ table: StoreTable,
        from start: [UInt8],
        within prefix: [UInt8],
        visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) throws(StoreFault) {
        try endRestore()
        let table = Int32(table.rawValue)
        var error = cstore_error()
        guard
            let cursor = unsafe cstore_cursor_open(
                handle.store,
                table,
                start,
                start.count,
                prefix,
                prefix.count,
                &error
            )
        else {
            throw fault(error)
        }
        defer { unsafe cstore_cursor_close(cursor) }
        var entries = unsafe cstore_entries()
        var countMax = Self.scanCountFirst
        while true {
            guard unsafe cstore_cursor_read(cursor, countMax, &entries, &error) == 0 else {
                throw fault(error)
            }
            guard unsafe entries.count > 0 else {
                return
            }
            let bytes = unsafe UnsafeBufferPointer(start: entries.bytes, count: entries.len)
            guard unsafe Self.visitEntries(bytes, visit) else {
                return
            }
            countMax = Self.scanCountMax
        }
    }

    package func checksum() throws(StoreFault) -> UInt64 {
        try endRestore()
        var sum: UInt64 = 0
        var error = cstore_error()
        let table = Int32(StoreTable.state.rawValue)
        guard unsafe cstore_checksum(handle.store, table, &sum, &error) == 0 else {
            throw fault(error)
        }
        return sum
    }

    /// Lets go of the folder.
    ///
    /// A disk that takes no more leaves the store behind its changelog, as a crash would.
    @discardableResult
    package func close() -> StoreFault? {
        guard !isClosed else {
            return nil
        }
        isClosed = true
        var error = cstore_error()
        return unsafe cstore_close(handle.store, &error) == 0 ? nil : StoreFault(error)
    }

    /// What the filter of its keys takes in memory.
    var filterByteCount: Int { Int(unsafe cstore_measure(handle.store).filter_len) }
    /// Whether what is not there is denied, and no other filter is being made.
    var isFilterMade: Bool { unsafe cstore_measure(handle.store).is_filter_made != 0 }
    /// Changes that wait in memory to be written.
    var waitingByteCount: Int { Int(unsafe cstore_measure(handle.store).front_len) }

    // MARK: Below

    /// Believes what the store says of itself, or refuses it.
    private func checkMeta() throws(StoreFault) {
        let lookup = StoreLookup()
        let key = StoreMeta.key
        lookup.ask(key.span)
        try get(lookup, table: Self.metaTable)
        guard let stored = lookup.value(0) else {
            // New. Or the files of an old one are gone, and what is left has no offset: look.
            var isEmpty = true
            for table in StoreTable.allCases {
                try scan(table, from: []) { _, _ in
                    isEmpty = false
                    return false
                }
            }
            guard isEmpty else {
                throw .damaged(message: "the state does not say how complete it is")
            }
            try write([], meta)
            return
        }
        guard let stored = StoreMeta(Array(lookup.values[stored])) else {
            throw .damaged(message: "the state is of another version")
        }
        guard stored.changelog == meta.changelog else {
            throw .damaged(message: "the state is another changelog's, or another partition's")
        }
        guard stored.changelogIdentity == meta.changelogIdentity else {
            throw .otherForm(
                message: "the state is in another form",
                changelogOffset: stored.changelogOffset,
                lastUsedMilliseconds: stored.lastUsedMilliseconds
            )
        }
        meta = stored
    }

    /// Damage shows where it is read: it is written down for the next one to open the store.
    private func fault(_ error: cstore_error) -> StoreFault {
        let fault = StoreFault(error)
        if case .damaged = fault {
            var markError = cstore_error()
            // A disk that does not take the mark will show the damage again.
            _ = unsafe cstore_mark_damaged(handle.store, &markError)
        }
        return fault
    }

    /// The changes, and what the store says of itself with them.
    private func write(_ changes: [UInt8], _ meta: StoreMeta) throws(StoreFault) {
        let last = Self.change(meta)
        var error = cstore_error()
        let result = unsafe cstore_apply(
            handle.store,
            changes,
            changes.count,
            last,
            last.count,
            &error
        )
        guard result == 0 else {
            throw fault(error)
        }
    }

    private func get(_ lookup: StoreLookup, table: UInt8) throws(StoreFault) {
        var error = cstore_error()
        let (keys, lengths) = (lookup.keys, lookup.keyLengths)
        let isAnswered = unsafe lookup.answerAll { valueLengths in
            unsafe cstore_get(
                handle.store,
                Int32(table),
                keys,
                lengths,
                lengths.count,
                &valueLengths,
                &error
            )
        }
        guard isAnswered else {
            throw fault(error)
        }
    }

    private static func change(_ meta: StoreMeta) -> [UInt8] {
        StoreChanges.encode(meta.encoded(), forKey: StoreMeta.key, table: metaTable)
    }

    private static func visitEntries(
        _ bytes: UnsafeBufferPointer<UInt8>,
        _ visit: (_ key: [UInt8], _ value: [UInt8]) -> Bool
    ) -> Bool {
        var position = 0
        // Memory of their own only for those that are kept.
        var (key, value): ([UInt8], [UInt8]) = ([], [])
        while position < bytes.count {
            let (keyCount, valueCount) = unsafe StoreChanges.lengths(at: position, of: bytes)
            let keyStart = position + StoreChanges.prefixByteCount
            let valueStart = keyStart + keyCount
            key.removeAll(keepingCapacity: true)
            value.removeAll(keepingCapacity: true)
            unsafe key.append(contentsOf: bytes[keyStart..<valueStart])
            unsafe value.append(contentsOf: bytes[valueStart..<valueStart + valueCount])
            guard visit(key, value) else {
                return false
            }
            position = valueStart + valueCount
        }
        return true
    }
}
