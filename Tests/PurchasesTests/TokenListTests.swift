import Simulation
import Testing
import TokenDomain

@testable import purchases

/// Where the worker finds the tokens of a customer, and what is under way under them.
@Suite struct `The tokens of a customer` {
    private func bench() -> PurchasesBench {
        let bench = PurchasesBench(partitionCount: 1)
        bench.launch()
        return bench
    }

    private func restart(_ bench: PurchasesBench) throws {
        bench.crash()
        bench.loseDisk()
        bench.launch()
        try bench.settle()
    }

    private func places(_ bench: PurchasesBench) throws -> [String: String] {
        try bench.outcomes().reduce(into: [:]) { $0[$1.lineItemID] = $1.externalPurchaseID?.text }
    }

    private func hasList(_ bench: PurchasesBench) throws -> Bool {
        try bench.records().contains { $0.hasPrefix("c") }
    }

    private func forge(_ count: Int, _ bench: PurchasesBench, _ anna: CustomerID, isOver: Bool) {
        for number in 0..<count {
            bench.token(
                "0000-\(number)-" + String(repeating: "x", count: 30),
                from: isOver
                    ? PurchasesBench.start + .days(-400) + .minutes(Int64(number))
                    : PurchasesBench.start + .days(-1),
                days: isOver ? 10 : 365,
                customer: anna,
                isForged: true
            )
        }
    }

    /// More than are kept in mind, before the customer's own by their names.
    @Test(arguments: [(true, true), (true, false), (false, false)])
    func `hide no real one, however many are forged`(isOver: Bool, isAsked: Bool) throws {
        let bench = bench()
        let anna = bench.customer(1)
        // Long over, of many periods; or of the real one's, which came first.
        bench.token("real", customer: anna)
        bench.clock.now = bench.clock.now + .seconds(1)
        forge(Book.tokenCountMax + 100, bench, anna, isOver: isOver)
        try bench.settle()
        try restart(bench)
        bench.sale(bench.buy("a", anna) { $0.externalPurchaseID = isAsked ? TokenID("real") : nil })
        try bench.pass(.hours(25))
        #expect(try places(bench) == ["a": "real"])
    }

    /// Of the period that is the customer's own, a forged one came before it, and thousands behind it.
    @Test func `hide no real one behind a forged one of its period`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("forged", customer: anna, isForged: true)
        bench.token("real", customer: anna)
        bench.clock.now = bench.clock.now + .seconds(1)
        forge(Book.tokenCountMax, bench, anna, isOver: false)
        try bench.settle()
        try restart(bench)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(try places(bench) == ["a": "real"])
        #expect(try !hasList(bench))
        bench.sale(bench.buy("b", anna) { $0.externalPurchaseID = TokenID("real") })
        try bench.settle()
        #expect(try places(bench) == ["a": "real", "b": "real"])
    }

    /// No token is signed: a copy can have any dates, and be first.
    ///
    /// Apple knows its id, and so never refuses the token.
    @Test func `hide no real one behind a copy of it with other dates`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", from: .init(milliseconds: 1), days: 1, customer: anna, isForged: true)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(bench.reports.isEmpty)
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(try places(bench) == ["a": "t"])
        try restart(bench)
        bench.sale(bench.buy("b", anna) { $0.externalPurchaseID = TokenID("t") })
        try bench.settle()
        #expect(try places(bench) == ["a": "t", "b": "t"])
        #expect(bench.reports == [["a"], ["b"]])
        #expect(bench.count(.reported) == 2)
    }

    /// The copy has the period of a real token that comes after it, or one that no other token has.
    @Test(arguments: [true, false])
    func `carry once what Apple refuses under a copy of another one`(isOfPeriod: Bool) throws {
        let bench = bench()
        let anna = bench.customer(1)
        let from = PurchasesBench.start + .days(-200)
        bench.token("t", customer: anna)
        bench.token(
            "t",
            from: isOfPeriod ? from : from + .days(-100),
            days: isOfPeriod ? 150 : 500,
            customer: anna,
            isForged: true
        )
        bench.token(
            "u",
            isOfPeriod ? .services : .acquisition,
            from: from,
            days: 150,
            customer: anna
        )
        bench.sale(
            bench.buy("a", anna) { $0.creationDate = PurchasesBench.start + .days(-100) }
        )
        try bench.settle()
        // A first claim goes before another copy's, of one type.
        #expect(bench.reports == (isOfPeriod ? [["a"]] : [["a"], ["a"]]))
        #expect(try places(bench) == ["a": "u"])
        #expect(bench.count(.reported) == 1)
        #expect(bench.deadLetters().isEmpty)
    }

    @Test func `are those that came before a sale and after it, also after a restart`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("old", .acquisition, customer: anna)
        try bench.settle()
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(try hasList(bench))
        bench.token("new", .services, customer: anna)
        try bench.settle()
        try restart(bench)
        bench.sale(bench.buy("b", anna))
        try bench.settle()
        #expect(try places(bench) == ["a": "old", "b": "new"])
    }

    /// As after partitions were added.
    ///
    /// The record of the first one is of this version or of an earlier one.
    @Test(
        arguments: [
            (#","decodedAt":1767000000000"#, true), (#","decodedAt":1767000000000"#, false),
            ("", true), ("", false),
        ]
    )
    func `are in the order in which they came where offsets began anew`(
        time: String,
        isFirstKnown: Bool
    ) throws {
        let bench = PurchasesBench(partitionCount: 1)
        let anna = bench.customer(1)
        let creation = PurchasesBench.start + .days(-1)
        let expiration = creation + .days(365)
        if isFirstKnown {
            bench.apple.issue(
                "first",
                type: KnownTokenType.services.rawValue,
                from: creation.milliseconds,
                until: expiration.milliseconds
            )
        }
        let first =
            #"{"appAppleId":1,"bundleId":"com.example.1","tokenType":"SERVICES","#
            + #""tokenCreationDate":\#(creation.milliseconds),"#
            + #""tokenExpirationDate":\#(expiration.milliseconds),"#
            + #""offset":900000\#(time),"hasCustomer":true,"#
            + #""touchedAt":\#(PurchasesBench.start.milliseconds)}"#
        let key = BookKey.token(TokenID("first"), of: PurchaseKey(anna.text))
        bench.cluster.append(
            topic: Topic.purchasesState.name(prefix: PurchasesBench.prefix),
            partition: 0,
            key: key.bytes,
            value: Array(first.utf8),
            timestampMilliseconds: bench.clock.now.milliseconds
        )
        bench.launch()
        bench.token("second", customer: anna)
        bench.clock.now = bench.clock.now + .seconds(10)
        bench.token("third", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(try places(bench) == ["a": isFirstKnown ? "first" : "second"])
    }

    @Test func `are found without a list where that would be too long`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        let long = String(repeating: "x", count: 3_000)
        let end = BookedCustomer.byteCountMax / 3_000
        for number in 0..<end {
            bench.token("\(number)\(long)", .acquisition, customer: anna)
        }
        try bench.settle()
        bench.sale(bench.buy("a", anna))
        try bench.settle()
        #expect(try hasList(bench))
        bench.token("last\(long)", .services, customer: anna)
        try bench.settle()
        #expect(try !hasList(bench))
        try restart(bench)
        bench.sale(bench.buy("b", anna))
        try bench.settle()
        #expect(try !hasList(bench))
        #expect(try places(bench)["b"] == "last\(long)")
    }

    @Test func `are none of one who has none, and cost no list`() throws {
        let bench = bench()
        bench.sale(bench.buy("a", bench.customer(1)))
        try bench.pass(.hours(25))
        #expect(try bench.words() == ["a not_owed"])
        #expect(try !hasList(bench))
    }

    @Test func `have under way what an earlier version asked for`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.sale(bench.buy("a", anna))
        try bench.settleAlone()
        bench.sale(bench.buy("b", anna))
        try bench.settleAlone()
        bench.crash()
        bench.loseDisk()
        // It wrote that down with the token.
        let creation = (PurchasesBench.start + .days(-1)).milliseconds
        let value = """
            {"appAppleId":1,"bundleId":"com.example.1","tokenType":"SERVICES",\
            "tokenCreationDate":\(creation),\
            "tokenExpirationDate":\(creation + Milliseconds.days(365).count),"offset":0,\
            "hasCustomer":true,"reportedApp":1,"inFlight":["a"],"wantsReport":true,\
            "touchedAt":\(PurchasesBench.start.milliseconds)}
            """
        let key = BookKey.token(TokenID("t"), of: PurchaseKey(anna.text))
        bench.append(
            .purchasesState,
            key: String(decoding: key.bytes, as: UTF8.self),
            value: Array(value.utf8)
        )
        bench.launch()
        try bench.settle()
        #expect(bench.reports == [["a"], ["b"]])
        #expect(bench.count(.reported) == 2)
    }
}
