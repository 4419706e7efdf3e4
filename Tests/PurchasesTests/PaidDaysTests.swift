import Testing
import TokenDomain

@testable import purchases

@Suite struct `Paid days of a customer's subscription` {
    private static let zero = PurchasesBench.start

    /// Customer 1 has a token for years.
    private func bench() -> PurchasesBench {
        let bench = PurchasesBench()
        bench.launch()
        let customer = bench.customer(1)
        bench.token("t", from: Self.zero + .days(-1), days: 1_500, customer: customer)
        return bench
    }

    private func days(_ names: [String], _ bench: PurchasesBench) -> [Int64?] {
        names.map { bench.apple.held($0)?.days }
    }

    /// In the end the first life is forgotten, and so are the first months of the second one.
    @Test func `begin at 0 with each start`() throws {
        let bench = bench()
        let starts: [(name: String, day: Int64, last: Int64)] = [("a", 0, 120), ("b", 400, 900)]
        for day in 0...900 as ClosedRange<Int64> {
            bench.clock.now = Self.zero + .days(day)
            if let life = starts.first(where: { $0.day <= day && day <= $0.last }),
                (day - life.day).isMultiple(of: 30)
            {
                let event: SubscriptionEvent = day == life.day ? .start : .renewal
                bench.sale(bench.period("\(life.name)\(day - life.day)", event, day: day))
            } else {
                bench.sale(bench.buy("buy", bench.customer(2)) { $0.quantity = 0 })
            }
            try bench.settle()
        }
        for (life, last) in [("a", 120), ("b", 480)] as [(String, Int64)] {
            let known = Array(stride(from: Int64(0), through: last, by: 30))
            #expect(days(known.map { "\(life)\($0)" }, bench) == known.map(Optional.some))
        }
        let book = try bench.records()
        let isKnown = ["a0", "a30", "b0", "b30", "b480"].map { name in
            book.contains { $0.contains("\(name) {") }
        }
        #expect(isKnown == [false, false, true, false, true])
    }

    /// Also where all days were counted as the months came.
    @Test func `begin at 0 for one who comes back soon`() throws {
        let bench = bench()
        bench.clock.now = Self.zero + .days(120)
        for (name, event, day) in [
            ("a0", .start, 0), ("a30", .renewal, 30), ("b0", .start, 80), ("b30", .renewal, 110),
            ("a60", .renewal, 60),
        ] as [(String, SubscriptionEvent, Int64)] {
            bench.sale(bench.period(name, event, day: day))
            try bench.settle()
        }
        #expect(days(["a30", "a60", "b0", "b30"], bench) == [30, 60, 0, 30])
    }

    @Test func `are forgotten with the life that they are of`() {
        var record = BookedSubscription(touchedAt: Self.zero)
        func forgotten() -> [Milliseconds] {
            ["a", "b"].map { record.forgotten(of: $0, beside: []) }
        }
        record.note(start: "a", at: Self.zero, offset: 0)
        // An earlier version kept one sum.
        record.forgotten = .days(5)
        record.note(start: "b", at: Self.zero + .days(100), offset: 0)
        #expect(forgotten() == [.days(5), .days(0)])
        record.forget(0, of: [Self.period(0, 30)], of: "a")
        #expect(forgotten() == [.days(35), .days(0)])
        record.forget(0, of: [Self.period(100, 107)], of: "b")
        #expect(forgotten() == [.days(0), .days(7)])
        record.forget(0, of: [Self.period(30, 60)], of: "a")
        #expect(forgotten() == [.days(0), .days(7)])
    }

    private static func period(
        _ start: Int64,
        _ end: Int64,
        given: Int64? = nil
    ) -> PaidService.Period {
        PaidService.Period(
            start: zero + .days(start),
            end: zero + .days(end),
            isPaid: true,
            daysBefore: given
        )
    }

    /// A start, months that are forgotten one by one, and one that gives what was before it, first
    /// or when some are forgotten.
    @Test(arguments: 0...8)
    func `are not added to those that an event gives`(forgottenBefore: Int) {
        var record = BookedSubscription(touchedAt: Self.zero)
        record.note(start: "a", at: Self.zero, offset: 0)
        var known = (0..<10).map { Self.period(30 * Int64($0), 30 * Int64($0) + 30) }
        func days() -> Int64 {
            PaidService(known, forgotten: record.forgotten(of: "a", beside: known))
                .days(before: Self.zero + .days(300))
        }
        for count in 0..<9 {
            if count == forgottenBefore {
                // The seventh month, or the next one that is known.
                let index = known.firstIndex { Self.zero + .days(180) <= $0.start } ?? 0
                let age = known[index].start - Self.zero
                known[index].daysBefore = age.count / 86_400_000 + 1_000
            }
            #expect(days() == (count < forgottenBefore ? 300 : 1_300), "\(count) forgotten")
            record.forget(1, of: known, of: "a")
            known.remove(at: 1)
        }
        #expect(days() == 1_300)
    }

    /// By name the renewal comes behind the change of plan.
    @Test(arguments: [false, true])
    func `count the later sale of two whose periods begin at one time`(isCorrected: Bool) throws {
        let bench = bench()
        bench.clock.now = Self.zero + .days(31)
        bench.sale(bench.period("start", .start, day: 0))
        bench.sale(bench.period("r2", .renewal, day: 30))
        var change = bench.period("c2", .change, day: 30)
        change.creationDate = Self.zero + .days(30) + .hours(1)
        change.subscriptionEndDate = Self.zero + .days(395)
        bench.sale(change)
        try bench.settle()
        if isCorrected {
            bench.sale(bench.change("start", bench.customer(1), .restate) { $0.quantity = 2 })
            try bench.settle()
        }
        bench.clock.now = Self.zero + .days(396)
        bench.sale(bench.period("next", .renewal, day: 395))
        try bench.settle()
        #expect(days(["next"], bench) == [395])
    }

    /// By name the payment comes before its start.
    @Test(arguments: [false, true])
    func `count the payment that begins with its start`(isPaymentFirst: Bool) throws {
        let bench = bench()
        bench.clock.now = Self.zero + .days(31)
        var start = bench.period("sub7-start", .start, day: 0)
        start.amountTaxExclusive = .zero
        start.taxAmount = .zero
        let payment = bench.period("sub7-pay", .payment, day: 0)
        for event in isPaymentFirst ? [payment, start] : [start, payment] {
            bench.sale(event)
            try bench.settle()
        }
        bench.sale(bench.period("next", .renewal, day: 30))
        try bench.settle()
        #expect(days(["sub7-start", "sub7-pay", "next"], bench) == [0, 0, 30])
    }

    /// What an event gives is known as it comes, is kept by a correction, or comes with one.
    enum Gift: CaseIterable {
        case sale, correctedSale, correction
    }

    @Test(arguments: Gift.allCases)
    func `begin from those that an event gives`(gift: Gift) throws {
        let bench = bench()
        bench.clock.now = Self.zero + .days(201)
        bench.sale(bench.period("start", .start, day: 0))
        var moved = bench.period("moved", .renewal, day: 200)
        moved.subscriptionDaysOfPaidService = gift == .correction ? nil : 200
        bench.sale(moved)
        try bench.settle()
        if gift != .sale {
            bench.sale(
                bench.change("moved", bench.customer(1), .restate) { change in
                    change.quantity = 2
                    change.subscriptionDaysOfPaidService = gift == .correction ? 200 : nil
                }
            )
            try bench.settle()
        }
        bench.clock.now = Self.zero + .days(231)
        bench.sale(bench.period("next", .renewal, day: 230))
        try bench.settle()
        #expect(days(["moved", "next"], bench) == [200, 230])
    }
}
