import Testing

@testable import tollway

@Suite struct `The tokens of the demo` {
    /// What a strict simulator asks of a duplicate.
    @Test func `have beside each duplicate one of the same customer and period that is none`() {
        let stream = DemoStream(
            tokenCount: 500,
            seed: 7,
            now: 1_760_000_000_000,
            sales: DemoSales(roundCount: 1, seed: 7, now: 1_760_000_000_000)
        )
        func isDuplicate(_ token: DemoToken) -> Bool {
            stream.truth.reports[token.externalPurchaseID]?.status == "DUPLICATE_TOKEN"
        }
        let duplicates = stream.registrations.filter(isDuplicate)
        #expect(duplicates.count > 10)
        for duplicate in duplicates {
            let hasPrimary = stream.registrations.contains { token in
                !isDuplicate(token) && token.customer != nil
                    && token.customer == duplicate.customer
                    && token.registration["customer"] as? String == token.customer
                    && token.appAppleID == duplicate.appAppleID
                    && token.tokenType == duplicate.tokenType
                    && token.created == duplicate.created && token.expires == duplicate.expires
            }
            #expect(hasPrimary, "\(duplicate)")
        }
    }

    /// Samples and the tokens of buyers are that many by themselves; notices need others.
    @Test func `have some that notices can be of, however few are wanted`() {
        let stream = DemoStream(
            tokenCount: 10,
            seed: 7,
            now: 1_760_000_000_000,
            sales: DemoSales(roundCount: 1, seed: 7, now: 1_760_000_000_000)
        )
        #expect(stream.truth.inputs[.unreportedKnown] ?? 0 > 0)
    }
}
