import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `tollway token trace` {
    @Test(arguments: ["abc", "fc8badf8-e5ff-4f57-8194-ee4bcf33a574", "SANDBOX_~~~???>>>ÿ"])
    func `knows a token's text by its id, wherever that stands in it`(id: String) throws {
        let needles = TokenNeedles(id: TokenID(id))
        let other = TokenNeedles(id: TokenID(id + "x"))
        for padding in 0..<4 {
            let token = #"{"x":"\#(String(repeating: "p", count: padding))","id":"\#(id)"}"#
            let plain = Data(token.utf8).base64EncodedString()
            let url = plain.replacing("+", with: "-").replacing("/", with: "_").replacing(
                "=",
                with: ""
            )
            for text in [plain, url] {
                let value = Array(#"{"token":"\#(text)"}"#.utf8)
                let isFound = needles.isIn(value.span)
                let isOther = other.isIn(value.span)
                #expect(isFound, "\(text)")
                #expect(!isOther, "\(text)")
            }
        }
    }

    /// Of one that was decoded from another copy.
    @Test(arguments: [#"abc\u003d"#, "abc", "AB+/", "nothing"])
    func `knows a token's text also where a copy is written in another way`(text: String) {
        let id = "fc8badf8-e5ff-4f57-8194-ee4bcf33a574"
        let json = Base64URL.encode(#"{"id":"\#(id)"}"#.utf8.span)
        let value = Array(#"{"token":"\#(json)\#(text)"}"#.utf8)
        let isIn = TokenNeedles(id: TokenID(id), texts: ["another"]).isIn(value.span)
        #expect(isIn)
        let other = TokenNeedles(id: TokenID("x" + id.dropFirst()), texts: [text]).isIn(value.span)
        #expect(other)
    }

    @Test(arguments: [
        ("a-1_.z", "a-1_.z"), ("", "''"), ("a b", "'a b'"), ("a'b", #"'a'\''b'"#),
        ("a'\u{301};b", "'a'\\''\u{301};b'"),
    ])
    func `names it as a word of the shell`(text: String, word: String) {
        #expect(Array(ShellWord.of(text).utf8) == Array(word.utf8))
    }

    @Test func `reads everything where an id leaves no pattern`() {
        let isIn = TokenNeedles(id: TokenID("a")).isIn([1, 2, 3].span)
        #expect(isIn)
    }

    @Test func `tells every request to Apple with its answer`() {
        let found = TopicReader.Found(
            topic: "t.reports.outcomes.v1",
            partition: 3,
            offset: 7,
            timestamp: 5_000,
            key: [],
            value: [],
            headers: ["traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"]
        )
        let exchanges: [(ReportRequest, Int, Int64?)] = [
            (.send, 500, nil), (.send, 0, nil), (.retrieve, 404, 4_040_001), (.send, 400, 6),
        ]
        let outcome = ReportOutcome(
            requestIdentifier: "r",
            externalPurchaseID: TokenID("x"),
            appAppleID: 1,
            status: .noLineItem,
            outcome: .rejected,
            httpStatus: 400,
            errors: [AppleError(code: 6, fieldName: "creationDate", lineItemID: nil)],
            attempts: 3,
            reason: "hold",
            firstSentAt: Timestamp(milliseconds: 0),
            settledAt: Timestamp(milliseconds: 4_000),
            exchanges: exchanges.enumerated().map { number, exchange in
                ReportExchange(
                    request: exchange.0,
                    sentAt: Timestamp(milliseconds: Int64(number) * 1_000),
                    answeredAt: Timestamp(milliseconds: Int64(number) * 1_000 + 20),
                    httpStatus: exchange.1,
                    errorCode: exchange.2
                )
            }
        )
        let events = TraceAnswers.events(of: outcome, found)
        #expect(
            events.map(\.text) == [
                "PUT NO_LINE_ITEM: HTTP 500 after 20 ms", "PUT NO_LINE_ITEM: no answer after 20 ms",
                "GET NO_LINE_ITEM: HTTP 404, error 4040001 after 20 ms",
                "PUT NO_LINE_ITEM: HTTP 400, error 6 after 20 ms",
                "report rejected: NO_LINE_ITEM because of hold, error 6 (creationDate)",
            ]
        )
        #expect(events.map(\.at) == [0, 1_000, 2_000, 3_000, 4_000])
        #expect(events.allSatisfy { $0.traceID == "4bf92f3577b34da6a3ce929d0e0e4736" })
        #expect(events.allSatisfy { $0.place == "t.reports.outcomes.v1/3/7" })
    }

    @Test func `says how many wait in line, and that Apple does not know the token`() {
        var account = TokenAccount(
            externalPurchaseID: TokenID("x"),
            touchedAt: Timestamp(milliseconds: 0)
        )
        account.line = RequestLine(
            first: 3,
            end: 1_003,
            lineItemByteCountMax: 1,
            textByteCountMax: 1
        )
        account.refusedAt = Timestamp(milliseconds: 1_768_003_200_000)
        let standing = TraceStanding(
            id: TokenID("x"),
            account: account,
            deadLetters: [],
            now: Timestamp(milliseconds: 0)
        )
        #expect(
            standing.lines == [
                "1000 more wait behind it",
                "Apple said at 2026-01-10T00:00:00.000Z that it does not know the token",
            ]
        )
    }

    private static let proof = "waits for the proof that it is unknown"
    private static let remembered =
        "that is only remembered: nothing more is sent until the token comes"
    private static let replay = "nothing more is sent unless its dead letter is replayed"

    /// Minutes after the epoch at which a notice came, and whether the guard looks at it.
    @Test(
        arguments: [
            (nil, (1, true), nil, ["00:01: \(proof)"]),
            (nil, nil, (2, true), ["00:02: \(proof)"]),
            (nil, (2, true), (1, true), ["00:01: \(proof)"]),
            (nil, nil, (2, false), ["00:02: \(remembered)"]),
            (nil, (1, true), (2, false), ["00:01: \(proof)", "00:02: \(remembered)"]),
            (.seen, (1, true), nil, ["00:01: \(replay)"]),
            (.seen, nil, (2, true), ["00:02: \(replay)"]),
            (.seen, (2, true), (1, false), ["00:01: \(replay)"]),
        ] as [(TokenRole?, notice: (Int64, Bool)?, reminder: (Int64, Bool)?, [String])]
    )
    func `says what Apple asked for, and what is waited for`(
        role: TokenRole?,
        notice: (Int64, Bool)?,
        reminder: (Int64, Bool)?,
        words: [String]
    ) {
        func waiting(_ row: (Int64, Bool)) -> TokenAccount.WaitingNotice {
            let receivedAt = Timestamp(milliseconds: 0) + .minutes(row.0)
            return TokenAccount.WaitingNotice(
                receivedAt: receivedAt,
                guardedFrom: row.1 ? receivedAt + .minutes(15) : nil,
                origin: RecordOrigin(topic: 0, partition: 0, offset: 0)
            )
        }
        var account = TokenAccount(
            externalPurchaseID: TokenID("x"),
            touchedAt: Timestamp(milliseconds: 0)
        )
        account.role = role
        account.waitingNotice = notice.map(waiting)
        account.waitingReminder = reminder.map(waiting)
        let standing = TraceStanding(
            id: TokenID("x"),
            account: account,
            deadLetters: [],
            now: Timestamp(milliseconds: 0)
        )
        let lines = words.map {
            "Apple asked at 1970-01-01T\($0.prefix(5)):00.000Z;\($0.dropFirst(6))"
        }
        // Of what was a dead letter, a line more says so.
        #expect(Array(standing.lines.prefix(lines.count)) == lines)
        #expect(standing.lines.count == lines.count + (role == .seen ? 1 : 0))
    }

    @Test func `does not say whether a dead letter is open where nobody looked`() {
        var account = TokenAccount(
            externalPurchaseID: TokenID("x"),
            touchedAt: Timestamp(milliseconds: 0)
        )
        account.role = .seen
        let standing = TraceStanding(
            id: TokenID("x"),
            account: account,
            deadLetters: nil,
            now: Timestamp(milliseconds: 0)
        )
        #expect(
            standing.lines == [
                "report knows of it only that it was a dead letter; tollway token trace x says"
                    + " whether a dead letter is open"
            ]
        )
    }

    /// Report forgets a token, the ledger keeps its outcomes for ever.
    @Test(
        arguments: [
            (nil, nil, "on its way; report knows nothing of it yet"),
            (.accepted, nil, "by the ledger, NO_LINE_ITEM was accepted at #; report has forgotten"),
            (.verified, 1, "by the ledger, NO_LINE_ITEM was accepted at #; report has forgotten"),
            (.rejected, nil, "by the ledger, NO_LINE_ITEM was rejected at #; report has forgotten"),
            (.rejected, -1, "by the ledger, NO_LINE_ITEM was rejected at #; report has forgotten"),
            // It was sent back since.
            (.rejected, 1, "and is on its way; report knows nothing of it yet"),
        ] as [(ReportOutcome.Outcome?, replayedAfter: Int64?, String)]
    )
    func `says what the ledger has of a token that report has forgotten`(
        kind: ReportOutcome.Outcome?,
        replayedAfter: Int64?,
        sentence: String
    ) throws {
        let outcome = kind.map { LedgerMaker.outcome(1, outcome: $0) }
        let deadLetter = try replayedAfter.map { try Self.deadLetter(.report, replayedAfter: $0) }
        let standing = TraceStanding(
            id: TokenID("t-1"),
            account: nil,
            deadLetters: [deadLetter].compactMap { $0 },
            now: LedgerMaker.time,
            outcome: outcome
        )
        let time = WallClock.rfc3339(milliseconds: LedgerMaker.time.milliseconds)
        let lines = standing.lines
        #expect(lines.count == 1)
        #expect(lines.first?.contains(sentence.replacing("#", with: time)) == true, "\(lines)")
    }

    /// One that was replayed so many milliseconds after the ledger's time.
    private static func deadLetter(
        _ stage: Worker,
        replayedAfter milliseconds: Int64
    ) throws -> TraceDeadLetter {
        let found = TopicReader.Found(
            topic: Topic.deadLetters(stage).name(prefix: "t."),
            partition: 0,
            offset: 1,
            timestamp: 1,
            key: [],
            value: [],
            headers: [:]
        )
        var deadLetter = try #require(TraceDeadLetter(found, prefix: "t.", deadlineDays: 10))
        deadLetter.settled = .init(
            state: .replayed,
            deadLetterTimestamp: 1,
            replayID: "r",
            at: LedgerMaker.time.milliseconds + milliseconds,
            target: "t"
        )
        return deadLetter
    }

    /// Goal: what report has read and lost is not called on its way, nor forgotten.
    ///
    /// Method: how long after a dead letter of it was replayed it was told of last, and whether the
    /// ledger has a report that Apple accepted.
    @Test(
        arguments: [
            (nil, false, "report has read it and has no account of it: see RUNBOOK.md"),
            (nil, true, "was accepted at #; report has read the token and has no account of it"),
            (1, false, "report has read it and has no account of it: see RUNBOOK.md"),
            // What was sent back since is not read yet.
            (-1, false, "and is on its way; report knows nothing of it yet"),
        ] as [(replayedBefore: Int64?, Bool, String)]
    )
    func `says that report has lost the account of what it has read`(
        replayedBefore: Int64?,
        isAccepted: Bool,
        sentence: String
    ) throws {
        let deadLetter = try replayedBefore.map {
            try Self.deadLetter(.decode, replayedAfter: -$0)
        }
        let lines = TraceStanding(
            id: TokenID("t-1"),
            account: nil,
            deadLetters: [deadLetter].compactMap { $0 },
            now: LedgerMaker.time,
            outcome: isAccepted ? LedgerMaker.outcome(1) : nil,
            unaccountedAt: LedgerMaker.time.milliseconds
        ).lines
        let time = WallClock.rfc3339(milliseconds: LedgerMaker.time.milliseconds)
        #expect(lines.count == 1)
        #expect(lines.first?.contains(sentence.replacing("#", with: time)) == true, "\(lines)")
    }

    /// Goal: a record that a group's offsets were set past is not called on its way, also once Apple was
    /// told that nobody knows the token.
    @Test(arguments: [false, true])
    func `says whose group is past a record that nothing was made of`(isTold: Bool) {
        var account: TokenAccount?
        if isTold {
            account = TokenAccount(externalPurchaseID: TokenID("t-1"), touchedAt: LedgerMaker.time)
            account?.lastAccepted = .unrecognizedToken
            account?.lastAcceptedAt = LedgerMaker.time
        }
        let lines = TraceStanding(
            id: TokenID("t-1"),
            account: account,
            deadLetters: [],
            now: LedgerMaker.time,
            passedBy: .dedupe
        ).lines
        #expect(lines.count == (isTold ? 2 : 1), "\(lines)")
        #expect(lines.first?.hasPrefix("dedupe's group is past its record") == true, "\(lines)")
    }

    /// What came under another key was refused before it was the token's.
    @Test(arguments: [("report.rejected", false), ("report.bad_key", true)])
    func `says of what dead letter Apple's refusal is`(code: String, isMissing: Bool) throws {
        var account = TokenAccount(externalPurchaseID: TokenID("t-1"), touchedAt: LedgerMaker.time)
        account.parked = [
            ReportIntent(
                number: 1,
                identifier: LedgerMaker.identifier(1),
                status: .lineItem,
                lineItems: nil,
                reason: .hold,
                origin: RecordOrigin(topic: 0, partition: 0, offset: 0),
                deadline: LedgerMaker.time + .days(9)
            )
        ]
        let found = TopicReader.Found(
            topic: Topic.deadLetters(.report).name(prefix: "t."),
            partition: 0,
            offset: 1,
            timestamp: LedgerMaker.time.milliseconds,
            key: [],
            value: Array(#"{"externalPurchaseId":"t-1","status":"LINE_ITEM"}"#.utf8),
            headers: ["tollway.dlq.code": code]
        )
        let standing = TraceStanding(
            id: TokenID("t-1"),
            account: account,
            deadLetters: [try #require(TraceDeadLetter(found, prefix: "t.", deadlineDays: 10))],
            now: LedgerMaker.time
        )
        let lines = standing.lines.filter { $0.contains("no dead letter of them is open") }
        #expect(lines.count == (isMissing ? 1 : 0), "\(standing.lines)")
    }

    @Test func `takes a token's text and its link for its id`() throws {
        let json =
            #"{"appAppleId":1,"bundleId":"b","tokenCreationDate":1,"externalPurchaseId":"i-1"}"#
        let text = Data(json.utf8).base64EncodedString()
        let link = "https://example.com/?externalPurchaseToken=\(text)&bundleId=b"
        for operand in ["i-1", text, link] {
            #expect(try TokenOperand.id(operand) == TokenID("i-1"))
        }
        #expect(throws: CommandFailure.self) { try TokenOperand.id("") }
    }

    /// A clock that was ahead for a while must not hide what lies behind its records.
    @Test(
        arguments: [
            (999, 90_000, false), (1_000, 1, true), (1_001, 90_000, true),
        ] as [(offset: Int64, time: Int64, isBehind: Bool)]
    )
    func `reads up to an offset, whatever the times of the records say`(
        offset: Int64,
        time: Int64,
        isBehind: Bool
    ) {
        let place = TopicReader.Place(topic: "t", partition: 0, from: 0, untilOffset: 1_000)
        let record = RecordBatch.Record(
            topic: 0,
            partition: 0,
            offset: offset,
            timestampMilliseconds: time,
            key: .absent,
            value: .absent,
            headers: .absent
        )
        #expect(place.ends(before: record) == isBehind)
    }

    @Test func `ends a partition after many young records in a row, not after one`() {
        var late = TopicReader.LateRecords()
        #expect(!late.isOver)
        func note(_ partition: Int32, _ count: Int) {
            for _ in 0..<count {
                late.note(partition, isLate: true)
            }
        }
        note(0, TopicReader.LateRecords.countMin - 1)
        late.note(0, isLate: false)
        note(0, TopicReader.LateRecords.countMin - 1)
        #expect(!late.isOver)
        note(0, 1)
        #expect(late.isOver)
        note(1, 1)
        #expect(!late.isOver)
    }

    /// decode has written no more of it than its dead letter.
    @Test func `finds a dead letter of which the token's id alone can be read`() throws {
        let topics = [Topic.tokensReceived, .deadLetters(.decode)].map { $0.name(prefix: "t.") }
        let broker = try MockBroker(
            topics: Topic.all.reduce(into: [:]) { $0[$1.name(prefix: "t.")] = 1 }
        )
        defer { broker.close() }
        func token(_ id: String, _ more: String) -> String {
            let json = #"{"externalPurchaseId":"\#(id)","appAppleId":1\#(more)}"#
            return Base64URL.encode(json.utf8.span)
        }
        let good = #","bundleId":"b","tokenCreationDate":1"#
        let values = [
            #"{"token":"\#(token("id-0", good))","customer":7}"#,
            #"{"bundleId":1,"token":"\#(token("id-1", good))"}"#,
            #"{"token":"\#(token("id-2", ""))"}"#,
        ]
        var outputs = OutputBatch()
        for (offset, value) in values.enumerated() {
            let key = outputs.place("key".utf8)
            let range = outputs.place(value.utf8)
            let deadLetter = DeadLetter(
                fault: Fault(code: "decode.bad_envelope", message: "m"),
                worker: .decode,
                origin: DeadLetter.Origin(
                    topic: topics[0],
                    partition: 0,
                    offset: Int64(offset),
                    group: "t.decode"
                ),
                failedAt: Timestamp(milliseconds: 1_700_000_000_000)
            )
            let start = outputs.arena.count
            deadLetter.appendHeaders(to: &outputs.arena)
            let headers = outputs.placed(from: start)
            outputs.outputs.append(OutputBatch.Output(topic: 0, key: key, value: range))
            outputs.outputs.append(
                OutputBatch.Output(topic: 1, key: key, value: range, headers: headers)
            )
        }
        let producer = try KafkaProducer(
            settings: KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test"),
            targets: topics
        )
        defer { producer.close(deadlineMilliseconds: 1_000) }
        try producer.produce(outputs, tags: outputs.outputs.indices.map { UInt64($0) })
        #expect(producer.flush(deadlineMilliseconds: 5_000))
        for number in values.indices {
            let run = try TollwayProcess.run(
                ["token", "trace", "id-\(number)", "-o", "json"],
                environment: [
                    "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                    "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
                ]
            )
            #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
            let object = try run.object()
            let deadLetters = try #require(object["deadLetters"] as? [[String: Any]])
            #expect(deadLetters.map { $0["position"] as? String } == ["decode/0/\(number)"])
            let events = try #require(object["events"] as? [[String: Any]])
            let places = events.map { "\($0["topic"] ?? "")/\($0["offset"] ?? "")" }
            #expect(Set(places) == Set(topics.map { "\($0)/\(number)" }), "\(places)")
        }
    }

    /// Who wrote the request took another key than the token's id.
    @Test func `finds a dead letter of report under whatever key it lies`() throws {
        let topic = Topic.deadLetters(.report).name(prefix: "t.")
        let broker = try MockBroker(
            topics: Topic.all.reduce(into: [:]) { $0[$1.name(prefix: "t.")] = 3 }
        )
        defer { broker.close() }
        var outputs = OutputBatch()
        for (key, id) in [("id-1", "id-1"), ("key", "id-1"), ("key", "id-10")] {
            let start = outputs.arena.count
            ReportRequested(
                externalPurchaseID: TokenID(id),
                appAppleID: 1,
                bundleID: "b",
                status: .noLineItem,
                requestIdentifier: nil,
                lineItems: nil
            ).write(to: &outputs.arena)
            let value = outputs.placed(from: start)
            let place = outputs.place(key.utf8)
            outputs.outputs.append(OutputBatch.Output(topic: 0, key: place, value: value))
        }
        let producer = try KafkaProducer(
            settings: KafkaSettings(bootstrapServers: broker.bootstrapServers, clientID: "test"),
            targets: [topic]
        )
        defer { producer.close(deadlineMilliseconds: 1_000) }
        try producer.produce(outputs, tags: outputs.outputs.indices.map { UInt64($0) })
        #expect(producer.flush(deadlineMilliseconds: 5_000))
        let run = try TollwayProcess.run(
            ["token", "trace", "id-1", "-o", "json"],
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ]
        )
        #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
        let deadLetters = try #require(try run.object()["deadLetters"] as? [[String: Any]])
        let own = TopicReader.partition(ofKey: Array("id-1".utf8), partitionCount: 3)
        let other = TopicReader.partition(ofKey: Array("key".utf8), partitionCount: 3)
        let positions = Set(deadLetters.compactMap { $0["position"] as? String })
        let others = "report/\(other)/\(own == other ? 1 : 0)"
        #expect(deadLetters.count == 2 && positions == ["report/\(own)/0", others])
    }

    /// A creation date is the token's own word, and may lie ahead of Apple's answers; the last record of
    /// report's state may be written by a clock that is behind that of the one before it.
    @Test(
        .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped),
        arguments: [
            (created: Milliseconds.days(30), behind: nil), (-.days(3), Milliseconds.minutes(15)),
        ] as [(Milliseconds, Milliseconds?)]
    )
    func `finds what was reported of a token, whatever its date and the clocks`(
        created: Milliseconds,
        behind: Milliseconds?
    ) throws {
        let world = try DeadLetterWorld(partitionCount: 1)
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        var account = TokenAccount(externalPurchaseID: TokenID("t-1"), touchedAt: now)
        account.appAppleID = 1
        account.role = .primary
        account.tokenCreationDate = now + created
        account.lastAccepted = .noLineItem
        account.lastAcceptedAt = now
        try LedgerMaker.write([LedgerMaker.outcome(1, settledAt: now)], to: world)
        let topic = Topic.reportState.name(prefix: world.prefix)
        let producer = try KafkaProducer(settings: world.settings, targets: [topic])
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        let key = outputs.place("t-1".utf8)
        let start = outputs.arena.count
        account.write(to: &outputs.arena)
        let value = outputs.placed(from: start)
        for time in [now, behind.map { now + -$0 }].compactMap({ $0 }) {
            outputs.outputs.append(
                OutputBatch.Output(
                    topic: 0,
                    timestampMilliseconds: time.milliseconds,
                    key: key,
                    value: value
                )
            )
        }
        try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
        try #require(producer.flush(deadlineMilliseconds: 20_000))
        let run = try TollwayProcess.run(
            ["token", "trace", "t-1", "-o", "json"],
            environment: world.environment
        )
        #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
        let events = try #require(try run.object()["events"] as? [[String: Any]])
        let texts = events.compactMap { $0["event"] as? String }
        #expect(texts.contains("report accepted: NO_LINE_ITEM because of hold"), "\(texts)")
    }

    /// Without report's state all that is there looks as if report had not read it.
    @Test func `refuses to say anything of a token where report's state is not there`() throws {
        let state = Topic.reportState.name(prefix: "t.")
        let names = Topic.all.map { $0.name(prefix: "t.") }.filter { $0 != state }
        let broker = try MockBroker(topics: names.reduce(into: [:]) { $0[$1] = 1 })
        defer { broker.close() }
        let run = try TollwayProcess.run(
            ["token", "trace", "t-1"],
            environment: [
                "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
                "TOLLWAY_TOPIC_PREFIX": "t.", "TOLLWAY_DELIVERY": "at-least-once",
            ]
        )
        #expect(run.exitCode == 3)
        #expect(run.talk.contains("Kafka shows no topic \(state)"), "\(run.talk)")
        #expect(run.talk.contains("A changelog was deleted, or made anew") && run.output.isEmpty)
    }

    /// Goal: a token whose account was lost with its changelog is not called on its way.
    ///
    /// Method: the token in `tokens.distinct`, then the position of report's group behind it, then the
    /// account.
    @Test(.enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped))
    func `says that report has read a token of which it has no account`() throws {
        let world = try DeadLetterWorld(partitionCount: 1)
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let names = [Topic.tokensDistinct, .reportState].map { $0.name(prefix: world.prefix) }
        let producer = try KafkaProducer(settings: world.settings, targets: names)
        defer { producer.close(deadlineMilliseconds: 1_000) }
        func write(_ topic: Int, _ body: (inout [UInt8]) -> Void) throws {
            var outputs = OutputBatch()
            let key = outputs.place("t-1".utf8)
            let start = outputs.arena.count
            body(&outputs.arena)
            let value = outputs.placed(from: start)
            outputs.outputs.append(OutputBatch.Output(topic: topic, key: key, value: value))
            try producer.produce(outputs, tags: [0])
            try #require(producer.flush(deadlineMilliseconds: 20_000))
        }
        func standing() throws -> String {
            let run = try TollwayProcess.run(
                ["token", "trace", "t-1", "-o", "json"],
                environment: world.environment
            )
            #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
            let lines = try #require(try run.object()["now"] as? [String])
            return lines.joined(separator: "\n")
        }
        try write(0) { AccountRecords(now: now).distinct("t-1").write(to: &$0) }
        #expect(try standing() == "on its way; report knows nothing of it yet")
        let admin = try world.openAdmin()
        defer { admin.close() }
        try admin.commit([0: 1], ofGroup: "\(world.prefix)report", topic: names[0])
        #expect(try standing().hasPrefix("report has read it and has no account of it: see"))
        var account = TokenAccount(externalPurchaseID: TokenID("t-1"), touchedAt: now)
        account.appAppleID = 1
        account.role = .primary
        try write(1) { account.write(to: &$0) }
        #expect(try standing() == "nothing is owed")
    }

    /// Goal: a report that ends between the readings of two topics is not called forgotten.
    ///
    /// Method: a search that has read report's state, then both records, then the ledger.
    @Test func `sees the account of a report that ends while it looks`() throws {
        let world = try TraceWorld()
        let configuration = try world.configuration
        let id = TokenID("t-1")
        var search = TraceSearch(
            id: id,
            configuration,
            try TopicSearch.open(stateOf: .report, configuration)
        )
        try search.readState()
        #expect(search.account == nil)

        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        var account = TokenAccount(externalPurchaseID: id, touchedAt: now)
        account.lastAccepted = .noLineItem
        account.lastAcceptedAt = now
        try world.write(.reportState, key: id.text) { account.write(to: &$0) }
        try world.write(.reportsOutcomes, key: id.text) {
            LedgerMaker.outcome(1, settledAt: now).write(to: &$0)
        }
        try world.flush()

        try search.readOthers()
        #expect(search.outcome != nil)
        #expect(search.account?.lastAccepted == .noLineItem, "\(search.standing)")
    }

    /// Goal: a token that a stage has not taken yet is found where it waits.
    ///
    /// Method: records of a token with a customer, whose key is the customer's, and nothing of dedupe.
    @Test(
        arguments: [
            ([.tokensReceived], ["received by app, request r"]),
            ([.tokensReceived, .tokensDecoded], ["received by app, request r", "decoded"]),
            ([.tokensDistinct, .deadLetters(.dedupe)], ["classified: seen", "dead letter: "]),
        ] as [([Topic], [String])]
    )
    func `finds a token that dedupe has not judged`(written: [Topic], told: [String]) throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let records = AccountRecords(now: now)
        let id = "fc8badf8-e5ff-4f57-8194-ee4bcf33a574"
        let customer = CustomerID("c1.4ZGy9n0wQfWkzJ3m0aQm4o1v8rjL2N5uXb7cKdTeYh0")
        var received = records.received(id)
        received.customer = customer
        var decoded = records.decoded(id)
        decoded.customer = customer
        decoded.text = received.token
        for topic in written {
            let key = topic == .tokensDistinct ? id : customer.text
            try world.write(topic, key: key) { value in
                switch topic {
                case .tokensReceived: received.write(to: &value)
                // Nothing that dedupe can read, and what it says of that.
                case .deadLetters: value += Array(#"{"externalPurchaseId":"\#(id)"}"#.utf8)
                case .tokensDistinct: records.distinct(id, .seen).write(to: &value)
                default: decoded.write(to: &value)
                }
            }
        }
        try world.flush()
        let run = try world.run(["token", "trace", received.token, "-o", "json"])
        #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
        let object = try run.object()
        let events = try #require(object["events"] as? [[String: Any]])
        let texts = events.compactMap { $0["event"] as? String }
        #expect(
            texts.count == told.count
                && told.allSatisfy { word in texts.contains { $0.hasPrefix(word) } },
            "\(texts)"
        )
    }

    /// What the stages would have written for one token, read back through the command.
    @Test func `finds a token by its id alone`() throws {
        let id = TokenID("fc8badf8-e5ff-4f57-8194-ee4bcf33a574")
        let prefix = "t."
        let topics = Topic.all.map { $0.name(prefix: prefix) }
        let broker = try MockBroker(
            topics: Dictionary(topics.map { ($0, 3) }, uniquingKeysWith: { first, _ in first })
        )
        defer { broker.close() }
        let settings = KafkaSettings(
            bootstrapServers: broker.bootstrapServers,
            clientID: "test"
        )
        let producer = try KafkaProducer(settings: settings, targets: topics)
        defer { producer.close(deadlineMilliseconds: 1_000) }
        var outputs = OutputBatch()
        func write(_ topic: Topic, key: String, _ body: (inout [UInt8]) -> Void) throws {
            let key = outputs.place(key.utf8)
            var value: [UInt8] = []
            body(&value)
            let range = outputs.place(value)
            let index = try #require(topics.firstIndex(of: topic.name(prefix: prefix)))
            outputs.outputs.append(OutputBatch.Output(topic: index, key: key, value: range))
        }
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let distinct = TokenDistinct(
            externalPurchaseID: id,
            appAppleID: 1,
            bundleID: "com.example",
            tokenType: nil,
            tokenCreationDate: now,
            tokenExpirationDate: nil,
            customer: nil,
            receivedAt: now,
            role: .primary
        )
        // Others' tokens lie all around it.
        for number in 0..<50 {
            var other = distinct
            other.externalPurchaseID = TokenID("other-\(number)")
            try write(.tokensDistinct, key: "other-\(number)") { other.write(to: &$0) }
        }
        try write(.tokensDistinct, key: id.text) { distinct.write(to: &$0) }
        var account = TokenAccount(externalPurchaseID: id, touchedAt: now)
        account.appAppleID = 1
        account.role = .primary
        account.debt = .init(
            dueAt: now + .hours(24),
            reason: .hold,
            origin: RecordOrigin(topic: 0, partition: 0, offset: 0)
        )
        try write(.reportState, key: id.text) { account.write(to: &$0) }
        // The embedded broker finds no record by its time.
        try write(.reportsOutcomes, key: id.text) {
            ReportOutcome(
                requestIdentifier: "r",
                externalPurchaseID: id,
                appAppleID: 1,
                status: .noLineItem,
                outcome: .accepted,
                httpStatus: 200,
                errors: [],
                attempts: 1,
                reason: "hold",
                firstSentAt: now,
                settledAt: now
            ).write(to: &$0)
        }
        // Apple accepted a report of it once, and report has forgotten it.
        for outcome in [ReportOutcome.Outcome.rejected, .accepted, .rejected] {
            try write(.reportsOutcomes, key: "t-1") {
                LedgerMaker.outcome(1, outcome: outcome, settledAt: now).write(to: &$0)
            }
        }
        try producer.produce(outputs, tags: outputs.outputs.indices.map { UInt64($0) })
        #expect(producer.flush(deadlineMilliseconds: 5_000))

        let environment = [
            "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrapServers,
            "TOLLWAY_TOPIC_PREFIX": prefix, "TOLLWAY_DELIVERY": "at-least-once",
        ]
        let run = try TollwayProcess.run(
            ["token", "trace", id.text, "-o", "json"],
            environment: environment
        )
        #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
        let object = try run.object()
        #expect(object["role"] as? String == "primary")
        #expect(object["dueAt"] as? Int64 == (now + .hours(24)).milliseconds)
        let events = try #require(object["events"] as? [[String: Any]])
        #expect(
            Set(events.compactMap { $0["event"] as? String }) == [
                "classified: primary", "report accepted: NO_LINE_ITEM because of hold",
            ]
        )
        let notes = try #require(object["notes"] as? [String])
        #expect(notes.allSatisfy { $0.contains("embedded broker") } && notes.count == 2)
        let forgotten = try TollwayProcess.run(
            ["token", "trace", "t-1", "-o", "json"],
            environment: environment
        )
        #expect(forgotten.exitCode == 0, "\(forgotten.talk)\(forgotten.output)")
        let standing = try #require(try forgotten.object()["now"] as? [String])
        let sentence = "by the ledger, NO_LINE_ITEM was accepted"
        #expect(standing.count == 1 && standing.first?.hasPrefix(sentence) == true, "\(standing)")
        let none = try TollwayProcess.run(["token", "trace", "nobody"], environment: environment)
        #expect(none.exitCode == 3)
    }
}
