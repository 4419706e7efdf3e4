import Testing
@testable import TokenDomain

/// Records about one token come from three topics: each keeps its order, their interleaving is
/// chance, and any may come again.
///
/// The end must be the same.
@Suite struct `Any order of inputs` {
    typealias Fixtures = ReportFixtures

    enum Input {
        case distinct(TokenDistinct, Int64)
        case notice(NotificationVerified, Int64)
        case request(ReportRequested, Int64)
    }

    /// One topic's records, in its order.
    static func topics(using generator: inout SeededGenerator) -> [[Input]] {
        func time() -> Timestamp {
            Fixtures.received + .minutes(Int64.random(in: 0...600, using: &generator))
        }
        let role: TokenRole =
            Bool.random(using: &generator) ? .primary : .duplicate(of: TokenID("first"))
        var distinct: [Input] = []
        if Bool.random(using: &generator) {
            distinct.append(.distinct(Fixtures.distinct(.seen, at: time()), 1))
        }
        if Int.random(in: 0..<4, using: &generator) > 0 {
            distinct.append(.distinct(Fixtures.distinct(role, customer: "c1.a", at: time()), 2))
            distinct.append(.distinct(Fixtures.distinct(role, customer: "c1.a", at: time()), 3))
        }
        let subtypes = ["UNREPORTED", "ACTIVE_TOKEN_REMINDER", "CREATED", "OTHER"]
        var notices: [Input] = []
        for offset in 0..<Int64.random(in: 0...4, using: &generator) {
            let subtype = subtypes[Int.random(in: 0..<4, using: &generator)]
            let uuid = "\(Int.random(in: 0..<1_000_000, using: &generator))"
            let notice = Fixtures.notice(subtype, uuid: uuid, at: time())
            notices.append(.notice(notice, offset))
            if Bool.random(using: &generator) {
                notices.append(.notice(notice, offset))
            }
        }
        var requests: [Input] = []
        if Int.random(in: 0..<4, using: &generator) == 0 {
            requests.append(.request(Fixtures.request(.lineItem, lineItems: "[]"), 1))
        }
        return [distinct, notices, requests]
    }

    /// A random merge that keeps the order within each topic.
    static func merged(
        _ topics: [[Input]],
        using generator: inout SeededGenerator
    ) -> [Input] {
        var left = topics.filter { !$0.isEmpty }
        var merged: [Input] = []
        while !left.isEmpty {
            let index = Int.random(in: 0..<left.count, using: &generator)
            merged.append(left[index].removeFirst())
            if left[index].isEmpty {
                left.remove(at: index)
            }
        }
        return merged
    }

    struct End: Equatable {
        var absorbed: TokenAccount
        var settled: TokenAccount
        /// Status and reason of each report.
        var told: [String]
    }

    /// All of it absorbed before anything is due, then time goes on until Apple has accepted all.
    static func end(of inputs: [Input]) -> End {
        let early = Fixtures.created
        var account = Fixtures.account()
        for input in inputs {
            switch input {
            case .distinct(let distinct, let offset):
                _ = account.take(distinct, offset: offset, now: early)
            case .notice(let notice, let offset):
                _ = account.take(notice, offset: offset, now: early)
            case .request(let request, let offset):
                _ = account.take(request, offset: offset, now: early)
            }
        }
        var absorbed = account
        // Only how urgent a report under way is may differ.
        absorbed.current?.deadline = early
        var told: [String] = []
        let late = Fixtures.received + .days(3)
        for _ in 0..<10 {
            _ = account.advance(now: late, policy: Fixtures.policy)
            account.proveUnknown(policy: Fixtures.policy)
            for case .outcome(let outcome) in account.hear(.accepted, at: late) {
                told.append("\(outcome.status) \(outcome.reason)")
            }
        }
        return End(absorbed: absorbed, settled: account, told: told)
    }

    @Test func `ends in the same account and the same reports`() {
        for seed in UInt64(0)..<2_000 {
            var generator = SeededGenerator(seed: seed)
            let topics = Self.topics(using: &generator)
            let first = Self.end(of: topics.flatMap { $0 })
            #expect(first.told.count <= 1, "seed \(seed)")
            for _ in 0..<6 {
                let other = Self.end(of: Self.merged(topics, using: &generator))
                #expect(other == first, "seed \(seed)")
            }
        }
    }
}
