import Testing
import TokenDomain

/// Goal: an app's replicas use at least 95 % of what Apple allows, and Apple refuses fewer than 1 %.
///
/// Method: loops that wake late and stall at times, requests and answers that take their time, and
/// Apple's limit by fixed windows, all on a clock of their own.
@Suite struct `The pace of all replicas` {
    struct World: CustomTestStringConvertible {
        var rate = 5.0
        /// What Apple allows a second, counted over windows.
        var limit = 5.0
        var window = Milliseconds.seconds(1)
        var replicaCount: Int32 = 1
        var keeping = Pace.Keeping.second
        var minutes: Int64 = 10
        /// How long after ours Apple's windows begin.
        var phase: Int64 = 0
        /// At the start of an hour, else somewhere in one.
        var startsWithHour = false

        var testDescription: String {
            "\(rate)/s of \(limit)/s by \(window.count / 1_000) s, \(replicaCount) replicas, "
                + "kept by the \(keeping), phase \(phase), \(minutes) min"
        }
    }

    private struct Replica {
        var pace: Pace
        var heldUntil = Timestamp(milliseconds: 0)
        var wakesAt: Timestamp
    }

    private struct Request {
        var replica: Int
        var sentAt: Timestamp
        var arrivesAt: Timestamp
        var answerAt: Timestamp
        /// nil where Apple took it.
        var retryAt: Timestamp?
    }

    /// Many replicas, their requests on the way, and Apple.
    struct Run {
        var world: World
        private var generator: SeededGenerator
        private var replicas: [Replica] = []
        private var underWay: [Request] = []
        private var answers: [Request] = []
        private var counts: [Int64: Int] = [:]
        private(set) var now: Timestamp
        private(set) var acceptedCount = 0
        private(set) var refusedCount = 0

        init(_ world: World, seed: UInt64) {
            self.world = world
            generator = SeededGenerator(seed: seed)
            let hour = Timestamp(milliseconds: 1_768_003_200_000)
            let offset = Int64.random(in: 0..<3_600_000, using: &generator)
            now = world.startsWithHour ? hour : hour + Milliseconds(offset)
            let part = 12 / world.replicaCount
            replicas = (0..<world.replicaCount).map { number in
                var pace = Pace(rate: world.rate, keeping: world.keeping)
                pace.share(Array(number * part..<(number + 1) * part), of: 12)
                return Replica(pace: pace, wakesAt: now + Milliseconds(Int64(number) * 37))
            }
        }

        /// What all of them would send now, a second.
        var requestsPerSecond: Double {
            replicas.reduce(0) { $0 + $1.pace.requestsPerSecond(now: now) }
        }

        mutating func go(minutes: Int64) {
            let end = now + .minutes(minutes)
            while now < end {
                arrive()
                hear()
                for index in replicas.indices where replicas[index].wakesAt <= now {
                    wake(index)
                }
                let times =
                    replicas.map(\.wakesAt) + underWay.map(\.arrivesAt) + answers.map(\.answerAt)
                now = max(times.min() ?? end, now)
            }
        }

        /// Apple counts what reaches it.
        private mutating func arrive() {
            let arrived = underWay.filter { $0.arrivesAt <= now }
            underWay.removeAll { $0.arrivesAt <= now }
            let allowance = Int(world.limit * Double(world.window.count) / 1_000)
            for var request in arrived.sorted(by: { $0.arrivesAt < $1.arrivesAt }) {
                let window =
                    (request.arrivesAt.milliseconds - world.phase) / world.window.count
                if counts[window, default: 0] < allowance {
                    counts[window, default: 0] += 1
                    acceptedCount += 1
                } else {
                    let end = (window + 1) * world.window.count + world.phase
                    request.retryAt = Timestamp(milliseconds: end)
                    refusedCount += 1
                }
                answers.append(request)
            }
        }

        private mutating func hear() {
            for answer in answers where answer.answerAt <= now {
                if let retryAt = answer.retryAt {
                    replicas[answer.replica].pace.rateLimited(
                        sentAt: answer.sentAt,
                        until: retryAt,
                        now: now
                    )
                    replicas[answer.replica].heldUntil =
                        max(replicas[answer.replica].heldUntil, retryAt)
                } else {
                    replicas[answer.replica].pace.accepted(sentAt: answer.sentAt, now: now)
                }
            }
            answers.removeAll { $0.answerAt <= now }
        }

        private mutating func wake(_ index: Int) {
            if replicas[index].heldUntil <= now {
                replicas[index].pace.rested(until: replicas[index].heldUntil)
                while replicas[index].pace.take(now: now) {
                    let arrivesAt = now + Milliseconds(.random(in: 1...20, using: &generator))
                    let back = Milliseconds(.random(in: 2...20, using: &generator))
                    underWay.append(
                        Request(
                            replica: index,
                            sentAt: now,
                            arrivesAt: arrivesAt,
                            answerAt: arrivesAt + back
                        )
                    )
                }
            }
            let next = replicas[index].pace.nextTurn(now: now + Milliseconds(1)) ?? now
            var late = Int64.random(in: 0...8, using: &generator)
            if Int.random(in: 0..<100, using: &generator) == 0 {
                late += .random(in: 20...250, using: &generator)
            }
            replicas[index].wakesAt =
                max(next, replicas[index].heldUntil, now + Milliseconds(1)) + Milliseconds(late)
        }
    }

    private static let limits: [(rate: Double, limit: Double)] = [
        (2, 2), (5, 5), (20, 20), (5, 3), (5, 4), (20, 12), (8, 7),
    ]

    private static func worlds(_ count: Int32) -> [World] {
        let bySecond = limits.map { World(rate: $0.rate, limit: $0.limit, replicaCount: count) }
        let byMinute = [2.0, 5, 20].map {
            World(rate: $0, limit: $0, window: .minutes(1), replicaCount: count)
        }
        return bySecond + byMinute + [
            // Seconds that are not ours.
            World(rate: 5, limit: 3, replicaCount: count, phase: 300),
            // Apple allows less than we think, by the hour.
            World(rate: 8, limit: 5, window: .hours(1), replicaCount: count, minutes: 120),
            // Account tokens, backlogged: at the limit of the hour and never above.
            World(
                rate: 20,
                limit: 20,
                window: .hours(1),
                replicaCount: count,
                keeping: .hour,
                minutes: 75
            ),
            // 3600 an hour, the whole of it: as we think, and five times too fast.
            World(
                rate: 1,
                limit: 1,
                window: .hours(1),
                replicaCount: count,
                minutes: 60,
                startsWithHour: true
            ),
            World(
                rate: 5,
                limit: 1,
                window: .hours(1),
                replicaCount: count,
                minutes: 120,
                startsWithHour: true
            ),
        ]
    }

    static let worlds: [World] =
        worlds(1) + worlds(3) + [
            World(rate: 5, limit: 1),
            World(rate: 5, limit: 3, replicaCount: 4),
            World(rate: 5, limit: 5, replicaCount: 12),
        ]

    @Test(arguments: worlds)
    func `uses what is allowed and is seldom refused`(world: World) {
        // A long run is many short ones.
        for seed: UInt64 in 0..<(world.minutes > 30 ? 1 : 3) {
            var run = Run(world, seed: seed)
            run.go(minutes: world.minutes)
            let allowed = world.limit * Double(world.minutes) * 60
            let used = Double(run.acceptedCount) / allowed
            let refused =
                Double(run.refusedCount) / Double(max(run.acceptedCount + run.refusedCount, 1))
            #expect(used >= 0.95, "seed \(seed)")
            #expect(refused < 0.01, "seed \(seed)")
        }
    }

    @Test(arguments: [1, 3] as [Int32])
    func `follows a limit by the second that falls and rises`(replicaCount: Int32) {
        var run = Run(World(replicaCount: replicaCount), seed: 9)
        run.go(minutes: 5)
        #expect(run.requestsPerSecond > 4.9)
        run.world.limit = 2
        run.go(minutes: 2)
        #expect(run.requestsPerSecond == 2)
        let refusedCount = run.refusedCount
        run.go(minutes: 60)
        // Questions, each replica's ever more seldom, and what came late.
        #expect(run.refusedCount - refusedCount < 60, "of \(run.acceptedCount)")
        run.world.limit = 5
        run.go(minutes: 240)
        #expect(run.requestsPerSecond > 4.9)
    }
}
