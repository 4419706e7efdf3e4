import Testing

import Kafka
@testable import StageRuntime
import StateStore

struct `The end of a worker` {
    @Test func `that asks for another try is what was wanted, once it was told to stop`() {
        let errors: [any Error] = [
            LogFault.unavailable(code: "_TRANSPORT", message: "no broker answers"),
            LogFault.fenced(message: "a newer instance"),
            LogFault.unusable(message: "a call hangs"),
            StoreFault.diskFull(message: "No space left on device"),
            StoreFault.otherForm(
                message: "the state is in another form",
                changelogOffset: nil,
                lastUsedMilliseconds: 0
            ),
        ]
        for error in errors {
            let end = WorkerRun.end(for: error)
            #expect(end.exitCode == 75)
            #expect(end.afterStopSignal.exitCode == 0)
        }
    }

    @Test(arguments: ["/dev/null/state", "/proc/state"])
    func `is the configuration's where no state can be written`(path: String) {
        let end = #expect(throws: WorkerEnd.self) { try WorkerRun.checkStateFolder(path) }
        #expect(end?.exitCode == 2)
        #expect(end?.sentence.contains("TOLLWAY_STATE_DIR cannot be written: /") == true)
    }

    @Test func `names the partitions that a hanging transaction holds back`() {
        #expect(WorkerRun.end(forHanging: []).map(\.exitCode) == nil)
        let end = WorkerRun.end(forHanging: [TopicPartition(topic: "t", partition: 4)])
        #expect(end?.exitCode == 75)
        #expect(
            end?.sentence.contains(
                "hanging transaction holds back t/4: `tollway transactions list`"
            ) == true
        )
    }

    @Test func `that is somebody's fault stays one`() {
        let faults: [(LogFault, Int32)] = [
            (.misconfigured(message: "a right is missing"), 2),
            (.ours(message: "a transaction is under way already"), 70),
            (.recordTooLarge(outputIndex: 0, byteCount: 2, byteCountMax: 1), 70),
        ]
        for (fault, exitCode) in faults {
            let end = WorkerRun.end(for: fault)
            #expect(end.exitCode == exitCode)
            #expect(end.afterStopSignal.exitCode == exitCode)
        }
    }
}
