import Testing

@testable import tollway

@Suite struct `The page of tollway up` {
    /// With --dir the sale of an earlier run is known: its name with another date is a conflict.
    @Test func `has another sale at each start`() throws {
        let lines = [1_700_000_000_000, 1_700_000_000_001].map { now in
            UpPage.purchase("http://127.0.0.1:1", 7, now: now)
        }
        let names = try lines.map { try #require($0.firstMatch(of: /"lineItemId":"[^"]+"/)).output }
        #expect(names[0] != names[1])
        #expect(lines[1].contains(#""creationDate":1700000000001"#))
    }
}
