import Kafka
import Simulation
import StateStore
import TokenDomain
import Testing

@testable import StageRuntime

/// Forwards every record once a key: state says which keys were seen.
private final class FirstOfKeyStage: StatefulStage {
    let derivesFromPrevious = false

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        for record in batch.records {
            let key = Array(batch.arena[record.key.indices])
            let value = Array(batch.arena[record.value.indices])
            guard value != Array("bad".utf8) else {
                plan.conclude(.deadLetter(Fault(code: "dedupe.bad_record", message: "bad")))
                continue
            }
            do {
                let known = try plan.state.values([key], partition: record.partition)
                guard known == [nil] else {
                    plan.conclude(.settled("repeat"))
                    continue
                }
            } catch {
                plan.storeFault = error
                plan.conclude(.settled("fault"))
                continue
            }
            plan.state.put(
                value,
                forKey: key,
                partition: record.partition,
                due: DueChange(before: [], after: [])
            )
            let keyRange = plan.outputs.place(key)
            let valueRange = plan.outputs.place(value)
            plan.outputs.outputs.append(
                OutputBatch.Output(topic: 0, key: keyRange, value: valueRange)
            )
            plan.conclude(.forward(outputCount: 1))
        }
    }

    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {
        guard let value else {
            changes.remove(key: key, from: .state)
            return
        }
        changes.put(value, forKey: key, in: .state)
    }
}

/// Always wants to be called; may set an output aside when it is for the first time.
private final class EagerStage: TickingStage {
    let derivesFromPrevious = false
    let nextTick: Timestamp? = Timestamp(milliseconds: 0)
    let wakeDescriptor: Int32 = -1
    private(set) var tickCount = 0
    private let setsAside: Bool

    init(setsAside: Bool = false) {
        self.setsAside = setsAside
    }

    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        batch.records.forEach { _ in plan.conclude(.settled("seen")) }
    }

    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {}

    func assigned(_ partitions: [Int32], isWhole: Bool, state: StagedState, now: Timestamp) {}
    func revoked(_ partitions: [Int32]) {}
    func tick(into plan: inout BatchPlan) {
        tickCount += 1
        guard setsAside, tickCount == 1 else {
            return
        }
        let outputCount = plan.outputs.outputs.count
        let value = plan.outputs.place([7])
        plan.outputs.outputs.append(OutputBatch.Output(topic: 0, key: .absent, value: value))
        plan.setAside(from: outputCount)
    }
    func committed(now: Timestamp) {}
    func aborted() {}
}

@Suite struct `The loop of a worker` {
    /// Goal: whatever happens to its instances, every key goes out exactly once and every bad
    /// record is dead-lettered exactly once.
    ///
    /// Method: one to three instances on a memory cluster; crashes, expired sessions, aborts,
    /// outages, lost disks and scaling drawn from the seed; then a calm end.
    @Test(arguments: 0..<400)
    func `settles every record exactly once whatever happens to its instances`(seed: UInt64) throws
    {
        var run = LoopRun(seed: seed)
        try run.storm(stepCount: 300)
        try run.calm()
        #expect(run.account() == run.expected(), "seed \(seed)")
        #expect(!run.cluster.hasOpenTransaction, "seed \(seed)")
    }

    /// Its store is the last copy of what the changelog had.
    ///
    /// What it writes next ends before the old end, or behind it.
    @Test(arguments: [1, 200] as [UInt8])
    func `ends where its changelog is made anew under it, and leaves its state`(
        nextCount: UInt8
    ) throws {
        var run = LoopRun(seed: 1)
        let loop = try run.startRestoring()
        func send(_ keys: Range<UInt8>) throws {
            for key in keys {
                run.cluster.append(topic: "in", key: [key], value: [2], timestampMilliseconds: 0)
            }
            for _ in 0..<50 {
                _ = try loop.step(waitMilliseconds: 0)
            }
        }
        for key in 0..<20 as Range<UInt8> {
            try send(key..<key + 1)
        }
        let known = loop.state.partitions.map { loop.state.changelogOffset(of: $0) }
        run.cluster.remakeTopic("tollway.dedupe.state.v1")
        let end = try #require(throws: WorkerEnd.self) {
            try send(20..<20 + nextCount)
        }
        #expect(end.exitCode == 2 && end.sentence.contains("made anew. Keep every STATE_DIR"))
        #expect(loop.state.partitions.map { loop.state.changelogOffset(of: $0) } == known)
    }

    @Test func `passes the markers at the end of a partition, also when it reads nothing`() throws {
        var run = LoopRun(seed: 1)
        run.cluster.append(topic: "in", key: [1], value: [2], timestampMilliseconds: 0)
        try run.calm()
        let reader = run.makeLog(name: "other", group: "other")
        let committed = try reader.committedOffsets(ofGroup: "group", topic: "in")
        let ends = try reader.endOffsets(ofTopic: "in")
        #expect(committed == ends)
    }

    /// A 0 that was committed unread, and records removed from there: no later start could begin.
    @Test(arguments: [0, 30])
    func `commits nothing of a partition whose start is unknown before it was read`(
        recordCount: UInt8
    ) throws {
        var run = LoopRun(seed: 1)
        run.cluster.leaderless = [TopicPartition(topic: "in", partition: 1)]
        for key in 10..<10 + recordCount {
            run.cluster.append(topic: "in", key: [key], value: [2], timestampMilliseconds: 0)
        }
        try run.calm()
        let reader = run.makeLog(name: "other", group: "other")
        let ends = try #require(try reader.endOffsets(ofTopic: "in"))
        #expect(ends.contains(0) == (recordCount == 0))
        let known: [Int64?] = [ends[0], nil, ends[2]]
        #expect(try reader.committedOffsets(ofGroup: "group", topic: "in") == known)
        run.cluster.leaderless = []
        run.cluster.faults.abortOneIn = 2
        for _ in 0..<20 {
            try run.step(0)
        }
        try run.calm()
        let all: [Int64?] = ends
        #expect(try reader.committedOffsets(ofGroup: "group", topic: "in") == all)
        #expect(run.forwardedCount == Int(recordCount))
    }

    @Test func `tells how many partitions wait for their state, down to none`() throws {
        var run = LoopRun(seed: 1)
        let loop = try run.startRestoring()
        #expect(run.telemetry.assignedCounts == [3])
        #expect(run.telemetry.restoringCounts.first == 3)
        for _ in 0..<10 where loop.isRestoring {
            _ = try loop.step(waitMilliseconds: 0)
        }
        #expect(run.telemetry.restoringCounts == [3, 2, 1, 0])
    }

    /// Who takes over from an instance that was lost has partitions of its own, too.
    @Test func `works on partitions whose state is here, while it reads another's`() throws {
        var run = LoopRun(seed: 1)
        let large = TopicPartition(topic: "tollway.dedupe.state.v1", partition: 1)
        for _ in 0..<4 * Restore.recordCountMax {
            run.cluster.append(
                topic: large.topic,
                partition: large.partition,
                key: [1],
                value: [1],
                timestampMilliseconds: 0
            )
        }
        for key in 10..<40 as Range<UInt8> {
            run.cluster.append(topic: "in", key: [key], value: [2], timestampMilliseconds: 0)
        }
        let other = run.makeLog(name: "other", group: "other")
        let ends = try #require(try other.endOffsets(ofTopic: "in"))
        #expect(!ends.contains(0))
        let loop = try run.startRestoring()
        func done() -> [Int64?] {
            (0..<3).map { loop.done[TopicPartition(topic: "in", partition: $0)] }
        }
        var meanwhile: [Int64?] = []
        while loop.isRestoring {
            meanwhile = done()
            _ = try loop.step(waitMilliseconds: 0)
        }
        #expect(meanwhile == [ends[0], 0, ends[2]])
        for _ in 0..<10 {
            _ = try loop.step(waitMilliseconds: 0)
        }
        #expect(done() == ends)
    }

    /// While Kafka is away its state cannot be read, and its session ends.
    @Test func `lets go of lost partitions at once, also while it cannot read their state`() throws
    {
        var run = LoopRun(seed: 1)
        let loop = try run.startRestoring()
        #expect(loop.assigned.count == 3)
        run.loseKafkaAndSession()
        #expect(throws: LogFault.self) { _ = try loop.step(waitMilliseconds: 0) }
        #expect(loop.assigned.count == 0)
        try run.calm()
        #expect(loop.assigned.count == 3)
    }

    /// What was aborted is judged again.
    @Test func `counts how records ended once their transaction is committed, and once`() throws {
        var run = LoopRun(seed: 1)
        let loop = try run.startRestoring()
        try run.calm()
        #expect(run.telemetry.completedCounts.isEmpty)
        run.cluster.faults.abortOneIn = 1
        for (key, value) in [(1, "a"), (1, "b"), (2, "a"), (3, "bad")] as [(UInt8, String)] {
            run.cluster.append(
                topic: "in",
                key: [key],
                value: Array(value.utf8),
                timestampMilliseconds: 0
            )
        }
        for _ in 0..<50 where run.telemetry.abortCount == 0 {
            _ = try loop.step(waitMilliseconds: 0)
        }
        #expect(run.telemetry.abortCount == 1)
        #expect(run.telemetry.completedCounts.isEmpty)
        try run.calm()
        let counts = ["forwarded": 2, "repeat": 1, "dead_letter": 1]
        #expect(run.telemetry.completedCounts == counts)
    }

    @Test func `sends what its stage sets aside in a tick`() throws {
        var run = LoopRun(seed: 1)
        run.makeStage = { EagerStage(setsAside: true) }
        let loop = try run.startRestoring()
        for _ in 0..<20 {
            _ = try loop.step(waitMilliseconds: 0)
        }
        #expect(run.forwardedCount == 1)
    }

    /// A worker that waited for a stage that is not called would not wait at all: an hour of a processor for
    /// each hour that Kafka is away.
    @Test func `waits for no stage that it does not call`() throws {
        var run = LoopRun(seed: 1)
        let stage = EagerStage()
        run.makeStage = { stage }
        let loop = try run.startRestoring()
        #expect(stage.tickCount == 0)
        for _ in 0..<20 where stage.tickCount == 0 {
            _ = try loop.step(waitMilliseconds: 0)
        }
        #expect(loop.isTicking && stage.tickCount > 0)
        run.loseKafkaAndSession()
        while loop.assigned.count > 0 {
            _ = try loop.step(waitMilliseconds: 0)
        }
        let count = stage.tickCount
        #expect(!loop.isTicking)
        #expect(throws: LogFault.self) { _ = try loop.step(waitMilliseconds: 0) }
        #expect(stage.tickCount == count)
    }
}

private final class ManualClock {
    var now = Timestamp(milliseconds: 0)

    func advance(milliseconds: Int64) {
        now = now + Milliseconds(milliseconds)
    }
}

/// A storm over several instances of one worker.
private struct LoopRun {
    final class Instance {
        let log: MemoryLog
        let loop: WorkerLoop

        init(log: MemoryLog, loop: WorkerLoop) {
            self.log = log
            self.loop = loop
        }
    }

    private static let refused = Array("refused".utf8)

    let cluster: MemoryCluster
    var limits = WorkerLoop.Limits()
    var makeStage: () -> any StatefulStage = { FirstOfKeyStage() }
    let telemetry = SilentTelemetry()
    private let clock = ManualClock()
    private var generator: SeededGenerator
    private var disks: [Int: MemoryDisk] = [:]
    private var instances: [Int: Instance] = [:]
    private var keys: Set<UInt8> = []
    private var badCount = 0
    private var refusedCount = 0

    init(seed: UInt64) {
        cluster = MemoryCluster(seed: seed)
        generator = SeededGenerator(seed: seed ^ 0x5eed)
        cluster.createTopic("in", partitionCount: 3)
        cluster.createTopic("tollway.tokens.distinct.v1", partitionCount: 3)
        cluster.createTopic("dlq.tollway.dedupe", partitionCount: 3)
        cluster.createTopic("tollway.dedupe.state.v1", partitionCount: 3)
    }

    func makeLog(name: String, group: String = "group") -> MemoryLog {
        MemoryLog(
            cluster: cluster,
            group: group,
            transactionalID: name,
            sources: ["in"],
            targets: WorkerLoop.targets(of: .dedupe).map { $0.name(prefix: "tollway.") },
            clock: { 0 }
        )
    }

    private mutating func start(_ number: Int) {
        let log = makeLog(name: "worker-\(number)")
        let disk = disks[number] ?? MemoryDisk()
        disks[number] = disk
        instances[number] = Instance(
            log: log,
            loop: WorkerLoop(
                worker: .dedupe,
                group: "group",
                log: log,
                stage: makeStage(),
                provider: disk,
                limits: limits,
                telemetry: telemetry,
                clock: { [clock] in clock.now }
            )
        )
    }

    /// An instance that has its partitions and reads their state.
    mutating func startRestoring() throws -> WorkerLoop {
        start(0)
        let loop = try #require(instances[0]?.loop)
        for _ in 0..<10 where !loop.isRestoring {
            _ = try loop.step(waitMilliseconds: 0)
        }
        #expect(loop.isRestoring)
        return loop
    }

    func loseKafkaAndSession() {
        cluster.isDown = true
        instances[0]?.log.expireSession()
    }

    mutating func storm(stepCount: Int) throws {
        cluster.faults.abortOneIn = 8
        cluster.faults.outcomeDelayMax = 3
        cluster.faults.refusedValue = Self.refused
        start(0)
        for _ in 0..<stepCount {
            clock.advance(milliseconds: 20)
            feed()
            try disturb()
            for instance in instances.keys.sorted() where !generator.oneIn(4) {
                try step(instance)
            }
        }
    }

    private mutating func feed() {
        guard generator.oneIn(2) else {
            return
        }
        let key = UInt8.random(in: 0..<100, using: &generator)
        if generator.oneIn(20), refusedCount < 50 {
            // A key of its own: the stage never saw a dead-lettered record.
            cluster.append(
                topic: "in",
                key: [200 + UInt8(refusedCount)],
                value: Self.refused,
                timestampMilliseconds: 0
            )
            refusedCount += 1
        }
        let isBad = generator.oneIn(20)
        cluster.append(
            topic: "in",
            key: [key],
            value: isBad ? Array("bad".utf8) : [key],
            timestampMilliseconds: 0
        )
        if isBad {
            badCount += 1
        } else {
            keys.insert(key)
        }
    }

    private mutating func disturb() throws {
        let number = Int.random(in: 0..<3, using: &generator)
        switch Int.random(in: 0..<40, using: &generator) {
        case 0:
            instances[number]?.log.crash()
            instances[number]?.log.expireSession()
            instances[number] = nil
        case 1:
            // kill -9 and at once again: the dead member's session still runs until noticed.
            instances[number]?.log.crash()
            instances[number]?.log.expireSession()
            start(number)
        case 2:
            instances[number]?.log.expireSession()
        case 3:
            disks[number]?.loseEverything()
            instances[number]?.log.crash()
            instances[number]?.log.expireSession()
            instances[number] = nil
        case 4:
            cluster.isDown.toggle()
        case 5:
            guard instances[number] == nil else {
                try instances[number]?.loop.finish()
                instances[number]?.log.close(deadlineMilliseconds: 0)
                instances[number] = nil
                return
            }
            start(number)
        default:
            break
        }
    }

    func step(_ number: Int) throws {
        do {
            _ = try instances[number]?.loop.step(waitMilliseconds: 0)
        } catch LogFault.unavailable {
            // The cluster is down: the worker waits, and loses nothing.
        }
    }

    mutating func calm() throws {
        cluster.faults = MemoryCluster.Faults()
        cluster.faults.refusedValue = Self.refused
        cluster.isDown = false
        if instances.isEmpty {
            start(0)
        }
        var quietTurns = 0
        for _ in 0..<10_000 where quietTurns < 10 {
            var isBusy = false
            for number in instances.keys.sorted() {
                isBusy = try instances[number]?.loop.step(waitMilliseconds: 0) == true || isBusy
            }
            if !isBusy, let next = instances.values.compactMap(\.loop.nextAttempt).min() {
                clock.now = next
                isBusy = true
            }
            quietTurns = isBusy ? 0 : quietTurns + 1
        }
        #expect(quietTurns == 10, "the workers come to rest")
    }

    struct Account: Equatable {
        var forwarded: [UInt8: Int]
        var deadLetters: Int
        var changelogKeys: Set<UInt8>
    }

    var forwardedCount: Int {
        cluster.committedRecords(of: "tollway.tokens.distinct.v1").count
    }

    func account() -> Account {
        var account = Account(forwarded: [:], deadLetters: 0, changelogKeys: [])
        for record in cluster.committedRecords(of: "tollway.tokens.distinct.v1") {
            account.forwarded[record.key?.first ?? 255, default: 0] += 1
        }
        account.deadLetters = cluster.committedRecords(of: "dlq.tollway.dedupe").count
        for record in cluster.committedRecords(of: "tollway.dedupe.state.v1") {
            account.changelogKeys.insert(record.key?.first ?? 255)
        }
        return account
    }

    func expected() -> Account {
        Account(
            forwarded: Dictionary(uniqueKeysWithValues: keys.map { ($0, 1) }),
            deadLetters: badCount + refusedCount,
            changelogKeys: keys
        )
    }
}
