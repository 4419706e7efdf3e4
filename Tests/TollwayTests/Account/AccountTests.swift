import Crypto
import Foundation
import Kafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import purchases
@testable import tollway

@Suite struct `An account` {
    private static func line(
        incoming: Int = 10,
        outgoing: Int = 10,
        unread: Int = 0
    ) -> AccountLine {
        var line = AccountLine()
        line.decode = AccountLine.Stage(incoming: incoming, outgoing: outgoing, unread: unread)
        return line
    }

    @Test(
        arguments: [
            (10, 10, 0, nil), (10, 8, 2, nil), (10, 10, 5, nil), (10, 7, 2, 1), (10, 11, 0, -1),
            (10, 11, 5, -1),
        ] as [(Int, Int, Int, Int?)]
    )
    func `closes where nothing is lost or doubled, up to what was not read yet`(
        incoming: Int,
        outgoing: Int,
        unread: Int,
        difference: Int?
    ) {
        let line = Self.line(incoming: incoming, outgoing: outgoing, unread: unread)
        #expect(line.closes == (difference == nil))
        #expect(line.differences.map(\.count) == [difference].compactMap { $0 })
    }

    @Test func `of sales closes while none is lost and none was told that did not come in`() {
        var line = SalesLine(received: 5, repeats: 1, reported: 2, notOwed: 1, held: 1)
        #expect(line.closes && line.differences.isEmpty)
        line.lost = 2
        line.unknown = 1
        #expect(!line.closes)
        #expect(line.differences.map(\.count) == [2, -1])
    }

    /// A key of the worker's state as `purchases` writes it.
    private static func key(_ kind: Character, _ item: String, _ number: UInt8? = nil) -> [UInt8] {
        let tail: [UInt8] = number.map { [0x80, 0, 0, 0, 0, 0, 0, $0] } ?? []
        return Array("\(kind)\0\u{1}k\0".utf8) + [0x80, 0, 0, 0, 0, 0, 0, 1] + Array(item.utf8)
            + tail
    }

    @Test(
        arguments: [
            // A buy is held while it is worked on, and no more once it is not owed.
            ("pending", [(0, true)], [10]), ("notOwed", [(0, true)], []),
            // A change is held whatever its buy is; what the worker made itself never came in.
            ("live", [(1, true)], [11]), ("unknown", [(1, true), (2, true)], [11, 12]),
            ("pending", [(0, true), (1, false)], [10]),
        ] as [(String, [(UInt8, Bool)], Set<Int64>)]
    )
    func `knows a sale that is held by the worker's state`(
        standing: String,
        events: [(number: UInt8, came: Bool)],
        offsets: Set<Int64>
    ) {
        var held = HeldSales()
        held.take(Self.key("i", "order").span, Array("{\"standing\":\"\(standing)\"}".utf8).span)
        for event in events {
            let value =
                (event.came ? #"{"value":"{}","# : "{")
                + #""offset":\#(10 + Int(event.number)),"receivedAt":1}"#
            held.take(Self.key("e", "order", event.number).span, Array(value.utf8).span)
        }
        var removed = held
        held.finish()
        #expect(Set(held.places.map(\.offset)) == offsets)
        for event in events {
            removed.take(Self.key("e", "order", event.number).span, nil)
        }
        removed.finish()
        #expect(removed.places.isEmpty)
    }

    @Test(
        arguments: [
            // The buy lies in its item's record, where it stays while a token may reopen it.
            (.pending, true, [7, 11]), (.notOwed, true, [11]),
            // What the worker made itself never came in.
            (.pending, false, [11]),
        ] as [(BookedItem.Standing, Bool, Set<Int64>)]
    )
    func `knows a sale that is held as the worker writes it`(
        standing: BookedItem.Standing,
        came: Bool,
        offsets: Set<Int64>
    ) {
        let received = Timestamp(milliseconds: 1)
        var item = BookedItem(touchedAt: received)
        item.standing = standing
        item.event = BookedEvent(
            value: came ? Array(#"{"lineItemId":"order"}"#.utf8) : [],
            offset: 7,
            receivedAt: received
        )
        let change = BookedEvent(
            value: Array(#"{"type":"restate","lineItemId":"order"}"#.utf8),
            offset: 11,
            receivedAt: received
        )
        var records: [(key: [UInt8], value: [UInt8])] = [
            (Self.key("i", "order"), []), (Self.key("e", "order", 1), []),
        ]
        item.write(to: &records[0].value)
        change.write(to: &records[1].value)
        var held = HeldSales()
        for record in records {
            held.take(record.key.span, record.value.span)
        }
        var removed = held
        held.finish()
        #expect(Set(held.places.map(\.offset)) == offsets)
        for record in records {
            removed.take(record.key.span, nil)
        }
        removed.finish()
        #expect(removed.places.isEmpty)
    }

    @Test func `knows a token as dedupe knows it`() throws {
        var material: [UInt8] = []
        DedupeMaterial.appendIdentity(
            externalPurchaseID: "t-1".utf8.span,
            customer: "".utf8.span,
            to: &material
        )
        let key = DedupeKey(Hash.sha256(material).span)
        var text: [UInt8] = []
        Base64URL.encode(key.bytes.span, to: &text)
        #expect(
            IdentityDigest.of(changelogKey: text.span) == IdentityDigest.of(TokenID("t-1"), nil)
        )
        #expect(IdentityDigest.of(changelogKey: "short".utf8.span) == nil)
    }
}

/// Topics as a pipeline leaves them, written by hand.
private struct AccountWorld {
    let world: DeadLetterWorld
    let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000) - 60_000)

    init() throws {
        world = try DeadLetterWorld(partitionCount: 2)
    }

    func write(
        _ topic: Topic,
        _ values: [(key: [UInt8], value: (inout [UInt8]) -> Void)]
    ) throws {
        let name = topic.name(prefix: world.prefix)
        let producer = try KafkaProducer(settings: world.settings, targets: [name])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        for (key, write) in values {
            let keyRange = outputs.place(key)
            let start = outputs.arena.count
            write(&outputs.arena)
            outputs.outputs.append(
                OutputBatch.Output(topic: 0, key: keyRange, value: outputs.placed(from: start))
            )
        }
        try producer.produce(outputs, tags: values.indices.map(UInt64.init))
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }

    private var records: AccountRecords { AccountRecords(now: now) }

    func received(_ ids: [String]) throws {
        try write(.tokensReceived, ids.map { (Array($0.utf8), records.received($0).write) })
    }

    func decoded(_ ids: [String]) throws {
        try write(.tokensDecoded, ids.map { (Array($0.utf8), records.decoded($0).write) })
    }

    func distinct(_ ids: [String]) throws {
        try write(.tokensDistinct, ids.map { (Array($0.utf8), records.distinct($0).write) })
    }

    func seen(_ ids: [String]) throws {
        try write(
            .tokensDistinct,
            ids.map { id in
                var token = records.distinct(id)
                token.role = .seen
                return (Array(id.utf8), token.write)
            }
        )
    }

    func state(_ ids: [String], accepted: ReportStatus?) throws {
        try write(
            .reportState,
            ids.map { id in
                var account = TokenAccount(externalPurchaseID: TokenID(id), touchedAt: now)
                account.appAppleID = 1
                account.bundleID = "b"
                account.role = .primary
                account.tokenCreationDate = now
                account.lastAccepted = accepted
                account.lastAcceptedAt = accepted.map { _ in now }
                return (Array(id.utf8), account.write)
            }
        )
    }

    /// Buys of one customer, so all in one partition.
    func sales(
        _ ids: [String],
        bundleID: String? = nil,
        receivedAt: Timestamp? = nil,
        _ change: @escaping (inout PurchaseEvent) -> Void = { _ in }
    ) throws {
        try write(
            .purchasesReceived,
            ids.map { id in
                var event = PurchaseEvent(lineItemID: id)
                event.externalPurchaseID = TokenID("whose")
                event.appAppleID = bundleID == nil ? 1 : nil
                event.bundleID = bundleID
                event.creationDate = now
                event.receivedAt = receivedAt ?? now
                change(&event)
                return (Array("whose".utf8), event.write)
            }
        )
    }

    func restate(_ id: String, receivedAt: Timestamp) throws {
        var event = PurchaseEvent(lineItemID: id)
        event.kind = .restate
        event.externalPurchaseID = TokenID("whose")
        event.appAppleID = 1
        event.taxCountry = AlphaCode("DEU")
        event.receivedAt = receivedAt
        try write(.purchasesReceived, [(Array("whose".utf8), event.write)])
    }

    func told(
        _ outcomes: [(id: String, outcome: PurchaseOutcome.Outcome)],
        type: PurchaseEvent.Kind = .buy,
        receivedAt: Timestamp? = nil,
        settledAt: Timestamp? = nil
    ) throws {
        try write(
            .purchasesOutcomes,
            outcomes.map { id, outcome in
                let value = PurchaseOutcome(
                    lineItemID: id,
                    revision: 1,
                    type: type,
                    outcome: outcome,
                    externalPurchaseID: nil,
                    requestIdentifier: nil,
                    reason: "accepted",
                    errors: [],
                    item: nil,
                    receivedAt: receivedAt ?? now,
                    settledAt: settledAt ?? now,
                    lane: Lane(appAppleID: 1, environment: .production)
                )
                return (Array("whose".utf8), value.write)
            }
        )
    }

    /// The worker's state of the sale at an offset of the customer's partition, which waits.
    func waiting(offset: Int, receivedAt: Timestamp? = nil) throws {
        let name = Topic.purchasesState.name(prefix: world.prefix)
        let producer = try KafkaProducer(settings: world.settings, targets: [name])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        let rows: [(key: String, value: String)] = [
            ("i..waiting", #"{"standing":"pending"}"#),
            (
                "e..waiting\0\0\0\0\0\0\0\0",
                #"{"value":"{}","offset":\#(offset),"#
                    + #""receivedAt":\#((receivedAt ?? now).milliseconds)}"#
            ),
        ]
        for row in rows {
            var key = Array(row.key.utf8)
            if key[0] == UInt8(ascii: "e") {
                key[key.count - 8] = 0x80
            }
            outputs.outputs.append(
                OutputBatch.Output(
                    topic: 0,
                    partition: TopicReader.partition(
                        ofKey: Array("whose".utf8),
                        partitionCount: 2
                    ),
                    key: outputs.place(key),
                    value: outputs.place(row.value.utf8)
                )
            )
        }
        try producer.produce(outputs, tags: [0, 1])
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }

    /// The worker's state of a sale that waits, and whose record is gone.
    func waiting(_ id: String) throws {
        let key = BookKey.item(
            id,
            of: PurchaseKey("whose"),
            Lane(appAppleID: 1, environment: .production)
        )
        var item = BookedItem(touchedAt: now)
        item.standing = .pending
        item.event = BookedEvent(value: Array("{}".utf8), offset: 1_000, receivedAt: now)
        let name = Topic.purchasesState.name(prefix: world.prefix)
        let producer = try KafkaProducer(settings: world.settings, targets: [name])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        let keyRange = outputs.place(key.bytes)
        let start = outputs.arena.count
        item.write(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: 0,
                partition: TopicReader.partition(ofKey: Array("whose".utf8), partitionCount: 2),
                key: keyRange,
                value: outputs.placed(from: start)
            )
        )
        try producer.produce(outputs, tags: [0])
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }

    /// All groups have read everything.
    func commitAll() throws {
        let admin = try world.openAdmin()
        defer { admin.close() }
        for (worker, topic) in AccountPositions.pairs {
            let name = topic.name(prefix: world.prefix)
            let ends = try admin.endOffsets(ofTopic: name)
            let positions = ends.enumerated().reduce(into: [:]) {
                $0[Int32($1.offset)] = $1.element
            }
            try admin.commit(
                positions,
                ofGroup: worker.group(prefix: world.prefix),
                topic: name
            )
        }
    }
}

@Suite(.serialized, .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
struct `tollway account` {
    private func lines(_ run: TollwayProcess) throws -> [String: [String: Any]] {
        Dictionary(
            try run.objects().map { ("\($0["of"] ?? "") \($0["appAppleId"] ?? "")", $0) }
        ) { first, _ in first }
    }

    private func account(_ world: AccountWorld, _ arguments: String...) throws -> TollwayProcess {
        try TollwayProcess.run(
            ["account", "-o", "ndjson"] + arguments,
            environment: world.world.environment
        )
    }

    @Test func `closes where every token is somewhere, and names the stage that lost one`() throws {
        let world = try AccountWorld()
        // Six came in: one is a repeat, one no token; of the four others two are reported.
        try world.received(["a", "b", "c", "d", "a", ""])
        try world.decoded(["a", "b", "c", "d", "a"])
        try world.distinct(["a", "b", "c", "d"])
        try world.state(["a", "b"], accepted: .noLineItem)
        try world.state(["c", "d"], accepted: nil)
        let topic = Topic.tokensReceived.name(prefix: world.world.prefix)
        try world.deadLetter(of: topic)
        try world.commitAll()

        let good = try account(world)
        #expect(good.exitCode == 0, "\(good.talk)\(good.output)")
        let line = try #require(try lines(good)["tokens 1"])
        let names = ["accepted", "repeats", "deadLetters", "reported", "held", "onTheWay"]
        #expect(names.map { line[$0] as? Int } == [5, 1, 0, 2, 2, 0])
        let nobody = try #require(try lines(good)["tokens 0"])
        #expect(names.map { nobody[$0] as? Int } == [1, 0, 1, 0, 0, 0])

        // One more came in and was read, and nothing came of it.
        try world.received(["e"])
        try world.commitAll()
        let bad = try account(world)
        #expect(bad.exitCode == 1)
        let differences = try lines(bad)["tokens 1"]?["differences"] as? [[String: Any]]
        #expect(differences?.count == 1)
        #expect(differences?[0]["stage"] as? String == "decode")
        #expect(differences?[0]["count"] as? Int == 1)
        let shown = try TollwayProcess.run(["account"], environment: world.world.environment)
        #expect(shown.output.contains("1 came into decode and did not come out"))
        #expect(shown.output.contains("DIFFERS"))

        // Handed on, but not read by the next stage yet: it is on its way.
        try world.decoded(["e"])
        let moving = try account(world)
        #expect(moving.exitCode == 0, "\(moving.output)")
        #expect(try lines(moving)["tokens 1"]?["onTheWay"] as? Int == 1)
    }

    /// As it is where partitions are added: what the stage after it has is two hours old, and nothing
    /// has been written to the new one.
    @Test func `begins where tokens.decoded was made anew`() throws {
        let world = try AccountWorld()
        try world.received(["a", "b"])
        try world.distinct(["a", "b"])
        let later = world.now + .hours(2)
        func window(
            _ world: AccountWorld,
            _ outcomes: [Topic: Topic] = AccountCommand.tokenOutcomes
        ) throws -> AccountWindow {
            try AccountWindow.open(
                [.tokensReceived, .tokensDecoded, .tokensDistinct],
                outcomes: outcomes,
                from: nil,
                to: later,
                now: later,
                Configuration(environment: world.world.environment, program: .tollway)
            )
        }
        #expect(try window(world, [:]).contains(world.now))
        // What decode has seen of its dead letters came of no record of the topic between.
        let other = try AccountWorld()
        try other.received(["a"])
        try other.seen(["a"])
        let ordinary = try window(other)
        #expect(ordinary.contains(other.now) && ordinary.shortened == nil)
        let anew = try window(world)
        #expect(!anew.contains(world.now))
        #expect(anew.shortened?.contains("tokens.decoded.v1 does not have it") == true)
    }

    @Test func `tells which tokens of a month are still owed`() throws {
        let world = try AccountWorld()
        try world.received(["a", "b"])
        try world.decoded(["a", "b"])
        try world.distinct(["a", "b"])
        try world.state(["a"], accepted: .lineItem)
        try world.state(["b"], accepted: nil)
        try world.commitAll()
        let month = MonthText.of(CalendarMonth(of: world.now))
        var told = LedgerMaker.outcome(
            1,
            token: "a",
            items: [LedgerMaker.item("i", at: world.now)],
            settledAt: world.now,
            late: 5
        )
        told.details.tokenCreationDate = world.now
        // A record that was copied back by hand makes no second report.
        try LedgerMaker.write([told, told], to: world.world)
        let run = try account(world, "--month", month)
        #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
        let line = try #require(try lines(run)["month 1"])
        let names = [
            "active", "reported", "owed", "owesNone", "withSales", "refused", "lateReports",
        ]
        #expect(names.map { line[$0] as? Int } == [2, 1, 1, 0, 1, 0, 1])
        let before = MonthText.of(CalendarMonth(of: world.now).adding(-1))
        #expect(try lines(try account(world, "--month", before))["month 1"] == nil)
    }

    @Test func `says that nothing of an app came in`() throws {
        let world = try AccountWorld()
        try world.received(["a"])
        try world.decoded(["a"])
        try world.distinct(["a"])
        try world.state(["a"], accepted: .noLineItem)
        try world.commitAll()
        let alone = try account(world, "--app", "99")
        #expect(alone.exitCode == 3 && alone.output.isEmpty)
        #expect(alone.talk.contains("no token or sale of app 99 came in"), "\(alone.talk)")
        let both = try account(world, "--app", "99", "--app", "1")
        #expect(both.exitCode == 3)
        #expect(try lines(both)["tokens 1"]?["closes"] as? Bool == true, "\(both.output)")
        #expect(both.talk.contains("no token or sale of app 99 came in"))
        #expect(try account(world, "--app", "1").exitCode == 0)
    }

    @Test func `finds a sale that was lost, and one that never came in`() throws {
        let world = try AccountWorld()
        try world.received(["a"])
        try world.sales(["reported", "not-owed", "waiting", "twice", "twice"])
        try world.told([("reported", .reported), ("not-owed", .notOwed), ("twice", .reported)])
        try world.waiting(offset: 2)
        try world.commitAll()
        let good = try account(world)
        let line = try #require(try lines(good)["sales 1"])
        let names = [
            "received", "repeats", "reported", "notOwed", "deadLetters", "held", "onTheWay",
        ]
        #expect(names.map { line[$0] as? Int } == [5, 1, 2, 1, 0, 1, 0], "\(good.output)")
        #expect(line["closes"] as? Bool == true)

        // The topic was made anew: what the state has of that offset came in before.
        try world.waiting(offset: 2, receivedAt: world.now + .days(-1))
        #expect(try lines(account(world))["sales 1"]?["closes"] as? Bool == false)
        try world.waiting(offset: 2)

        // One came in and is nowhere; another is in the ledger and never came in.
        try world.sales(["lost"])
        try world.told([("unheard", .reported)])
        try world.commitAll()
        let bad = try account(world)
        #expect(bad.exitCode == 1)
        let differences = try lines(bad)["sales 1"]?["differences"] as? [[String: Any]]
        #expect(differences?.compactMap { $0["count"] as? Int } == [1, -1], "\(bad.output)")
        let shown = try TollwayProcess.run(["account"], environment: world.world.environment)
        #expect(shown.output.contains("1 was read and found in no ledger, state or dead letter"))

        // One that the worker has not read yet is on its way.
        try world.sales(["new"])
        let moving = try lines(try account(world))["sales 1"]
        #expect(moving?["onTheWay"] as? Int == 1)
    }

    /// Without an apps file nobody knows whose it is: it may be of the app that was asked for.
    @Test func `of one app does not close where a sale of an unknown bundle was lost`() throws {
        let world = try AccountWorld()
        try world.received(["a"])
        try world.decoded(["a"])
        try world.distinct(["a"])
        try world.state(["a"], accepted: .noLineItem)
        try world.sales(["lost"], bundleID: "com.example")
        try world.commitAll()
        let run = try account(world, "--app", "1")
        #expect(run.exitCode == 1, "\(run.output)")
        #expect(run.talk.contains("under app 0: 1 sale with a bundle alone"), "\(run.talk)")
        #expect(try lines(run)["sales 0"]?["closes"] as? Bool == false)
        #expect(try lines(run)["tokens 1"]?["closes"] as? Bool == true)
    }

    /// A restatement is not owed, a token then has it held as the sale itself, and Apple refuses that.
    @Test func `closes where a restatement that stands for its sale is refused`() throws {
        let world = try AccountWorld()
        try world.sales(["sale"])
        try world.told([("sale", .notOwed)])
        let later = world.now + .seconds(1)
        try world.restate("sale", receivedAt: later)
        try world.told([("sale", .notOwed)], type: .restate, receivedAt: later)
        try world.commitAll()
        let before = try account(world)
        #expect(before.exitCode == 0, "\(before.output)")
        try world.told([("sale", .rejected)], receivedAt: later)
        let partition = TopicReader.partition(ofKey: Array("whose".utf8), partitionCount: 2)
        try world.deadLetter(
            of: Topic.purchasesReceived.name(prefix: world.world.prefix),
            partition: partition,
            offset: 1,
            in: .purchases
        )
        try world.commitAll()
        let run = try account(world)
        #expect(run.exitCode == 0, "\(run.output)")
        let line = try #require(try lines(run)["sales 1"])
        #expect(["received", "notOwed", "deadLetters"].map { line[$0] as? Int } == [2, 1, 1])

        // Its replay is told as the sale, with its time.
        try world.restate("sale", receivedAt: later)
        try world.told([("sale", .reported)], receivedAt: later)
        try world.commitAll()
        let replayed = try account(world)
        #expect(replayed.exitCode == 0, "\(replayed.output)")
        #expect(try lines(replayed)["sales 1"]?["reported"] as? Int == 1)
    }

    /// A client sends a batch again that had no answer, and Apple refuses a sale of it then.
    @Test(arguments: [0, 1] as [Int64])
    func `takes a sale for a repeat that came while its first was worked on`(
        seconds: Int64
    ) throws {
        let world = try AccountWorld()
        try world.sales(["x"], receivedAt: world.now)
        try world.sales(["x"], receivedAt: world.now + .seconds(seconds))
        try world.told(
            [("x", .rejected)],
            receivedAt: world.now,
            settledAt: world.now + .seconds(9)
        )
        try world.deadLetter(
            of: Topic.purchasesReceived.name(prefix: world.world.prefix),
            partition: TopicReader.partition(ofKey: Array("whose".utf8), partitionCount: 2),
            offset: 0,
            in: .purchases
        )
        try world.commitAll()
        let run = try account(world)
        #expect(run.exitCode == 0, "\(run.output)")
        let line = try #require(try lines(run)["sales 1"])
        #expect(["received", "repeats", "deadLetters"].map { line[$0] as? Int } == [2, 1, 1])
        // One that came after the refusal is none, nor is one of another content.
        let isLater = seconds == 0
        try world.sales(
            ["x"],
            bundleID: isLater ? nil : "com.example",
            receivedAt: world.now + .seconds(isLater ? 20 : 2)
        )
        try world.commitAll()
        #expect(try account(world).exitCode == 1)
    }

    /// The worker compares what a sale says, not how it says it.
    @Test(arguments: ["quantity", "amounts", "app"])
    func `takes a sale for a repeat that stands twice in one request, in other words`(
        difference: String
    ) throws {
        let world = try AccountWorld()
        func amounts(_ event: inout PurchaseEvent) {
            event.taxAmount = Milliunits(200)
            event.amountTaxExclusive = Milliunits(1_000)
        }
        try world.sales(["x"], receivedAt: world.now, amounts)
        try world.sales(
            ["x"],
            bundleID: difference == "app" ? "com.example" : nil,
            receivedAt: world.now
        ) { event in
            amounts(&event)
            if difference == "quantity" {
                event.quantity = 1
            } else if difference == "amounts" {
                event.taxAmount = nil
                event.amountTaxInclusive = Milliunits(1_200)
            }
        }
        try world.told([("x", .notOwed)], receivedAt: world.now)
        try world.commitAll()
        let run = try account(world)
        #expect(run.exitCode == 0, "\(run.output)")
        let all = try lines(run).filter { $0.key.hasPrefix("sales") }.values
        let sums = ["received", "repeats", "notOwed"].map { name in
            all.reduce(0) { $0 + ($1[name] as? Int ?? 0) }
        }
        #expect(sums == [2, 1, 1], "\(run.output)")
    }

    /// Who sends all sales of a month again sends repeats of what the topic has lost long ago.
    @Test func `takes a sale for a repeat whose first left the topic`() throws {
        let world = try AccountWorld()
        try world.received(["a"])
        try world.sales(["old", "waiting", "refused", "lost"])
        let before = world.now + -.days(20)
        try world.told([("old", .reported), ("refused", .notOwed)], receivedAt: before)
        try world.told([("refused", .rejected)], receivedAt: before)
        try world.told([("lost", .reported)], receivedAt: world.now + .hours(1))
        try world.waiting("waiting")
        try world.commitAll()
        let run = try account(world, "--since", "1d")
        let line = try #require(try lines(run)["sales 1"])
        #expect([line["received"], line["repeats"]].map { $0 as? Int } == [4, 2], "\(run.output)")
        let differences = line["differences"] as? [[String: Any]]
        #expect(differences?.compactMap { $0["count"] as? Int } == [2], "\(run.output)")
        #expect(run.exitCode == 1)
    }

    @Test func `ends by a signal also once it looks a second time`() throws {
        let world = try AccountWorld()
        try world.received(["a"])
        try world.sales(["lost"])
        try world.commitAll()
        let process = try TollwayProcess.make(["account"], environment: world.world.environment)
        let talk = Pipe()
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = talk
        // The test's threads block it, and children inherit that.
        var interrupt = sigset_t()
        var before = sigset_t()
        unsafe sigemptyset(&interrupt)
        unsafe sigaddset(&interrupt, SIGINT)
        unsafe pthread_sigmask(SIG_UNBLOCK, &interrupt, &before)
        defer { unsafe pthread_sigmask(SIG_SETMASK, &before, nil) }
        try process.run()
        var text = ""
        while !text.contains("looking once more") {
            let data = talk.fileHandleForReading.availableData
            try #require(!data.isEmpty, "\(text)")
            text += String(decoding: data, as: UTF8.self)
        }
        process.interrupt()
        process.waitUntilExit()
        #expect(process.terminationReason == .uncaughtSignal)
        #expect(process.terminationStatus == SIGINT)
    }

    @Test func `wants topics`() throws {
        let world = try DeadLetterWorld()
        let run = try TollwayProcess.run(
            ["account", "-o", "json"],
            environment: world.environment.merging(["TOLLWAY_TOPIC_PREFIX": "nobody."]) { $1 }
        )
        #expect(run.exitCode == 3)
        #expect(try run.errorCode() == "kafka.no_topic")
    }
}

extension AccountWorld {
    /// The dead letter of a record that is no token.
    fileprivate func deadLetter(
        of source: String,
        partition: Int32 = 0,
        offset: Int64 = 0,
        in worker: Worker = .decode
    ) throws {
        let value = TokenReceived(
            token: "no token",
            customer: nil,
            receivedAt: now,
            source: .app,
            bundleID: nil,
            requestID: "r"
        )
        let deadLetter = DeadLetter(
            fault: DecodeFault.notBase64URL(byteIndex: 2).fault,
            worker: worker,
            origin: DeadLetter.Origin(
                topic: source,
                partition: partition,
                offset: offset,
                group: worker.group(prefix: world.prefix)
            ),
            failedAt: now,
            history: .none
        )
        let name = Topic.deadLetters(worker).name(prefix: world.prefix)
        let producer = try KafkaProducer(settings: world.settings, targets: [name])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        let start = outputs.arena.count
        value.write(to: &outputs.arena)
        // Whoever writes the topic may add a field that elsewhere means a report.
        outputs.arena.removeLast()
        outputs.arena.append(contentsOf: #","status":"LINE_ITEM"}"#.utf8)
        let range = outputs.placed(from: start)
        let headersStart = outputs.arena.count
        deadLetter.appendHeaders(to: &outputs.arena)
        outputs.outputs.append(
            OutputBatch.Output(
                topic: 0,
                key: .absent,
                value: range,
                headers: outputs.placed(from: headersStart)
            )
        )
        try producer.produce(outputs, tags: [0])
        try #require(producer.flush(deadlineMilliseconds: 20_000))
    }
}
