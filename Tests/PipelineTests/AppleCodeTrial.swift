import AppleSimulator
import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

/// One row in a pipeline of its own.
///
/// Anna has two tokens and sends two good sales with the one that Apple refuses; Ben has one of each.
/// Whatever Apple says, the good sales are reported once.
final class AppleCodeTrial {
    private static let app: Int64 = 1_234_567_890
    private static let subjectID = "subject"
    private static let baseID = "base"

    private let row: AppleCodeRow
    private let pipeline: SimulatedPipeline
    private let anna = CustomerID("c1." + String(repeating: "A", count: 43))
    private let ben = CustomerID("c1." + String(repeating: "B", count: 42) + "A")
    private let cleo = CustomerID("c1." + String(repeating: "C", count: 42) + "A")
    private let start: Timestamp
    private var saidCount = 0
    private var subjectValue: [UInt8] = []

    init(_ row: AppleCodeRow) throws {
        self.row = row
        pipeline = try SimulatedPipeline(seed: 1)
        pipeline.apple.answer = { _ in nil }
        try pipeline.calm()
        start = pipeline.now
    }

    // MARK: Play

    func play() throws {
        try pipeline.bring(
            token(1, "SERVICES"),
            of: anna,
            isForged: row.cause.isNotKnowingTheToken
        )
        try pipeline.bring(token(2, "ACQUISITION"), of: anna)
        try pipeline.bring(token(3, "SERVICES"), of: ben)
        try settle()
        try sell(buy(Self.baseID, anna), buy("month-0", anna) { self.subscribe(&$0, month: 0) })
        try settle()
        if case .havingIt(let isAsSent) = row.cause {
            try reportByHand(exclusive: isAsSent ? 10_000 : 9_000)
        }
        provoke()
        if case .refusingTheToken = row.cause {
            // Of one period: the second is a duplicate.
            try pipeline.bring(token(4, "SERVICES"), of: cleo)
            try pipeline.bring(token(5, "SERVICES"), of: cleo)
        }
        let subject = subject
        subjectValue = SimulatedShop.value(subject, receivedAt: pipeline.now)
        try sell(buy("good-1", anna), subject, buy("good-2", anna), buy("other", ben))
        try settle()
    }

    /// A quarter of an hour: longer than anything that passes.
    private func settle() throws {
        try pipeline.rest(until: pipeline.now + .minutes(15))
    }

    private func provoke() {
        let apple = pipeline.apple
        switch row.cause {
        case .saying(let times):
            apple.answer = { [unowned self] sent in
                guard isOfSubject(sent), saidCount < times ?? .max else { return nil }
                saidCount += 1
                return refusal(isNamed: row.isNamed)
            }
        case .sayingOfOneToken:
            let first = id(1)
            apple.answer = { [unowned self] sent in
                guard isOfSubject(sent), sent.token == first else { return nil }
                saidCount += 1
                return refusal(isNamed: true)
            }
        case .refusingTheToken(let status):
            let tokens = [id(4), id(5)]
            apple.answer = { [unowned self] sent in
                sent.status == status && tokens.contains(sent.token)
                    ? refusal(isNamed: false) : nil
            }
        case .losingTheAnswer, .losingTheRequest:
            let isActed = row.cause.isLosingTheAnswer
            apple.answer = { [unowned self] sent in
                isOfSubject(sent) && saidCount == 0 && !isActed ? AppleAnswer(status: 500) : nil
            }
            apple.losesAnswer = { [unowned self] sent in
                guard isOfSubject(sent) else { return false }
                saidCount += 1
                return saidCount == 1
            }
        case .notKnowingTheToken, .havingIt:
            break
        }
    }

    private func isOfSubject(_ sent: SimulatedApple.Sent) -> Bool {
        sent.lineItemIDs.contains(subjectName)
    }

    private func refusal(isNamed: Bool) -> AppleAnswer {
        .refusal(
            code: row.code,
            field: row.field,
            lineItemID: isNamed ? subjectName : nil
        )
    }

    /// Somebody reports the line item by hand, as `purchases` would.
    private func reportByHand(exclusive: Int64) throws {
        let example = try SimulatedPipeline(seed: 1)
        try example.calm()
        try example.bring(token(1, "SERVICES"), of: anna)
        let event = buy(Self.subjectID, anna) { $0.amountTaxExclusive = Milliunits(exclusive) }
        try example.sell(event)
        try example.rest(until: example.now + .minutes(5))
        let item = try #require(try example.outcomes().last?.item)
        let request = ReportRequested(
            externalPurchaseID: TokenID(id(1)),
            appAppleID: Self.app,
            bundleID: "com.example",
            status: .lineItem,
            requestIdentifier: nil,
            lineItems: "[\(item)]"
        )
        var value: [UInt8] = []
        request.write(to: &value)
        pipeline.append(.reportsRequested, key: id(1), value: value)
        try settle()
    }

    // MARK: Events

    private func id(_ number: Int) -> String { "00000000-0000-4000-8000-00000000c0d\(number)" }

    private func token(_ number: Int, _ type: String) -> IssuedToken {
        IssuedToken(
            externalPurchaseID: id(number),
            appAppleID: Self.app,
            bundleID: "com.example",
            tokenType: type,
            tokenCreationDate: (start + .days(-60)).milliseconds,
            tokenExpirationDate: (start + .days(300)).milliseconds
        )
    }

    private func sell(_ events: PurchaseEvent...) throws {
        for event in events {
            try pipeline.sell(event)
        }
    }

    /// Dated an hour ago: no clock makes that a date of the future.
    private func buy(
        _ id: String,
        _ customer: CustomerID,
        _ change: (inout PurchaseEvent) -> Void = { _ in }
    ) -> PurchaseEvent {
        var event = event(id, customer, .buy)
        event.creationDate = start + .hours(-1)
        event.productIdentifier = "coins"
        event.taxCountry = AlphaCode("DEU")
        event.pricingCurrency = AlphaCode("EUR")
        event.taxAmount = Milliunits(2_000)
        event.amountTaxExclusive = Milliunits(10_000)
        change(&event)
        return event
    }

    private func event(
        _ id: String,
        _ customer: CustomerID,
        _ kind: PurchaseEvent.Kind
    ) -> PurchaseEvent {
        var event = PurchaseEvent(lineItemID: id)
        event.kind = kind
        event.customer = customer
        event.appAppleID = Self.app
        return event
    }

    private func subscribe(_ event: inout PurchaseEvent, month: Int64, named name: String = "s") {
        let begin = start + .days(30 * month - 50)
        event.creationDate = begin
        event.subscriptionID = name
        event.subscriptionEvent = month == 0 ? .start : .renewal
        event.subscriptionStartDate = begin
        event.subscriptionEndDate = begin + .days(30)
    }

    /// What is restated or retracted has the name of a sale that Apple has.
    private var subjectName: String {
        switch row.subject {
        case .restatement, .retraction: Self.baseID
        case .buy, .buyOfNow, .start, .renewal, .refund: Self.subjectID
        }
    }

    private var subject: PurchaseEvent {
        switch row.subject {
        case .buy:
            return buy(Self.subjectID, anna)
        case .buyOfNow:
            return buy(Self.subjectID, anna) { $0.creationDate = pipeline.now }
        case .start:
            return buy(Self.subjectID, anna) { subscribe(&$0, month: 0, named: "another") }
        case .renewal:
            return buy(Self.subjectID, anna) { subscribe(&$0, month: 1) }
        case .refund:
            var event = event(Self.subjectID, anna, .refund)
            event.creationDate = start + .hours(-1)
            event.referenceLineItemID = Self.baseID
            event.taxAmount = Milliunits(200)
            event.amountTaxExclusive = Milliunits(1_000)
            return event
        case .restatement:
            var event = event(Self.baseID, anna, .restate)
            event.taxCountry = AlphaCode("FRA")
            return event
        case .retraction:
            return event(Self.baseID, anna, .retract)
        }
    }

    // MARK: Check

    func check() throws {
        for id in ["good-1", "good-2", "other"] {
            let outcomes = try outcomes(of: id)
            #expect(outcomes.map(\.outcome) == [.reported], "\(id)")
        }
        switch row.end {
        case .again:
            try checkReported(reason: row.cause.isReportedByGet ? "verified" : "accepted")
        case .settled:
            try checkReported(reason: "verified")
        case .nextToken:
            try checkReported(reason: "accepted")
            #expect(try outcomes(of: subjectName).last?.externalPurchaseID?.text == id(2))
        case .deadLetter(let code):
            try checkDeadLetter("purchases.\(code)")
        case .tokenDeadLetter:
            try checkTokenDeadLetter()
        }
        let isForged = row.cause.isNotKnowingTheToken
        let topic = Topic.tokensRefused.name(prefix: SimulatedPipeline.prefix)
        #expect(pipeline.cluster.committedRecords(of: topic).isEmpty != isForged)
        if !row.end.isTokenDeadLetter {
            // A token that Apple does not know has a report of its own, which is refused too.
            #expect(pipeline.deadLetters(of: .report).count == (isForged ? 1 : 0))
        }
        for worker in [Worker.decode, .dedupe, .notifications] {
            #expect(pipeline.deadLetters(of: worker).isEmpty)
        }
    }

    private func outcomes(of id: String) throws -> [PurchaseOutcome] {
        try pipeline.outcomes().filter { $0.lineItemID == id }
    }

    private func checkReported(reason: String) throws {
        #expect(pipeline.deadLetters(of: .purchases).map(\.code) == [])
        let last = try #require(try outcomes(of: subjectName).last)
        #expect(last.outcome == .reported)
        #expect(last.reason == reason)
        #expect(saidCount > 0 || row.cause.isOfTheSimulator)
        // A script that is told of a retraction says that Apple has it already.
        if row.subject != .retraction || row.code != 30 {
            let held = try #require(pipeline.apple.world.heldSale(subjectName))
            #expect(held.isRetracted == (row.subject == .retraction))
        }
    }

    private func checkDeadLetter(_ code: String) throws {
        let deadLetters = pipeline.deadLetters(of: .purchases)
        #expect(deadLetters.map(\.code) == [code])
        #expect(deadLetters.map(\.value) == [subjectValue], "the event byte for byte")
        let last = try #require(try outcomes(of: subjectName).last)
        #expect(last.outcome == .rejected && last.reason == code)
        // Each token was found to be none before a person is asked.
        if code != "purchases.token_out_of_range" {
            let errors = last.errors.map { [String($0.code), $0.fieldName, $0.lineItemID] }
            let isNamed = row.isNamed || row.cause.isOfTheSimulator
            #expect(errors == [[String(row.code), row.field, isNamed ? subjectName : nil]])
        }
        // What it changes is as it was, and what it is about not at Apple.
        if row.subject == .restatement || row.subject == .retraction {
            let held = try #require(pipeline.apple.world.heldSale(Self.baseID))
            #expect(held.country == "DEU" && !held.isRetracted)
        } else if !row.cause.isOfTheSimulator {
            #expect(pipeline.apple.world.heldSale(Self.subjectID) == nil)
        }
        guard !row.cause.isOfTheSimulator else {
            return
        }
        // Apple's mind is changed: the replay is the event again.
        pipeline.apple.answer = { _ in nil }
        pipeline.append(.purchasesReceived, key: anna.text, value: subjectValue)
        try settle()
        #expect(try outcomes(of: subjectName).last?.outcome == .reported)
        #expect(pipeline.deadLetters(of: .purchases).count == 1)
    }

    private func checkTokenDeadLetter() throws {
        try checkReportedAsUsual()
        let deadLetters = pipeline.deadLetters(of: .report)
        #expect(deadLetters.map(\.code) == ["report.rejected"])
        let rejected = try pipeline.ledger().filter { $0.outcome == .rejected }
        #expect(rejected.map { $0.errors.map(\.code) } == [[Int64(row.code)]])
    }

    private func checkReportedAsUsual() throws {
        #expect(pipeline.deadLetters(of: .purchases).isEmpty)
        #expect(try outcomes(of: subjectName).last?.outcome == .reported)
    }
}
