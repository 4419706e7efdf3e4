import AppStoreAPI
import Kafka
import Simulation
import StageRuntime
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import report

@Suite struct `The report worker` {
    @Test func `reports a primary token after its hold, a duplicate after two, each once`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1))
        bench.distinct(
            bench.id(2),
            .duplicate(of: bench.id(1)),
            expiration: ReportBench.start + .days(365)
        )
        try bench.pass(.hours(23))
        #expect(bench.appleStore.accepted.isEmpty)
        try bench.pass(.hours(24))
        #expect(bench.appleStore.statuses == [bench.id(1).text: ["NO_LINE_ITEM"]])
        try bench.pass(.hours(2))
        #expect(
            bench.appleStore.statuses == [
                bench.id(1).text: ["NO_LINE_ITEM"], bench.id(2).text: ["DUPLICATE_TOKEN"],
            ]
        )
        let outcomes = try bench.outcomes()
        #expect(outcomes.count == 2)
        let primary = try #require(outcomes.first { $0.externalPurchaseID == bench.id(1) })
        #expect(primary.outcome == .accepted && primary.httpStatus == 200)
        #expect(primary.reason == "hold" && primary.attempts == 1)
        #expect(primary.firstSentAt >= ReportBench.start + .hours(24))
        // UUID v5 of "<id>/1" in our name space: the same from anywhere.
        #expect(primary.requestIdentifier == ReportPolicy.identifier(bench.id(1), 1))
        bench.distinct(bench.id(1))
        bench.notice(bench.id(1))
        try bench.pass(.days(3))
        #expect(bench.appleStore.accepted.count == 2)
        #expect(try bench.outcomes().count == 2)
    }

    @Test func `counts a report whose 200 was lost, once, as verified`() throws {
        let bench = ReportBench()
        var isLost = false
        bench.script = { call in
            guard call.isSend, !isLost else {
                return .answered
            }
            isLost = true
            return .answerLost
        }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(10))
        #expect(bench.appleStore.accepted.count == 1)
        #expect(try bench.outcomes().map(\.outcome) == [.verified])
        #expect(bench.instances[0]?.apple.calls.map(\.isSend) == [true, false])
    }

    /// Apple has answered 200, and we are gone before it is written down.
    @Test(arguments: [false, true])
    func `repeats after a crash under the same identifier and takes Apple's word`(
        losesDisk: Bool
    ) throws {
        let bench = ReportBench()
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        while bench.appleStore.accepted.isEmpty {
            _ = try bench.instances[0]?.loop.step(waitMilliseconds: 0)
        }
        #expect(try bench.outcomes().isEmpty)
        bench.crash()
        if losesDisk {
            bench.loseDisk()
        }
        bench.launch()
        try bench.pass(.minutes(10))
        #expect(bench.appleStore.accepted.count == 1)
        let outcomes = try bench.outcomes()
        #expect(outcomes.map(\.outcome) == [.verified])
        #expect(bench.instances[0]?.apple.calls.map(\.isSend) == [true, false])
    }

    @Test func `stores an intent before it sends it`() throws {
        let bench = ReportBench()
        bench.launch()
        var wasStored: [Bool] = []
        bench.script = { [unowned bench] call in
            let state = bench.cluster.committedRecords(
                of: Topic.reportState.name(prefix: "tollway.")
            )
            wasStored.append(
                state.contains {
                    String(decoding: $0.value ?? [], as: UTF8.self).contains(call.requestIdentifier)
                }
            )
            return .answered
        }
        for number in 0..<20 {
            bench.distinct(
                bench.id(number),
                number % 2 == 0 ? .primary : .duplicate(of: bench.id(0))
            )
        }
        bench.notice(bench.id(0))
        try bench.pass(.days(2))
        #expect(wasStored.count == 20 && wasStored.allSatisfy { $0 })
    }

    @Test func `closes the account of a token that was a dead letter of its own`() throws {
        let bench = ReportBench()
        bench.launch()
        let id = bench.id(1)
        var message = TokenDistinct(
            externalPurchaseID: id,
            appAppleID: 1,
            bundleID: nil,
            tokenType: nil,
            tokenCreationDate: ReportBench.start + .days(-9),
            tokenExpirationDate: nil,
            customer: nil,
            receivedAt: ReportBench.start,
            role: .primary
        )
        bench.append(.tokensDistinct, id) { message.write(to: &$0) }
        try bench.pass(.minutes(1))
        #expect(bench.tally.deadLetterCodes == ["report.bad_record"])
        message.bundleID = "com.example.1"
        var value: [UInt8] = []
        message.write(to: &value)
        bench.append(
            .tokensDistinct,
            key: Array(id.text.utf8),
            value: value,
            headers: ["tollway.dlq.replay_id": "r"]
        )
        try bench.pass(.days(2))
        let tally = bench.tally.committed
        // decode has counted it once.
        #expect(tally.count(of: .accepted, app: 1) == 1)
        #expect(tally.count(of: .deadLetter, app: TokenTally.unknownApp) == 1)
        #expect(tally.count(of: .reported, app: 1) == 1)
    }

    @Test func `buries what Apple refuses, and its replay resumes the same intent`() throws {
        let bench = ReportBench()
        bench.launch()
        let errors = [AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil)]
        bench.script = { _ in .refused(errors) }
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        let rejected = try #require(try bench.outcomes().first)
        #expect(rejected.outcome == .rejected && rejected.errors == errors)
        #expect(rejected.httpStatus == 400)
        let deadLetter = try #require(bench.deadLetters().first)
        #expect(deadLetter.headers["tollway.dlq.code"] == "report.rejected")
        #expect(bench.tally.deadLetterCodes == ["report.rejected"])
        #expect(deadLetter.headers["__dlq.errors.topic"] == "tollway.tokens.distinct.v1")
        let request = try ReportRequested(reading: deadLetter.value.span)
        #expect(request.requestIdentifier == rejected.requestIdentifier)
        // Nothing is sent again by itself.
        bench.notice(bench.id(1))
        try bench.pass(.days(1))
        #expect(bench.instances[0]?.apple.calls.count == 1)
        bench.script = { _ in .answered }
        bench.append(.reportsRequested, bench.id(1)) { request.write(to: &$0) }
        try bench.pass(.minutes(1))
        #expect(try bench.outcomes().map(\.outcome) == [.rejected, .accepted])
        #expect(try bench.outcomes()[1].requestIdentifier == rejected.requestIdentifier)
        #expect(bench.deadLetters().count == 1)
    }

    @Test func `tells in each dead letter how often it was one`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.script = { _ in .refused([AppleError(code: 8, fieldName: nil, lineItemID: nil)]) }
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        let first = try #require(bench.deadLetters().first)
        #expect(first.headers["tollway.dlq.replay_count"] == "0")
        #expect(first.headers["tollway.dlq.attempts"] == "1")
        // As a replay sends it back: its history goes along.
        bench.append(
            .reportsRequested,
            key: Array(bench.id(1).text.utf8),
            value: first.value,
            headers: [
                "tollway.dlq.replay_count": "1", "tollway.dlq.attempts": "1",
                "tollway.dlq.first_failed_at": first.headers["tollway.dlq.first_failed_at"] ?? "",
                "tollway.dlq.replay_id": "r-1",
            ]
        )
        try bench.pass(.hours(1))
        let second = try #require(bench.deadLetters().last)
        #expect(second.headers["tollway.dlq.replay_count"] == "1")
        #expect(second.headers["tollway.dlq.attempts"] == "2")
        #expect(second.headers["tollway.dlq.replay_id"] == "r-1")
        let name = "tollway.dlq.first_failed_at"
        #expect(second.headers[name] == first.headers[name])
        #expect(second.headers["tollway.dlq.failed_at"] != first.headers[name])
    }

    @Test func `counts what it holds by app, down to nothing`() throws {
        let bench = ReportBench()
        bench.launch()
        func held() throws -> [String] {
            let text = String(decoding: bench.metrics.render(), as: UTF8.self)
            return text.split(separator: "\n").map(String.init)
                .filter { $0.hasPrefix("tollway_report_held{") }.sorted()
        }
        for number in 0..<5 {
            bench.distinct(bench.id(number), app: number < 3 ? 1 : 2)
        }
        bench.distinct(bench.id(5, sandbox: true))
        try bench.pass(.minutes(1))
        #expect(
            try held() == [
                #"tollway_report_held{app="1",environment="production"} 3"#,
                #"tollway_report_held{app="1",environment="sandbox"} 1"#,
                #"tollway_report_held{app="2",environment="production"} 2"#,
            ]
        )
        bench.script = { call in
            call.externalPurchaseID == bench.id(0).text
                ? .refused([AppleError(code: 8, fieldName: nil, lineItemID: nil)]) : .answered
        }
        try bench.pass(.days(2))
        #expect(bench.appleStore.accepted.count == 5 && bench.deadLetters().count == 1)
        #expect(try held().allSatisfy { $0.hasSuffix(" 0") })
        #expect(try held().count == 3)
    }

    @Test func `logs the outcome of each app's tokens, once each`() throws {
        let bench = ReportBench()
        bench.launch()
        for number in 0..<5 {
            bench.distinct(bench.id(number), app: number < 3 ? 1 : 2)
        }
        // A repeat, a token that Apple alone knows, and one among our dead letters.
        bench.distinct(bench.id(1))
        bench.notice(bench.id(6))
        bench.distinct(bench.id(7), .seen)
        bench.script = { call in
            call.externalPurchaseID == bench.id(0).text
                ? .refused([AppleError(code: 8, fieldName: nil, lineItemID: nil)]) : .answered
        }
        try bench.pass(.hours(1))
        let held = bench.tally.committed
        #expect(TokenTally.Fate.allCases.map { held.count(of: $0, app: 1) } == [0, 1, 0, 0])
        try bench.commitToEnd(.decode, .tokensReceived)
        try bench.commitToEnd(.dedupe, .tokensDecoded)
        try bench.pass(.days(2))
        let settled = bench.tally.committed
        #expect(TokenTally.Fate.allCases.map { settled.count(of: $0, app: 1) } == [0, 1, 1, 2])
        #expect(TokenTally.Fate.allCases.map { settled.count(of: $0, app: 2) } == [0, 0, 0, 2])
        // The dead letter of the refused one is replayed: it is held and reported once more.
        bench.script = { _ in .answered }
        let deadLetter = try #require(bench.deadLetters().first)
        bench.append(
            .reportsRequested,
            key: Array(bench.id(0).text.utf8),
            value: deadLetter.value,
            headers: deadLetter.headers
        )
        try bench.pass(.minutes(1))
        let replayed = bench.tally.committed
        #expect(TokenTally.Fate.allCases.map { replayed.count(of: $0, app: 1) } == [1, 1, 1, 3])
    }

    @Test func `raises an alarm for an identifier that Apple holds with other content`() throws {
        let bench = ReportBench()
        bench.launch()
        let identifier = ReportPolicy.identifier(bench.id(1), 1)
        let foreign = ScriptedApple.Held(
            externalPurchaseID: "another",
            status: "NO_LINE_ITEM",
            body: ReportRequestBody(
                requestIdentifier: identifier,
                externalPurchaseID: TokenID("another"),
                status: .noLineItem
            )
        )
        #expect(bench.appleStore.accept(foreign, as: identifier))
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        #expect(try bench.outcomes().map(\.outcome) == [.rejected])
        #expect(
            bench.deadLetters().first?.headers["tollway.dlq.code"] == "report.identifier_conflict"
        )
    }

    @Test func `knows an accepted report by what its line items say`() throws {
        let bench = ReportBench()
        bench.launch()
        for lineItems in [
            #"[{"lineItemId":"a","quantity":1},{"lineItemId":"b"}]"#,
            #"[ {"lineItemId":"b","restatement":false},{"quantity":1.0,"lineItemId":"a"} ]"#,
            #"[{"lineItemId":"a","quantity":2},{"lineItemId":"b"}]"#,
        ] {
            bench.request(
                bench.id(1),
                .lineItem,
                identifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
                lineItems: lineItems
            )
            try bench.pass(.minutes(1))
        }
        #expect(try bench.outcomes().map(\.outcome) == [.accepted])
        #expect(
            bench.deadLetters().map { $0.headers["tollway.dlq.code"] }
                == ["report.identifier_conflict"]
        )
    }

    @Test func `takes a report by hand, and one after the other for a token`() throws {
        let bench = ReportBench()
        bench.latency = .seconds(1)
        bench.launch()
        bench.distinct(bench.id(1))
        let item = #"[{"lineItemId":"a","creationDate":1768003200000}]"#
        bench.request(bench.id(1), .noLineItem)
        bench.request(bench.id(1), .lineItem, lineItems: item)
        bench.request(bench.id(1), .noLineItem)
        try bench.pass(.days(2))
        #expect(bench.appleStore.statuses == [bench.id(1).text: ["NO_LINE_ITEM", "LINE_ITEM"]])
        let calls = try #require(bench.instances[0]?.apple.calls)
        #expect(calls.count == 2 && calls[1].at >= calls[0].at + .seconds(1))
    }

    @Test(arguments: [
        (#"{"#, "report.bad_record"),
        (#"[]"#, "report.bad_record"),
        (#"{"externalPurchaseId":"a"}"#, "report.bad_record"),
        (
            #"{"externalPurchaseId":"a","environment":"sandbox","appAppleId":1,"bundleId":"b","status":"NO_LINE_ITEM"}"#,
            "report.bad_record"
        ),
        (
            #"{"externalPurchaseId":"a","environment":"production","appAppleId":1,"bundleId":"b","status":"LINE_ITEM"}"#,
            "report.line_items"
        ),
        (
            #"{"externalPurchaseId":"a","environment":"production","appAppleId":1,"bundleId":"b","status":"LINE_ITEM","lineItems":[1]}"#,
            "report.line_items"
        ),
        (
            #"{"externalPurchaseId":"a","environment":"production","appAppleId":1,"bundleId":"b","status":"NO_LINE_ITEM","requestIdentifier":"x"}"#,
            "report.bad_identifier"
        ),
    ])
    func `buries a request that cannot be`(value: String, code: String) throws {
        let bench = ReportBench()
        bench.launch()
        bench.append(.reportsRequested, key: Array("a".utf8), value: Array(value.utf8))
        try bench.pass(.minutes(1))
        #expect(bench.deadLetters().map { $0.headers["tollway.dlq.code"] } == [code])
    }

    /// Apple would answer with code 37.
    @Test func `buries a DUPLICATE_TOKEN by hand of a token that came without a type`() throws {
        let bench = ReportBench()
        bench.launch()
        let message = TokenDistinct(
            externalPurchaseID: bench.id(1),
            appAppleID: 1,
            bundleID: "com.example.1",
            tokenType: nil,
            tokenCreationDate: ReportBench.start,
            tokenExpirationDate: nil,
            customer: nil,
            receivedAt: bench.clock.now,
            role: .primary
        )
        bench.append(.tokensDistinct, bench.id(1)) { message.write(to: &$0) }
        bench.request(bench.id(1), .duplicateToken)
        try bench.pass(.days(2))
        let code = bench.deadLetters().first?.headers["tollway.dlq.code"]
        #expect(code == "report.duplicate_not_allowed")
        #expect(bench.appleStore.statuses == [bench.id(1).text: ["NO_LINE_ITEM"]])
    }

    @Test(arguments: [
        ("00000000-0000-4000-8000-000000000001", #"{"touchedAt":1}"#),
        ("\u{ff}1", "x"),
    ])
    func `ends with its position where a changelog record cannot be read`(
        key: String,
        value: String
    ) throws {
        let bench = ReportBench()
        // Of a transaction's key the first byte is no UTF-8.
        let bytes = key.unicodeScalars.map { UInt8(truncatingIfNeeded: $0.value) }
        bench.append(.reportState, key: bytes, value: Array(value.utf8))
        let instance = bench.launch()
        let end = try #require(throws: WorkerEnd.self) {
            for _ in 0..<100 {
                _ = try instance.loop.step(waitMilliseconds: 0)
            }
        }
        #expect(end.exitCode == 70)
        #expect(end.sentence.contains("tollway.report.state.v1"))
        #expect(end.sentence.contains("offset 0 cannot be read"))
    }

    @Test func `buries a record whose key is not its token`() throws {
        let bench = ReportBench()
        bench.launch()
        let message = ReportRequested(
            externalPurchaseID: bench.id(1),
            appAppleID: 1,
            bundleID: "com.example.1",
            status: .noLineItem,
            requestIdentifier: nil,
            lineItems: nil
        )
        var value: [UInt8] = []
        message.write(to: &value)
        bench.append(.reportsRequested, key: nil, value: value)
        bench.append(.reportsRequested, key: Array("x".utf8), value: value)
        bench.append(.reportsRequested, key: Array("x".utf8), value: nil)
        try bench.pass(.minutes(1))
        #expect(
            bench.deadLetters().compactMap { $0.headers["tollway.dlq.code"] }.sorted() == [
                "report.bad_key", "report.bad_key", "report.bad_record",
            ]
        )
        #expect(bench.appleStore.accepted.isEmpty)
    }
}

@Suite struct `A record in another partition than its key's` {
    /// An account in two places would report twice.
    @Test func `is refused, those of the first batch too`() throws {
        let bench = ReportBench()
        // What the log says of its partitions comes too late.
        bench.cluster.faults.inquiryDelayOneIn = 1
        bench.knowsPartitions = true
        let id = bench.id(1)
        let key = Array(id.text.utf8)
        let home = Partitioner.partition(
            ofKey: key.span,
            partitionCount: Int32(bench.partitionCount)
        )
        var value: [UInt8] = []
        ReportRequested(
            externalPurchaseID: id,
            appAppleID: 1,
            bundleID: "com.example.1",
            status: .noLineItem,
            requestIdentifier: nil,
            lineItems: nil
        ).write(to: &value)
        for partition in 0..<Int32(bench.partitionCount) where partition != home {
            bench.cluster.append(
                topic: Topic.reportsRequested.name(prefix: ReportBench.prefix),
                partition: partition,
                key: key,
                value: value,
                timestampMilliseconds: bench.clock.now.milliseconds
            )
        }
        bench.launch()
        try bench.pass(.minutes(1))
        let code = "report.wrong_partition"
        #expect(bench.tally.deadLetterCodes == [code, code])
        #expect(bench.deadLetters().allSatisfy { $0.value == value })
        #expect(bench.appleStore.accepted.isEmpty)
        // Written again where it belongs, it is a request as any other.
        bench.append(.reportsRequested, key: key, value: value)
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accepted.count == 1)
    }
}

@Suite struct `The guard of the report worker` {
    @Test(arguments: [("UNREPORTED", "unreported"), ("ACTIVE_TOKEN_REMINDER", "reminder")])
    func `waits for decode and dedupe before it says UNRECOGNIZED_TOKEN`(
        subtype: String,
        reason: String
    ) throws {
        let bench = ReportBench()
        bench.launch()
        for partition in 0..<6 {
            bench.append(.tokensReceived, key: [UInt8(partition)], value: [1])
        }
        bench.notice(bench.id(1), subtype)
        bench.notice(bench.id(2), subtype)
        try bench.pass(.hours(1))
        #expect(bench.appleStore.accepted.isEmpty)
        try bench.commitToEnd(.decode, .tokensReceived)
        try bench.pass(.hours(1))
        #expect(bench.appleStore.accepted.isEmpty)
        // Behind the proof so far, one of the two comes after all.
        bench.distinct(bench.id(2))
        try bench.commitToEnd(.dedupe, .tokensDecoded)
        try bench.pass(.minutes(1))
        #expect(
            bench.appleStore.statuses == [
                bench.id(1).text: ["UNRECOGNIZED_TOKEN"], bench.id(2).text: ["NO_LINE_ITEM"],
            ]
        )
        #expect(Set(try bench.outcomes().map(\.reason)) == ["unknown", reason])
    }

    @Test func `does not begin before the grace time is over`() throws {
        let bench = ReportBench()
        bench.launch()
        try bench.commitToEnd(.decode, .tokensReceived)
        try bench.commitToEnd(.dedupe, .tokensDecoded)
        bench.notice(bench.id(1))
        try bench.pass(.minutes(14))
        #expect(bench.appleStore.accepted.isEmpty)
        try bench.pass(.minutes(2))
        #expect(bench.appleStore.accepted.count == 1)
    }

    /// What came in since may be what the later one names.
    @Test func `serves nobody whose grace time ended after its round began`() throws {
        let bench = ReportBench(partitionCount: 1)
        bench.launch()
        for number in 1...2 {
            bench.append(.tokensReceived, key: nil, value: [1])
            bench.notice(bench.id(number))
            try bench.pass(.minutes(16))
        }
        try bench.commitToEnd(.decode, .tokensReceived, but: 1)
        try bench.commitToEnd(.dedupe, .tokensDecoded)
        try bench.pass(.minutes(5))
        #expect(bench.appleStore.statuses == [bench.id(1).text: ["UNRECOGNIZED_TOKEN"]])
        try bench.commitToEnd(.decode, .tokensReceived)
        try bench.pass(.minutes(5))
        #expect(bench.appleStore.accepted.count == 2)
    }

    @Test func `serves many notices in one round, and goes on after a crash`() throws {
        let bench = ReportBench()
        bench.launch()
        for number in 0..<50 {
            bench.notice(bench.id(number))
        }
        try bench.pass(.minutes(20))
        bench.crash()
        bench.launch()
        try bench.commitToEnd(.decode, .tokensReceived)
        try bench.commitToEnd(.dedupe, .tokensDecoded)
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accepted.count == 50)
    }
}
