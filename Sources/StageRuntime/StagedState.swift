package import StateStore

/// The state of the partitions assigned, as the batch in hand sees it: store + staged.
///
/// What a stage puts is visible to it at once, goes to the changelog inside the transaction, and
/// reaches the store only after the commit is known.
package final class StagedState {
    /// One key of one partition as it was put since the last commit.
    struct StagedKey: Hashable {
        var partition: Int32
        var key: [UInt8]
    }

    private var stores: [Int32: any PartitionStore] = [:]
    /// Not yet under way with a transaction.
    private var open: [StagedKey: [UInt8]?] = [:]
    /// Under way: the stores do not have it yet, a look-up must find it.
    private var submitted: [StagedKey: [UInt8]?] = [:]

    package init() {}

    /// The partitions whose state is here, in order.
    package var partitions: [Int32] { stores.keys.sorted() }

    /// Looks up many keys of one partition at once.
    ///
    /// - Returns: one value a key, in order; nil where the key is unknown.
    package func values(_ keys: [[UInt8]], partition: Int32) throws(StoreFault) -> [[UInt8]?] {
        fatalError("\(keys)\(partition)")
    }

    /// Stages a value; nil removes the key.
    package func put(_ value: [UInt8]?, forKey key: [UInt8], partition: Int32) {
        open[StagedKey(partition: partition, key: key)] = .some(value)
    }
}
