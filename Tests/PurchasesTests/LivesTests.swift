import Simulation
import StageRuntime
import Testing
import TokenDomain

@testable import purchases

/// Lives of customers drawn from a seed: buys, renewals, refunds in parts, restatements,
/// retractions, late tokens, forged tokens, repeats, lost processes and disks.
///
/// ``SalesLives`` says what Apple must hold in the end. Apple's own rules are the simulator's, which
/// shares none with the worker.
@Suite struct `Lives of customers` {
    @Test(arguments: 0..<90)
    func `end as a simple model says, and Apple refuses nothing`(seed: UInt64) throws {
        var life = Life(seed: seed)
        try life.play()
        try life.check()
    }
}

private struct Life {
    private static let customerCount = 4

    private let seed: UInt64
    private let bench: PurchasesBench
    private var generator: SeededGenerator
    private var lives: SalesLives
    private var hasToken: Set<Int> = []
    private var forgedCount = 0

    init(seed: UInt64) {
        self.seed = seed
        generator = SeededGenerator(seed: seed)
        let bench = PurchasesBench(seed: seed, partitionCount: 2)
        self.bench = bench
        lives = SalesLives(
            seed: seed ^ 0x5a1e5,
            customers: (0..<Self.customerCount).map {
                SalesLives.Customer(id: bench.customer($0))
            }
        )
        // Of some lives the broker aborts transactions.
        bench.cluster.faults.abortOneIn = seed % 3 == 0 ? 15 : 0
        bench.launch()
    }

    private mutating func draw(_ range: Range<Int>) -> Int {
        Int.random(in: range, using: &generator)
    }

    mutating func play() throws {
        for _ in 0..<draw(20..<60) {
            try act()
            switch draw(0..<12) {
            case 0:
                // Anything may be lost at any instruction.
                for _ in 0..<draw(0..<6) { _ = try bench.step() }
                bench.crash()
                if draw(0..<3) == 0 { bench.loseDisk() }
                bench.launch()
            case 1:
                // A second instance comes and goes; partitions move.
                if bench.instances[1] == nil {
                    bench.launch(1)
                } else {
                    bench.crash(1)
                }
            case 2...4: try bench.settle()
            case 5: try bench.pass(.minutes(Int64(draw(1..<300))))
            case 6: try bench.settleAlone()
            default: break
            }
        }
        // Every customer has a token in the end, and none too late.
        for customer in 0..<Self.customerCount {
            addToken(of: customer)
        }
        bench.cluster.faults.abortOneIn = 0
        try calm()
        try bench.pass(.hours(1))
        try calm()
    }

    /// Until nothing is under way: what was aborted is tried again after a while.
    private func calm() throws {
        for _ in 0..<10 {
            try bench.pass(.seconds(30))
        }
    }

    private mutating func act() throws {
        let customer = draw(0..<Self.customerCount)
        let now = bench.clock.now
        switch draw(0..<12) {
        case 0: addToken(of: customer)
        case 1:
            bench.token(
                "forged-\(forgedCount)",
                customer: bench.customer(customer),
                isForged: true
            )
            forgedCount += 1
        case 2, 3, 4: send(lives.buy(of: customer, now: now))
        case 5, 6: send(lives.refund(now: now))
        case 7: send(lives.restate())
        case 8:
            // What refers to it must be there before it goes; this is enough for any report.
            try calm()
            let reported = try Set(
                bench.outcomes().filter { $0.outcome == .reported }.map(\.lineItemID)
            )
            send(lives.retract(among: reported))
        default: send(lives.subscribe(customer, now: now))
        }
    }

    private mutating func addToken(of customer: Int) {
        guard hasToken.insert(customer).inserted else {
            return
        }
        bench.token("token-\(customer)", customer: bench.customer(customer))
    }

    private mutating func send(_ event: PurchaseEvent?) {
        guard let event else {
            return
        }
        bench.sale(event)
        if event.kind == .buy || event.kind == .refund, draw(0..<6) == 0 {
            bench.sale(event)
        }
    }

    func check() throws {
        let note: Comment = "seed \(seed)"
        #expect(bench.deadLetters().map(\.code) == [], note)
        let differences = lives.differences { id in
            bench.apple.held(id).map {
                SalesLives.Held(
                    exclusive: $0.exclusive,
                    country: $0.country ?? "",
                    isRetracted: $0.isRetracted
                )
            }
        }
        #expect(differences == [], note)
        // Nothing goes under a forged token, and every event has one end.
        #expect(bench.apple.accepted.allSatisfy { $0.token.hasPrefix("token-") }, note)
        let reported = try bench.outcomes().filter { $0.outcome == .reported }
        for id in lives.sales.keys {
            let revisions = reported.filter { $0.lineItemID == id }.map(\.revision).sorted()
            #expect(revisions == Array(1..<revisions.count + 1), "seed \(seed): \(id)")
        }
        let keys = reported.map { "\($0.lineItemID)/\($0.revision)" }
        #expect(Set(keys).count == keys.count, "seed \(seed): an outcome is written twice")
    }
}
