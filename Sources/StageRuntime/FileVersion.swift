internal import Glibc

/// What tells one state of a file from another; links are followed.
package struct FileVersion: Equatable {
    private let device: UInt
    private let node: UInt
    private let byteCount: Int
    private let seconds: Int
    private let nanoseconds: Int

    /// Nil where there is no such file.
    package init?(_ path: String) {
        var found = stat()
        guard unsafe stat(path, &found) == 0 else {
            return nil
        }
        device = UInt(found.st_dev)
        node = UInt(found.st_ino)
        byteCount = Int(found.st_size)
        (seconds, nanoseconds) = (Int(found.st_mtim.tv_sec), Int(found.st_mtim.tv_nsec))
    }
}
