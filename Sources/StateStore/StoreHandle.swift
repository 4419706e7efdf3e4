internal import CStore

/// Which keys are scanned together, by their first byte, the kind.
///
/// A scan within a whole group costs next to nothing where there is no key of it.
package struct StoreGroups {
    /// Kinds of which all keys are a group.
    package var byKind: [StoreTable: [UInt8]] = [:]
    /// Kinds whose keys go on with the length of a name in two bytes, big-endian, and the name: those of
    /// a name are a group.
    package var byName: [StoreTable: [UInt8]] = [:]

    package init() {}
}

/// What the stores of a worker share: one block cache, however many partitions there are, and the
/// memory of a write.
///
/// All of them are used by one thread at a time.
@safe
package final class StoreShared {
    let handle: OpaquePointer

    package static let writeBufferByteCountDefault = 20 << 20
    /// `dedupe` looks up few keys that are there, and has two a token.
    package static let fileFilterBitsDefault = 5

    /// - Parameters:
    ///   - cacheByteCount: blocks kept in memory, for all partitions together. Few are read twice, and
    ///     the system keeps files in memory as well.
    ///   - writeBufferByteCount: changes kept in memory by all partitions together. With more, the
    ///     next partition that has its share or more writes a file; up to a third more waits until
    ///     that is there.
    ///   - fileFilterBits: of memory a key, by which a file says what it may have. With 5 every tenth
    ///     file that lacks a key is read in vain for it, with 10 every hundredth.
    ///   - groups: which keys are scanned together.
    /// - Throws: ``StoreFault/failed(message:)`` where there is no memory for the cache.
    package init(
        cacheByteCount: Int = 1 << 20,
        writeBufferByteCount: Int = StoreShared.writeBufferByteCountDefault,
        fileFilterBits: Int = StoreShared.fileFilterBitsDefault,
        groups: StoreGroups = StoreGroups()
    ) throws(StoreFault) {
        guard
            let handle = unsafe cstore_shared_create(
                cacheByteCount,
                writeBufferByteCount,
                Int32(fileFilterBits)
            )
        else {
            throw .failed(message: "no memory for the cache of the state")
        }
        unsafe self.handle = handle
        for (grouping, tables) in [
            (CSTORE_BY_KIND, groups.byKind), (CSTORE_BY_NAME, groups.byName),
        ] {
            for (table, kinds) in tables {
                unsafe cstore_shared_group(
                    handle,
                    Int32(table.rawValue),
                    Int32(grouping.rawValue),
                    kinds,
                    kinds.count
                )
            }
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
