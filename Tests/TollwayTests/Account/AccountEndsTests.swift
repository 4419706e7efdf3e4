import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

/// The topics of tokens and sales on an embedded broker, written by hand.
private final class CountWorld {
    private static let replayHeader = "tollway.dlq.replay_id"

    let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000) - 60_000)
    private var records: AccountRecords { records(0) }

    private func records(_ daysAgo: Int64) -> AccountRecords {
        AccountRecords(now: now + -.days(daysAgo))
    }

    private static let ledgers: [Topic] = [.reportsOutcomes, .purchasesOutcomes]
    private let topics =
        AccountEnds.topics + CountWorld.ledgers + [
            .dedupeState, .reportState, .purchasesReceived, .purchasesState,
            .deadLetters(.purchases),
        ]
    private let broker: MockBroker
    private let producer: KafkaProducer
    let configuration: Configuration

    init(partitionCount: Int = 1, ofLedgers ledgerPartitionCount: Int = 1) throws {
        let names = topics.map { $0.name(prefix: "t.") }
        broker = try MockBroker(
            topics: topics.reduce(into: [:]) { counts, topic in
                counts[topic.name(prefix: "t.")] =
                    CountWorld.ledgers.contains(topic) ? ledgerPartitionCount : partitionCount
            }
        )
        producer = try KafkaProducer(
            settings: KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test"),
            targets: names
        )
        configuration = try Configuration(
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ],
            program: .tollway
        )
    }

    deinit {
        producer.close(deadlineMilliseconds: 1_000)
        broker.close()
    }

    private var window: AccountWindow {
        AccountWindow(from: now + -.hours(1), to: now + .hours(1), shortened: nil)
    }

    /// As a count begins.
    func count() throws -> TokenCount {
        TokenCount(
            configuration,
            window,
            try AccountPositions(configuration),
            try AccountEnds(configuration)
        )
    }

    func sales() throws -> SalesCount {
        SalesCount(configuration, window, try AccountPositions(configuration), appIDs: [:])
    }

    private func write(
        _ topic: Topic,
        key: String,
        headers: (inout [UInt8]) -> Void = { _ in },
        _ value: (inout [UInt8]) -> Void
    ) throws {
        var outputs = OutputBatch()
        let keyRange = outputs.place(key.utf8)
        let valueStart = outputs.arena.count
        value(&outputs.arena)
        let valueRange = outputs.placed(from: valueStart)
        let headersStart = outputs.arena.count
        headers(&outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: try #require(topics.firstIndex(of: topic)),
                key: keyRange,
                value: valueRange,
                headers: outputs.placed(from: headersStart)
            )
        )
        try producer.produce(outputs, tags: [0])
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }

    private func replayed(_ isReplayed: Bool) -> (inout [UInt8]) -> Void {
        { arena in
            if isReplayed {
                HeaderList.append(name: Self.replayHeader.utf8, value: "r".utf8, to: &arena)
            }
        }
    }

    /// `beside`: more members of the value.
    func received(_ id: String, beside: String = "") throws {
        func value(_ arena: inout [UInt8]) {
            records.received(id).write(to: &arena)
            arena.removeLast()
            arena.append(contentsOf: "\(beside)}".utf8)
        }
        try write(.tokensReceived, key: id, value)
    }

    /// A buy of the customer of a token.
    func sale(of id: String) -> PurchaseEvent {
        var event = PurchaseEvent(lineItemID: "order of \(id)")
        event.externalPurchaseID = TokenID(id)
        event.appAppleID = 1
        event.creationDate = now
        event.receivedAt = now
        return event
    }

    /// It came in, and Apple has accepted it.
    func sold(_ id: String) throws {
        try write(.purchasesReceived, key: id, sale(of: id).write)
        let outcome = PurchaseOutcome(
            lineItemID: sale(of: id).lineItemID,
            revision: 1,
            type: .buy,
            outcome: .reported,
            externalPurchaseID: nil,
            requestIdentifier: nil,
            reason: "accepted",
            errors: [],
            item: nil,
            receivedAt: now,
            settledAt: now,
            lane: Lane(appAppleID: 1, environment: .production)
        )
        try write(.purchasesOutcomes, key: id, outcome.write)
    }

    /// Apple has accepted its report.
    func told(_ id: String) throws {
        var outcome = LedgerMaker.outcome(1, token: id, settledAt: now)
        outcome.details.tokenCreationDate = now
        try write(.reportsOutcomes, key: id, outcome.write)
    }

    func decoded(_ id: String, isReplayed: Bool = false, daysAgo: Int64 = 0) throws {
        try write(
            .tokensDecoded,
            key: id,
            headers: replayed(isReplayed),
            records(daysAgo).decoded(id).write
        )
    }

    func distinct(
        _ id: String,
        isReplayed: Bool = false,
        daysAgo: Int64 = 0,
        promotedFrom: String? = nil
    ) throws {
        var value = records(daysAgo).distinct(id)
        value.promotedFrom = promotedFrom.map { TokenID($0) }
        try write(.tokensDistinct, key: id, headers: replayed(isReplayed), value.write)
    }

    func reported(_ id: String) throws {
        var account = TokenAccount(externalPurchaseID: TokenID(id), touchedAt: now)
        account.appAppleID = 1
        account.bundleID = "b"
        account.role = .primary
        account.tokenCreationDate = now
        account.lastAccepted = .noLineItem
        account.lastAcceptedAt = now
        try write(.reportState, key: id, account.write)
    }

    /// The dead letter of the token at an offset of what a stage reads first.
    func deadLetter(
        _ worker: Worker,
        of id: String,
        at offset: Int64,
        daysAgo: Int64 = 0,
        promotedFrom: String? = nil
    ) throws {
        var distinct = records(daysAgo).distinct(id)
        distinct.promotedFrom = promotedFrom.map { TokenID($0) }
        try deadLetter(
            worker,
            key: id,
            at: offset,
            worker == .dedupe ? records(daysAgo).decoded(id).write : distinct.write
        )
    }

    /// The first record of what a stage reads first, which is none of ours, and its dead letter.
    func unreadable(_ text: String, before worker: Worker) throws {
        func value(_ arena: inout [UInt8]) {
            arena.append(contentsOf: text.utf8)
        }
        try write(worker.sources[0], key: "x", value)
        try deadLetter(worker, key: "x", at: 0, value)
    }

    private func deadLetter(
        _ worker: Worker,
        key: String,
        at offset: Int64,
        _ value: (inout [UInt8]) -> Void
    ) throws {
        let deadLetter = DeadLetter(
            fault: Fault(code: "\(worker.rawValue).output_too_large", message: "m"),
            worker: worker,
            origin: DeadLetter.Origin(
                topic: worker.sources[0].name(prefix: "t."),
                partition: 0,
                offset: offset,
                group: "g"
            ),
            failedAt: now
        )
        try write(
            .deadLetters(worker),
            key: key,
            headers: deadLetter.appendHeaders,
            value
        )
    }
}

@Suite struct `What an account counts` {
    @Test(arguments: [Worker.decode, .dedupe, .report])
    func `ends where a stage's output does before where its input does`(worker: Worker) throws {
        let topics = AccountEnds.topics
        let input = try #require(topics.firstIndex(of: worker.sources[0]))
        let outputs: [Topic: Topic] = [
            .tokensReceived: .tokensDecoded, .tokensDecoded: .tokensDistinct,
        ]
        for output in [.deadLetters(worker), outputs[worker.sources[0]]].compactMap({ $0 }) {
            #expect(try #require(topics.firstIndex(of: output)) < input)
        }
    }

    /// decode catches up while what it reads was counted already.
    @Test func `is nothing that came after it began`() throws {
        let world = try CountWorld()
        try world.received("a")
        try world.decoded("a")
        try world.distinct("a")
        try world.reported("a")
        var count = try world.count()
        for id in ["b", "c"] {
            try world.decoded(id)
            try world.distinct(id)
            try world.reported(id)
        }
        var months: MonthCount?
        try count.run(months: &months)
        let line = try #require(count.lines[1])
        let stage = AccountLine.Stage(incoming: 1, outgoing: 1, unread: 1)
        #expect([line.decode, line.dedupe, line.report] == [stage, stage, stage])
        #expect(line.closes && line.reported == 1)
    }

    /// A platform may add a member of any name, and decode reads none of it.
    @Test(
        arguments: [
            #","externalPurchaseId":"order-77""#, #","appAppleId":2"#,
            #","externalPurchaseId":"order-77","appAppleId":1.5"#,
        ]
    )
    func `is a token of its own app, whatever lies beside it`(beside: String) throws {
        let world = try CountWorld()
        try world.received("a", beside: beside)
        try world.decoded("a")
        var count = try world.count()
        var months: MonthCount?
        try count.run(months: &months)
        #expect(count.lines.keys.sorted() == [1])
        let line = try #require(count.lines[1])
        #expect(line.decode == AccountLine.Stage(incoming: 1, outgoing: 1, unread: 1))
        #expect(line.closes)
    }

    /// Only what is read together with it must have the count of a topic.
    @Test(arguments: [1, 6, 8])
    func `is found in ledgers of any number of partitions`(partitionCount: Int) throws {
        let world = try CountWorld(partitionCount: 4, ofLedgers: partitionCount)
        let ids = (0..<12).map { "t-\($0)" }
        for id in ids {
            try world.distinct(id)
            try world.reported(id)
            try world.told(id)
            try world.sold(id)
        }
        var count = try world.count()
        let month = CalendarMonth(of: world.now)
        var months: MonthCount? = MonthCount(month, world.configuration, now: world.now)
        try count.run(months: &months)
        let line = try #require(months?.lines[1])
        #expect(line.active == ids.count && line.reported == ids.count)
        var sales = try world.sales()
        try sales.run()
        #expect(sales.lines == [1: SalesLine(received: ids.count, reported: ids.count)])
        // The same once more, after its record has left the topic.
        let again = ids.map { id in
            SettledSales.Sale(
                world.sale(of: id),
                app: 1,
                world.now + .seconds(1),
                refusedFirst: nil,
                TopicReader.partition(ofKey: Array(id.utf8), partitionCount: 4)
            )
        }
        let settled = try SettledSales(of: again, partitionCount: 4, world.configuration)
        #expect(again.count { settled.isRepeat($0) } == ids.count)
    }

    @Test(arguments: [Worker.dedupe, .report])
    func `is a refused token that was sent back once`(worker: Worker) throws {
        let world = try CountWorld()
        try world.received("a")
        try world.decoded("a")
        if worker == .dedupe {
            try world.deadLetter(worker, of: "a", at: 0)
            try world.decoded("a", isReplayed: true)
            try world.distinct("a")
        } else {
            try world.distinct("a")
            try world.deadLetter(worker, of: "a", at: 0)
            try world.distinct("a", isReplayed: true)
        }
        try world.reported("a")
        var count = try world.count()
        var months: MonthCount?
        try count.run(months: &months)
        let line = try #require(count.lines[1])
        let stage = worker == .dedupe ? line.dedupe : line.report
        #expect(
            stage == AccountLine.Stage(incoming: 2, replayed: 1, outgoing: 2, unread: 2)
        )
        #expect(line.closes, "\(line)")
        #expect(line.repeats == 0 && line.deadLetters == 1 && line.reported == 1)
    }

    /// Its dead letter is younger than the seven days that a record's own time may differ by.
    @Test(arguments: [Worker.dedupe, .report])
    func `is no refused token of the week before that failed again`(worker: Worker) throws {
        let world = try CountWorld()
        if worker == .dedupe {
            try world.decoded("a", isReplayed: true, daysAgo: 8)
        } else {
            try world.distinct("a", isReplayed: true, daysAgo: 8)
        }
        try world.deadLetter(worker, of: "a", at: 0, daysAgo: 8)
        var count = try world.count()
        var months: MonthCount?
        try count.run(months: &months)
        #expect(count.lines.values.allSatisfy { $0 == AccountLine() }, "\(count.lines)")
    }

    @Test func `is no promoted token that was refused`() throws {
        let world = try CountWorld()
        try world.distinct("a", promotedFrom: "b")
        try world.deadLetter(.report, of: "a", at: 0, promotedFrom: "b")
        var count = try world.count()
        var months: MonthCount?
        try count.run(months: &months)
        #expect(count.lines.values.allSatisfy { $0 == AccountLine() }, "\(count.lines)")
    }

    /// Somebody else wrote it between two stages, and the second makes a dead letter of it.
    @Test(
        arguments: [
            (.dedupe, #"{"appAppleId":2}"#, 2), (.dedupe, "no JSON", 0),
            (.report, #"{"appAppleId":2}"#, 2), (.report, "no JSON", 0),
        ] as [(Worker, String, Int64)]
    )
    func `is a record that cannot be read, under the app of its dead letter`(
        worker: Worker,
        value: String,
        app: Int64
    ) throws {
        let world = try CountWorld()
        try world.unreadable(value, before: worker)
        var count = try world.count()
        var months: MonthCount?
        try count.run(months: &months)
        #expect(count.lines.keys.sorted() == [app])
        let line = try #require(count.lines[app])
        let stage = worker == .dedupe ? line.dedupe : line.report
        #expect(stage == AccountLine.Stage(incoming: 1, replayed: 1, outgoing: 1, unread: 1))
        #expect(line.closes, "\(line.differences)")
        #expect(line.accepted == 1 && line.deadLetters == 1 && line.onTheWay == 0)
    }

    @Test(
        arguments: [
            ([], 604_800_000, 395_200_000), ([100], 604_800_000, 395_200_000),
            ([500_000_000, 100], 604_800_000, 500_000_000), ([100], -1, 1_000_000_000),
            ([100], nil, 1_000_000_000), ([100], .max, 100),
        ] as [([Int64], Int64?, Int64)]
    )
    func `begins after what retention took of an empty partition`(
        firstTimes: [Int64],
        retention: Int64?,
        from: Int64
    ) {
        let now = Timestamp(milliseconds: 1_000_000_000)
        let emptySince = AccountWindow.emptySince(retention, now: now)
        #expect(
            AccountWindow.completeFrom(firstTimes, emptySince: emptySince)
                == Timestamp(milliseconds: from)
        )
        #expect(AccountWindow.completeFrom([], emptySince: nil) == nil)
    }

    /// By when the first record of the topic was written, and the first of what they came to.
    @Test(
        arguments: [
            (10, 10, false), (10, 11, false), (10, 9, false), (100, 40, false), (101, 40, true),
            (nil, 10, false), (10, nil, false),
        ] as [(Int64?, Int64?, Bool)]
    )
    func `begins where a topic was made anew whose older records came to something`(
        first: Int64?,
        outcome: Int64?,
        isAnew: Bool
    ) {
        func time(_ minutes: Int64) -> Timestamp { Timestamp(milliseconds: minutes * 60_000) }
        let first = first.map(time)
        #expect(
            AccountWindow.madeAnew(first, outcomes: outcome.map(time)) == (isAnew ? first : nil)
        )
    }

    @Test func `takes no record for refused that is younger than its dead letter`() {
        var record = RecordBatch.Record(
            topic: 0,
            partition: 1,
            offset: 7,
            timestampMilliseconds: 0,
            key: .absent,
            value: .absent,
            headers: .absent
        )
        let place = RecordPlace(record)
        record.offset = 8
        var refused = RefusedRecords()
        refused.insert(place, at: 20_000_000)
        refused.insert(place, at: 10_000_000)
        let last = 20_000_000 + AccountWindow.margin.count
        #expect(refused.contains(place, writtenAt: last))
        #expect(!refused.contains(place, writtenAt: last + 1))
        #expect(!refused.contains(RecordPlace(record), writtenAt: 0))
    }
}
