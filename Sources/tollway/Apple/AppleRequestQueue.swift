internal import AppStoreAPI
internal import Glibc
internal import HTTPClient
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// Sends Apple one request for each of many subjects: signed as `report` signs, several in flight,
/// each lane within its rate, repeated while Apple limits or fails it.
///
/// ```
/// queue.add(subject, in: lane)
/// while queue.isBusy { for result in try queue.turn() { … } }
/// ```
final class AppleRequestQueue<Subject> {
    /// What a subject's request is.
    typealias Make = (Subject, AppleEnvironment, _ webToken: String, _ tag: UInt64) ->
        HTTPClientRequest

    /// The result of a subject's request; exactly one for each.
    struct Result {
        var subject: Subject
        var lane: Lane
        var outcome: Swift.Result<HTTPClientResponse.Answer, AppleTrouble>
    }

    private struct Waiting {
        var subject: Subject
        /// How often Apple refused a key that signed it.
        var refusalCount = 0
    }

    private struct LaneState {
        var waiting: [Waiting] = []
        /// How many of them have been taken: the front of a queue that is cut now and then.
        var takenCount = 0
        var flightCount = 0
        /// Monotonic milliseconds.
        var nextAt = 0.0
        /// Failures without an answer between, and when the first was, in monotonic milliseconds.
        ///
        /// What was under way when one was counted is no further one: it may be one reset for all.
        var failureCount = 0
        var failingSince = 0.0
        /// The first request that was sent after the last failure that counts.
        var firstCountedTag: UInt64 = 0
        /// That Apple fails was logged.
        var isLogged = false
        /// Refusals for the rate without an answer between.
        ///
        /// What was under way when one was counted is no further one.
        var limitCount = 0
        /// The first request that was sent after the last one that counts.
        var firstLimitedTag: UInt64 = 0
        var trouble: AppleTrouble?

        var waitingCount: Int { waiting.count - takenCount }

        mutating func take() -> Waiting? {
            guard takenCount < waiting.count else {
                return nil
            }
            takenCount += 1
            let taken = waiting[takenCount - 1]
            if takenCount == waiting.count || takenCount > 1_000 {
                waiting.removeFirst(takenCount)
                takenCount = 0
            }
            return taken
        }
    }

    private let http: HTTPClient
    private let keys: KeyRing
    private let keyCount: (Int64) -> Int
    private let rate: (Lane) -> Double
    private let make: Make
    private var lanes: [Lane: LaneState] = [:]
    private var flights: [UInt64: (lane: Lane, keyID: String, waiting: Waiting)] = [:]
    private var nextTag: UInt64 = 1
    private var ready: [Result] = []

    /// A request loop for one verb.
    ///
    /// - Parameters:
    ///   - keys: what signs.
    ///   - rate: requests a second in a lane, above zero.
    ///   - make: a subject's request.
    /// - Throws: exit 1 where there is no HTTP client.
    init(
        keys: AppleKeys,
        rate: @escaping (Lane) -> Double,
        make: @escaping Make
    ) throws(CommandFailure) {
        self.keys = keys.ring
        keyCount = { keys.app($0)?.keys.count ?? 0 }
        self.rate = rate
        self.make = make
        do throws(HTTPClientFault) {
            http = try HTTPClient(
                limits: HTTPClient.Limits(concurrency: AppleRequestQueueLimits.flightCountMax * 2),
                userAgent: "tollway/1.0"
            )
        } catch {
            throw CommandFailure(
                .failed,
                code: "apple.no_client",
                "the HTTP client cannot be made: \(error)"
            )
        }
    }

    deinit {
        http.close()
    }

    func add(_ subject: Subject, in lane: Lane) {
        lanes[lane, default: LaneState()].waiting.append(Waiting(subject: subject))
    }

    /// Subjects without a result so far.
    var waitingCount: Int {
        lanes.values.reduce(ready.count + flights.count) { $0 + $1.waitingCount }
    }

    var isBusy: Bool { waitingCount > 0 }

    /// Sends what may be sent, waits a moment for answers, and takes them.
    ///
    /// - Returns: what is settled; often nothing.
    func turn() -> [Result] {
        let now = Double(WallClock.monotonicMilliseconds())
        for lane in lanes.keys {
            send(lane, now: now)
        }
        if ready.isEmpty {
            wait(now: now)
        }
        http.run()
        for response in http.takeResponses() {
            take(response)
        }
        defer { ready = [] }
        return ready
    }

    private func send(_ lane: Lane, now: Double) {
        guard var state = lanes[lane] else {
            return
        }
        defer { lanes[lane] = state }
        while state.flightCount < AppleRequestQueueLimits.flightCountMax, state.nextAt <= now,
            let waiting = state.take()
        {
            if let trouble = state.trouble {
                ready.append(
                    Result(subject: waiting.subject, lane: lane, outcome: .failure(trouble))
                )
                continue
            }
            guard let signer = keys.signer(of: lane) else {
                let trouble = AppleTrouble.noKey(lane)
                ready.append(
                    Result(subject: waiting.subject, lane: lane, outcome: .failure(trouble))
                )
                continue
            }
            state.nextAt = max(state.nextAt, now) + 1_000 / rate(lane)
            state.flightCount += 1
            let tag = nextTag
            nextTag += 1
            let webToken = JSONWebToken.make(
                key: signer.key,
                issuerID: signer.issuerID,
                keyID: signer.keyID,
                bundleID: signer.bundleID,
                now: Timestamp(milliseconds: WallClock.nowMilliseconds())
            )
            flights[tag] = (lane, signer.keyID, waiting)
            _ = http.submit(make(waiting.subject, lane.environment, webToken, tag))
        }
    }

    private func wait(now: Double) {
        let turns = lanes.values.compactMap { state -> Double? in
            let isFree = state.flightCount < AppleRequestQueueLimits.flightCountMax
            return isFree && state.waitingCount > 0 ? state.nextAt - now : nil
        }
        let milliseconds = min(turns.min() ?? .infinity, AppleRequestQueueLimits.waitMilliseconds)
        var entry = pollfd(fd: http.wakeDescriptor, events: Int16(POLLIN), revents: 0)
        // A signal ends it early: the caller checks for one.
        _ = unsafe poll(&entry, 1, Int32(max(0, milliseconds.rounded(.up))))
    }

    private func take(_ response: HTTPClientResponse) {
        guard let (lane, keyID, waiting) = flights.removeValue(forKey: response.tag),
            var state = lanes[lane]
        else {
            return
        }
        state.flightCount -= 1
        defer { lanes[lane] = state }
        switch response.outcome {
        case .failed(let failure):
            again(waiting, response.tag, failure.message, &state, in: lane)
        case .answered(let answer) where answer.status == 401 || answer.status == 403:
            keys.heard(httpStatus: answer.status, of: lane, signedWith: keyID)
            let signatureCount = answer.status == 401 ? AppleRequestQueueLimits.signatureCount : 1
            let countMax = max(keyCount(lane.appAppleID), signatureCount)
            guard waiting.refusalCount + 1 < countMax else {
                let trouble = AppleTrouble.refused(lane, httpStatus: answer.status)
                state.trouble = trouble
                ready.append(
                    Result(subject: waiting.subject, lane: lane, outcome: .failure(trouble))
                )
                return
            }
            var next = waiting
            next.refusalCount += 1
            state.waiting.insert(next, at: state.takenCount)
        case .answered(let answer) where answer.status == 429:
            hold(waiting, response.tag, answer, &state, in: lane)
        case .answered(let answer) where answer.status >= 500:
            again(waiting, response.tag, "HTTP \(answer.status)", &state, in: lane)
        case .answered(let answer):
            state.failureCount = 0
            state.limitCount = 0
            ready.append(Result(subject: waiting.subject, lane: lane, outcome: .success(answer)))
        }
    }

    /// Apple limits the lane: all of it waits, as long as Apple says; longer each time where Apple
    /// says nothing, or an end that is over by our clock.
    private func hold(
        _ waiting: Waiting,
        _ tag: UInt64,
        _ answer: HTTPClientResponse.Answer,
        _ state: inout LaneState,
        in lane: Lane
    ) {
        let now = Timestamp(milliseconds: WallClock.nowMilliseconds())
        let until = answer.header("retry-after").flatMap { RetryAfter.read($0, now: now) }
        if tag >= state.firstLimitedTag {
            state.limitCount += 1
            state.firstLimitedTag = nextTag
        }
        let doubling =
            AppleRequestQueueLimits.firstWaitMilliseconds * Double(1 << min(state.limitCount, 6))
        let wait = until.flatMap { $0 > now ? Double(($0 - now).count) : nil } ?? doubling
        state.nextAt = max(state.nextAt, Double(WallClock.monotonicMilliseconds()) + wait)
        state.waiting.insert(waiting, at: state.takenCount)
        if wait > AppleRequestQueueLimits.longWaitMilliseconds {
            Console.say(
                "Apple limits app \(lane.appAppleID) (\(lane.environment.rawValue)):"
                    + " it goes on in \(AgeText.of(Milliseconds(Int64(wait))))"
            )
        }
    }

    /// Nothing is known: it is asked again, later each time, until it is given up.
    private func again(
        _ waiting: Waiting,
        _ tag: UInt64,
        _ why: String,
        _ state: inout LaneState,
        in lane: Lane
    ) {
        guard tag >= state.firstCountedTag else {
            state.waiting.insert(waiting, at: state.takenCount)
            return
        }
        state.firstCountedTag = nextTag
        let now = Double(WallClock.monotonicMilliseconds())
        state.failureCount += 1
        if state.failureCount == 1 {
            state.failingSince = now
        }
        if !state.isLogged {
            state.isLogged = true
            Console.say(
                "Apple's \(lane.environment.rawValue) does not answer for app"
                    + " \(lane.appAppleID) (\(why)): it is asked again"
            )
        }
        guard state.failureCount < AppleRequestQueueLimits.failureCountMax,
            now - state.failingSince < AppleRequestQueueLimits.failingMillisecondsMax
        else {
            let trouble = AppleTrouble.away(lane, because: why)
            state.trouble = trouble
            ready.append(Result(subject: waiting.subject, lane: lane, outcome: .failure(trouble)))
            return
        }
        let wait =
            AppleRequestQueueLimits.firstWaitMilliseconds * Double(1 << min(state.failureCount, 5))
        state.nextAt = max(state.nextAt, now + wait)
        state.waiting.insert(waiting, at: state.takenCount)
    }
}

private enum AppleRequestQueueLimits {
    /// Requests under way in one lane.
    static let flightCountMax = 32
    static let waitMilliseconds = 200.0
    /// Signatures that Apple has to refuse, be they by one key, before it refuses the key (apple-api 2.8).
    static let signatureCount = 2
    static let firstWaitMilliseconds = 250.0
    /// A hold that is longer is said.
    static let longWaitMilliseconds = 5_000.0
    /// Failures in a row before Apple counts as away: some twenty seconds.
    static let failureCountMax = 8
    /// Where each takes as long as a request may: the second that Apple leaves without an answer.
    static let failingMillisecondsMax = 25_000.0
}

/// Why Apple gave no answer to a question in one lane.
enum AppleTrouble: Error, Equatable {
    /// Every key of the app is refused.
    case refused(Lane, httpStatus: Int)
    case noKey(Lane)
    case away(Lane, because: String)

    var failure: CommandFailure {
        switch self {
        case .refused(let lane, let status):
            CommandFailure(
                .noApple,
                code: "apple.refused",
                "Apple's \(lane.environment.rawValue) refuses every key of app \(lane.appAppleID)"
                    + " (HTTP \(status)): see tollway doctor"
            )
        case .noKey(let lane):
            CommandFailure(
                .usage,
                code: "apple.no_key",
                "app \(lane.appAppleID) has no key in \(Setting.appsFile.fullName)"
            )
        case .away(let lane, let because):
            CommandFailure(
                .noApple,
                code: "apple.unavailable",
                "no answer from Apple's \(lane.environment.rawValue) for app"
                    + " \(lane.appAppleID): \(because)"
            )
        }
    }
}
