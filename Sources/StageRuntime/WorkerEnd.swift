internal import Kafka
internal import StateStore
internal import Telemetry

/// Why a worker ends, and with which exit code.
package struct WorkerEnd: Error {
    /// 0 ok, 2 wrong configuration, 70 our own fault, 75 try again.
    package var exitCode: Int32
    package var sentence: String

    package static let toldToStop = WorkerEnd(exitCode: 0, sentence: "told to stop")

    package init(exitCode: Int32, sentence: String) {
        self.exitCode = exitCode
        self.sentence = sentence
    }

    /// Its state is the last copy of what the sources do not tell again.
    static func madeAnew(_ finding: String) -> WorkerEnd {
        WorkerEnd(
            exitCode: 2,
            sentence: "\(finding): it was made anew. Keep every STATE_DIR; see the runbook, A"
                + " changelog was deleted, or made anew"
        )
    }

    /// What was deleted of a changelog may be in this state alone.
    static func cutOff(_ finding: String) -> WorkerEnd {
        WorkerEnd(
            exitCode: 2,
            sentence: "\(finding): its beginning was deleted. Keep every STATE_DIR; see the"
                + " runbook, A changelog was deleted, or made anew"
        )
    }

    /// This end, changed where a signal to stop came meanwhile.
    ///
    /// Leaving the group takes seconds where Kafka is away: a signal meanwhile means that the
    /// process must end and not be restarted. A fault of ours or of the configuration stays one.
    package var afterStopSignal: WorkerEnd {
        exitCode == 75 ? .toldToStop : self
    }
}

extension WorkerRun {
    /// Whose fault an error is, as an exit code.
    package static func end(for error: any Error) -> WorkerEnd {
        switch error {
        case let end as WorkerEnd:
            end
        case let fault as ConfigurationFault:
            WorkerEnd(exitCode: 2, sentence: fault.sentence)
        case AdminServerFault.cannotListen(let address, let because):
            WorkerEnd(
                exitCode: 2,
                sentence: "TOLLWAY_ADMIN_LISTEN is \(address): \(because)"
            )
        case LogFault.misconfigured(let message):
            WorkerEnd(exitCode: 2, sentence: message)
        case LogFault.unavailable(_, let message), LogFault.fenced(let message),
            LogFault.unusable(let message):
            WorkerEnd(exitCode: 75, sentence: message)
        case LogFault.ours(let message):
            WorkerEnd(exitCode: 70, sentence: "a fault of Tollway's own: \(message)")
        case LogFault.recordTooLarge(_, let byteCount, let byteCountMax):
            WorkerEnd(
                exitCode: 70,
                sentence: "a record of \(byteCount) bytes passed the check for \(byteCountMax)"
            )
        case LogFault.recordsLost(let partition, let position, let start, let end):
            WorkerEnd(
                exitCode: 75,
                sentence: LostRecords(partition, position: position, start: start, end: end)
                    .sentence
            )
        case StoreFault.diskFull(let message), StoreFault.damaged(let message),
            StoreFault.otherForm(let message, _, _), StoreFault.idle(let message, _, _),
            StoreFault.locked(let message), StoreFault.failed(let message):
            WorkerEnd(exitCode: 75, sentence: "the state directory failed: \(message)")
        default:
            WorkerEnd(exitCode: 70, sentence: "unforeseen: \(error)")
        }
    }

    /// A worker that a hanging transaction holds back can do nothing about it, and must not seem to be
    /// well.
    static func end(forHanging partitions: [TopicPartition]) -> WorkerEnd? {
        guard !partitions.isEmpty else {
            return nil
        }
        return WorkerEnd(
            exitCode: 75,
            sentence: "a hanging transaction holds back"
                + " \(partitions.map(\.description).joined(separator: ", ")):"
                + " `tollway transactions list` shows it, and repair ends it"
        )
    }
}
