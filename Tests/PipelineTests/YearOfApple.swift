import AppStoreAPI
import TokenDomain

/// Apple over a year: a limit for each app, one answer of a thousand lost, and times in which it fails.
///
/// It keeps only a number of each token, so that a year fits into memory.
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
    private var tokens: Set<UInt64> = []
    private var identifiers: Set<UInt64> = []
    private var buckets: [Lane: (level: Double, at: Timestamp)] = [:]
    private var answers: [(tag: UInt64, reply: AppleReply)] = []

    init(limit: Double, seed: UInt64) {
        self.limit = limit
        generator = SeededGenerator(seed: seed ^ 0x9ea2)
    }

    var wakeDescriptor: Int32 { -1 }
    private(set) var nextAnswer: Timestamp?

    func submit(_ request: AppleRequest, now: Timestamp) {
        answers.append((request.tag, reply(to: request, now: now)))
        nextAnswer = now
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
            let report = JSONValue(body.bytes)
            guard let identifier = report?["requestIdentifier"]?.text,
                let token = report?["externalPurchaseId"]?.text
            else {
                return AppleReply(transport: .answered(status: 400))
            }
            guard identifiers.insert(Self.number(identifier)).inserted else {
                let error = AppleError(code: 1, fieldName: "requestIdentifier", lineItemID: nil)
                return AppleReply(transport: .answered(status: 400), errors: [error])
            }
            acceptedCount += 1
            repeatedCount += tokens.insert(Self.number(token)).inserted ? 0 : 1
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

    /// The last twelve hexadecimal digits: ids of the simulation count up in them.
    private static func number(_ uuid: String) -> UInt64 {
        UInt64(uuid.filter { $0 != "-" }.suffix(16), radix: 16) ?? 0
    }

    func collect(now: Timestamp) -> [(tag: UInt64, reply: AppleReply)] {
        defer { (answers, nextAnswer) = ([], nil) }
        return answers
    }

    func abandon(tag: UInt64) {
        answers.removeAll { $0.tag == tag }
    }

    func reloadKey(appAppleID: Int64) {}

    /// 503s since the last call.
    func takeFailureCount() -> Int {
        defer { failureCount = 0 }
        return failureCount
    }
}
