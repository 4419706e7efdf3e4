import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import purchases

@Suite struct `A report of sales` {
    @Test func `says until when Apple wants the oldest sale of a report`() throws {
        let bench = PurchasesBench()
        bench.launch()
        let anna = bench.customer(1)
        bench.token("t", from: PurchasesBench.start + .days(-70), customer: anna)
        let old = PurchasesBench.start + .days(-60)
        bench.sale(bench.buy("new", anna))
        bench.sale(bench.buy("old", anna) { $0.creationDate = old })
        try bench.settleAlone()
        let topic = Topic.reportsRequested.name(prefix: PurchasesBench.prefix)
        let record = try #require(bench.cluster.committedRecords(of: topic).first)
        let value = record.value ?? []
        let request = try ReportRequested(reading: value.span)
        #expect(request.deadline == ReportPolicy.deadline(ofSale: old))
    }
}
