import Testing
import TokenDomain

@Suite struct `The guard` {
    static let now = Timestamp(milliseconds: 1_768_003_200_000)

    @Test func `asks in order, each step only after the one before is proven`() {
        var proof = UnrecognizedGuard()
        #expect(proof.question == nil)
        proof.begin(now: Self.now)
        #expect(proof.question == .endOffsets(of: .tokensReceived))
        proof.learn(endOffsets: [5, 0])
        #expect(proof.question == .committedOffsets(of: .decode, on: .tokensReceived))
        proof.learn(committedOffsets: [4, 0])
        #expect(proof.step == .received)
        proof.learn(committedOffsets: [5, 0])
        #expect(proof.question == .endOffsets(of: .tokensDecoded))
        proof.learn(endOffsets: [7, 7])
        #expect(proof.question == .committedOffsets(of: .dedupe, on: .tokensDecoded))
        proof.learn(committedOffsets: [9, 7])
        #expect(proof.question == .endOffsets(of: .tokensDistinct))
        #expect(!proof.isProven(partition: 0))
        proof.learn(endOffsets: [3, 4])
        #expect(proof.question == .committedOffsets(of: .report, on: .tokensDistinct))
        proof.learn(committedOffsets: [3, 3])
        #expect(proof.isProven(partition: 0))
        #expect(!proof.isProven(partition: 1))
        proof.learn(committedOffsets: [2, 4])
        #expect(proof.isProven(partition: 0))
        #expect(proof.isProven(partition: 1))
        #expect(!proof.isProven(partition: 2))
        proof.end()
        #expect(!proof.isRunning && !proof.isProven(partition: 0))
    }

    @Test func `takes a missing commit for no proof, also of an empty partition`() {
        var proof = UnrecognizedGuard()
        proof.begin(now: Self.now)
        proof.learn(endOffsets: [0, 0])
        proof.learn(committedOffsets: [0, nil])
        #expect(proof.step == .received)
        proof.learn(committedOffsets: [0, 0])
        #expect(proof.step == .decoded)
    }

    /// A topic got partitions, or was made anew, since its ends were asked for: which records they
    /// had by then is unknown.
    @Test(arguments: [[Int64?](), [5], [5, 0, 0]])
    func `asks for the ends anew where the number of partitions has changed`(
        committed: [Int64?]
    ) {
        var proof = UnrecognizedGuard()
        proof.begin(now: Self.now)
        proof.learn(endOffsets: [5, 0])
        proof.learn(committedOffsets: committed)
        #expect(proof.question == .endOffsets(of: .tokensReceived))
        proof.learn(endOffsets: [6, 0, 1])
        proof.learn(committedOffsets: [6, 0, 0])
        #expect(proof.step == .received)
        proof.learn(committedOffsets: [6, 0, 1])
        #expect(proof.step == .decoded)
    }

    @Test func `keeps the ends of a step once they are known`() {
        var proof = UnrecognizedGuard()
        proof.begin(now: Self.now)
        proof.learn(endOffsets: [5])
        proof.learn(committedOffsets: [1])
        #expect(proof.question == .endOffsets(of: .tokensReceived))
        proof.learn(endOffsets: [9])
        #expect(proof.question == .committedOffsets(of: .decode, on: .tokensReceived))
        proof.learn(committedOffsets: [5])
        #expect(proof.step == .decoded)
    }

    /// It was deleted while the round ran: nobody will ever commit what the old one had.
    @Test func `takes the ends of a topic that was made anew, once they are asked for again`() {
        var proof = UnrecognizedGuard()
        proof.begin(now: Self.now)
        proof.learn(endOffsets: [5, 3])
        proof.learn(committedOffsets: [4, 3])
        proof.learn(endOffsets: [2, 3])
        #expect(proof.question == .endOffsets(of: .tokensReceived))
        proof.learn(committedOffsets: [2, 3])
        #expect(proof.step == .received)
        proof.learn(endOffsets: [2, 3])
        proof.learn(committedOffsets: [2, 3])
        #expect(proof.step == .decoded)
    }

    @Test func `does not begin again while a round runs`() {
        var proof = UnrecognizedGuard()
        proof.begin(now: Self.now)
        proof.begin(now: Self.now + .hours(1))
        #expect(proof.startedAt == Self.now)
    }
}
