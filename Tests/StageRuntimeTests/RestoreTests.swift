import Kafka
import Simulation
import StateStore
import Testing
import TokenDomain

@testable import StageRuntime

/// Says that another process holds the store, so many times.
private final class LockedDisk: StoreProvider {
    private let disk = MemoryDisk()
    private let lockedCount: Int
    private(set) var openCount = 0

    init(lockedCount: Int) {
        self.lockedCount = lockedCount
    }

    func open(
        partition: Int32,
        changelogIdentity: String
    ) throws(StoreFault) -> any PartitionStore {
        openCount += 1
        guard openCount > lockedCount else {
            throw .locked(message: "held by another process")
        }
        return try disk.open(partition: partition, changelogIdentity: changelogIdentity)
    }

    func wipe(partition: Int32) throws(StoreFault) {
        try disk.wipe(partition: partition)
    }
}

private final class NoStage: StatefulStage {
    let derivesFromPrevious = false

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {}

    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {}
}

@Suite struct `A store that another process holds` {
    private func restore(_ disk: LockedDisk) -> Restore {
        let cluster = MemoryCluster(seed: 1)
        cluster.createTopic("changelog", partitionCount: 1)
        let log = MemoryLog(
            cluster: cluster,
            group: "g",
            transactionalID: "t",
            sources: [],
            targets: ["changelog"],
            clock: { 0 }
        )
        return Restore(
            changelog: TopicPartition(topic: "changelog", partition: 0),
            log: log,
            provider: disk,
            stage: NoStage()
        )
    }

    @Test func `is waited for, slice by slice`() throws {
        let disk = LockedDisk(lockedCount: 3)
        let restore = restore(disk)
        for _ in 0..<3 {
            #expect(try restore.slice(waitMilliseconds: 0) == nil)
        }
        #expect(try restore.slice(waitMilliseconds: 0) != nil)
        #expect(disk.openCount == 4)
    }

    @Test func `ends the worker with 75 when it is never let go`() throws {
        let restore = restore(LockedDisk(lockedCount: .max))
        var sliceCount = 0
        let fault = #expect(throws: StoreFault.self) {
            // A wait of 0 counts as one millisecond, so that the test need not wait.
            while try restore.slice(waitMilliseconds: 0) == nil {
                sliceCount += 1
            }
        }
        #expect(sliceCount == Restore.lockedMillisecondsMax)
        #expect(fault.map { WorkerRun.end(for: $0).exitCode } == 75)
    }
}
