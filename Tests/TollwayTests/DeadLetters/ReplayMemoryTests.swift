import Testing

@testable import tollway

@Suite struct `The memory of replays` {
    private static let day: Int64 = 86_400_000

    /// Results that a bound in bytes took away are older than the first that is still there.
    @Test(
        arguments: [
            ([100], 1, 101), ([100, 102], 2, 103), ([102, 100], 2, 103),
            // No result is of later than now.
            ([199], 1, 200), ([200], 1, 200),
            // An empty partition does not tell what it had.
            ([100], 2, 200), ([], 1, 200),
        ] as [([Int64], Int, Int64)]
    )
    func `knows results from the first one on that every partition still has`(
        firstDays: [Int64],
        losingCount: Int,
        expectedDay: Int64
    ) {
        let knownSince = ReplayMemory.knownSince(
            firstTimes: firstDays.map { $0 * Self.day },
            losingCount: losingCount,
            now: 200 * Self.day
        )
        #expect(knownSince == expectedDay * Self.day)
    }
}
