internal import Glibc
package import Kafka

/// The files that a Kafka client was started with, passwords and certificates: it reads them once.
package struct LoginFiles {
    /// What tells one state of a file from another, a link followed.
    private struct Mark: Equatable {
        let device: UInt64
        let node: UInt64
        let byteCount: Int64
        let seconds: Int
        let nanoseconds: Int

        /// Nil where there is no such file.
        init?(_ path: String) {
            var found = stat()
            guard unsafe stat(path, &found) == 0 else {
                return nil
            }
            device = UInt64(found.st_dev)
            node = UInt64(found.st_ino)
            byteCount = Int64(found.st_size)
            (seconds, nanoseconds) = (found.st_mtim.tv_sec, found.st_mtim.tv_nsec)
        }
    }

    private let marks: [(path: String, mark: Mark?)]

    package init(of settings: KafkaSettings) {
        marks = settings.files.values.sorted().map { ($0, Mark($0)) }
    }

    /// Why a worker that no broker lets in must be started again: nil where no file is another than at
    /// its start, for then a restart would be refused as well.
    ///
    /// A file that is not there at the moment is being replaced.
    package func end(refusal: String?) -> WorkerEnd? {
        guard let refusal else {
            return nil
        }
        let changed = marks.first { path, mark in
            let now = Mark(path)
            return now != nil && now != mark
        }
        return changed.map { path, _ in
            WorkerEnd(
                exitCode: 75,
                sentence: "\(path) has changed, which a restart reads: \(refusal)"
            )
        }
    }
}
