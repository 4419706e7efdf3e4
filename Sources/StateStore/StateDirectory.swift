internal import CStore
internal import Glibc

/// Where the stores of one worker lie: `STATE_DIR/<cluster id>/<prefix>/<worker>/<partition>`.
///
/// The path separates what must not mix: another cluster's state, another prefix's, another
/// worker's. Within it each store still says which changelog it belongs to.
package final class StateDirectory {
    package let path: String
    private let shared: StoreShared
    /// A store not written for longer than this may lack removals that the changelog forgot.
    private let idleMillisecondsMax: Int64
    /// `delete.retention.ms` as `tollway topics apply` sets it.
    package static let tombstoneMilliseconds: Int64 = 7 * 86_400_000
    private let clockMilliseconds: () -> Int64

    /// - Parameters:
    ///   - root: `STATE_DIR`.
    ///   - clusterID: Kafka's own; a character that a folder's name should not have becomes `_`.
    ///   - topicPrefix: the configured prefix.
    ///   - worker: its name.
    ///   - shared: outlives the stores.
    ///   - tombstoneMilliseconds: the changelog's `delete.retention.ms`; a store that was idle for
    ///     longer than half of it is wiped.
    ///   - clockMilliseconds: UNIX milliseconds.
    package init(
        root: String,
        clusterID: String,
        topicPrefix: String,
        worker: String,
        shared: StoreShared,
        tombstoneMilliseconds: Int64 = StateDirectory.tombstoneMilliseconds,
        clockMilliseconds: @escaping () -> Int64
    ) {
        path = ([root] + [clusterID, topicPrefix, worker].map(Self.folderName))
            .joined(separator: "/")
        self.shared = shared
        idleMillisecondsMax = tombstoneMilliseconds / 2
        self.clockMilliseconds = clockMilliseconds
    }

    /// Makes a folder where there is none, and a file in it that is removed at once.
    ///
    /// - Throws: ``StoreFault/failed(message:)`` where they may not be made: a read-only file system, or
    ///   another user's folder; ``StoreFault/diskFull(message:)`` where they cannot be made now.
    package static func makeWritable(_ path: String) throws(StoreFault) {
        var error = cstore_error()
        guard unsafe cstore_make_folder(path, &error) == 0 else {
            throw StoreFault(error)
        }
        try requireWritable(path)
    }

    /// Makes a file in a folder, and removes it at once.
    ///
    /// The rights alone do not tell: a file system that has failed may still be mounted for writing.
    package static func requireWritable(_ path: String) throws(StoreFault) {
        let probe = "\(path)/.writable-\(getpid())"
        let descriptor = unsafe Glibc.open(probe, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
        let code = errno
        guard descriptor >= 0 else {
            let message = unsafe "\(path): \(String(cString: strerror(code)))"
            // Others pass: a disk that is full, too many open files.
            throw [EACCES, EPERM, EROFS, ENOTDIR, ENOENT].contains(code)
                ? .failed(message: message) : .diskFull(message: message)
        }
        _ = Glibc.close(descriptor)
        _ = unsafe unlink(probe)
    }

    /// The folders of partitions below a number that are there.
    package func folders(below partitionCount: Int) -> [String] {
        (0..<Int32(clamping: partitionCount)).map { path(partition: $0) }
            .filter { unsafe access($0, F_OK) == 0 }
    }

    /// The folder of one partition's store.
    package func path(partition: Int32) -> String { "\(path)/\(partition)" }

    /// Opens the store of one partition, empty where there is none yet.
    ///
    /// - Parameters:
    ///   - partition: its number.
    ///   - changelogIdentity: the changelog topic it must belong to.
    /// - Returns: the store, restored up to the offset it states.
    /// - Throws: ``StoreFault/damaged(message:)`` where it is another changelog's or another
    ///   partition's, or cannot be read: wipe and replay. ``StoreFault/otherForm`` where it is this one's
    ///   in another form, ``StoreFault/idle`` where it lay idle too long.
    package func open(
        partition: Int32,
        changelogIdentity: String
    ) throws(StoreFault) -> any PartitionStore {
        var error = cstore_error()
        guard unsafe cstore_make_folder(path, &error) == 0 else {
            throw StoreFault(error)
        }
        let store = try RocksStore(
            path: path(partition: partition),
            changelogIdentity: Self.identity(of: changelogIdentity, partition: partition),
            shared: shared,
            clockMilliseconds: clockMilliseconds
        )
        let idleMilliseconds = clockMilliseconds() - store.lastUsedMilliseconds
        guard let offset = store.changelogOffset, idleMilliseconds > idleMillisecondsMax else {
            return store
        }
        defer { store.close() }
        throw .idle(
            message: "the state lay idle for longer than removals are kept",
            changelogOffset: offset,
            lastUsedMilliseconds: store.lastUsedMilliseconds
        )
    }

    /// Between a topic and a form: no topic's name has a space.
    static let formMark = " form "

    /// Whose a store is: a changelog's, in the form of what its stage makes of it.
    package static func identity(ofChangelog topic: String, form: Int) -> String {
        form > 1 ? topic + formMark + String(form) : topic
    }

    /// What a store says it belongs to, so that one put in another partition's folder is not believed.
    package static func identity(of changelogIdentity: String, partition: Int32) -> String {
        "\(changelogIdentity)/\(partition)"
    }

    /// Removes what is there, so that the next open begins empty.
    ///
    /// The store is closed.
    package func wipe(partition: Int32) throws(StoreFault) {
        var error = cstore_error()
        guard unsafe cstore_remove_folder(path(partition: partition), &error) == 0 else {
            throw StoreFault(error)
        }
    }

    /// One path component: letters, digits, `.`, `_` and `-` as they are; never `.` or `..`.
    private static func folderName(_ text: String) -> String {
        let name = String(
            decoding: text.utf8.map { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"),
                    UInt8(ascii: "-"):
                    byte
                default: UInt8(ascii: "_")
                }
            },
            as: UTF8.self
        )
        return name.allSatisfy { $0 == "." } ? "_" + name : name
    }
}
