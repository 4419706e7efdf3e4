internal import StageRuntime
package import StateStore

/// The disk of one worker instance: survives its crashes, until it is lost.
package final class MemoryDisk: StoreProvider {
    private var stores: [Int32: MemoryStore] = [:]

    package init() {}

    package func loseEverything() {
        stores = [:]
    }

    package func open(
        partition: Int32,
        changelogIdentity: String
    ) throws(StoreFault) -> any PartitionStore {
        let store = stores[partition] ?? MemoryStore()
        stores[partition] = store
        return store
    }

    package func wipe(partition: Int32) throws(StoreFault) {
        stores[partition] = nil
    }
}
