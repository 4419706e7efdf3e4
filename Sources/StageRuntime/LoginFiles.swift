package import Kafka

/// The files that a Kafka client was started with, passwords and certificates: it reads them once.
package struct LoginFiles {
    private let atStart: [(path: String, version: FileVersion?)]

    package init(of settings: KafkaSettings) {
        atStart = settings.files.values.sorted().map { ($0, FileVersion($0)) }
    }

    /// Why a worker that no broker lets in must be started again: nil where no file is another than at
    /// its start, for then a restart would be refused as well.
    ///
    /// A file that is not there at the moment is being replaced.
    package func end(refusal: String?) -> WorkerEnd? {
        guard let refusal else {
            return nil
        }
        let changed = atStart.first { path, version in
            let now = FileVersion(path)
            return now != nil && now != version
        }
        return changed.map { path, _ in
            WorkerEnd(
                exitCode: 75,
                sentence: "\(path) has changed, which a restart reads: \(refusal)"
            )
        }
    }
}
