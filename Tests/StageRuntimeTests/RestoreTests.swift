import Kafka
import Simulation
import StateStore
import Telemetry
import Testing
import TokenDomain

@testable import StageRuntime

/// A disk that fails to open its store so many times, and then opens it.
private final class FailingDisk: StoreProvider {
    private let disk = MemoryDisk()
    private let fault: StoreFault
    private let faultCount: Int
    private(set) var openCount = 0
    private(set) var wipeCount = 0

    init(_ fault: StoreFault, count: Int) {
        self.fault = fault
        faultCount = count
    }

    static func locked(_ count: Int) -> FailingDisk {
        FailingDisk(.locked(message: "held by another process"), count: count)
    }

    /// Until it is opened again; last used at 1,000.
    static func inAnotherForm(_ changelogOffset: Int64?) -> FailingDisk {
        FailingDisk(
            .otherForm(
                message: "the state is in another form",
                changelogOffset: changelogOffset,
                lastUsedMilliseconds: 1_000
            ),
            count: 1
        )
    }

    /// The same, not used for long.
    static func idle(_ changelogOffset: Int64) -> FailingDisk {
        FailingDisk(
            .idle(
                message: "the state lay idle",
                changelogOffset: changelogOffset,
                lastUsedMilliseconds: 1_000
            ),
            count: 1
        )
    }

    func open(
        partition: Int32,
        changelogIdentity: String
    ) throws(StoreFault) -> any PartitionStore {
        openCount += 1
        guard openCount > faultCount else {
            throw fault
        }
        return try disk.open(partition: partition, changelogIdentity: changelogIdentity)
    }

    func wipe(partition: Int32) throws(StoreFault) {
        wipeCount += 1
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

/// A changelog, without a record or with some that are gone, and what restores a store from it.
private struct RestoreBench {
    let telemetry = SilentTelemetry()
    let restore: Restore
    let log: MemoryLog

    init(
        _ disk: any StoreProvider,
        partition: Int32 = 0,
        goneCount: Int = 0,
        times: [Int64] = [],
        isFirstAborted: Bool = false,
        clock: @escaping () -> Int64 = { 0 }
    ) {
        let cluster = MemoryCluster(seed: 1)
        cluster.createTopic("changelog", partitionCount: 1)
        for time in Array(repeating: 0, count: goneCount) + times {
            cluster.append(topic: "changelog", key: [1], value: [1], timestampMilliseconds: time)
        }
        if isFirstAborted {
            cluster.abort(topic: "changelog", offset: 0)
        }
        log = MemoryLog(
            cluster: cluster,
            group: "g",
            transactionalID: "t",
            sources: [],
            targets: ["changelog"],
            clock: { 0 }
        )
        log.changelogStartOffset = Int64(goneCount)
        restore = Restore(
            changelog: TopicPartition(topic: "changelog", partition: partition),
            log: log,
            provider: disk,
            stage: NoStage(),
            telemetry: telemetry,
            monotonicMilliseconds: clock
        )
    }
}

@Suite struct `A store that cannot be right` {
    @Test func `is wiped when it is damaged, and the log says why`() throws {
        let bench = RestoreBench(FailingDisk(.damaged(message: "a block is altered"), count: 1))
        let store = try #require(try bench.restore.slice(waitMilliseconds: 0))
        #expect(store.changelogOffset == nil)
        #expect(bench.telemetry.wipeReasons == ["a block is altered"])
    }

    @Test func `is wiped when it is ahead of its changelog`() throws {
        let disk = MemoryDisk()
        let old = try disk.open(partition: 0, changelogIdentity: "changelog")
        try old.apply(StoreChanges(), changelogOffset: 50)
        old.close()
        let bench = RestoreBench(disk, goneCount: 49)
        let store = try #require(try bench.restore.slice(waitMilliseconds: 0))
        #expect(store.changelogOffset == nil)
        let reason = try #require(bench.telemetry.wipeReasons.first)
        #expect(reason.hasPrefix("the state ends at 50, its changelog at 49: "))
    }

    /// It is the last copy of what the sources will not tell again; also where other instances write to the
    /// changelog already.
    @Test(
        arguments: [
            ([], false), ([1_001], false), ([1_001, 1_002, 1_003], true),
            // The clock that wrote the store was ahead of this one.
            ([1_000 - Restore.clockMarginMilliseconds + 1], false),
        ]
            as [([Int64], Bool)]
    )
    func `is not wiped for a changelog that was made anew`(
        times: [Int64],
        isFirstAborted: Bool
    ) throws {
        let disk = MemoryDisk()
        let old = try disk.open(partition: 0, changelogIdentity: "changelog")
        try old.apply(StoreChanges(), changelogOffset: 50)
        try #require(old as? MemoryStore).lastUsedMilliseconds = 1_000
        old.close()
        let bench = RestoreBench(disk, times: times, isFirstAborted: isFirstAborted)
        let end = try #require(throws: WorkerEnd.self) {
            _ = try bench.restore.slice(waitMilliseconds: 0)
        }
        #expect(end.exitCode == 2 && end.sentence.contains("made anew. Keep every STATE_DIR"))
        #expect(bench.telemetry.wipeReasons == [])
        #expect(try disk.open(partition: 0, changelogIdentity: "changelog").changelogOffset == 50)
    }

    @Test func `is not wiped for one made anew where the clock that wrote it was ahead`() throws {
        let disk = MemoryDisk()
        let now = WallClock.nowMilliseconds()
        let old = try disk.open(partition: 0, changelogIdentity: "changelog")
        try old.apply(StoreChanges(), changelogOffset: 50)
        try #require(old as? MemoryStore).lastUsedMilliseconds =
            now + 10 * Restore.clockMarginMilliseconds
        old.close()
        let bench = RestoreBench(disk, times: [now])
        let end = try #require(throws: WorkerEnd.self) {
            _ = try bench.restore.slice(waitMilliseconds: 0)
        }
        #expect(end.exitCode == 2 && end.sentence.contains("made anew"))
        #expect(bench.telemetry.wipeReasons == [])
    }

    /// Another partition's, of another worker's past: what that has is older than the store.
    @Test func `is wiped where it is ahead of a changelog that is older`() throws {
        let disk = MemoryDisk()
        let old = try disk.open(partition: 0, changelogIdentity: "changelog")
        try old.apply(StoreChanges(), changelogOffset: 50)
        try #require(old as? MemoryStore).lastUsedMilliseconds = 1_000
        old.close()
        let bench = RestoreBench(disk, times: [1_000 - Restore.clockMarginMilliseconds, 1_001])
        _ = try bench.restore.slice(waitMilliseconds: 0)
        #expect(bench.telemetry.wipeReasons.count == 1)
    }

    /// Retention, or a person, took from the changelog what this store alone still has.
    @Test(arguments: [49 as Int64, 50])
    func `is not wiped for a changelog that lost its beginning`(offset: Int64) throws {
        let disk = MemoryDisk()
        let old = try disk.open(partition: 0, changelogIdentity: "changelog")
        try old.apply(StoreChanges(), changelogOffset: offset)
        old.close()
        let bench = RestoreBench(disk, goneCount: 50)
        if offset < 50 {
            let end = try #require(throws: WorkerEnd.self) {
                _ = try bench.restore.slice(waitMilliseconds: 0)
            }
            #expect(end.exitCode == 2 && end.sentence.contains("begins at 50, and the state"))
        } else {
            #expect(try bench.restore.slice(waitMilliseconds: 0)?.changelogOffset == 50)
        }
        #expect(bench.telemetry.wipeReasons == [])
    }

    /// The new form needs the whole changelog, however far the store has read.
    @Test(arguments: [49 as Int64, 50, 51])
    func `in another form is not wiped for a changelog that lost its beginning`(
        offset: Int64
    ) throws {
        let disk = FailingDisk.inAnotherForm(offset)
        let bench = RestoreBench(disk, goneCount: 50)
        let end = try #require(throws: WorkerEnd.self) {
            _ = try bench.restore.slice(waitMilliseconds: 0)
        }
        #expect(end.exitCode == 2)
        #expect(
            end.sentence.contains(
                "begins at 50, and the state of the partition ends at \(offset), in another form:"
                    + " its beginning was deleted. Keep every STATE_DIR"
            )
        )
        #expect(bench.telemetry.wipeReasons == [] && disk.openCount == 1)
    }

    @Test(arguments: [[], [1_001]] as [[Int64]])
    func `in another form is not wiped for a changelog that was made anew`(
        times: [Int64]
    ) throws {
        let disk = FailingDisk.inAnotherForm(50)
        let bench = RestoreBench(disk, times: times)
        let end = try #require(throws: WorkerEnd.self) {
            _ = try bench.restore.slice(waitMilliseconds: 0)
        }
        #expect(end.exitCode == 2)
        #expect(end.sentence.contains("partition 0, in another form: it was made anew. Keep"))
        #expect(bench.telemetry.wipeReasons == [] && disk.openCount == 1)
    }

    /// It is the last copy of what its changelog had.
    @Test(arguments: [[], [1_001]] as [[Int64]])
    func `that lay idle is not wiped for a changelog that was made anew`(times: [Int64]) throws {
        let disk = FailingDisk.idle(50)
        let bench = RestoreBench(disk, times: times)
        let end = try #require(throws: WorkerEnd.self) {
            _ = try bench.restore.slice(waitMilliseconds: 0)
        }
        #expect(end.exitCode == 2 && end.sentence.contains("it was made anew. Keep"))
        #expect(bench.telemetry.wipeReasons == [] && disk.openCount == 1)
    }

    @Test(
        arguments: [(1, [1_001]), (50, [1_000 - Restore.clockMarginMilliseconds])]
            as [(Int64, [Int64])]
    )
    func `that lay idle is wiped otherwise`(offset: Int64, times: [Int64]) throws {
        let disk = FailingDisk.idle(offset)
        let bench = RestoreBench(disk, times: times)
        _ = try bench.restore.slice(waitMilliseconds: 0)
        #expect(bench.telemetry.wipeReasons == ["the state lay idle"])
        #expect(disk.openCount == 2 && disk.wipeCount == 1)
    }

    /// It is empty, its changelog has all of it, or its changelog is older.
    @Test(
        arguments: [
            (nil, []), (1, [1_001]), (50, [1_000 - Restore.clockMarginMilliseconds]),
        ]
            as [(Int64?, [Int64])]
    )
    func `in another form is wiped otherwise`(offset: Int64?, times: [Int64]) throws {
        let disk = FailingDisk.inAnotherForm(offset)
        let bench = RestoreBench(disk, times: times)
        _ = try bench.restore.slice(waitMilliseconds: 0)
        #expect(bench.telemetry.wipeReasons == ["the state is in another form"])
        #expect(disk.openCount == 2 && disk.wipeCount == 1)
    }

    @Test func `is one that is empty, beside a changelog that lost its beginning`() throws {
        let bench = RestoreBench(MemoryDisk(), goneCount: 50)
        #expect(try bench.restore.slice(waitMilliseconds: 0) != nil)
        let reasons = bench.telemetry.wipeReasons
        #expect(reasons.count == 1 && reasons[0].contains("begins at 50: what it had before"))
    }

    @Test func `is not one that is empty`() throws {
        let bench = RestoreBench(MemoryDisk())
        #expect(try bench.restore.slice(waitMilliseconds: 0) != nil)
        #expect(bench.telemetry.wipeReasons == [])
    }
}

@Suite struct `A topic with more partitions than those that are read with it` {
    /// Two instances of one generation would write the state of partition 2: one has it of this topic, the
    /// other of that one.
    @Test func `ends each instance with unlike partitions before it opens a store`()
        throws
    {
        let cluster = MemoryCluster(seed: 1)
        for (topic, count) in [("decoded", 5), ("received", 4), ("tollway.purchases.state.v1", 4)] {
            cluster.createTopic(topic, partitionCount: count)
        }
        let disks = [FailingDisk.locked(0), FailingDisk.locked(0)]
        let loops = disks.enumerated().map { number, disk in
            WorkerLoop(
                worker: .purchases,
                group: "g",
                log: MemoryLog(
                    cluster: cluster,
                    group: "g",
                    transactionalID: "worker-\(number)",
                    sources: ["decoded", "received"],
                    targets: WorkerLoop.targets(of: .purchases).map { $0.name(prefix: "tollway.") },
                    clock: { 0 }
                ),
                stage: NoStage(),
                provider: disk,
                telemetry: SilentTelemetry(),
                clock: { Timestamp(milliseconds: 0) }
            )
        }
        var ends: [WorkerEnd?] = [nil, nil]
        for _ in 0..<20 {
            for (number, loop) in loops.enumerated() where ends[number] == nil {
                do {
                    _ = try loop.step(waitMilliseconds: 0)
                } catch let end as WorkerEnd {
                    ends[number] = end
                }
            }
        }
        #expect(ends.map { $0?.exitCode } == [75, 75])
        #expect(ends[0]?.sentence.contains("(decoded 0 1 2, received 0 1)") == true)
        #expect(disks.map(\.openCount) == [0, 0])
    }
}

@Suite struct `A changelog that Kafka refuses` {
    /// Rights are replaced, and brokers are restarted behind a proxy that ends the handshake.
    @Test func `ends the worker with 2, once it is not only for a moment`() throws {
        let bench = RestoreBench(MemoryDisk())
        bench.log.refusedChangelogCount = Restore.missingCountMax
        for _ in 0..<Restore.missingCountMax {
            let fault = #expect(throws: LogFault.self) {
                try bench.restore.slice(waitMilliseconds: 0)
            }
            guard case .unavailable = fault else {
                Issue.record("\(String(describing: fault))")
                return
            }
        }
        #expect(try bench.restore.slice(waitMilliseconds: 0) != nil)
        let refused = RestoreBench(MemoryDisk())
        refused.log.refusedChangelogCount = Restore.missingCountMax + 1
        for _ in 0..<Restore.missingCountMax {
            #expect(throws: LogFault.self) { try refused.restore.slice(waitMilliseconds: 0) }
        }
        let end = #expect(throws: LogFault.self) { try refused.restore.slice(waitMilliseconds: 0) }
        guard case .misconfigured = end else {
            Issue.record("\(String(describing: end))")
            return
        }
    }
}

@Suite struct `A changelog that may be described and not read` {
    @Test func `ends the worker, though its readers are opened again and again`() throws {
        let bench = RestoreBench(MemoryDisk())
        bench.log.refusesChangelogReads = true
        var refusedCount = 0
        var end: LogFault?
        while end == nil, refusedCount <= Restore.missingCountMax {
            do {
                #expect(try bench.restore.slice(waitMilliseconds: 0) == nil)
            } catch LogFault.unavailable {
                refusedCount += 1
            } catch let fault as LogFault {
                end = fault
            }
        }
        #expect(end == .misconfigured(message: "the right to read changelog/0 is missing"))
        #expect(refusedCount == Restore.missingCountMax)
    }
}

@Suite struct `A partition that has no changelog` {
    /// Kafka is there, and partitions were added to a topic while the worker ran: it must not wait for ever, as
    /// if Kafka were away.
    @Test func `ends the worker with 2, once it is not only late`() throws {
        let restore = RestoreBench(MemoryDisk(), partition: 1).restore
        for _ in 0..<Restore.missingCountMax {
            #expect(throws: LogFault.self) { try restore.slice(waitMilliseconds: 0) }
        }
        let end = #expect(throws: WorkerEnd.self) { try restore.slice(waitMilliseconds: 0) }
        #expect(end?.exitCode == 2)
        #expect(end?.sentence.hasPrefix("changelog") == true, "\(String(describing: end))")
    }
}

@Suite struct `A store that another process holds` {
    @Test func `is waited for, slice by slice`() throws {
        let disk = FailingDisk.locked(3)
        let restore = RestoreBench(disk).restore
        for _ in 0..<3 {
            #expect(try restore.slice(waitMilliseconds: 0) == nil)
        }
        #expect(try restore.slice(waitMilliseconds: 0) != nil)
        #expect(disk.openCount == 4)
    }

    @Test func `ends the worker with 75 when it is never let go`() throws {
        // Others are asked meanwhile: what counts is the time, and not how often it was asked.
        var now: Int64 = 1_000_000
        let bench = RestoreBench(FailingDisk.locked(.max), partition: 0, clock: { now })
        #expect(try bench.restore.slice(waitMilliseconds: 0) == nil)
        // Nobody asked for so long: the time begins anew.
        now += Restore.lockedMillisecondsMax
        #expect(try bench.restore.slice(waitMilliseconds: 0) == nil)
        let end = now + Restore.lockedMillisecondsMax
        while now < end - 1 {
            now = min(now + Restore.lockedGapMillisecondsMax, end - 1)
            #expect(try bench.restore.slice(waitMilliseconds: 0) == nil)
        }
        now += 1
        let fault = #expect(throws: WorkerEnd.self) {
            try bench.restore.slice(waitMilliseconds: 0)
        }
        #expect(fault?.exitCode == 75)
        #expect(
            fault?.sentence
                == "another process has held the state of partition 0 for 90 s:"
                + " held by another process"
        )
        #expect(bench.telemetry.lockedPartitions == [0])
    }
}
