import Foundation
import Simulation
import StageRuntime
import StateStore
import Testing
import TokenDomain

@testable import purchases

/// What the worker really keeps, held against the schema of its changelog by the jsonschema package
/// of Python.
@Suite struct `The schema of the book` {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// Every kind of record, and an item in every wait.
    private func book() throws -> [String] {
        let bench = PurchasesBench()
        bench.launch()
        let (anna, bert) = (bench.customer(1), bench.customer(2))
        bench.token("t", customer: anna)
        bench.token("t", from: .init(milliseconds: 1), days: 1, customer: anna, isForged: true)
        bench.token(
            "forged",
            from: PurchasesBench.start + .days(-2),
            customer: bert,
            isForged: true
        )
        bench.token("true", from: PurchasesBench.start + .days(-2), customer: bert)
        bench.sale(bench.buy("a", anna, exclusive: 90_000))
        bench.sale(bench.buy("b", bert))
        bench.sale(bench.buy("none", bench.customer(3)))
        bench.sale(bench.buy("iceland", anna) { $0.pricingCurrency = AlphaCode("ISK") })
        for name in ["s1", "s2"] {
            bench.sale(
                bench.buy(name, anna) {
                    $0.subscriptionEvent = .start
                    $0.subscriptionID = "s"
                    $0.subscriptionStartDate = bench.clock.now
                    $0.subscriptionEndDate = bench.clock.now + .days(30)
                }
            )
        }
        bench.sale(bench.change("nobody's", anna, .restate) { $0.quantity = 2 })
        try bench.settle()
        bench.sale(bench.change("a", anna, .restate) { $0.taxCountry = AlphaCode("FRA") })
        try bench.settleAlone()
        // While the token's report is under way.
        bench.sale(bench.buy("late", anna))
        for part in 1...3 {
            bench.sale(bench.refund("r\(part)", of: "a", anna, exclusive: 1_000))
        }
        bench.sale(bench.refund("r4", of: "unknown", anna, exclusive: 1_000))
        try bench.settle()
        try bench.pass(.hours(25))
        bench.sale(bench.change("a", anna, .retract))
        try bench.settle()
        let topic = Topic.purchasesState.name(prefix: PurchasesBench.prefix)
        return bench.cluster.committedRecords(of: topic).compactMap { record in
            record.value.map { String(decoding: $0, as: UTF8.self) }
        }
    }

    /// They came in no order; an earlier version kept no dates but that of the newest one.
    @Test func `keeps the dates of the starts of a subscription`() throws {
        var known = BookedSubscription(touchedAt: PurchasesBench.start)
        for day in [5, 9, 0, 7] as [Int64] {
            let date = PurchasesBench.start + .days(day)
            known.note(start: "day \(day)", at: date, offset: 10 * day)
        }
        #expect(known.starts.map(\.name) == ["day 9", "day 7", "day 5", "day 0"])
        #expect(known.starts.map(\.offset) == [90, 70, 50, 0])
        known.starts.append(BookedSubscription.Start(name: "old"))
        var value: [UInt8] = []
        known.write(to: &value)
        #expect(try BookedSubscription(reading: value) == known)
        let old = #"{"startLineItemId":"b","startDate":7,"otherStarts":["a"],"touchedAt":9}"#
        let starts = try BookedSubscription(reading: Array(old.utf8)).starts
        #expect(starts.map(\.name) == ["b", "a"])
        #expect(starts.map(\.date) == [Timestamp(milliseconds: 7), nil])
    }

    /// An earlier version kept one claim; the first token and four copies that differ are kept.
    @Test func `keeps what copies of a token say, and not one more than that`() throws {
        func copy(_ day: Int64, app: Int64 = 1) -> ExternalPurchaseToken {
            ExternalPurchaseToken(
                externalPurchaseID: TokenID("t"),
                appAppleID: app,
                bundleID: "com.example.\(app)",
                tokenType: TokenType(.services),
                tokenCreationDate: PurchasesBench.start + .days(day),
                tokenExpirationDate: day == 2 ? nil : PurchasesBench.start + .days(day + 1)
            )
        }
        var token = BookedToken(touchedAt: PurchasesBench.start)
        token.hasCustomer = true
        func take(_ copy: ExternalPurchaseToken) -> Bool {
            token.take(copy, offset: 7, decodedAt: PurchasesBench.start)
        }
        let days = Array(0...Int64(BookedToken.otherClaimCountMax))
        var isNew = [take(copy(0)), take(copy(0)), take(copy(1, app: 2))]
        #expect(isNew == [true, false, false])
        isNew = days.dropFirst().map { take(copy($0)) }
        #expect(isNew == [true, true, true, true])
        isNew = days.map { take(copy($0)) } + [take(copy(9))]
        #expect(!isNew.contains(true))
        #expect(token.otherClaims.count == BookedToken.otherClaimCountMax)
        let candidates = token.otherCandidates.map(\.token)
        #expect(candidates.map(\.token) == days.dropFirst().map { copy($0) })
        #expect(candidates.allSatisfy { $0.isLaterClaim && $0.period == nil })
        var value: [UInt8] = []
        token.write(to: &value)
        let key = BookKey.token(TokenID("t"), of: PurchaseKey("u"))
        #expect(try BookedToken(reading: value, key: key) == token)
        token.otherClaims = []
        value = []
        token.write(to: &value)
        #expect(try BookedToken(reading: value, key: key) == token)
    }

    @Test func `accepts every record of its changelog`() throws {
        var subscription = BookedSubscription(touchedAt: PurchasesBench.start)
        let start = PurchasesBench.start
        let month = PaidService.Period(start: start, end: start + .days(30), isPaid: true)
        subscription.forget(0, of: [month], of: "start")
        subscription.givesDays = true
        var value: [UInt8] = []
        subscription.write(to: &value)
        #expect(try BookedSubscription(reading: value) == subscription)
        let sale = PurchasesBench().buy("a", nil).normalized(appAppleID: 1)
        var refused = BookedItem(touchedAt: PurchasesBench.start)
        (refused.first, refused.restated) = (sale, sale)
        refused.saidIn = AlphaCode("EUR")
        refused.waitingSince = PurchasesBench.start
        var item: [UInt8] = []
        refused.write(to: &item)
        let lane = Lane(appAppleID: 1, environment: .production)
        let key = BookKey.item("a", of: PurchaseKey("u"), lane)
        #expect(try BookedItem(reading: item, key: key) == refused)
        let records = try book() + [value, item].map { String(decoding: $0, as: UTF8.self) }
        for wait in [
            "idle", "now", "token", "rate", "reference", "turn", "base", "queued", "sent",
            "reopening",
        ] {
            #expect(records.contains { $0.contains(#""wait":{"for":"\#(wait)""#) }, "\(wait)")
        }
        #expect(records.contains { $0.contains(#""refused":true"#) })
        #expect(records.contains { $0.contains(#""otherClaims":[{"#) })
        #expect(records.contains { $0.contains(#""startLineItemId""#) })
        #expect(records.contains { $0.contains(#""otherStarts":["s1"],"otherStartDates":["#) })
        let cases = records.enumerated().map { index, record in
            #"{"name":"record \#(index)","schema":"purchases.state.v1","isValid":true,"#
                + #""document":\#(record)}"#
        }
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "python3", Self.root.appending(path: "Tests/ProtocolTests/validate.py").path(),
            "--some", Self.root.appending(path: "Protocols").path(),
        ]
        let input = FileManager.default.temporaryDirectory
            .appending(path: "state-cases-\(UUID().uuidString)")
        try Data((cases.joined(separator: "\n") + "\n").utf8).write(to: input)
        defer { unsafe unlink(input.path()) }
        process.standardInput = try FileHandle(forReadingFrom: input)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(String(decoding: text, as: UTF8.self))")
    }
}
