import Kafka
import Testing
import TokenDomain
import TokenWire

@testable import bench

@Suite struct `The sales of a bench` {
    private static let now: Int64 = 1_790_000_000_000

    private func sales(customerCount: Int = 50) -> BenchSales {
        BenchSales(tokens: BenchTokens(now: Self.now), customerCount: customerCount)
    }

    private func record(_ number: Int) -> (key: String, value: [UInt8]) {
        var outputs = OutputBatch()
        sales().append(number, to: &outputs)
        let output = outputs.outputs[0]
        return (
            String(decoding: outputs.arena[output.key.indices], as: UTF8.self),
            Array(outputs.arena[output.value.indices])
        )
    }

    @Test(arguments: 20..<60)
    func `are taken by purchases, under their customer's key`(number: Int) throws {
        let (key, value) = record(number)
        let time = Timestamp(milliseconds: Self.now)
        let event = try PurchaseEvent.read(value.span, from: .topic, now: time)
        #expect(event.purchaseKey == key)
        var door: [UInt8] = []
        sales().appendForDoor(number, to: &door)
        let posted = try PurchaseEvent.read(door.span, from: .door, now: time)
        #expect(posted.lineItemID == event.lineItemID)
    }

    @Test func `refer to sales of the same customer`() throws {
        let time = Timestamp(milliseconds: Self.now)
        var events: [String: PurchaseEvent] = [:]
        var referringCount = 0
        for number in 0..<200 {
            let (_, value) = record(number)
            let event = try PurchaseEvent.read(value.span, from: .topic, now: time)
            events[event.lineItemID] = event
            if let name = event.referenceLineItemID {
                let buy = try #require(events[name])
                #expect(buy.kind == .buy && buy.customer == event.customer)
                #expect(buy.appAppleID == event.appAppleID)
                referringCount += 1
            }
        }
        #expect(referringCount == 10)
        let renewals = events.values.filter { $0.subscriptionEvent == .renewal }
        let starts = events.values.filter { $0.subscriptionEvent == .start }
        #expect(
            Set(renewals.map { [$0.customer?.text, $0.subscriptionID] })
                == Set(starts.map { [$0.customer?.text, $0.subscriptionID] })
        )
        #expect(renewals.count == 10)
    }

    @Test func `are told apart by their line items`() {
        var tally = BenchTally(0..<3, byMember: BenchTally.saleMember)
        for number in [2, 0] {
            let (_, value) = record(number)
            tally.note(value.span)
        }
        #expect(tally.fault == "has 2 of the 3 sent")
        let (_, last) = record(1)
        tally.note(last.span)
        #expect(tally.fault == nil)
    }

    @Test func `are answered item by item`() {
        let items = #"[{"lineItemId":"a","referenceLineItemId":"b"},{"n":1,"lineItemId":"c"}]"#
        #expect(BenchAnswers.ids(in: Array(items.utf8)) == ["a", "c"])
        #expect(BenchAnswers.ids(in: Array("[]".utf8)) == [])
    }
}
