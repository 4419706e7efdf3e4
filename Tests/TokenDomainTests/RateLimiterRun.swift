import Testing
import TokenDomain

/// What one run is made of.
struct PaceWorld: CustomTestStringConvertible {
    var counting = Counting.windows(.seconds(1))
    var limit = 100.0
    /// Of the lane.
    var rate = 1_000.0
    var isBare = false
    var replicaCount = 1
    var latency = Milliseconds(20)
    /// How far the replicas' clocks are from Apple's, at most, either way.
    var skew = Milliseconds(0)
    /// Windows begin anywhere; else with the clock's seconds.
    var hasPhase = true
    var keeping = RateLimiter.Keeping.second
    /// At the start of an hour, else somewhere in one.
    var startsWithHour = false

    var testDescription: String {
        "\(rate)/s of \(limit)/s by \(counting)\(isBare ? ", bare" : ""), "
            + "\(replicaCount) replicas, \(latency.count) ms"
    }
}

/// Replicas with more to send than they may, their requests on the way, and Apple; all in a time of
/// its own.
struct RateLimiterRun {
    /// Of one lane, as in the worker.
    private static let flightCountMax = 32

    private struct Request {
        var replica: Int
        var sentAt: Timestamp
    }

    private enum Event {
        case wake(Int, number: Int)
        case arrival(Request)
        case answer(Request, ModelApple.Answer)
    }

    private struct Replica {
        var limiter: RateLimiter
        var skew: Double
        var flightCount = 0
        var wakeNumber = 0
    }

    let world: PaceWorld
    var apple: ModelApple
    private(set) var now: Double
    private var generator: SeededGenerator
    private var replicas: [Replica] = []
    private var events: [(time: Double, event: Event)] = []
    private(set) var takenCount = 0
    private(set) var refusedCount = 0
    private(set) var holdCount = 0

    init(_ world: PaceWorld, seed: UInt64) {
        self.world = world
        var random = SeededGenerator(seed: seed)
        apple = ModelApple(world.counting, limit: world.limit, isBare: world.isBare)
        if world.hasPhase, case .windows(let length) = world.counting {
            apple.phase = .random(in: 0..<Double(length.count), using: &random)
        }
        let hour = 1_768_003_200_000.0
        now = world.startsWithHour ? hour : hour + .random(in: 0..<3_600_000, using: &random)
        let part = 12 / world.replicaCount
        for number in 0..<world.replicaCount {
            var limiter = RateLimiter(rate: world.rate, keeping: world.keeping)
            limiter.share((number * part..<(number + 1) * part).map { Int32($0) }, of: 12)
            let skew = Double(world.skew.count)
            replicas.append(
                Replica(limiter: limiter, skew: .random(in: -skew...skew, using: &random))
            )
        }
        generator = random
        for number in replicas.indices {
            wake(number, at: now + Double(number) * 37)
        }
    }

    /// Of all replicas.
    var requestsPerSecond: Double {
        replicas.indices.reduce(0) {
            $0 + replicas[$1].limiter.requestsPerSecond(now: clock(of: $1))
        }
    }

    mutating func go(seconds: Double) {
        let end = now + seconds * 1_000
        while let last = events.last, last.time < end {
            events.removeLast()
            now = last.time
            handle(last.event)
        }
        now = end
    }

    private func clock(of replica: Int) -> Timestamp {
        Timestamp(milliseconds: Int64(now + replicas[replica].skew))
    }

    private mutating func handle(_ event: Event) {
        switch event {
        case .wake(let replica, let number):
            if number == replicas[replica].wakeNumber {
                send(replica)
            }
        case .arrival(let request):
            let answer = apple.answer(at: now)
            if answer == .taken {
                takenCount += 1
            } else {
                refusedCount += 1
            }
            schedule(.answer(request, answer), in: halfLatency())
        case .answer(let request, let answer):
            replicas[request.replica].flightCount -= 1
            hear(answer, to: request)
            send(request.replica)
        }
    }

    private mutating func hear(_ answer: ModelApple.Answer, to request: Request) {
        let clock = clock(of: request.replica)
        switch answer {
        case .taken:
            replicas[request.replica].limiter.accepted(sentAt: request.sentAt, now: clock)
        case .refused(let retryAt):
            let until = retryAt.map { max(Timestamp(milliseconds: Int64($0.rounded(.up))), clock) }
            let isHeld = replicas[request.replica].limiter.rateLimited(
                sentAt: request.sentAt,
                until: until,
                now: clock,
                using: &generator
            )
            holdCount += isHeld ? 1 : 0
        }
    }

    private mutating func send(_ replica: Int) {
        let clock = clock(of: replica)
        while replicas[replica].flightCount < Self.flightCountMax,
            replicas[replica].limiter.take(now: clock)
        {
            replicas[replica].flightCount += 1
            schedule(.arrival(Request(replica: replica, sentAt: clock)), in: halfLatency())
        }
        guard replicas[replica].flightCount < Self.flightCountMax,
            let turn = replicas[replica].limiter.nextSend(now: clock)
        else {
            return
        }
        // Loops wake a little late.
        let late = Double.random(in: 0...1.5, using: &generator)
        wake(replica, at: max(Double(turn.milliseconds) - replicas[replica].skew, now + 0.2) + late)
    }

    private mutating func wake(_ replica: Int, at time: Double) {
        replicas[replica].wakeNumber += 1
        schedule(.wake(replica, number: replicas[replica].wakeNumber), in: time - now)
    }

    private mutating func halfLatency() -> Double {
        Double(world.latency.count) / 2 + .random(in: 0...1, using: &generator)
    }

    /// The latest lies first.
    private mutating func schedule(_ event: Event, in wait: Double) {
        let time = now + wait
        var place = events.count
        while place > 0, events[place - 1].time < time {
            place -= 1
        }
        events.insert((time, event), at: place)
    }
}
