import Kafka
import Simulation
import Testing
import TokenDomain

@testable import report

@Suite struct `The trace of a report` {
    private static let first = TraceParent(random: [UInt8](repeating: 1, count: 24))
    private static let second = TraceParent(random: [UInt8](repeating: 2, count: 24))

    private func headers(_ bench: ReportBench, _ topic: Topic) -> [String?] {
        bench.cluster.committedRecords(of: topic.name(prefix: ReportBench.prefix)).map { record in
            HeaderList.value(
                named: TraceParent.headerName,
                in: ByteRange(start: 0, count: record.headers.count),
                of: record.headers
            ).map { String(decoding: record.headers[$0.indices], as: UTF8.self) }
        }
    }

    @Test func `is its token's, at Apple and in the ledger, also after a lost disk`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.trace = Self.first
        bench.distinct(bench.id(1), .primary)
        try bench.pass(.seconds(3))
        // The debt waits for its hold; what is known of it is read from the changelog.
        bench.crash()
        bench.loseDisk()
        bench.launch()
        try bench.pass(.hours(25))
        let calls = try #require(bench.instances[0]?.apple.calls)
        #expect(calls.map(\.trace) == [Self.first])
        #expect(headers(bench, .reportsOutcomes) == [Self.first.text])
    }

    @Test func `is that of what made it due, and is not changed by a repeat`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.trace = Self.first
        bench.distinct(bench.id(1), .primary)
        try bench.pass(.seconds(3))
        bench.trace = nil
        bench.distinct(bench.id(1), .primary)
        try bench.pass(.seconds(3))
        bench.trace = Self.second
        bench.notice(bench.id(1), "UNREPORTED")
        try bench.pass(.seconds(3))
        #expect(bench.instances[0]?.apple.calls.map(\.trace) == [Self.second])
        #expect(headers(bench, .reportsOutcomes) == [Self.second.text])
    }

    @Test func `stands in the dead letter of what Apple refuses`() throws {
        let bench = ReportBench()
        bench.script = { _ in
            .refused([AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: nil)])
        }
        bench.launch()
        bench.trace = Self.first
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        #expect(bench.deadLetters().map { $0.headers["traceparent"] } == [Self.first.text])
        #expect(headers(bench, .reportsOutcomes) == [Self.first.text])
    }

    @Test func `goes with account tokens too, where there is one`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.trace = Self.first
        bench.requestAccountToken("5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f")
        try bench.pass(.seconds(3))
        bench.trace = nil
        bench.requestAccountToken("5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e40", transaction: "7")
        try bench.pass(.seconds(3))
        let traces = try #require(bench.instances[0]?.apple.calls.map(\.trace))
        #expect(traces == [Self.first, nil])
        #expect(Set(headers(bench, .accountTokensOutcomes)) == Set(traces.map { $0?.text }))
    }

    @Test func `is forgotten with the debt`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.trace = Self.first
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.minutes(1))
        let values = bench.cluster.committedRecords(
            of: Topic.reportState.name(prefix: ReportBench.prefix)
        ).map { String(decoding: $0.value ?? [], as: UTF8.self) }
        #expect(values.contains { $0.contains("traceparent") })
        #expect(values.last?.contains("traceparent") == false)
    }
}
