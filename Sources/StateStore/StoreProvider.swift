/// Opens and wipes the local stores of a worker; a dictionary's worth of them in tests.
package protocol StoreProvider: AnyObject {
    /// Opens the store of one partition, empty where there is none yet.
    ///
    /// `changelogIdentity` is the changelog topic it must belong to.
    ///
    /// - Throws: ``StoreFault/damaged(message:)`` where it is another changelog's or another
    ///   partition's, or cannot be read; ``StoreFault/otherForm`` where it is this one's in another
    ///   form. It is left as it is.
    func open(partition: Int32, changelogIdentity: String) throws(StoreFault) -> any PartitionStore
    /// Removes what is there, so that the next open begins empty.
    func wipe(partition: Int32) throws(StoreFault)
}

extension StateDirectory: StoreProvider {}
