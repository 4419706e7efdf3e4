import Testing
import TokenDomain

@testable import purchases

@Suite struct `Starts of a subscription` {
    private static let zero = PurchasesBench.start

    /// Tokens for the first days of January and of February, and none between.
    private func addTokens(_ bench: PurchasesBench) {
        let anna = bench.customer(1)
        bench.token("a", days: 2, customer: anna)
        bench.token("b", from: Self.zero + .days(29), days: 30, customer: anna)
    }

    /// In which order the platform corrects a start with a wrong date, which was not owed.
    struct Correction: Sendable {
        var isRenewalFirst = false
        var isRetractedFirst = true
        var areTokensLate = false
    }

    @Test(arguments: [
        Correction(),
        Correction(isRetractedFirst: false),
        Correction(isRenewalFirst: true),
        Correction(isRenewalFirst: true, isRetractedFirst: false),
        Correction(isRenewalFirst: true, areTokensLate: true),
    ])
    func `has renewals refer to the one that was sent instead of a retracted one`(
        correction: Correction
    ) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(5)
        bench.sale(bench.period("wrong", .start, day: 5))
        try bench.pass(.hours(25))
        #expect(try bench.words() == ["wrong not_owed"])
        bench.clock.now = Self.zero + .days(31)
        let renewal = bench.period("renewal", .renewal, day: 30)
        if correction.isRenewalFirst {
            bench.sale(renewal)
            try bench.settle()
            #expect(try bench.words().last == "renewal not_owed")
        }
        if !correction.areTokensLate {
            addTokens(bench)
        }
        if correction.isRetractedFirst {
            bench.sale(bench.change("wrong", anna, .retract))
            try bench.settle()
        }
        bench.sale(bench.period("right", .start, day: 0))
        try bench.pass(.hours(25))
        if correction.areTokensLate {
            #expect(try bench.words().last == "right not_owed")
            addTokens(bench)
            try bench.pass(.minutes(1))
        }
        if !correction.isRetractedFirst {
            bench.sale(bench.change("wrong", anna, .retract))
            try bench.settle()
        }
        if !correction.isRenewalFirst {
            bench.sale(renewal)
        }
        try bench.pass(.hours(1))
        #expect(bench.apple.held("renewal")?.reference == "right")
        #expect(bench.apple.held("wrong") == nil)
        #expect(bench.deadLetters().isEmpty)
    }

    /// The customer came back by mistake, and no token was known yet: the life is withdrawn with
    /// all that was sent of it, and comes back with its start.
    @Test(arguments: [false, true], [false, true])
    func `takes along what was not owed when it is retracted`(
        isSettledFirst: Bool,
        isUndone: Bool
    ) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(121)
        bench.sale(bench.period("start-1", .start, day: 0))
        bench.sale(bench.period("renewal-1", .renewal, day: 30))
        bench.sale(bench.period("start-2", .start, day: 90))
        bench.sale(bench.period("renewal-2", .renewal, day: 120))
        bench.sale(bench.refund("refund", of: "renewal-2", anna, exclusive: 1_000))
        if isSettledFirst {
            try bench.pass(.hours(25))
        }
        bench.sale(bench.change("start-2", anna, .retract))
        try bench.pass(.hours(25))
        if isUndone {
            bench.sale(bench.change("start-2", anna, .restate) { $0.productIdentifier = "new" })
        } else {
            // Whoever sends this knows of the retraction; a copy of that comes behind it.
            bench.sale(bench.period("after", .renewal, day: 121))
            bench.sale(bench.change("start-2", anna, .retract))
            // A correction of the earlier life brings nothing to it.
            bench.sale(bench.change("start-1", anna, .restate) { $0.productIdentifier = "new" })
        }
        try bench.settle()
        bench.token("t", from: Self.zero + .days(-2), days: 900, customer: anna)
        try bench.pass(.hours(1))
        #expect(bench.deadLetters().isEmpty)
        #expect(bench.apple.held("renewal-1")?.reference == "start-1")
        let (after, withdrawn): (String?, String?) = isUndone ? (nil, "start-2") : ("start-1", nil)
        #expect(bench.apple.held("after")?.reference == after)
        #expect(bench.apple.held("renewal-2")?.reference == withdrawn)
        for id in ["start-2", "renewal-2", "refund"] {
            #expect((bench.apple.held(id) != nil) == isUndone, "\(id)")
        }
    }

    /// A client that got a 503 sends the retraction once more, behind a period that knows of it.
    @Test func `takes along nothing that was sent after its retraction, which comes twice`() throws
    {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(121)
        bench.sale(bench.period("start-1", .start, day: 0))
        bench.sale(bench.period("start-2", .start, day: 90))
        bench.sale(bench.change("start-2", anna, .retract))
        bench.sale(bench.period("after", .renewal, day: 120))
        bench.sale(bench.change("start-2", anna, .retract))
        try bench.pass(.hours(25))
        bench.token("t", from: Self.zero + .days(-2), days: 900, customer: anna)
        try bench.pass(.hours(1))
        #expect(bench.deadLetters().isEmpty)
        #expect(bench.apple.held("after")?.reference == "start-1")
        #expect(bench.apple.held("start-2") == nil)
    }

    /// A period that was sent before the mistake is of the life that goes on.
    @Test(arguments: [false, true])
    func `takes along nothing that was sent before it when it is retracted`(
        isSettledFirst: Bool
    ) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(40)
        bench.sale(bench.period("start", .start, day: 0))
        bench.sale(bench.period("renewal", .renewal, day: 30))
        if isSettledFirst {
            try bench.pass(.hours(25))
        }
        bench.sale(bench.period("mistake", .start, day: 20))
        try bench.pass(isSettledFirst ? .hours(25) : .minutes(1))
        bench.sale(bench.change("mistake", anna, .retract))
        try bench.pass(.hours(25))
        bench.token("t", from: Self.zero + .days(-2), days: 900, customer: anna)
        try bench.pass(.hours(1))
        #expect(bench.deadLetters().isEmpty)
        #expect(bench.apple.held("renewal")?.reference == "start")
        #expect(bench.apple.held("mistake") == nil)
    }

    @Test func `has what waits for a rate go to no earlier one when it is retracted`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", from: Self.zero + .days(-200), days: 900, customer: anna)
        bench.sale(bench.period("start-1", .start, day: -100))
        bench.sale(bench.period("start-2", .start, day: -10))
        var renewal = bench.period("renewal", .renewal, day: 0)
        renewal.pricingCurrency = AlphaCode("ISK")
        bench.sale(renewal)
        try bench.settle()
        bench.sale(bench.change("start-2", anna, .retract))
        try bench.settle()
        bench.rates.rates = try ExchangeRates(csv: Array("2026-01-10,ISK,EUR,0.0068\n".utf8))
        bench.rates.isChanged = true
        try bench.pass(.minutes(1))
        #expect(bench.refusals.isEmpty)
        #expect(bench.apple.held("start-1")?.isRetracted == false)
        #expect(bench.apple.held("start-2")?.isRetracted == true)
        #expect(bench.apple.held("renewal") == nil)
        #expect(bench.deadLetters().map(\.code) == ["purchases.reference_retracted"])
    }

    /// It was never told of, and is none of the subscription that came after it.
    @Test(arguments: [true, false])
    func `keeps what was not owed with a retracted start where no other was before it`(
        isRetractedFirst: Bool
    ) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(40)
        bench.sale(bench.period("first", .start, day: 0))
        try bench.pass(.hours(25))
        bench.sale(bench.period("renewal", .renewal, day: 30))
        try bench.settle()
        let events = [
            bench.change("first", anna, .retract), bench.period("second", .start, day: 40),
        ]
        bench.token("t", from: Self.zero + .days(39), customer: anna)
        for event in isRetractedFirst ? events : events.reversed() {
            bench.sale(event)
            try bench.pass(.hours(25))
        }
        #expect(bench.deadLetters().isEmpty)
        #expect(bench.apple.held("second") != nil)
        #expect(try bench.words().filter { $0.hasPrefix("renewal") } == ["renewal not_owed"])
    }

    /// Nothing of a subscription without token is owed, also when its start cannot be reopened any more.
    @Test func `keeps renewals with a start that was not owed and is past reopening`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("a", days: 2, customer: anna)
        bench.sale(bench.period("first", .start, day: 0))
        try bench.settle()
        bench.clock.now = Self.zero + .days(100)
        bench.sale(bench.period("second", .start, day: 100))
        try bench.pass(.hours(25))
        try bench.pass(.days(60))
        bench.token("late", from: bench.clock.now, days: 30, customer: anna)
        bench.sale(bench.period("renewal", .renewal, day: 161))
        try bench.settle()
        #expect(try bench.words() == ["first reported", "second not_owed", "renewal not_owed"])
    }

    @Test func `keeps a start that was not owed as long as its renewals come`() throws {
        let bench = PurchasesBench()
        bench.launch()
        for month in 0...15 as ClosedRange<Int64> {
            bench.clock.now = Self.zero + .days(month * 30)
            let event: SubscriptionEvent = month == 0 ? .start : .renewal
            bench.sale(bench.period("m\(month)", event, day: month * 30))
            try bench.pass(.hours(25))
        }
        // Nothing is forgotten for a day after a leap of time.
        for hour in 1...3 {
            bench.sale(bench.buy("buy \(hour)", bench.customer(1)))
            try bench.pass(.hours(20))
        }
        bench.sale(bench.period("last", .renewal, day: 453))
        try bench.pass(.days(40))
        #expect(try bench.words().contains("last not_owed"))
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `has renewals wait for a refused one, though an earlier one is sent again`() throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.clock.now = Self.zero + .days(140)
        bench.token("t", from: Self.zero + .days(-2), days: 900, customer: bench.customer(1))
        bench.script = { _, ids in
            ids.filter { $0.hasPrefix("life") }.first.map {
                [AppleError(code: 4, fieldName: "taxCountry", lineItemID: $0)]
            }
        }
        let lives = [("life 1", 0), ("life 2", 100)].map { name, day in
            bench.period(name, .start, day: Int64(day))
        }
        for life in lives {
            bench.sale(life)
            try bench.settle()
        }
        bench.sale(bench.period("renewal", .renewal, day: 130))
        try bench.settle()
        bench.script = { _, _ in nil }
        bench.sale(lives[0])
        try bench.settle()
        #expect(bench.apple.held("life 1") != nil && bench.apple.held("renewal") == nil)
        bench.sale(lives[1])
        try bench.settle()
        #expect(bench.apple.held("renewal")?.reference == "life 2")
    }

    /// What Apple refused as a start was a renewal, and is sent as one under its name.
    @Test func `has renewals refer to no start that is one no more`() throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.token("t", from: Self.zero + .days(-2), customer: bench.customer(1))
        bench.script = { _, ids in
            ids.contains("mistaken")
                ? [AppleError(code: 4, fieldName: "taxCountry", lineItemID: "mistaken")] : nil
        }
        bench.clock.now = Self.zero + .days(60)
        bench.sale(bench.period("first", .start, day: 0))
        bench.sale(bench.period("mistaken", .start, day: 30))
        try bench.settle()
        #expect(bench.deadLetters().count == 1)
        bench.script = { _, _ in nil }
        bench.sale(bench.period("mistaken", .renewal, day: 30))
        try bench.settle()
        bench.sale(bench.period("next", .renewal, day: 60))
        try bench.settle()
        #expect(bench.apple.held("mistaken")?.reference == "first")
        #expect(bench.apple.held("next")?.reference == "first")
        #expect(bench.deadLetters().count == 1)
    }

    /// Apple has another line item under the name of the start: the platform sends it under a new one.
    @Test(arguments: [0, -1, 1] as [Int64])
    func `has renewals refer to the one that was sent instead of a refused one`(day: Int64) throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.clock.now = Self.zero + .days(40)
        bench.token("t", from: Self.zero + .days(-2), customer: bench.customer(1))
        bench.script = { _, ids in
            ids.contains("taken")
                ? [AppleError(code: 1, fieldName: "lineItemId", lineItemID: "taken")] : nil
        }
        bench.sale(bench.period("taken", .start, day: 0))
        bench.sale(bench.period("before", .renewal, day: 30))
        try bench.settle()
        #expect(bench.deadLetters().map(\.code) == ["purchases.conflict"])
        bench.sale(bench.period("other", .start, day: day))
        bench.sale(bench.period("after", .renewal, day: 35))
        try bench.settle()
        #expect(bench.apple.held("before")?.reference == "other")
        #expect(bench.apple.held("after")?.reference == "other")
        #expect(bench.deadLetters().count == 1)
    }

    /// The customer was here before: a renewal of the new life is none of the old one.
    @Test func `has renewals wait for a refused one, whatever came before it`() throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.clock.now = Self.zero + .days(140)
        bench.token("t", from: Self.zero, customer: bench.customer(1))
        bench.sale(bench.period("first", .start, day: 0))
        try bench.settle()
        bench.script = { _, ids in
            ids.contains("second")
                ? [AppleError(code: 4, fieldName: "taxCountry", lineItemID: "second")] : nil
        }
        bench.sale(bench.period("second", .start, day: 100))
        bench.sale(bench.period("renewal", .renewal, day: 130))
        try bench.settle()
        #expect(try bench.words() == ["first reported", "second rejected"])
        bench.script = { _, _ in nil }
        bench.sale(bench.period("second", .start, day: 100))
        try bench.settle()
        #expect(bench.apple.held("renewal")?.reference == "second")
    }

    /// Starts whose first report Apple refuses, until the test takes that back.
    private func refuse(_ names: Set<String>, _ bench: PurchasesBench) {
        bench.script = { _, ids in
            let refused = ids.filter { names.contains($0) }
            return refused.isEmpty
                ? nil
                : refused.map { AppleError(code: 4, fieldName: "taxCountry", lineItemID: $0) }
        }
    }

    /// When the start of the next life comes.
    enum NextLife: CaseIterable {
        case afterRenewal, beforeRefusal
    }

    /// The customer was here before, and came back: the renewal is of the life between.
    @Test(arguments: NextLife.allCases)
    func `has renewals wait for a refused one, whatever came before it and after it`(
        next: NextLife
    ) throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.clock.now = Self.zero + .days(205)
        bench.token("t", from: Self.zero, customer: bench.customer(1))
        bench.sale(bench.period("first", .start, day: 0))
        try bench.settle()
        refuse(["second"], bench)
        bench.sale(bench.period("second", .start, day: 100))
        let third = bench.period("third", .start, day: 200)
        let renewal = bench.period("renewal", .renewal, day: 130)
        switch next {
        case .afterRenewal:
            try bench.settle()
            bench.sale(renewal)
            try bench.settle()
            bench.sale(third)
        case .beforeRefusal:
            try bench.settleAlone()
            bench.sale(third)
            try bench.settleAlone()
            bench.sale(renewal)
        }
        try bench.settle()
        #expect(bench.apple.held("third") != nil)
        #expect(bench.apple.held("renewal") == nil)
        bench.script = { _, _ in nil }
        bench.sale(bench.period("second", .start, day: 100))
        bench.sale(bench.period("last", .renewal, day: 201))
        try bench.settle()
        #expect(bench.apple.held("renewal")?.reference == "second")
        #expect(bench.apple.held("last")?.reference == "third")
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected"])
    }

    /// The start of a later life is younger than the renewal.
    @Test(arguments: [true, false])
    func `has renewals of the first life wait for its refused start`(isOwed: Bool) throws {
        let bench = PurchasesBench()
        bench.launch()
        refuse(["first"], bench)
        bench.clock.now = Self.zero + .days(7)
        let token = { bench.token("t", customer: bench.customer(1)) }
        if isOwed {
            token()
        }
        bench.sale(bench.period("first", .start, day: 0))
        bench.sale(bench.period("renewal", .renewal, day: 7))
        try bench.pass(.hours(25))
        if !isOwed {
            #expect(try bench.words() == ["first not_owed", "renewal not_owed"])
            token()
            try bench.settle()
        }
        bench.clock.now = Self.zero + .days(20)
        bench.sale(bench.period("second", .start, day: 20))
        try bench.settle()
        #expect(bench.apple.held("second") != nil)
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected"])
        bench.script = { _, _ in nil }
        bench.sale(bench.period("first", .start, day: 0))
        try bench.settle()
        #expect(bench.apple.held("renewal")?.reference == "first")
        #expect(bench.deadLetters().count == 1)
    }

    /// Apple refuses it again under the name that is taken.
    @Test func `has renewals refer to the one that took its place after its replay`() throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.clock.now = Self.zero + .days(40)
        bench.token("t", from: Self.zero + .days(-2), customer: bench.customer(1))
        refuse(["taken"], bench)
        for name in ["taken", "other", "taken"] {
            bench.sale(bench.period(name, .start, day: 0))
            try bench.settle()
        }
        bench.sale(bench.period("renewal", .renewal, day: 30))
        try bench.settle()
        #expect(bench.apple.held("renewal")?.reference == "other")
        #expect(bench.deadLetters().map(\.code) == ["purchases.rejected", "purchases.rejected"])
    }

    /// Nothing refers to it, so it is forgotten long before the other one.
    @Test(arguments: [true, false])
    func `has renewals refer to no retracted one, also after that is forgotten`(
        isOwed: Bool
    ) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(6)
        let token = { bench.token("t", from: Self.zero + .days(-1), days: 900, customer: anna) }
        if isOwed {
            token()
        }
        bench.sale(bench.period("wrong", .start, day: 5))
        try bench.pass(.hours(25))
        bench.sale(bench.change("wrong", anna, .retract))
        try bench.settle()
        if !isOwed {
            token()
        }
        bench.sale(bench.period("right", .start, day: 0))
        try bench.settle()
        for month in 1...15 as ClosedRange<Int64> {
            bench.clock.now = Self.zero + .days(30 * month + 1)
            bench.sale(bench.period("renewal \(month)", .renewal, day: 30 * month))
            try bench.settle()
        }
        // Nothing is forgotten for a day after a leap of time.
        for hour in 1...3 {
            bench.sale(bench.buy("buy \(hour)", anna))
            try bench.pass(.hours(20))
        }
        bench.sale(bench.period("renewal 16", .renewal, day: 453))
        try bench.settle()
        #expect(try bench.records().allSatisfy { !$0.contains(#""lineItemId":"wrong""#) })
        #expect(bench.apple.held("renewal 16")?.reference == "right")
    }

    /// Its start is kept for a refund of it; that of a subscription of a year comes back later than that.
    @Test(arguments: ["start", nil])
    func `is known as long as it is kept`(reference: String?) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", days: 900, customer: anna)
        var start = bench.period("start", .start, day: 0)
        start.subscriptionEndDate = Self.zero + .days(365)
        bench.sale(start)
        try bench.settle()
        for day in 1...412 as ClosedRange<Int64> {
            bench.clock.now = Self.zero + .days(day)
            bench.sale(
                day == 100
                    ? bench.refund("refund", of: "start", anna, exclusive: 1_000)
                    : bench.buy("buy", bench.customer(2)) { $0.quantity = 0 }
            )
            try bench.settle()
        }
        var renewal = bench.period("renewal", .renewal, day: 412)
        renewal.referenceLineItemID = reference
        bench.sale(renewal)
        try bench.settle()
        #expect(bench.apple.held("renewal")?.reference == "start")
        #expect(bench.apple.held("renewal")?.days == 365)
        // All of it is forgotten after 400 days, and a few of the looks at what is past use.
        for day in 413...850 as ClosedRange<Int64> {
            bench.clock.now = Self.zero + .days(day)
            bench.sale(bench.buy("buy", bench.customer(2)) { $0.quantity = 0 })
            try bench.settle()
        }
        #expect(try bench.records().allSatisfy { !$0.hasPrefix("s") && !$0.hasPrefix("i") })
    }

    /// Its only event came before its token: it is past use before the item that it is known for.
    @Test func `is forgotten soon after the last word about it`() throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.sale(bench.period("start", .start, day: 0))
        try bench.pass(.hours(13))
        bench.token("t", customer: bench.customer(1))
        try bench.settle()
        #expect(try bench.words() == ["start reported"])
        for day in 1...430 as ClosedRange<Int64> {
            bench.clock.now = Self.zero + .days(day)
            bench.sale(bench.buy("buy", bench.customer(2)) { $0.quantity = 0 })
            try bench.settle()
        }
        #expect(try bench.records().allSatisfy { !$0.hasPrefix("s") && !$0.hasPrefix("i") })
    }

    @Test func `counts no paid days of what was corrected before it was owed`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(31)
        bench.sale(bench.period("trial", .start, day: 0))
        try bench.pass(.hours(25))
        bench.sale(
            bench.change("trial", anna, .restate) {
                $0.amountTaxExclusive = Milliunits(0)
                $0.taxAmount = Milliunits(0)
            }
        )
        try bench.settle()
        bench.token("t", customer: anna)
        try bench.settle()
        bench.sale(bench.period("renewal", .renewal, day: 30))
        try bench.settle()
        #expect(["trial", "renewal"].map { bench.apple.held($0)?.days } == [0, 0])
    }

    @Test(arguments: [true, false])
    func `counts no paid days of what was retracted before it was owed`(
        isRetractedFirst: Bool
    ) throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(41)
        bench.sale(bench.period("wrong", .start, day: 9))
        try bench.pass(.hours(25))
        let events = [
            bench.change("wrong", anna, .retract), bench.period("right", .start, day: 0),
        ]
        for event in isRetractedFirst ? events : events.reversed() {
            bench.sale(event)
            try bench.settle()
        }
        bench.token("t", customer: anna)
        bench.sale(bench.period("renewal", .renewal, day: 39))
        try bench.settle()
        #expect(["right", "renewal"].map { bench.apple.held($0)?.days } == [0, 30])
    }

    /// Earlier versions wrote no time into what is not owed once that was over.
    @Test(arguments: [("", false), (#""reopensUntil":5,"#, false), (#""reopensUntil":0,"#, true)])
    func `tells a retracted one from one that is past reopening`(
        member: String,
        isRetracted: Bool
    ) throws {
        let text = #"{"standing":"notOwed",\#(member)"wait":{"for":"idle"},"touchedAt":9}"#
        let key = BookKey.item(
            "a",
            of: PurchaseKey("c"),
            Lane(appAppleID: 1, environment: .production)
        )
        let item = try BookedItem(reading: Array(text.utf8), key: key)
        #expect(item.isRetracted == isRetracted)
    }

    /// What is not owed counts, also when the days are counted from the items.
    @Test(arguments: [false, true])
    func `counts paid days of all that was not owed after a restatement`(isPeriodOther: Bool) throws
    {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(59)
        bench.sale(bench.period("first", .start, day: 0))
        bench.sale(bench.period("renewal", .renewal, day: 30))
        try bench.pass(.hours(25))
        #expect(try bench.words() == ["first not_owed", "renewal not_owed"])
        bench.sale(
            bench.change("renewal", anna, .restate) {
                if isPeriodOther {
                    $0.subscriptionEndDate = Self.zero + .days(50)
                } else {
                    $0.productIdentifier = "other"
                }
            }
        )
        try bench.settle()
        bench.clock.now = Self.zero + .days(62)
        bench.sale(bench.period("last", .renewal, day: 60))
        try bench.settle()
        #expect(try bench.words().last == "last not_owed")
        bench.token("t", customer: anna)
        try bench.pass(.minutes(1))
        #expect(
            ["first", "renewal", "last"].map { bench.apple.held($0)?.days }
                == [0, 30, isPeriodOther ? 50 : 60]
        )
    }

    /// It would wait for itself.
    @Test func `never has a renewal refer to its own name`() throws {
        let bench = PurchasesBench()
        bench.launch()
        bench.clock.now = Self.zero + .days(40)
        bench.token("t", from: Self.zero + .days(-2), customer: bench.customer(1))
        refuse(["name"], bench)
        bench.sale(bench.period("name", .start, day: 0))
        try bench.settle()
        bench.script = { _, _ in nil }
        bench.sale(bench.period("name", .renewal, day: 30))
        try bench.pass(.days(31))
        #expect(
            bench.deadLetters().map(\.code) == [
                "purchases.rejected", "purchases.reference_unknown",
            ]
        )
    }

    /// Those before it by name are retracted first, and then wait with a restatement for the start.
    @Test func `is retracted after all that refers to it, whatever waits for it`() throws {
        let bench = PurchasesBench()
        bench.limits.childCountMax = 2
        bench.launch()
        let anna = bench.customer(1)
        bench.clock.now = Self.zero + .days(91)
        bench.token("t", customer: anna)
        bench.sale(bench.period("start", .start, day: 0))
        for month in 1...3 as ClosedRange<Int64> {
            bench.sale(bench.period("r\(month)", .renewal, day: 30 * month))
        }
        try bench.settle()
        bench.sale(bench.change("start", anna, .retract))
        for name in ["r1", "r2"] {
            bench.sale(bench.change(name, anna, .restate) { $0.productIdentifier = "other" })
        }
        try bench.settle()
        #expect(bench.refusals.isEmpty)
        #expect(
            ["start", "r1", "r2", "r3"].allSatisfy { bench.apple.held($0)?.isRetracted == true }
        )
    }
}
