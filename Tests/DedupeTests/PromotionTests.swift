import Kafka
import StateStore
import Testing
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import dedupe

/// Goal: the primary of a period is the token with the lowest offset that Apple has not refused,
/// whatever order tokens and refusals are read in.
@Suite struct `The primary of a period` {
    private enum Event: Hashable, CustomStringConvertible {
        case token(String)
        case refusal(String)
        case withdrawal(String)

        var description: String {
            switch self {
            case .token(let id): id
            case .refusal(let id): "-\(id)"
            case .withdrawal(let id): "+\(id)"
            }
        }
    }

    /// The rule, said once more, without entries: what each event is answered with.
    private struct Model {
        var heard: [String] = []
        var refused: Set<String> = []

        var primary: String? { heard.first { !refused.contains($0) } }

        mutating func answer(_ event: Event) -> DedupeBench.Answer {
            let before = primary
            switch event {
            case .token(let id):
                guard !heard.contains(id) else {
                    return .again
                }
                heard.append(id)
                return before.map { .duplicate(of: $0) } ?? .primary
            case .refusal(let id):
                refused.insert(id)
                guard before == id, let primary else {
                    return .refused
                }
                return .promoted(primary, from: id)
            case .withdrawal(let id):
                refused.remove(id)
                return .known
            }
        }
    }

    private func answer(_ event: Event, _ bench: DedupeBench) throws -> DedupeBench.Answer? {
        switch event {
        case .token(let id): try bench.judge([Dedupe.token(id)]).first
        case .refusal(let id): try bench.refuse([id]).first
        case .withdrawal(let id): try bench.refuse([id], isWithdrawn: true).first
        }
    }

    private static func orders(_ events: [Event]) -> [[Event]] {
        guard let first = events.first else {
            return [[]]
        }
        return orders(Array(events.dropFirst())).flatMap { rest in
            (0...rest.count).map { place in
                Array(rest[..<place]) + [first] + Array(rest[place...])
            }
        }
    }

    /// A forged first token and its refusal; that of the second, too; and of all three; and of two,
    /// of which Apple knows one after all.
    @Test(arguments: [
        (["a"], []), (["a", "b"], []), (["b"], []), (["a", "b", "c"], []), (["a", "b"], ["a"]),
        (["a", "b"], ["b"]),
    ])
    func `is the same in every order of arrival`(refused: [String], known: [String]) throws {
        let events =
            ["a", "b", "c"].map { Event.token($0) } + refused.map { Event.refusal($0) }
            + known.map { Event.withdrawal($0) }
        for order in Self.orders(events) {
            var model = Model()
            let bench = DedupeBench()
            for event in order {
                #expect(try answer(event, bench) == model.answer(event), "\(order) at \(event)")
            }
            // A later token gets the current primary, and it is the rule's.
            let later = try bench.judge([Dedupe.token("d")])
            #expect(later == [model.primary.map { .duplicate(of: $0) } ?? .primary], "\(order)")
        }
    }

    @Test(arguments: UInt64(0)..<150)
    func `stands through commits, restores and repeats`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var model = Model()
        var bench = DedupeBench()
        var history: [Event] = []
        for _ in 0..<60 {
            let id = "t\(Int.random(in: 0..<25, using: &generator))"
            let event: Event =
                switch Int.random(in: 0..<6, using: &generator) {
                case 0, 1: .refusal(id)
                case 2: .withdrawal(id)
                default: .token(id)
                }
            history.append(event)
            #expect(try answer(event, bench) == model.answer(event), "seed \(seed): \(history)")
            switch Int.random(in: 0..<6, using: &generator) {
            case 0, 1: try bench.submitAndCommit()
            case 2:
                try bench.submitAndCommit()
                let restored = try bench.restored()
                #expect(
                    try restored.stores[0]?.checksum() == bench.stores[0]?.checksum(),
                    "seed \(seed): the store is the fold of its changelog: \(history)"
                )
                bench = restored
            default: break
            }
        }
    }

    @Test func `is answered within one batch as well`() throws {
        let bench = DedupeBench()
        #expect(
            try bench.judge(["a", "b", "c"].map { Dedupe.token($0) })
                == [.primary, .duplicate(of: "a"), .duplicate(of: "a")]
        )
        #expect(
            try bench.refuse(["b", "a", "a", "c", "d"])
                == [.refused, .promoted("c", from: "a"), .refused, .refused, .refused]
        )
        #expect(
            try bench.judge(["d", "e", "f"].map { Dedupe.token($0) })
                == [.primary, .primary, .duplicate(of: "e")]
        )
    }

    /// Apple was asked too early, or elsewhere.
    @Test func `is again the one that Apple knows after all`() throws {
        var bench = DedupeBench()
        _ = try bench.judge([Dedupe.token("a")])
        #expect(try bench.refuse(["a"]) == [.refused])
        #expect(try bench.refuse(["a", "x"], isWithdrawn: true) == [.known, .known])
        try bench.submitAndCommit()
        bench = try bench.restored()
        #expect(
            try bench.judge(["b", "c"].map { Dedupe.token($0) })
                == [.duplicate(of: "a"), .duplicate(of: "a")]
        )
        // One that took its place is one of its duplicates again.
        #expect(try bench.refuse(["a"]) == [.promoted("b", from: "a")])
        #expect(try bench.refuse(["a"], isWithdrawn: true) == [.known])
        #expect(try bench.refuse(["b", "b"], isWithdrawn: true) == [.known, .known])
        try bench.submitAndCommit()
        bench = try bench.restored()
        #expect(try bench.judge([Dedupe.token("d")]) == [.duplicate(of: "a")])
        #expect(try bench.refuse(["a"]) == [.promoted("b", from: "a")])
    }

    /// As where its report as a duplicate was refused, and accepted when it went again.
    @Test(arguments: [false, true])
    func `is a duplicate that Apple refused and knows, once the one before it is refused`(
        isRestored: Bool
    ) throws {
        var bench = DedupeBench()
        func end() throws {
            try bench.submitAndCommit()
            bench = try isRestored ? bench.restored() : bench
        }
        _ = try bench.judge(["a", "b", "c"].map { Dedupe.token($0) })
        try end()
        #expect(try bench.refuse(["b"]) == [.refused])
        try end()
        #expect(try bench.refuse(["b", "b"], isWithdrawn: true) == [.known, .known])
        try end()
        #expect(try bench.judge([Dedupe.token("d")]) == [.duplicate(of: "a")])
        #expect(try bench.refuse(["a"]) == [.promoted("b", from: "a")])
        try end()
        // The same once more, with it as the primary that was refused.
        #expect(try bench.refuse(["b"]) == [.promoted("c", from: "b")])
        try end()
        #expect(try bench.refuse(["a"], isWithdrawn: true) == [.known])
        #expect(try bench.refuse(["b"], isWithdrawn: true) == [.known])
        try end()
        #expect(try bench.refuse(["a"]) == [.promoted("b", from: "a")])
        #expect(try bench.judge([Dedupe.token("e")]) == [.duplicate(of: "b")])
    }

    @Test func `is no duplicate that Apple has refused, whatever is kept of it`() throws {
        let bench = DedupeBench()
        _ = try bench.judge(["a", "b", "c"].map { Dedupe.token($0) })
        #expect(try bench.refuse(["b", "c"]) == [.refused, .refused])
        #expect(try bench.refuse(["c"], isWithdrawn: true) == [.known])
        #expect(try bench.refuse(["a"]) == [.promoted("c", from: "a")])
        #expect(try bench.refuse(["c"]) == [.refused])
        #expect(try bench.judge([Dedupe.token("d")]) == [.primary])
    }

    /// Its record grows by seven bytes with the refusal.
    @Test(arguments: [7, 6])
    func `is a duplicate that Apple knows after all only where Kafka takes its record`(
        room: Int
    ) throws {
        let bench = DedupeBench()
        _ = try bench.judge([Dedupe.token("a"), Dedupe.token("b")])
        try bench.submitAndCommit()
        func byteCount() throws -> Int {
            let (key, value) = try #require(bench.changelog[0]?.last)
            return key.count + (value?.count ?? 0)
        }
        let limit = try byteCount() + room
        bench.recordByteCountMax = limit
        #expect(try bench.refuse(["b"]) == [.refused])
        try bench.submitAndCommit()
        #expect(try byteCount() <= limit)
        bench.recordByteCountMax = 1_000_000
        #expect(try bench.refuse(["b"], isWithdrawn: true) == [.known])
        let isKept = room == 7
        #expect(try bench.refuse(["a"]) == [isKept ? .promoted("b", from: "a") : .refused])
    }

    @Test func `is a token that Apple refused and knows before it is read`() throws {
        var bench = DedupeBench()
        #expect(try bench.refuse(["a"]) == [.refused])
        try bench.submitAndCommit()
        #expect(try bench.refuse(["a"], isWithdrawn: true) == [.known])
        try bench.submitAndCommit()
        bench = try bench.restored()
        #expect(
            try bench.judge(["a", "b"].map { Dedupe.token($0) }) == [.primary, .duplicate(of: "a")]
        )
    }

    @Test func `passes over many refused ones, each once`() throws {
        let bench = DedupeBench()
        let ids = (0..<300).map { "t\($0)" }
        _ = try bench.judge(ids.map { Dedupe.token($0) })
        try bench.submitAndCommit()
        // All but the first and the last are refused while they are duplicates.
        let middle = try bench.refuse(Array(ids[1..<299]))
        #expect(middle.allSatisfy { $0 == .refused })
        #expect(try bench.refuse(["t0"]) == [.promoted("t299", from: "t0")])
        #expect(try bench.refuse(["t299"]) == [.refused])
        #expect(try bench.judge([Dedupe.token("new")]) == [.primary])
    }

    @Test func `goes out with all that the token said, whatever its texts`() throws {
        let bench = DedupeBench()
        let forged = "f\"\\\u{1}é"
        for (id, receivedAt) in [(forged, 1), ("r\"\u{7}😀", 2)] as [(String, Int64)] {
            _ = try bench.judge([Dedupe.token(id, receivedAt: receivedAt)])
        }
        try bench.submitAndCommit()
        let restored = try bench.restored()
        var value: [UInt8] = []
        TokenRefused(
            externalPurchaseID: TokenID(forged),
            customer: CustomerID("c1.customer"),
            refusedAt: bench.now
        ).write(to: &value)
        let plan = restored.plan(values: [(0, value)], topic: 1)
        let text = try #require(restored.texts(of: plan).first)
        let found = try TokenDistinct(reading: Array(text.utf8).span)
        let wanted = Dedupe.token("r\"\u{7}😀", receivedAt: 2)
        #expect(
            found
                == TokenDistinct(
                    externalPurchaseID: wanted.token.externalPurchaseID,
                    appAppleID: wanted.token.appAppleID,
                    bundleID: wanted.token.bundleID,
                    tokenType: wanted.token.tokenType,
                    tokenCreationDate: wanted.token.tokenCreationDate,
                    tokenExpirationDate: wanted.token.tokenExpirationDate,
                    customer: wanted.customer,
                    receivedAt: wanted.receivedAt,
                    role: .primary,
                    promotedFrom: TokenID(forged)
                )
        )
        // Byte for byte as the writer of messages does it.
        var bytes: [UInt8] = []
        found.write(to: &bytes)
        #expect(Array(text.utf8) == bytes)
    }

    @Test func `is of one customer and one period alone`() throws {
        let bench = DedupeBench()
        _ = try bench.judge([
            Dedupe.token("a"), Dedupe.token("b"), Dedupe.token("x", type: .acquisition),
            Dedupe.token("y", type: .acquisition),
        ])
        #expect(try bench.refuse(["a"], customer: "c1.other") == [.refused])
        #expect(try bench.refuse(["a"], customer: nil) == [.refused])
        #expect(try bench.judge([Dedupe.token("c")]) == [.duplicate(of: "a")])
        #expect(try bench.refuse(["a"]) == [.promoted("b", from: "a")])
        #expect(
            try bench.judge([Dedupe.token("z", type: .acquisition)]) == [.duplicate(of: "x")]
        )
    }

    @Test func `costs two entries where a period has one token, and none without a period`() throws
    {
        let bench = DedupeBench()
        _ = try bench.judge([Dedupe.token("a"), Dedupe.token("n", customer: nil)])
        try bench.submitAndCommit()
        #expect(try bench.entryCount() == 3)
        _ = try bench.judge([Dedupe.token("b")])
        try bench.submitAndCommit()
        #expect(try bench.entryCount() == 5)
        // Refused before they are read, with and without a customer.
        _ = try bench.refuse(["u"])
        _ = try bench.refuse(["v"], customer: nil)
        try bench.submitAndCommit()
        #expect(try bench.entryCount() == 6)
    }

    @Test func `is promoted only where Kafka takes what goes out`() throws {
        let bench = DedupeBench()
        let long = String(repeating: "x", count: 400)
        _ = try bench.judge([Dedupe.token("a" + long), Dedupe.token("b")])
        try bench.submitAndCommit()
        bench.recordByteCountMax = 500
        // The loop makes a dead letter of it, and its replay finds the state as it was.
        #expect(try bench.refuse(["a" + long]) == [.promoted("b", from: "a" + long)])
        #expect(bench.submit().isEmpty)
        bench.recordByteCountMax = 1_000_000
        #expect(try bench.refuse(["a" + long]) == [.promoted("b", from: "a" + long)])
    }

    /// As the changelog was written before tokens had places in their period.
    @Test func `of an older changelog is its first token, whose duplicates stay so`() throws {
        let bench = DedupeBench()
        _ = try bench.judge([Dedupe.token("a"), Dedupe.token("b")])
        _ = bench.submit()
        let old = bench.changelog[0]?.map { key, value -> (key: [UInt8], value: [UInt8]?) in
            let text = String(decoding: key, as: UTF8.self)
            guard text.split(separator: ".").count == 3 else {
                return (key, value)
            }
            return (
                Array(text.prefix(22).utf8),
                Array(#"{"externalPurchaseId":"b","keysExpire":9999999999999}"#.utf8)
            )
        }
        let store = MemoryStore()
        let restored = DedupeBench(partitionCount: 0)
        try StagedState.apply(
            try #require(old),
            changelogOffset: 2,
            to: store,
            stage: restored.stage
        )
        restored.state.open(store, partition: 0)
        #expect(try restored.judge([Dedupe.token("b")]) == [.again])
        #expect(try restored.judge([Dedupe.token("c")]) == [.duplicate(of: "a")])
        #expect(try restored.refuse(["b"]) == [.refused])
        #expect(try restored.refuse(["a"]) == [.promoted("c", from: "a")])
    }
}
