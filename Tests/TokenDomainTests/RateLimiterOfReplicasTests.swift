import Testing
import TokenDomain

/// Goal: an app's replicas use what Apple allows, are seldom refused, and find their way back.
///
/// Method: ``RateLimiterRun``; two seeds each, of which the worst counts.
@Suite struct `The rate limiter of all replicas` {
    static let seeds: [UInt64] = [1, 2]

    private static func worlds(
        isBare: Bool,
        rate: Double,
        latencies: [Int64] = [20, 100, 300]
    ) -> [PaceWorld] {
        [Counting.windows(.seconds(1)), .slidingSecond, .bucket(100)].flatMap { counting in
            [1, 3].flatMap { replicaCount in
                latencies.map { latency in
                    PaceWorld(
                        counting: counting,
                        rate: rate,
                        isBare: isBare,
                        replicaCount: replicaCount,
                        latency: Milliseconds(latency),
                        skew: Milliseconds(replicaCount > 1 ? 200 : 0)
                    )
                }
            }
        }
    }

    private func measure(
        _ world: PaceWorld,
        seconds: Double,
        seed: UInt64
    ) -> (used: Double, refused: Double) {
        var run = RateLimiterRun(world, seed: seed)
        run.go(seconds: seconds)
        let answered = Double(max(run.takenCount + run.refusedCount, 1))
        return (
            Double(run.takenCount) / (world.limit * seconds), Double(run.refusedCount) / answered
        )
    }

    @Test(arguments: worlds(isBare: false, rate: 1_000))
    func `is at least 95 % of a limit far below ours, and under 2 % is refused`(world: PaceWorld) {
        for seed in Self.seeds {
            let (used, refused) = measure(world, seconds: 180, seed: seed)
            #expect(used >= 0.95, "seed \(seed)")
            #expect(refused < 0.02, "seed \(seed)")
        }
    }

    @Test(arguments: worlds(isBare: true, rate: 1_000))
    func `is at least 90 % where Apple does not say until when`(world: PaceWorld) {
        for seed in Self.seeds {
            let (used, _) = measure(world, seconds: 180, seed: seed)
            #expect(used >= 0.90, "seed \(seed)")
        }
    }

    /// After 10 s, in which the rate is searched for.
    @Test(arguments: [Counting.windows(.seconds(1)), .slidingSecond], [3, 6])
    func `is most of the limit in the first minute too`(counting: Counting, replicaCount: Int) {
        var used: [Double] = []
        for seed: UInt64 in 1...8 {
            var run = RateLimiterRun(
                PaceWorld(
                    counting: counting,
                    isBare: true,
                    replicaCount: replicaCount,
                    latency: Milliseconds(50)
                ),
                seed: seed
            )
            run.go(seconds: 10)
            let before = run.takenCount
            run.go(seconds: 60)
            used.append(Double(run.takenCount - before) / 6_000)
        }
        #expect(used.reduce(0, +) / 8 >= 0.95, "\(used)")
    }

    @Test(
        arguments: [Counting.windows(.seconds(1)), .bucket(100), .bucket(10)].flatMap { counting in
            [1, 3].map { replicaCount in
                // Apple's seconds are ours, and requests arrive in the slot they were sent in.
                PaceWorld(
                    counting: counting,
                    rate: 100,
                    replicaCount: replicaCount,
                    latency: Milliseconds(2),
                    hasPhase: false
                )
            }
        }
    )
    func `is all of the limit at the right setting, and none is refused`(world: PaceWorld) {
        for seed in Self.seeds {
            var run = RateLimiterRun(world, seed: seed)
            run.go(seconds: 180)
            #expect(run.refusedCount == 0, "seed \(seed)")
            #expect(run.takenCount >= 17_980, "seed \(seed)")
        }
    }

    @Test(
        arguments: [false, true].flatMap { worlds(isBare: $0, rate: 100, latencies: [100]) }
    )
    func `loses little at the right setting to clocks that differ`(world: PaceWorld) {
        for seed in Self.seeds {
            let (used, refused) = measure(world, seconds: 180, seed: seed)
            #expect(used >= (world.isBare ? 0.92 : 0.94), "seed \(seed)")
            #expect(refused < 0.005, "seed \(seed)")
        }
    }

    /// As `reportsPerSecond` is mostly set, or an hour is: low rates, and long windows.
    static let others: [PaceWorld] = [1, 3].flatMap { replicaCount in
        [
            PaceWorld(limit: 3, rate: 5, replicaCount: replicaCount),
            PaceWorld(limit: 12, rate: 20, replicaCount: replicaCount),
            PaceWorld(
                counting: .windows(.minutes(1)),
                limit: 12,
                rate: 20,
                replicaCount: replicaCount
            ),
            PaceWorld(
                counting: .windows(.hours(1)),
                limit: 1,
                rate: 5,
                replicaCount: replicaCount,
                hasPhase: false,
                startsWithHour: true
            ),
            // Account tokens, at the limit of the hour and never above.
            PaceWorld(
                counting: .windows(.hours(1)),
                limit: 20,
                rate: 20,
                replicaCount: replicaCount,
                hasPhase: false,
                keeping: .hour
            ),
        ]
    }

    @Test(arguments: others)
    func `uses low limits and those of longer windows`(world: PaceWorld) {
        var run = RateLimiterRun(world, seed: 4)
        run.go(seconds: 3_600)
        let part = Double(run.takenCount) / (world.limit * 3_600)
        #expect(part >= 0.92)
        #expect(run.refusedCount * 33 < run.takenCount, "\(run.refusedCount)")
        if world.keeping == .hour {
            #expect(run.refusedCount == 0)
        }
    }

    @Test(arguments: [false, true])
    func `follows a limit that falls and rises`(isBare: Bool) {
        for seed in Self.seeds {
            var run = RateLimiterRun(PaceWorld(limit: 1_000, isBare: isBare), seed: seed)
            run.go(seconds: 60)
            #expect(run.takenCount > 55_000, "seed \(seed)")
            run.apple.limit = 100
            let before = run.takenCount
            run.go(seconds: 120)
            #expect(run.takenCount - before > 11_000, "seed \(seed)")
            run.apple.limit = 1_000
            run.go(seconds: 600)
            #expect(run.requestsPerSecond > 900, "seed \(seed)")
        }
    }

    @Test(arguments: [false, true], [100.0, 1_000])
    func `is back within a minute after a storm of 70 s`(isBare: Bool, rate: Double) {
        for seed: UInt64 in 1...5 {
            let world = PaceWorld(limit: 100_000, rate: rate, isBare: isBare)
            var run = RateLimiterRun(world, seed: seed)
            run.go(seconds: 20)
            run.apple.isStorm = true
            run.go(seconds: 70)
            #expect(run.holdCount <= 20, "seed \(seed)")
            run.apple.isStorm = false
            run.go(seconds: 60)
            let before = run.takenCount
            run.go(seconds: 10)
            #expect(Double(run.takenCount - before) >= rate * 9.8, "seed \(seed)")
            #expect(run.requestsPerSecond == rate, "seed \(seed)")
        }
    }

    @Test(arguments: [false, true], [190.0, 1_000])
    func `is not given up for refusals that do not depend on it`(isBare: Bool, rate: Double) {
        for seed in Self.seeds {
            var run = RateLimiterRun(
                PaceWorld(limit: 100_000, rate: rate, isBare: isBare),
                seed: seed
            )
            run.apple.refusedEvery = 61
            run.go(seconds: 120)
            let before = run.takenCount
            run.go(seconds: 480)
            // Each refusal is obeyed: it costs a second.
            let part = 61 / (61 / rate + 1)
            let used = Double(run.takenCount - before) / 480
            #expect(used >= part * 0.8, "\(used) of \(part), seed \(seed)")
        }
    }

    /// More than few: the rate is searched for in between, so it takes longer to tell.
    @Test(arguments: [5.0, 20, 190, 1_000], [8, 10, 16])
    func `is taken up again where many refusals do not depend on it`(rate: Double, every: Int) {
        for (isBare, replicaCount) in [(false, 1), (false, 3), (true, 1), (true, 3)] {
            var run = RateLimiterRun(
                PaceWorld(
                    limit: 100_000,
                    rate: rate,
                    isBare: isBare,
                    replicaCount: replicaCount
                ),
                seed: 1
            )
            run.apple.refusedEvery = every
            run.go(seconds: 120)
            let before = run.takenCount
            run.go(seconds: 480)
            let part = Double(every) / (Double(every) / rate + 1)
            let used = Double(run.takenCount - before) / 480
            #expect(used >= part * 0.45, "\(used) of \(part), bare \(isBare), \(replicaCount)")
        }
    }

    /// Each replica is refused for what the others send, which no decrease of its own ends.
    @Test(arguments: [3, 6])
    func `is shared without Retry-After too, where all clocks agree`(replicaCount: Int) {
        for seed: UInt64 in 1...6 {
            let world = PaceWorld(
                counting: .slidingSecond,
                isBare: true,
                replicaCount: replicaCount,
                latency: Milliseconds(50)
            )
            let (used, refused) = measure(world, seconds: 80, seed: seed)
            #expect(used >= 0.85, "seed \(seed)")
            #expect(refused < 0.03, "seed \(seed)")
        }
    }

    /// Goal: a rate that fell while Apple refused much is back soon after it is well again.
    @Test(arguments: [5.0, 20], [2, 3, 4])
    func `is back soon after half an hour of many refusals`(rate: Double, refusedEvery: Int) {
        for seed in Self.seeds {
            for isBare in [false, true] {
                let world = PaceWorld(limit: 100_000, rate: rate, isBare: isBare)
                var run = RateLimiterRun(world, seed: seed)
                run.apple.refusedEvery = refusedEvery
                run.go(seconds: 1_800)
                run.apple.refusedEvery = nil
                run.go(seconds: 1_500)
                #expect(run.requestsPerSecond >= rate * 0.9, "seed \(seed), bare \(isBare)")
            }
        }
    }
}
