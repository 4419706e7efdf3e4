import Foundation
import Kafka
import LocalKafka
import StageRuntime
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `tollway purchase trace` {
    static let customer = CustomerID("c1.4ZGy9n0wQfWkzJ3m0aQm4o1v8rjL2N5uXb7cKdTeYh0")
    static let identifier = "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f"
    static let token = TokenID("fc8badf8-e5ff-4f57-8194-ee4bcf33a574")

    private static func sale(_ id: String, at: Timestamp) -> PurchaseEvent {
        var sale = PurchaseEvent(lineItemID: id)
        sale.customer = customer
        sale.appAppleID = 7
        sale.creationDate = at
        sale.pricingCurrency = AlphaCode("UYU")
        sale.receivedAt = at
        sale.requestID = "r-\(id)"
        return sale
    }

    /// The key of sale-1 of app 7 in the book of purchases.
    private static func bookKey(
        of purchaseKey: String,
        _ environment: AppleEnvironment = .production
    ) -> [UInt8] {
        Array("i".utf8) + [0, UInt8(purchaseKey.utf8.count)] + Array(purchaseKey.utf8)
            + [environment == .sandbox ? 1 : 0] + [0x80, 0, 0, 0, 0, 0, 0, 7]
            + Array("sale-1".utf8)
    }

    /// A sale that Apple took, and its refund.
    private func tell(_ world: TraceWorld, at now: Timestamp) throws {
        let key = Self.customer.text
        for number in 0..<20 {
            let other = Self.sale("sale-\(number + 10)", at: now)
            try world.write(.purchasesReceived, key: key) { other.write(to: &$0) }
        }
        let sale = Self.sale("sale-1", at: now)
        try world.write(.purchasesReceived, key: key) { sale.write(to: &$0) }
        var refund = Self.sale("refund-1", at: now + .seconds(9))
        refund.kind = .refund
        refund.referenceLineItemID = "sale-1"
        try world.write(.purchasesReceived, key: key) { refund.write(to: &$0) }
        let items = #"[{"lineItemId":"sale-1"},{"lineItemId":"sale-2"}]"#
        let request = ReportRequested(
            externalPurchaseID: Self.token,
            appAppleID: 7,
            bundleID: "b",
            status: .lineItem,
            requestIdentifier: Self.identifier,
            lineItems: items,
            purchaseKey: PurchaseKey(key)
        )
        try world.write(.reportsRequested, key: Self.token.text) { request.write(to: &$0) }
        let outcome = ReportOutcome(
            requestIdentifier: Self.identifier,
            externalPurchaseID: Self.token,
            appAppleID: 7,
            status: .lineItem,
            outcome: .accepted,
            httpStatus: 200,
            errors: [],
            attempts: 1,
            reason: "request",
            firstSentAt: now + .seconds(2),
            settledAt: now + .seconds(3),
            exchanges: [
                ReportExchange(
                    request: .send,
                    sentAt: now + .seconds(2),
                    answeredAt: now + .seconds(3),
                    httpStatus: 200,
                    errorCode: nil
                )
            ],
            details: .init(lineItems: items)
        )
        try world.write(.reportsOutcomes, key: Self.token.text) { outcome.write(to: &$0) }
        let answer = PurchaseAnswered(
            requestIdentifier: Self.identifier,
            externalPurchaseID: Self.token,
            lineItemIDs: ["sale-1", "sale-2"],
            outcome: .accepted,
            errors: [],
            settledAt: now + .seconds(3)
        )
        try world.write(.purchasesAnswered, key: key) { answer.write(to: &$0) }
        let settled = Self.reported(
            item: #"{"lineItemId":"sale-1"}"#,
            receivedAt: now,
            settledAt: now + .seconds(4)
        )
        try world.write(.purchasesOutcomes, key: key) { settled.write(to: &$0) }
    }

    /// The row of the ledger for what Apple has.
    private static func reported(
        _ type: PurchaseEvent.Kind = .buy,
        revision: Int = 1,
        item: String? = nil,
        receivedAt: Timestamp,
        settledAt: Timestamp
    ) -> PurchaseOutcome {
        PurchaseOutcome(
            lineItemID: "sale-1",
            revision: revision,
            type: type,
            outcome: .reported,
            externalPurchaseID: token,
            requestIdentifier: identifier,
            reason: "accepted",
            errors: [],
            item: item,
            receivedAt: receivedAt,
            settledAt: settledAt
        )
    }

    private static func found(_ outcome: PurchaseOutcome) -> TopicReader.Found {
        var value: [UInt8] = []
        outcome.write(to: &value)
        return TopicReader.Found(
            topic: "t.purchases.outcomes.v1",
            partition: 0,
            offset: 0,
            timestamp: outcome.settledAt.milliseconds,
            key: Array(customer.text.utf8),
            value: value,
            headers: [:]
        )
    }

    @Test(arguments: [[], ["--customer", customer.text]])
    func `tells all that happened to a sale`(options: [String]) throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        try tell(world, at: now)
        try world.flush()
        let run = try world.trace(["sale-1", "-o", "json"] + options)
        #expect(run.exitCode == 0, "\(run.talk)\(run.output)")
        let object = try run.object()
        #expect(object["externalPurchaseId"] as? String == Self.token.text)
        #expect(object["requestIdentifier"] as? String == Self.identifier)
        #expect(object["purchaseKeys"] as? [String] == [Self.customer.text])
        #expect(object["type"] as? String == "buy")
        let told = try #require(object["events"] as? [[String: Any]])
        #expect(
            Set(told.map { "\($0["stage"] ?? ""): \($0["event"] ?? "")" }) == [
                "ingest: received: buy of app 7, request r-sale-1",
                "ingest: received: refund refund-1 that refers to it, request r-refund-1",
                "purchases: token chosen, report asked for: \(Self.token.text)",
                "apple: PUT LINE_ITEM: HTTP 200 after 1000 ms",
                "report: report accepted: LINE_ITEM because of request",
                "report: answered to purchases: accepted",
                "purchases: buy, revision 1: reported (accepted) under \(Self.token.text)",
            ]
        )
        #expect(object["now"] as? [String] == ["Apple has it under \(Self.token.text): revision 1"])
        let table = try world.trace(["sale-1"] + options)
        #expect(table.output.hasPrefix("sale-1, app 7\n"))
        #expect(table.output.contains("now: Apple has it"))
    }

    /// The worker was behind: it told the end of a sale an hour after Apple's answer, and what came in
    /// is gone.
    @Test func `looks for reports from the time on at which the sale came in`() throws {
        let received = Timestamp(milliseconds: 1_792_065_600_000)
        var search = PurchaseSearch(
            lineItemID: "sale-1",
            purchaseKey: Self.customer.text,
            try Configuration(environment: [:], program: .tollway),
            TopicSearch(
                try Configuration(environment: [:], program: .tollway),
                partitionCounts: [:],
                isEmbedded: false
            )
        )
        #expect(search.reportsFrom == nil)
        let settled = Self.reported(receivedAt: received, settledAt: received + .hours(1))
        search.readOutcomes([Self.found(settled)])
        #expect(search.events.map(\.at) == [settled.settledAt.milliseconds])
        #expect(search.reportsFrom == received.milliseconds - TraceSearch.slackMilliseconds)
        // Earlier versions wrote what a platform had said, whatever it was.
        search.readOutcomes([
            Self.found(
                Self.reported(receivedAt: Timestamp(milliseconds: .min), settledAt: received)
            )
        ])
        #expect(search.reportsFrom == .min)
    }

    /// Goal: a sale that is settled between the readings of two topics is not said to wait.
    ///
    /// Method: a search that has read the book, then the sale's end, then the rest of the topics.
    @Test func `sees the book of a sale that ends while it looks`() throws {
        let world = try TraceWorld()
        let key = Self.customer.text
        let book = Self.bookKey(of: key)
        let partition = TopicReader.partition(ofKey: Array(key.utf8), partitionCount: 3)
        func write(_ wait: String) throws {
            let state = #"{"standing":"live","wait":{"for":"\#(wait)"}}"#
            try world.write(.purchasesState, key: book, Array(state.utf8), partition: partition)
        }
        let configuration = try world.configuration
        try write("sent")
        try world.flush()
        var search = PurchaseSearch(
            lineItemID: "sale-1",
            purchaseKey: key,
            configuration,
            try TopicSearch.open(stateOf: .purchases, configuration)
        )
        try search.readBook(Array(key.utf8))
        #expect(search.book.standings.values.map(\.wait) == ["sent"])
        try write("idle")
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        try world.write(.purchasesOutcomes, key: key) {
            Self.reported(receivedAt: now, settledAt: now).write(to: &$0)
        }
        try world.flush()
        try search.readEnds(Array(key.utf8))
        #expect(search.events.count == 1)
        #expect(search.book.standings.values.map(\.wait) == ["idle"])
    }

    @Test func `looks from the newest records back until one is found, or everywhere`() throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        var older = Self.sale("twin", at: now)
        older.customer = CustomerID("c1.P_1O96EW6DJGO5qYus7XAOhHyftOEf0WTrfWm_Fbs4k")
        let olderKey = older.customer?.text ?? ""
        try world.write(.purchasesReceived, key: olderKey) { older.write(to: &$0) }
        older.lineItemID = "first"
        try world.write(.purchasesReceived, key: olderKey) { older.write(to: &$0) }
        // More than the first look takes in.
        for _ in 0..<20_001 {
            try world.write(.purchasesReceived, key: olderKey) { $0 += Array("{}".utf8) }
        }
        let newer = Self.sale("twin", at: now)
        try world.write(.purchasesReceived, key: Self.customer.text) { newer.write(to: &$0) }
        try world.flush()
        func keys(_ words: String...) throws -> (Set<String>, isNoted: Bool) {
            let run = try world.trace(["twin", "-o", "json"] + words)
            let object = try run.object()
            let notes = object["notes"] as? [String] ?? []
            return (
                Set(object["purchaseKeys"] as? [String] ?? []),
                notes.contains { $0.contains("--all looks everywhere") }
            )
        }
        #expect(try keys() == ([Self.customer.text], true))
        #expect(try keys("--all") == ([Self.customer.text, olderKey], false))
        // What is older than the first look is found by the second one.
        let first = try world.trace(["first", "-o", "json"])
        #expect(try first.object()["purchaseKeys"] as? [String] == [olderKey])
    }

    @Test func `knows a customer by the name that the platform gives`() throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        var sale = Self.sale("sale-1", at: now)
        // printf %s alice@example.com | openssl dgst -sha256 -hmac customer-key-16b -binary
        //     | basenc --base64url
        sale.customer = CustomerID("c1.P_1O96EW6DJGO5qYus7XAOhHyftOEf0WTrfWm_Fbs4k")
        try world.write(.purchasesReceived, key: sale.customer?.text ?? "") { sale.write(to: &$0) }
        try world.flush()
        let folder = try TemporaryFolder()
        let file = try folder.file("key", Data("customer-key-16b".utf8))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        let settings = ["TOLLWAY_INGEST_CUSTOMER_KEY_FILE": file.path]
        let words = ["sale-1", "--customer", "alice@example.com", "-o", "json"]
        let run = try world.trace(words, settings)
        #expect(run.exitCode == 0, "\(run.talk)")
        #expect((try run.object()["now"] as? [String])?.first?.hasPrefix("received, and") == true)
        // Of somebody else it is another sale.
        #expect(try world.trace(["sale-1", "--customer", "bob"], settings).exitCode == 3)
        #expect(try world.trace(["sale-2"]).exitCode == 3)
        // Without the key a name is looked for as it is, which is right for a token's id alone.
        let plain = try world.trace(["sale-1", "--customer", "alice@example.com"])
        #expect(plain.exitCode == 3)
        #expect(plain.talk.contains("TOLLWAY_INGEST_CUSTOMER_KEY_FILE is not set"))
        let known = try world.trace(["sale-1", "--customer", sale.customer?.text ?? ""])
        #expect(known.exitCode == 0)
        let other = try world.trace(["sale-2", "--customer", sale.customer?.text ?? ""])
        #expect(!other.talk.contains("is not set"))
    }

    @Test func `says that Apple has the retraction of a sale`() throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        try tell(world, at: now)
        let retracted = Self.reported(
            .retract,
            revision: 2,
            receivedAt: now,
            settledAt: now + .seconds(9)
        )
        try world.write(.purchasesOutcomes, key: Self.customer.text) { retracted.write(to: &$0) }
        try world.flush()
        let object = try world.trace(["sale-1", "-o", "json"]).object()
        #expect(object["type"] as? String == "retract")
        #expect(
            object["now"] as? [String] == [
                "Apple has its retraction under \(Self.token.text): revision 2"
            ]
        )
    }

    /// Of its own no token was looked for.
    @Test func `says that nothing is owed for what refers to a sale that is not owed`() throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let key = Self.customer.text
        var refund = Self.sale("sale-1", at: now)
        refund.kind = .refund
        refund.referenceLineItemID = "sale-0"
        try world.write(.purchasesReceived, key: key) { refund.write(to: &$0) }
        var settled = Self.reported(.refund, receivedAt: now, settledAt: now + .seconds(1))
        settled.outcome = .notOwed
        settled.reason = "reference_not_owed"
        settled.externalPurchaseID = nil
        settled.requestIdentifier = nil
        try world.write(.purchasesOutcomes, key: key) { settled.write(to: &$0) }
        try world.flush()
        let object = try world.trace(["sale-1", "-o", "json"]).object()
        #expect(object["now"] as? [String] == ["nothing is owed: what it refers to is not owed"])
    }

    /// A platform that writes the topic itself may write anything.
    @Test(arguments: [Int64.min, 59_999, .max])
    func `takes the time of the record where a sale was received at no possible time`(
        milliseconds: Int64
    ) throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        var sale = Self.sale("sale-1", at: now)
        sale.receivedAt = Timestamp(milliseconds: milliseconds)
        try world.write(.purchasesReceived, key: Self.customer.text) { sale.write(to: &$0) }
        try world.flush()
        let run = try world.trace(["sale-1", "-o", "json"])
        #expect(run.exitCode == 0, "\(run.talk)")
        let told = try #require(run.object()["events"] as? [[String: Any]])
        let at = try #require(told.first?["at"] as? Int64)
        #expect(abs(at - now.milliseconds) < 60_000)
    }

    /// As `purchases` writes its book: kind, length and text of the purchase key, environment, app, id.
    @Test func `says what a sale waits for, and what its dead letters want`() throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let sale = Self.sale("sale-1", at: now)
        var value: [UInt8] = []
        sale.write(to: &value)
        let key = Self.customer.text
        try world.write(.purchasesReceived, key: Array(key.utf8), value)
        // It says neither currency nor date of the sale, which goes on waiting.
        var change = sale
        change.kind = .restate
        change.creationDate = nil
        change.pricingCurrency = nil
        change.reportingCurrency = AlphaCode("USD")
        value = []
        change.write(to: &value)
        try world.write(.purchasesReceived, key: Array(key.utf8), value)
        // The names of others of the customer begin with its name.
        for name in ["sale-1", "sale-10", "sale-11"] {
            let refused = Self.sale(name, at: now)
            try world.write(.deadLetters(.purchases), key: key) { refused.write(to: &$0) }
        }
        let partition = TopicReader.partition(ofKey: Array(key.utf8), partitionCount: 3)
        let book = Self.bookKey(of: key)
        let state = #"{"standing":"pending","wait":{"for":"rate"},"waitingSince":1760000000000}"#
        try world.write(.purchasesState, key: book, Array(state.utf8), partition: partition)
        try world.flush()
        let run = try world.trace(["sale-1", "-o", "json"])
        let object = try run.object()
        #expect(object["waitsFor"] as? String == "rate")
        let lines = try #require(object["now"] as? [String])
        let waits = "waits for an exchange rate of UYU to USD within 48 hours of 20"
        #expect(lines[0].hasPrefix(waits))
        #expect(lines[0].hasSuffix("since 2025-10-09T08:53:20.000Z"))
        let last = try #require(lines.last)
        let command = try #require(last.split(separator: "tollway dlq discard ").last)
        let options = command.split(separator: " --why")[0].split(separator: " ").map(String.init)
        #expect(options.count == 6 && options[0] == "--stage", "\(last)")
        let count = try world.run(["dlq", "count"] + options)
        #expect(count.output == "1\n", "\(last): \(count.talk)")
        #expect((object["deadLetters"] as? [[String: Any]])?.count == 1)
    }

    private static let discard = "tollway dlq discard --stage purchases --partition 1 --offset 2"
    private static let replay = "tollway dlq replay --stage purchases --partition 1 --offset 2"

    /// What the runbook says of its code; milliseconds after it at which a change came in that is
    /// settled.
    @Test(
        arguments: [
            ("unknown_app", "", 0, nil, "mend the cause, then: \(replay)"),
            ("record_refused", "", 0, nil, "mend the cause, then: \(replay)"),
            ("output_too_large", "", 2, nil, "mend the cause, then: \(replay) --replays-max 3"),
            ("rejected", "(report.identifier_conflict)", 0, nil, "mend the cause, then: \(replay)"),
            (
                "rejected", "code 5", 0, nil,
                "correct the sale and send it again, then \(discard) --why TEXT"
            ),
            (
                "conflict", "", 0, nil,
                "correct the sale and send it again, then \(discard) --why TEXT"
            ),
            (
                "unknown_app", "", 0, 1,
                "a newer retract is settled, which it may undo, so no replay sends it;"
                    + " only if the newer one is to stand: \(discard) --why TEXT"
            ),
            ("unknown_app", "", 0, 0, "mend the cause, then: \(replay)"),
        ] as [(String, String, Int, Int64?, String)]
    )
    func `says how a dead letter of a sale is settled`(
        reason: String,
        message: String,
        replays: Int,
        settledAfter: Int64?,
        words: String
    ) throws {
        let now = Timestamp(milliseconds: 1_792_065_600_000)
        var change = Self.sale("sale-1", at: now)
        change.kind = .restate
        let deadLetter = try Self.deadLetter(
            of: change,
            [
                "tollway.dlq.code": "purchases.\(reason)", "__dlq.errors.message": message,
                "tollway.dlq.replay_count": String(replays),
            ],
            now: now
        )
        let outcome = settledAfter.map {
            Self.reported(.retract, receivedAt: now + Milliseconds($0), settledAt: now + .days(1))
        }
        #expect(deadLetter.saleRemedy(after: outcome) == words)
    }

    private static func deadLetter(
        of change: PurchaseEvent,
        _ headers: [String: String],
        now: Timestamp
    ) throws -> TraceDeadLetter {
        var value: [UInt8] = []
        change.write(to: &value)
        let found = TopicReader.Found(
            topic: Topic.deadLetters(.purchases).name(prefix: "t."),
            partition: 1,
            offset: 2,
            timestamp: now.milliseconds + 9,
            key: Array(customer.text.utf8),
            value: value,
            headers: headers
        )
        return try #require(TraceDeadLetter(found, prefix: "t.", deadlineDays: 10))
    }

    /// Milliseconds after the change at which it failed first; the other one came in 5 after it.
    @Test(
        arguments: [
            (nil, nil, false), (nil, 4, true), (nil, 5, false), (0, 4, true), (9, 4, true),
        ] as [(stated: Int64?, failed: Int64?, isHeld: Bool)]
    )
    func `judges a change as its replay does`(
        stated: Int64?,
        failed: Int64?,
        isHeld: Bool
    ) throws {
        let now = Timestamp(milliseconds: 1_792_065_600_000)
        var change = Self.sale("sale-1", at: now)
        change.kind = .restate
        change.receivedAt = stated.map { now + Milliseconds($0) }
        var headers = ["tollway.dlq.code": "purchases.unknown_app"]
        headers["tollway.dlq.first_failed_at"] = failed.map {
            WallClock.rfc3339(milliseconds: now.milliseconds + $0)
        }
        let deadLetter = try Self.deadLetter(of: change, headers, now: now)
        // The newer one was settled first: the other one was replayed.
        var item = TracedItem(identity: .init("c", nil))
        for after in [5, -9] as [Int64] {
            item.settle(
                Self.reported(
                    .restate,
                    receivedAt: now + Milliseconds(after),
                    settledAt: now + .days(1)
                )
            )
        }
        #expect(item.outcome?.receivedAt == now + Milliseconds(-9))
        let words = deadLetter.saleRemedy(after: item.newestChange)
        #expect(words.hasPrefix("a newer restate is settled") == isHeld, "\(words)")
        let doubt = "this one may be the newer"
        #expect(!words.contains(doubt))
        var replayed = Self.reported(
            .restate,
            receivedAt: now + .days(9),
            settledAt: now + .days(9)
        )
        replayed.firstFailedAt = WallClock.rfc3339(milliseconds: now.milliseconds + 10)
        #expect(deadLetter.saleRemedy(after: replayed).contains(doubt))
    }

    /// A platform wrote it straight to the topic, and forgot the key.
    @Test(arguments: [[], ["--customer", customer.text], ["--all"]])
    func `tells of a sale without a key, and of its dead letter`(options: [String]) throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        for id in ["sale-1", "sale-10"] {
            var value: [UInt8] = []
            Self.sale(id, at: now).write(to: &value)
            try world.write(.purchasesReceived, key: nil, value, partition: 1)
            try world.write(.deadLetters(.purchases), key: nil, value, partition: 2)
        }
        try world.flush()
        let run = try world.trace(["sale-1", "-o", "json"] + options)
        #expect(run.exitCode == 0, "\(run.talk)")
        let object = try run.object()
        let told = (object["events"] as? [[String: Any]] ?? []).map { "\($0["event"] ?? "")" }
        #expect(
            told == [
                "received: buy of app 7, without a key, request r-sale-1", "dead letter: no code",
            ]
        )
        let letters = try #require(object["deadLetters"] as? [[String: Any]])
        #expect(letters.map { $0["position"] as? String } == ["purchases/2/0"])
        let lines = try #require(object["now"] as? [String])
        #expect(lines.count == 1 && lines[0].hasPrefix("an open dead letter, "), "\(lines)")
        let other = try world.trace(["sale-1", "--customer", "c1." + Self.customer.text])
        #expect(other.exitCode == 3, "of another customer")
        // It is sent again, with its key.
        try world.write(.purchasesReceived, key: Self.customer.text) {
            Self.sale("sale-1", at: now).write(to: &$0)
        }
        try world.flush()
        let again = try world.trace(["sale-1", "-o", "json", "--all"]).object()
        #expect((again["events"] as? [[String: Any]])?.count == 3)
        #expect((again["now"] as? [String])?.first?.hasPrefix("received, and purchases") == true)
    }

    /// Apple has had the sale for weeks; the platform writes it once more, without its key.
    @Test func `tells of a sale that Apple has, where the newest record of it has no key`() throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let outcome = PurchaseOutcome(
            lineItemID: "sale-1",
            revision: 1,
            type: .buy,
            outcome: .reported,
            externalPurchaseID: Self.token,
            requestIdentifier: "r",
            reason: "accepted",
            errors: [],
            item: nil,
            receivedAt: now + .days(-21),
            settledAt: now + .days(-21),
            lane: Lane(appAppleID: 7, environment: .production)
        )
        try world.write(.purchasesOutcomes, key: Self.customer.text, outcome.write)
        var value: [UInt8] = []
        Self.sale("sale-1", at: now).write(to: &value)
        try world.write(.purchasesReceived, key: nil, value, partition: 1)
        try world.write(.deadLetters(.purchases), key: nil, value, partition: 2)
        try world.flush()
        let run = try world.trace(["sale-1"])
        #expect(run.exitCode == 0, "\(run.talk)")
        #expect(run.output.contains("Apple has it"), "\(run.output)")
        #expect(run.output.contains("without a key"))
    }

    /// A shop numbers its orders anew in each environment.
    @Test func `keeps the sale of the sandbox apart from that of production`() throws {
        let world = try TraceWorld()
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        let key = Self.customer.text
        let partition = TopicReader.partition(ofKey: Array(key.utf8), partitionCount: 3)
        let environments = [AppleEnvironment.sandbox, .production]
        for (index, environment) in environments.enumerated() {
            var sale = Self.sale("sale-1", at: now + .seconds(Int64(index)))
            sale.environment = environment
            // Its app is known by the ledger alone.
            sale.appAppleID = environment == .sandbox ? nil : 7
            sale.bundleID = "com.example"
            try world.write(.purchasesReceived, key: key) { sale.write(to: &$0) }
            if environment == .sandbox {
                try world.write(.deadLetters(.purchases), key: key) { sale.write(to: &$0) }
            }
            let outcome = PurchaseOutcome(
                lineItemID: "sale-1",
                revision: 1,
                type: .buy,
                outcome: environment == .sandbox ? .rejected : .reported,
                externalPurchaseID: environment == .sandbox ? nil : Self.token,
                requestIdentifier: nil,
                reason: environment == .sandbox ? "purchases.token_out_of_range" : "accepted",
                errors: [],
                item: nil,
                receivedAt: now,
                settledAt: now,
                lane: Lane(appAppleID: 7, environment: environment)
            )
            try world.write(.purchasesOutcomes, key: key) { outcome.write(to: &$0) }
            let book = Self.bookKey(of: key, environment)
            let wait = environment == .sandbox ? "rate" : "idle"
            let state = #"{"standing":"live","wait":{"for":"\#(wait)"}}"#
            try world.write(.purchasesState, key: book, Array(state.utf8), partition: partition)
        }
        try world.flush()
        let object = try world.trace(["sale-1", "-o", "json"]).object()
        let sales = try #require(object["sales"] as? [[String: Any]])
        #expect(sales.map { $0["environment"] as? String } == ["production", "sandbox"])
        #expect(sales.map { $0["appAppleId"] as? Int } == [7, 7])
        #expect(sales.map { $0["outcome"] as? String } == ["reported", "rejected"])
        #expect(sales.map { $0["waitsFor"] as? String } == ["idle", "rate"])
        #expect(sales.map { ($0["deadLetters"] as? [Any])?.count } == [0, 1])
        let current = sales[0]["now"] as? [String]
        #expect(current == ["Apple has it under \(Self.token.text): revision 1"])
        #expect(object["outcome"] == nil)
        let lines = try #require(object["now"] as? [String])
        #expect(lines.count == 4)
        #expect(lines[0].hasPrefix("production, app 7: Apple has it"))
        #expect(lines[1...].allSatisfy { $0.hasPrefix("sandbox, app 7: ") })
        let text = try world.trace(["sale-1"]).output
        #expect(text.hasPrefix("sale-1: 2 sales\n"))
        #expect(text.contains("\nproduction, app 7\nnow: Apple has it"))
        #expect(text.contains("\nsandbox, app 7\nnow: waits for an exchange rate of UYU"))
    }

    /// What Apple has is not taken back by a change that was refused.
    @Test func `keeps how a sale stands where a later change was refused`() {
        func outcome(
            _ type: PurchaseEvent.Kind,
            _ outcome: PurchaseOutcome.Outcome,
            at time: Int64 = 1,
            by identifier: String? = nil,
            reason: String = "r"
        ) -> PurchaseOutcome {
            let now = Timestamp(milliseconds: time)
            return PurchaseOutcome(
                lineItemID: "sale-1",
                revision: 1,
                type: type,
                outcome: outcome,
                externalPurchaseID: nil,
                requestIdentifier: identifier,
                reason: reason,
                errors: [],
                item: nil,
                receivedAt: now,
                settledAt: now
            )
        }
        let rows: [([PurchaseOutcome], stands: PurchaseOutcome?, refused: PurchaseEvent.Kind?)] = [
            (
                [outcome(.buy, .reported), outcome(.restate, .rejected)],
                outcome(.buy, .reported), .restate
            ),
            // A second buy of other content.
            (
                [outcome(.buy, .reported), outcome(.buy, .rejected)],
                outcome(.buy, .reported), .buy
            ),
            (
                [
                    outcome(.buy, .reported), outcome(.restate, .rejected),
                    outcome(.restate, .reported),
                ],
                outcome(.restate, .reported), nil
            ),
            ([outcome(.buy, .notOwed), outcome(.buy, .rejected)], outcome(.buy, .rejected), nil),
            (
                [outcome(.buy, .notOwed), outcome(.buy, .rejected, at: 2)],
                outcome(.buy, .notOwed), .buy
            ),
            // The first one is held still.
            ([outcome(.buy, .rejected, reason: "purchases.conflict")], nil, .buy),
            // Apple has another one.
            (
                [outcome(.buy, .rejected, by: "i", reason: "purchases.conflict")],
                outcome(.buy, .rejected, by: "i", reason: "purchases.conflict"), nil
            ),
            ([outcome(.retract, .rejected)], nil, .retract),
        ]
        for (number, row) in rows.enumerated() {
            var item = TracedItem(identity: .init("c", nil))
            row.0.forEach { item.settle($0) }
            #expect(item.outcome == row.stands, "row \(number)")
            #expect(item.refusedChange?.type == row.refused, "row \(number)")
        }
    }

    /// A refused sale of an unknown app has no app in the ledger.
    @Test(
        arguments: [
            ([#"{"bundleId":"x"}"#], [nil], 1),
            ([#"{"bundleId":"x"}"#, #"{"bundleId":"y"}"#], [], 2),
            ([#"{"appAppleId":7,"bundleId":"x"}"#, #"{"bundleId":"x"}"#], [7], 1),
            ([#"{"appAppleId":7}"#, #"{"appAppleId":8}"#], [nil], 3),
            ([#"{"bundleId":"x"}"#], [7], 1),
            ([#"{"appAppleId":7}"#, #"{"environment":"sandbox","appAppleId":7}"#], [7], 2),
            (
                [#"{"appAppleId":7}"#, #"{"externalPurchaseId":"SANDBOX_t","bundleId":"x"}"#], [7],
                2
            ),
        ] as [([String], [Int64?], Int)]
    )
    func `sorts what is of one sale together`(sales: [String], apps: [Int64?], count: Int) {
        var items = TracedItems()
        for sale in sales {
            items.note(TracedSale(Array(sale.utf8).span), of: "c")
        }
        for app in apps {
            let lane = app.map { Lane(appAppleID: $0, environment: .production) }
            items.note(.init("c", lane)) { $0.standing = BookStanding(Array("{}".utf8).span) }
        }
        #expect(items.sorted.count == count)
        #expect(items.sorted.map(\.receivedCount).reduce(0, +) == sales.count)
    }

    @Test(arguments: [
        ("a/b", #"{"lineItemId":"a\/b"}"#, true), ("é-long-1", #"{"x":"\u00e9-long-1"}"#, true),
        ("é", #"{"x":"\u00e9"}"#, true), ("plain", #"{"x":"plan"}"#, false),
        ("b64+x=", #"{"x":"b64+x\u003d"}"#, true), ("b64+x=", #"{"x":"b64\u002Bx="}"#, true),
        ("a`b", #"{"x":"a\u0060b"}"#, true),
    ])
    func `finds an id however its writer escaped it`(id: String, json: String, isThere: Bool) {
        let isIn = LineItemNeedle(id).isIn(Array(json.utf8).span)
        #expect(isIn == isThere)
    }

    @Test(arguments: [
        ("token", "waits for a token of its customer until 2025-10-09T08:53:20.000Z"),
        ("queued", "waits for its turn to be reported under t-1"),
        ("turn", "waits for Apple's answer about another item of the same buy"),
        ("sent", "waits for Apple's answer under t-1"),
        ("now", "about to be decided"),
    ])
    func `has words for every wait`(wait: String, words: String) throws {
        let json =
            #"{"wait":{"for":"\#(wait)","until":1760000000000"#
            + (wait == "token" ? "" : #","externalPurchaseId":"t-1""#) + "}}"
        let read = BookStanding(Array(json.utf8).span)
        let standing = try #require(read)
        #expect(PurchaseSearch.words(standing, sale: nil) == words)
    }

    /// What an item waits for is told by the key of the record.
    @Test(
        arguments: [
            (
                "e", "refund-1", [0x80, 0, 0, 0, 0, 0, 0, 0], true,
                "goes to report again at 2025-10-09T08:53:20.000Z"
            ),
            (
                "i", "refund-1", [], false,
                "waits for its refunds and renewals to be retracted first"
            ),
            (
                "i", "sale-1", [], true,
                "waits for the sale sale-1 that it refers to until 2025-10-09T08:53:20.000Z"
            ),
            (
                "i", "refund-2", [], true,
                "waits for the sale refund-2 to be settled first until 2025-10-09T08:53:20.000Z"
            ),
            (
                "s", "sub-1", [], true,
                "waits for the start of its subscription sub-1 until 2025-10-09T08:53:20.000Z"
            ),
        ] as [(String, String, [UInt8], Bool, String)]
    )
    func `says what record a sale waits for`(
        kind: String,
        name: String,
        end: [UInt8],
        hasEnd: Bool,
        words: String
    ) throws {
        let key =
            Array(kind.utf8) + [0, 1] + Array("c".utf8) + [0, 0x80, 0, 0, 0, 0, 0, 0, 7]
            + Array(name.utf8) + end
        let json =
            #"{"wait":{"for":"reference","key":"\#(Base64URL.encode(key.span))""#
            + (hasEnd ? #","until":1760000000000}}"# : "}}")
        let read = BookStanding(Array(json.utf8).span)
        var sale = TracedSale(Array("{}".utf8).span)
        sale.lineItemID = "refund-1"
        sale.referenceLineItemID = "sale-1"
        #expect(PurchaseSearch.words(try #require(read), sale: sale) == words)
    }
}
