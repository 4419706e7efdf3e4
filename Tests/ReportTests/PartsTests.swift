import AppStoreAPI
import Kafka
import Simulation
import StageRuntime
import StateStore
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import report

/// A store with debts to transactions, as the changelog would have left them.
final class DebtStore {
    static let lane = Lane(appAppleID: 1, environment: .production)
    static let queue = SendQueue(endpoint: .accountTokens, lane: lane)

    let state = StagedState()
    private var stores: [MemoryStore] = []
    private var offset: Int64 = 0

    init(partitionCount: Int32 = 1) {
        for partition in 0..<partitionCount {
            let store = MemoryStore()
            stores.append(store)
            state.open(store, partition: partition)
        }
    }

    var table: DueTable { DueTable(state: state) }

    /// A debt that is ready; its deadline is when it was asked for.
    func put(
        _ id: String,
        partition: Int32 = 0,
        asked: Int64 = 0,
        isStaged: Bool = false
    ) throws -> AccountPlace {
        let requestedAt = ReportBench.start + Milliseconds(asked)
        var debt = AccountTokenDebt(
            originalTransactionID: id,
            lane: Self.lane,
            bundleID: "com.example.1",
            touchedAt: requestedAt
        )
        debt.current = AccountTokenDebt.Request(
            appAccountToken: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            requestedAt: requestedAt,
            requestID: "r",
            origin: RecordOrigin(topic: 3, partition: partition, offset: offset)
        )
        let key = Debtor.key(ofTransaction: id, lane: Self.lane)
        let debtor = Debtor.transaction(debt)
        var value: [UInt8] = []
        debtor.write(to: &value)
        if isStaged {
            let unchanged = DueChange(before: [], after: [])
            state.put(value, forKey: key, partition: partition, due: unchanged)
        }
        var changes = StoreChanges()
        changes.put(value, forKey: key, in: .state)
        changes.put(
            DueKey.note(of: debtor),
            forKey: DueKey.bytes(of: debtor, key: key),
            in: .due
        )
        offset += 1
        try stores[Int(partition)].apply(changes, changelogOffset: offset)
        return AccountPlace(key: key, partition: partition)
    }
}

@Suite struct `The due table` {
    @Test func `gives the most urgent of all partitions, and says that there are more`() throws {
        let store = DebtStore(partitionCount: 2)
        let places = try [(0, 30), (0, 10), (0, 20), (1, 5)].map { partition, asked in
            try store.put("\(asked)", partition: Int32(partition), asked: Int64(asked))
        }
        let some = try store.table.ready(DebtStore.queue, in: [0, 1], except: [], countMax: 2)
        #expect(some.debts.map(\.place) == [places[3], places[1]])
        #expect(!some.isWhole)
        let all = try store.table.ready(DebtStore.queue, in: [0, 1], except: [], countMax: 4)
        #expect(all.debts.count == 4 && all.isWhole)
        var deadlines = FirstDeadlines()
        #expect(
            try deadlines.look(in: [0, 1], store.table)
                == [DebtStore.queue: ReportBench.start + Milliseconds(5)]
        )
        _ = try store.put("6", partition: 0, asked: 1)
        #expect(
            try deadlines.look(in: [0, 1], store.table)
                == [DebtStore.queue: ReportBench.start + Milliseconds(1)]
        )
    }

    /// Goal: what is overdue in one partition does not wait for what has time in the others.
    @Test(arguments: [[0, 1], [1, 0]] as [[Int32]])
    func `gives nothing before what is more urgent in another partition`(
        partitions: [Int32]
    ) throws {
        let store = DebtStore(partitionCount: 2)
        let places = try [(0, 1), (0, 2), (0, 3), (1, 100)].map { partition, asked in
            try store.put("\(asked)", partition: Int32(partition), asked: Int64(asked))
        }
        for (busy, given, isWhole) in [(0, 0..<2, false), (2, 2..<4, true), (3, 3..<4, true)] {
            let found = try store.table.ready(
                DebtStore.queue,
                in: partitions,
                except: Set(places[..<busy]),
                countMax: 2
            )
            #expect(found.debts.map(\.place) == Array(places[given]))
            #expect(found.isWhole == isWhole)
        }
    }

    @Test func `gives nothing that is staged or in flight`() throws {
        let store = DebtStore()
        let inFlight = try store.put("1")
        _ = try store.put("2", isStaged: true)
        let free = try store.put("3")
        let ready = try store.table.ready(
            DebtStore.queue,
            in: [0],
            except: [inFlight],
            countMax: 9
        )
        #expect(ready.debts.map(\.place) == [free])
    }
}

@Suite struct `The sender` {
    private let apple = ScriptedApple()
    private let store = DebtStore()
    private let sender: Sender
    private let now = ReportBench.start

    init() {
        sender = Sender(
            apple: apple,
            rate: { _ in 1_000 },
            policy: ReportPolicy(requestIdentifier: ReportPolicy.identifier),
            limits: ReportLimits(),
            metrics: ReportMetrics(Metrics()),
            log: Log(worker: "report", format: .json, now: { 0 }, write: { _ in }),
            seed: 1
        )
        sender.share([0], of: 1)
        sender.open(DebtStore.queue)
    }

    @Test func `sends a debt once until its answer is committed`() throws {
        let place = try store.put("1")
        try sender.send(from: store.table, now: now)
        sender.touch(ReadyDebt(place: place, deadline: now), in: DebtStore.queue)
        sender.committed(settled: [], isStaged: { _ in false })
        try sender.send(from: store.table, now: now + .seconds(1))
        #expect(apple.calls.map(\.externalPurchaseID) == ["1"])

        let answers = sender.collect(now: now + .seconds(1))
        #expect(answers.map(\.place) == [place] && sender.flights.isEmpty)
        #expect(sender.busy == [place])
        sender.touch(ReadyDebt(place: place, deadline: now), in: DebtStore.queue)
        sender.committed(settled: [place], isStaged: { _ in false })
        #expect(sender.busy.isEmpty)
        try sender.send(from: store.table, now: now + .seconds(2))
        #expect(apple.calls.map(\.externalPurchaseID) == ["1", "1"])
    }

    @Test func `sends what became ready after its commit, and without it never`() throws {
        try sender.send(from: store.table, now: now)
        let place = try store.put("1")
        try sender.send(from: store.table, now: now + .seconds(1))
        #expect(apple.calls.isEmpty)
        sender.touch(ReadyDebt(place: place, deadline: now), in: DebtStore.queue)
        sender.committed(settled: [], isStaged: { $0 == place })
        try sender.send(from: store.table, now: now + .seconds(2))
        #expect(apple.calls.isEmpty)
        sender.committed(settled: [], isStaged: { _ in false })
        try sender.send(from: store.table, now: now + .seconds(3))
        #expect(apple.calls.map(\.externalPurchaseID) == ["1"])
    }

    @Test func `drops what became ready of partitions that are another's`() throws {
        try sender.send(from: store.table, now: now)
        let place = try store.put("1")
        sender.touch(ReadyDebt(place: place, deadline: now), in: DebtStore.queue)
        sender.revoke([0])
        sender.committed(settled: [], isStaged: { _ in false })
        try sender.send(from: store.table, now: now + .seconds(1))
        #expect(apple.calls.isEmpty)
    }

    @Test func `abandons what is in flight for partitions that are another's`() throws {
        _ = try store.put("1")
        try sender.send(from: store.table, now: now)
        #expect(sender.flights.count == 1)
        sender.revoke([0])
        #expect(sender.flights.isEmpty && sender.busy.isEmpty)
        #expect(sender.collect(now: now).isEmpty)
    }

    /// The partitions to come may have primaries that were not sent.
    @Test func `has heard no primary before all state is here, unless time is short`() {
        func hasHeard(isLate: Bool) -> Bool {
            sender.hasHeardPrimary(
                of: DebtStore.lane,
                ofDuplicateDueAt: now,
                isLate: isLate,
                now: now
            )
        }
        for isWhole in [false, true] {
            sender.isWhole = isWhole
            #expect(hasHeard(isLate: false) == isWhole)
            #expect(hasHeard(isLate: true))
        }
    }

    @Test func `sends nothing before it knows its share of the rate`() throws {
        _ = try store.put("1")
        sender.share([0], of: nil)
        try sender.send(from: store.table, now: now + .seconds(9))
        #expect(apple.calls.isEmpty)
    }
}

@Suite struct `The debts at hand of a lane` {
    private static func debt(_ deadline: Int64) -> ReadyDebt {
        ReadyDebt(
            place: AccountPlace(key: [UInt8(deadline)], partition: 0),
            deadline: Timestamp(milliseconds: deadline)
        )
    }

    @Test(arguments: [
        // All of the table is at hand: what comes is, too, up to so many.
        ([3, 5], true, [4], [3, 4, 5], false),
        ([], true, [2, 1], [1, 2], false),
        ([3, 5], true, [9], [3, 5, 9], false),
        ([1, 2, 3], true, [4, 0], [0, 1, 2], true),
        // Only a part is: what is less urgent than that stays in the table.
        ([3, 5], false, [9, 5], [3, 5], true),
        ([3, 5], false, [4], [3, 4, 5], true),
    ])
    func `go the most urgent first, and the table is read for the rest`(
        held: [Int64],
        isWhole: Bool,
        added: [Int64],
        sent: [Int64],
        isReadAgain: Bool
    ) {
        var lane = SendLane(limiter: RateLimiter(rate: 1))
        lane.refill(held.map(Self.debt), isWhole: isWhole)
        for deadline in added {
            lane.add(Self.debt(deadline), countMax: 3)
        }
        var deadlines: [Int64] = []
        while let debt = lane.popMostUrgent() {
            deadlines.append(debt.deadline.milliseconds)
        }
        #expect(deadlines == sent)
        #expect(lane.needsRefill == isReadAgain)
    }
}

@Suite struct `The inbox of answers` {
    private static func answer(_ number: UInt8) -> PlacedAnswer {
        PlacedAnswer(
            place: AccountPlace(key: [number], partition: Int32(number)),
            answer: .accountToken(
                AnsweredAccountToken(
                    appAccountToken: "",
                    attempts: 0,
                    meaning: .accepted,
                    httpStatus: 200,
                    errorCode: nil,
                    answeredAt: ReportBench.start,
                    retryAt: ReportBench.start
                )
            )
        )
    }

    @Test func `gives answers after a while together, and at once where they are many`() {
        var limits = ReportLimits()
        limits.answerCountMax = 2
        var inbox = AnswerInbox(limits: limits)
        let start = ReportBench.start
        inbox.add([Self.answer(1)])
        #expect(inbox.take(now: start, isMoreComing: true).map(\.place.partition) == [1])
        inbox.add([Self.answer(2)])
        #expect(inbox.take(now: start + Milliseconds(999), isMoreComing: true).isEmpty)
        let next = inbox.nextTaking(now: start, isMoreComing: true)
        #expect(next == start + limits.settleInterval)
        inbox.add([Self.answer(3), Self.answer(4)])
        let many = inbox.take(now: start + Milliseconds(999), isMoreComing: true)
        #expect(many.map(\.place.partition) == [2, 3])
        // The clock was set back.
        let last = inbox.take(now: start + Milliseconds(-1), isMoreComing: true)
        #expect(last.map(\.place.partition) == [4])
    }

    @Test func `waits for nothing where a burst is whole, unless it is a small one`() {
        var limits = ReportLimits()
        limits.wholeAnswerCountMin = 3
        var inbox = AnswerInbox(limits: limits)
        let start = ReportBench.start
        inbox.add([Self.answer(1)])
        #expect(inbox.take(now: start, isMoreComing: false).count == 1)
        inbox.add([Self.answer(2), Self.answer(3)])
        #expect(inbox.take(now: start, isMoreComing: false).isEmpty)
        inbox.add([Self.answer(4)])
        #expect(inbox.take(now: start, isMoreComing: true).isEmpty)
        #expect(inbox.nextTaking(now: start, isMoreComing: false) == start)
        #expect(inbox.take(now: start, isMoreComing: false).count == 3)
    }

    @Test func `hands back what an aborted transaction took, and forgets what was committed`() {
        var inbox = AnswerInbox(limits: ReportLimits())
        let start = ReportBench.start
        inbox.add([Self.answer(1), Self.answer(2), Self.answer(3)])
        for answer in inbox.take(now: start, isMoreComing: true) {
            inbox.staged(answer)
        }
        let settled = inbox.committed { $0.partition == 2 }
        #expect(settled.map(\.partition) == [1, 3])
        inbox.add([Self.answer(4)])
        inbox.aborted()
        inbox.forget(partitions: [4])
        let again = inbox.take(now: start + .seconds(1), isMoreComing: true)
        #expect(again.map(\.place.partition) == [2])
    }

    @Test func `moves the retries of answers that no account has when the clock is set back`() {
        var inbox = AnswerInbox(limits: ReportLimits())
        let start = ReportBench.start
        inbox.add([Self.answer(1)])
        for answer in inbox.take(now: start, isMoreComing: true) {
            inbox.staged(answer)
        }
        inbox.add([Self.answer(2)])
        let right = start + .days(-40)
        inbox.clockWasSetBack(by: .days(40), now: right)
        inbox.aborted()
        let retries = inbox.take(now: right, isMoreComing: true).map { placed in
            if case .accountToken(let answer) = placed.answer { answer.retryAt } else { start }
        }
        #expect(retries == [right, right])
    }
}

@Suite struct `The runner of the guard` {
    private let bench = ReportBench(partitionCount: 1)
    private let now = ReportBench.start

    private func runner() -> GuardRunner {
        let log = MemoryLog(
            cluster: bench.cluster,
            group: "\(ReportBench.prefix)report",
            transactionalID: "report-0",
            sources: [],
            targets: [],
            clock: { ReportBench.start.milliseconds }
        )
        return GuardRunner(
            inquiry: LogInquiry(log: log, prefix: ReportBench.prefix),
            limits: ReportLimits()
        )
    }

    @Test func `asks nothing while nobody waits`() {
        let runner = runner()
        #expect(runner.advance(earliest: nil, now: now) == nil)
        #expect(runner.advance(earliest: now + .seconds(1), now: now) == nil)
        #expect(!runner.isRunning)
    }

    @Test func `proves nothing while decode has committed nothing, and asks less often`() {
        let runner = runner()
        var time = now
        for _ in 0..<4 {
            #expect(runner.advance(earliest: now, now: time) == now)
            time = max(time, runner.nextInquiry)
        }
        #expect(!runner.isProven(partition: 0) && time - now >= .seconds(3))
        runner.end()
        #expect(!runner.isRunning)
    }
}
