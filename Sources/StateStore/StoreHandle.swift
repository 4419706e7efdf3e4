internal import CStore

/// Which keys are scanned together: of a table the first bytes of such keys.
///
/// Such a key goes on with the length of a name in two bytes, big-endian, and the name: its group. A scan
/// within a whole group costs next to nothing where there is no key of it.
package typealias StoreGroups = [StoreTable: [UInt8]]

/// What the stores of a worker share: one block cache, however many partitions there are, and the
/// memory of a write.
///
/// All of them are used by one thread at a time.
@safe
package final class StoreShared {
    let handle: OpaquePointer

    /// - Parameters:
    ///   - cacheByteCount: blocks kept in memory, for all partitions together. Few are read twice, and
    ///     the system keeps files in memory as well.
    ///   - writeBufferByteCount: changes kept in memory by all partitions together. With more, the
    ///     next partition that has its share or more writes a file, which costs some milliseconds.
    ///   - groups: of each table the first bytes of keys that are scanned by their group; see
    ///     ``StoreGroups``.
    /// - Throws: ``StoreFault/failed(message:)`` where there is no memory for the cache.
    package init(
        cacheByteCount: Int = 1 << 20,
        writeBufferByteCount: Int = 24 << 20,
        groups: StoreGroups = [:]
    ) throws(StoreFault) {
        guard let handle = unsafe cstore_shared_create(cacheByteCount, writeBufferByteCount) else {
            throw .failed(message: "no memory for the cache of the state")
        }
        unsafe self.handle = handle
        for (table, kinds) in groups {
            unsafe cstore_shared_group(handle, Int32(table.rawValue), kinds, kinds.count)
        }
    }

    deinit {
        unsafe cstore_shared_destroy(handle)
    }
}

/// A handle of the C library; ``RocksStore`` closes it.
@safe
struct StoreHandle: ~Copyable {
    let store: OpaquePointer

    init(path: String, shared: StoreShared) throws(StoreFault) {
        var error = cstore_error()
        guard let store = unsafe cstore_open(shared.handle, path, &error) else {
            throw StoreFault(error)
        }
        unsafe self.store = store
    }
}

extension StoreFault {
    init(_ error: cstore_error) {
        var text = error.message
        let message = unsafe withUnsafeBytes(of: &text) { bytes in
            unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
        self =
            switch UInt32(error.kind) {
            case CSTORE_DISK_FULL.rawValue: .diskFull(message: message)
            case CSTORE_DAMAGED.rawValue: .damaged(message: message)
            case CSTORE_LOCKED.rawValue: .locked(message: message)
            default: .failed(message: message)
            }
    }
}
