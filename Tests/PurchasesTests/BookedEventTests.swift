import Simulation
import StageRuntime
import StateStore
import Testing
import TokenDomain
import TokenWire

@testable import purchases

/// An event is kept with its item, or in a record of its own where it is long or was put there by an
/// earlier version.
@Suite struct `The event of a sale` {
    private func bench() -> PurchasesBench {
        let bench = PurchasesBench()
        bench.launch()
        return bench
    }

    /// A sale that is some bytes long.
    private func value(_ event: PurchaseEvent, byteCount: Int) -> [UInt8] {
        var value: [UInt8] = []
        event.write(to: &value)
        let padding = byteCount - value.count - ",\"note\":\"\"".utf8.count
        precondition(padding >= 0, "a sale is shorter")
        value.removeLast()
        value += Array(",\"note\":\"\(String(repeating: "x", count: padding))\"}".utf8)
        return value
    }

    private func eventRecords(_ bench: PurchasesBench) throws -> Int {
        try bench.records().filter { $0.hasPrefix("e") }.count
    }

    @Test(arguments: [
        (Book.eventByteCountMax, false), (Book.eventByteCountMax + 1, true), (100_000, true),
    ])
    func `has a record of its own where it is long`(byteCount: Int, isOwn: Bool) throws {
        let bench = bench()
        let anna = bench.customer(1)
        var event = bench.buy("a", anna)
        event.receivedAt = bench.clock.now
        bench.append(.purchasesReceived, key: anna.text, value: value(event, byteCount: byteCount))
        try bench.settle()
        #expect(try eventRecords(bench) == (isOwn ? 1 : 0))
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(try bench.words() == ["a reported"])
        #expect(try eventRecords(bench) == 0)
    }

    @Test(arguments: [1_000, 10_000])
    func `is a dead letter byte for byte`(byteCount: Int) throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.token("t", customer: anna)
        bench.script = { _, ids in
            ids.map { AppleError(code: 19, fieldName: "quantity", lineItemID: $0) }
        }
        var event = bench.buy("a", anna)
        event.receivedAt = bench.clock.now
        let value = value(event, byteCount: byteCount)
        bench.append(.purchasesReceived, key: anna.text, value: value)
        try bench.settle()
        #expect(try bench.words() == ["a rejected"])
        #expect(bench.deadLetters().map(\.value) == [value])
        #expect(try bench.records().allSatisfy { !$0.hasPrefix("e") && !$0.hasPrefix("i") })
    }

    /// Deeper than the record of an item may be around it, with blanks at its ends, and with brackets in a
    /// text.
    @Test(arguments: [
        ",\"note\":" + String(repeating: "[", count: 15) + String(repeating: "]", count: 15) + "}",
        ",\"note\":{}} ", "\n}\r\n", ",\"note\":\"[{\\u0000\\\"\"}", "}",
    ])
    func `stands in the book byte for byte`(end: String) throws {
        let bench = bench()
        let anna = bench.customer(1)
        var event = bench.buy("a", anna)
        event.receivedAt = bench.clock.now
        var value: [UInt8] = []
        event.write(to: &value)
        value.removeLast()
        value += Array(end.utf8)
        bench.append(.purchasesReceived, key: anna.text, value: value)
        try bench.settle()
        // Read again from the changelog.
        bench.crash()
        bench.launch()
        bench.token("t", customer: anna)
        bench.script = { _, ids in
            ids.map { AppleError(code: 19, fieldName: "quantity", lineItemID: $0) }
        }
        try bench.settle()
        #expect(bench.deadLetters().map(\.value) == [value])
    }

    @Test func `goes away where a restatement that stood for it gives way to a newer one`() throws {
        let bench = bench()
        let anna = bench.customer(1)
        bench.sale(bench.buy("a", anna))
        try bench.pass(.hours(25))
        bench.sale(bench.change("a", anna, .retract))
        try bench.settle()
        for (byteCount, ownCount) in [(10_000, 1), (1_000, 0), (5_000, 1)] {
            var event = bench.change("a", anna, .restate) {
                $0.amountTaxExclusive = Milliunits(Int64(byteCount))
                $0.taxAmount = Milliunits(Int64(byteCount / 5))
            }
            event.receivedAt = bench.clock.now
            bench.append(
                .purchasesReceived,
                key: anna.text,
                value: value(event, byteCount: byteCount)
            )
            try bench.settle()
            #expect(try eventRecords(bench) == ownCount)
        }
        bench.token("t", customer: anna)
        try bench.pass(.minutes(1))
        #expect(bench.apple.held("a")?.exclusive == 5_000)
        #expect(try eventRecords(bench) == 0)
    }

    /// While a token may reopen it, and after that.
    @Test(arguments: [Milliseconds.days(2), .days(31)])
    func `stays where another sale of its name is sent after it was not owed`(
        _ span: Milliseconds
    ) throws {
        let bench = bench()
        let anna = bench.customer(1)
        func send(_ exclusive: Int64) -> [UInt8] {
            var event = bench.buy("a", anna, exclusive: exclusive)
            event.creationDate = PurchasesBench.start
            event.receivedAt = PurchasesBench.start
            let value = value(event, byteCount: 10_000)
            bench.append(.purchasesReceived, key: anna.text, value: value)
            return value
        }
        _ = send(10_000)
        try bench.pass(.hours(25))
        #expect(try eventRecords(bench) == 1)
        try bench.pass(span)
        let other = send(1_000)
        _ = send(10_000)
        try bench.settle()
        #expect(try bench.words() == ["a not_owed", "a rejected"])
        #expect(bench.deadLetters().map(\.value) == [other])
        bench.token("t", from: PurchasesBench.start + .days(-2), customer: anna)
        try bench.settle()
        #expect(bench.apple.held("a")?.net == (span < .days(30) ? 10_000 : nil))
        #expect(try eventRecords(bench) == 0)
    }

    /// The changelog of an earlier version, which had a record for each event: the worker goes on
    /// from it.
    @Test func `is found where an earlier version put it`() throws {
        let bench = bench()
        let (anna, bert) = (bench.customer(1), bench.customer(2))
        bench.token("u", customer: bert)
        bench.sale(bench.buy("waits", anna))
        bench.sale(bench.buy("sent", bert))
        try bench.settleAlone()
        bench.crash()
        bench.loseDisk()
        try putEventsApart(bench)
        bench.launch()
        try bench.settleAlone()
        #expect(try eventRecords(bench) == 2)
        bench.token("t", customer: anna)
        try bench.settle()
        #expect(Set(try bench.words()) == ["waits reported", "sent reported"])
        #expect(try eventRecords(bench) == 0)
        #expect(bench.deadLetters().isEmpty)
    }

    private func putEventsApart(_ bench: PurchasesBench) throws {
        try bench.rewriteItems { key, item in
            guard let event = item.event else {
                return nil
            }
            item.event = nil
            var value: [UInt8] = []
            event.write(to: &value)
            return [(key.event(0), value)]
        }
    }
}
