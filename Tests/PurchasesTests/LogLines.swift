import Synchronization
import Telemetry

/// What a worker has logged.
final class LogLines: Sendable {
    private let lines = Mutex<[String]>([])

    var all: [String] { lines.withLock { $0 } }

    func log() -> Log {
        Log(worker: "purchases", format: .json, now: { 0 }) { line in
            self.lines.withLock { $0.append(line) }
        }
    }
}
