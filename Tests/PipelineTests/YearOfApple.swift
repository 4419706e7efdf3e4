import AppStoreAPI
import TokenDomain
import TokenWire

/// Apple over a year: a limit for each app, one answer of a thousand lost, and times in which it fails.
///
/// It keeps a bit of each token and a number of each report, so that a year fits into memory.
final class YearOfApple: AppleClient {
    /// Whether Apple answers 503 to everything at a time.
    var isDown: (Timestamp) -> Bool = { _ in false }
    private(set) var acceptedCount = 0
    /// Reports of a token that had one: never, if the promise holds.
    private(set) var repeatedCount = 0
    private(set) var refusedCount = 0
    private var failureCount = 0
    /// Requests per second.
    private let limit: Double
    private var generator: SeededGenerator
    /// Whether each token was reported: their ids count up in the last twelve digits.
    private var isReported: [UInt64] = []
    private var identifiers: Set<UInt64> = []
    private var buckets: [Lane: (level: Double, at: Timestamp)] = [:]
    /// On their way, the oldest first.
    private var answers: [(dueAt: Timestamp, tag: UInt64, reply: AppleReply)] = []
    /// An answer comes when the app's next report goes, or sooner.
    private let answerTime: Milliseconds
    private static let answerTimeMax = Milliseconds.seconds(10)

    init(limit: Double, seed: UInt64) {
        self.limit = limit
        answerTime = min(Milliseconds(Int64(1_000 / limit)), Self.answerTimeMax)
        generator = SeededGenerator(seed: seed ^ 0x9ea2)
    }

    var wakeDescriptor: Int32 { -1 }
    var nextAnswer: Timestamp? { answers.first?.dueAt }

    func submit(_ request: AppleRequest, now: Timestamp) {
        answers.append((now + answerTime, request.tag, reply(to: request, now: now)))
    }

    private func reply(to request: AppleRequest, now: Timestamp) -> AppleReply {
        guard !isDown(now) else {
            failureCount += 1
            return AppleReply(transport: .answered(status: 503))
        }
        guard isAllowed(request.lane, now: now) else {
            refusedCount += 1
            let wait = Milliseconds(Int64(1_000 / limit))
            return AppleReply(transport: .answered(status: 429), retryAfter: now + wait)
        }
        let isLost = Int.random(in: 0..<1_000, using: &generator) == 0
        let reply = act(on: request)
        return isLost ? AppleReply(transport: .doubtful) : reply
    }

    /// A token bucket with a burst of ten.
    private func isAllowed(_ lane: Lane, now: Timestamp) -> Bool {
        var (level, at) = buckets[lane] ?? (10, now)
        level = min(level + Double((now - at).count) / 1_000 * limit, 10)
        at = now
        let isAllowed = level >= 1
        buckets[lane] = (isAllowed ? level - 1 : level, at)
        return isAllowed
    }

    private func act(on request: AppleRequest) -> AppleReply {
        switch request.action {
        case .sendReport(let body):
            guard let (identifier, token) = Self.report(body.bytes.span) else {
                return AppleReply(transport: .answered(status: 400))
            }
            guard identifiers.insert(Self.number(identifier)).inserted else {
                let error = AppleError(code: 1, fieldName: "requestIdentifier", lineItemID: nil)
                return AppleReply(transport: .answered(status: 400), errors: [error])
            }
            acceptedCount += 1
            repeatedCount += report(token: token) ? 0 : 1
            return AppleReply(transport: .answered(status: 200), acknowledged: identifier)
        case .retrieveReport(let identifier, _):
            guard identifiers.contains(Self.number(identifier)) else {
                let error = AppleError(code: 3, fieldName: "requestIdentifier", lineItemID: nil)
                return AppleReply(transport: .answered(status: 400), errors: [error])
            }
            return AppleReply(transport: .answered(status: 200), isOurs: true)
        case .setAccountToken:
            preconditionFailure("nobody asks for account tokens")
        }
    }

    /// - Returns: whether it had no report yet.
    private func report(token: String) -> Bool {
        let number = token.utf8.suffix(12).reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
        let (word, bit) = number.quotientAndRemainder(dividingBy: 64)
        while isReported.count <= word {
            isReported.append(0)
        }
        let before = isReported[word]
        isReported[word] |= 1 << bit
        return isReported[word] != before
    }

    /// The identifier and the token of a report.
    private static func report(_ body: Span<UInt8>) -> (identifier: String, token: String)? {
        var identifier: String?
        var token: String?
        do throws(WireFault) {
            try JSONScanner.scanObject(body) { (key, scanner) throws(WireFault) in
                switch key {
                case "requestIdentifier": try scanner.fill(&identifier)
                case "externalPurchaseId": try scanner.fill(&token)
                default: try scanner.skip()
                }
            }
        } catch {
            // Apple answers 400.
            return nil
        }
        guard let identifier, let token else {
            return nil
        }
        return (identifier, token)
    }

    /// In one of 3,700 years two of 100 million reports are one number.
    private static func number(_ uuid: String) -> UInt64 {
        var (high, low): (UInt64, UInt64) = (0, 0)
        for byte in uuid.utf8 where byte != UInt8(ascii: "-") {
            let isLetter = byte >= UInt8(ascii: "a")
            let digit = isLetter ? byte - UInt8(ascii: "a") + 10 : byte - UInt8(ascii: "0")
            high = high << 4 | low >> 60
            low = low << 4 | UInt64(digit)
        }
        return high ^ low
    }

    func collect(now: Timestamp) -> [(tag: UInt64, reply: AppleReply)] {
        let count = answers.firstIndex { $0.dueAt > now } ?? answers.count
        defer { answers.removeFirst(count) }
        return answers[..<count].map { ($0.tag, $0.reply) }
    }

    func abandon(tag: UInt64) {
        answers.removeAll { $0.tag == tag }
    }

    func reloadKey(appAppleID: Int64) {}

    func startWithFirstKey(appAppleID: Int64) {}

    /// 503s since the last call.
    func takeFailureCount() -> Int {
        defer { failureCount = 0 }
        return failureCount
    }
}
