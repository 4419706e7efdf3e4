import AppStoreAPI
import Kafka
import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import report

@Suite struct `The line of a token` {
    private static func items(_ numbers: Range<Int>) -> String {
        "[" + numbers.map { #"{"lineItemId":"i\#($0)"}"# }.joined(separator: ",") + "]"
    }

    /// The first `lineItemId` of each report accepted, in order.
    private func firstItems(_ bench: ReportBench) -> [String] {
        bench.appleStore.accepted.compactMap {
            JSONValue($0.body.bytes)?["lineItems"]?.elements?.first?["lineItemId"]?.text
        }
    }

    private func stateRecords(_ bench: ReportBench) -> [(key: [UInt8], value: [UInt8]?)] {
        bench.cluster.committedRecords(of: Topic.reportState.name(prefix: "tollway."))
            .map { ($0.key ?? [], $0.value) }
    }

    @Test func `holds whatever is asked for while Apple is away, and keeps its order`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.script = { _ in .status(503) }
        bench.distinct(bench.id(1))
        for number in 0..<300 {
            bench.request(bench.id(1), .lineItem, lineItems: Self.items(number..<number + 1))
        }
        try bench.pass(.hours(1))
        #expect(bench.tally.deadLetterCodes.isEmpty && bench.appleStore.accepted.isEmpty)
        let records = stateRecords(bench)
        let waiting = records.filter { WaitingReport.isKey($0.key) }
        // One record each, but for the one under way.
        #expect(waiting.count == 299 && Set(waiting.map(\.key)).count == 299)
        let account = try #require(records.last { $0.key == Array(bench.id(1).text.utf8) }?.value)
        #expect(account.count < 3_000, "an account stays small")
        bench.script = { _ in .answered }
        try bench.pass(.hours(2))
        #expect(firstItems(bench) == (0..<300).map { "i\($0)" })
        #expect(try bench.outcomes().count == 300)
        #expect(bench.tally.deadLetterCodes.isEmpty)
        // Each leaves its record.
        let last = Dictionary(stateRecords(bench).map { ($0.key, $0.value) }) { $1 }
        #expect(last.filter { WaitingReport.isKey($0.key) }.values.allSatisfy { $0 == nil })
    }

    @Test func `goes on after crashes and lost disks, each report once`() throws {
        let bench = ReportBench(seed: 5)
        bench.cluster.faults.abortOneIn = 6
        bench.cluster.faults.outcomeDelayMax = 2
        bench.latency = Milliseconds(300)
        bench.launch()
        for number in 0..<40 {
            bench.request(bench.id(1), .lineItem, lineItems: Self.items(number..<number + 1))
            if number % 8 == 7 {
                try bench.pass(.seconds(1))
                bench.crash()
                if number % 16 == 15 {
                    bench.loseDisk()
                }
                bench.launch()
            }
        }
        try bench.pass(.hours(1))
        #expect(firstItems(bench) == (0..<40).map { "i\($0)" })
        #expect(try bench.outcomes().count == 40)
        #expect(bench.tally.deadLetterCodes.isEmpty)
    }

    @Test func `takes up what an older version left within the account`() throws {
        let bench = ReportBench(partitionCount: 1)
        bench.launch()
        bench.script = { _ in .status(503) }
        bench.request(bench.id(1), .lineItem, lineItems: Self.items(0..<1))
        try bench.pass(.seconds(1))
        let key = Array(bench.id(1).text.utf8)
        let account = try #require(stateRecords(bench).last { $0.key == key }?.value)
        bench.crash()
        bench.loseDisk()
        // The same account with two more reports, as they were kept once.
        let queued = (2...3).map { number in
            var value: [UInt8] = []
            let intent = ReportIntent(
                number: number,
                identifier: ReportPolicy.identifier(bench.id(1), number),
                status: .lineItem,
                lineItems: Self.items(number - 1..<number),
                reason: .request,
                origin: RecordOrigin(topic: 2, partition: 0, offset: Int64(number) - 1),
                deadline: bench.clock.now
            )
            WaitingReport.write(intent, to: &value)
            return String(decoding: value, as: UTF8.self)
        }.joined(separator: ",")
        let text = String(decoding: account.dropLast(), as: UTF8.self)
            .replacing(#""intentCount":1"#, with: #""intentCount":3"#)
        bench.append(.reportState, key: key, value: Array("\(text),\"queued\":[\(queued)]}".utf8))
        bench.script = { _ in .answered }
        bench.launch()
        bench.request(bench.id(1), .lineItem, lineItems: Self.items(3..<4))
        try bench.pass(.hours(1))
        #expect(firstItems(bench) == ["i0", "i1", "i2", "i3"])
        #expect(bench.tally.deadLetterCodes.isEmpty)
    }

    @Test func `gets several reports for more line items than one takes`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.request(bench.id(1), .lineItem, lineItems: Self.items(0..<250))
        bench.request(
            bench.id(2),
            .lineItem,
            identifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            lineItems: Self.items(0..<101)
        )
        try bench.pass(.minutes(1))
        #expect(firstItems(bench) == ["i0", "i100", "i200"])
        #expect(
            try bench.outcomes().map(\.externalPurchaseID) == [
                bench.id(1), bench.id(1), bench.id(1),
            ]
        )
        #expect(bench.tally.deadLetterCodes == ["report.line_items"])
    }

    /// An account as an earlier version wrote it.
    private func account(_ id: TokenID) -> TokenAccount {
        var account = TokenAccount(externalPurchaseID: id, touchedAt: ReportBench.start)
        account.appAppleID = 1
        account.bundleID = "com.example.1"
        account.intentCount = 1
        return account
    }

    @Test func `goes by a record's own time where its topic was made anew`() throws {
        let bench = ReportBench()
        var account = account(bench.id(1))
        account.lastRequestOffset = 50_000
        bench.append(.reportState, bench.id(1)) { account.write(to: &$0) }
        bench.launch()
        bench.clock.now = ReportBench.start + .hours(1)
        bench.recordTime = ReportBench.start
        bench.request(bench.id(1), .noLineItem)
        try bench.settle()
        #expect(bench.appleStore.accepted.isEmpty)
        bench.recordTime = ReportBench.start + Milliseconds(1)
        bench.request(bench.id(1), .noLineItem)
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accepted.count == 1)
    }

    @Test func `sends line items that an earlier version kept with the blanks between them`() throws
    {
        let bench = ReportBench()
        var account = account(bench.id(1))
        let blanks = String(repeating: " ", count: ReportRequestBody.byteCountMax)
        account.current = ReportIntent(
            number: 1,
            identifier: ReportPolicy.identifier(bench.id(1), 1),
            status: .lineItem,
            lineItems: Self.items(0..<2).replacing(",", with: ",\(blanks)"),
            reason: .request,
            origin: RecordOrigin(topic: 2, partition: 0, offset: 0),
            deadline: ReportBench.start
        )
        bench.append(.reportState, bench.id(1)) { account.write(to: &$0) }
        bench.launch()
        try bench.pass(.minutes(1))
        #expect(firstItems(bench) == ["i0"])
        #expect(try bench.outcomes().map(\.outcome) == [.accepted])
    }

    @Test(arguments: [nil, "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f"])
    func `sends line items that fit once the blanks between them are gone`(
        identifier: String?
    ) throws {
        let bench = ReportBench()
        bench.launch()
        let blanks = String(repeating: " ", count: ReportRequestBody.byteCountMax)
        let lineItems = Self.items(0..<2).replacing(",", with: ",\(blanks)")
        bench.request(bench.id(1), .lineItem, identifier: identifier, lineItems: lineItems)
        try bench.pass(.minutes(1))
        #expect(firstItems(bench) == ["i0"])
        // The same again is the same report.
        if identifier != nil {
            bench.request(bench.id(1), .lineItem, identifier: identifier, lineItems: lineItems)
            try bench.pass(.minutes(1))
        }
        #expect(firstItems(bench) == ["i0"])
        #expect(try bench.outcomes().map(\.details.lineItems) == [Self.items(0..<2)])
        #expect(bench.tally.deadLetterCodes.isEmpty)
    }
}

@Suite struct `Line items that are too many` {
    private static let id = TokenID("1c2d")

    private static func item(_ number: Int, byteCount: Int = 0) -> String {
        #"{"lineItemId":"\#(number)", "x":"\#(String(repeating: "é", count: byteCount / 2))"}"#
    }

    private static func list(_ items: [String]) -> String {
        "[ " + items.joined(separator: " , ") + " ]"
    }

    @Test(arguments: [1, 100, 101, 250])
    func `are cut by their number, in order`(count: Int) throws {
        let items = (0..<count).map { Self.item($0) }
        let text = Self.list(items)
        let parts = try LineItemParts.parts(of: text, externalPurchaseID: Self.id)
        #expect(parts.count == (count + 99) / 100)
        guard count > 100 else {
            #expect(parts == [text], "as it came")
            return
        }
        let found = try parts.flatMap { try #require(JSONValue(Array($0.utf8))?.elements) }
        #expect(found == items.compactMap { JSONValue(Array($0.utf8)) })
    }

    @Test func `are cut by their bytes, and one that no report has room for is refused`() throws {
        let items = (0..<5).map { Self.item($0, byteCount: 100_000) }
        let parts = try LineItemParts.parts(of: Self.list(items), externalPurchaseID: Self.id)
        #expect(
            parts == [
                "[\(items[0]),\(items[1])]", "[\(items[2]),\(items[3])]", "[\(items[4])]",
            ]
        )
        let long = Self.list([Self.item(0), Self.item(1, byteCount: 256 << 10)])
        #expect(throws: ReportRequestFault.self) {
            try LineItemParts.parts(of: long, externalPurchaseID: Self.id)
        }
        for text in ["[]", "{}", "[1]", "[{}", Self.list(["1"] + (0..<101).map { Self.item($0) })] {
            #expect(throws: ReportRequestFault.self) {
                try LineItemParts.parts(of: text, externalPurchaseID: Self.id)
            }
        }
    }

    /// The body of each report stands at the limit, and not one byte past it.
    @Test func `fill a report to its limit`() throws {
        let body = try ReportRequestBody(
            requestIdentifier: ReportPolicy.nameSpace,
            externalPurchaseID: Self.id,
            lineItems: "[\(Self.item(0))]"
        )
        let rest = ReportRequestBody.byteCountMax - body.bytes.count
        let full = Self.item(0, byteCount: rest / 2 * 2)
        for (text, count) in [("[\(full)]", 1), ("[\(full),\(Self.item(1))]", 2)] {
            let parts = try LineItemParts.parts(of: text, externalPurchaseID: Self.id)
            #expect(parts.count == count)
        }
    }
}
