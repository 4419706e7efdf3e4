internal import CStore

/// The hash of one entry of a state table.
///
/// Their wrapping sum is the store's checksum: it does not depend on the order, so the fold of a
/// changelog can be summed up as well. It is compared, never stored.
package enum StoreChecksum {
    package static func of(key: [UInt8], value: [UInt8]) -> UInt64 {
        unsafe cstore_entry_hash(key, key.count, value, value.count)
    }
}
