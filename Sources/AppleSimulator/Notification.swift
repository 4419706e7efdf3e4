/// Why Apple writes about a token.
package enum NotificationSubtype: String, CaseIterable, Sendable {
    case created = "CREATED"
    case reminder = "ACTIVE_TOKEN_REMINDER"
    case unreported = "UNREPORTED"
}

/// The result of one attempt, in Apple's words.
enum SendAttemptResult: String, Sendable {
    case success = "SUCCESS"
    case timedOut = "TIMED_OUT"
    case noResponse = "NO_RESPONSE"
    case socketIssue = "SOCKET_ISSUE"
    case unsuccessfulStatus = "UNSUCCESSFUL_HTTP_RESPONSE_CODE"
}

/// A notification as it was signed, and every attempt to deliver it.
struct StoredNotification: Sendable {
    struct Attempt: Sendable {
        var at: UnixMilliseconds
        var result: SendAttemptResult
    }

    let uuid: String
    let type: String
    let subtype: String?
    let environment: StoreEnvironment
    let bundleID: String
    let externalPurchaseID: String?
    let signedAt: UnixMilliseconds
    /// The same in every attempt.
    let signedPayload: String
    /// Where to; nil where it is only to be looked at.
    var url: String?
    /// Attempts in all: one in the sandbox, six in production.
    let attemptCountMax: Int
    var attempts: [Attempt] = []

    /// The hours after the attempt before, in production.
    static let hoursBetweenAttempts: [Int64] = [1, 12, 24, 48, 72]

    var isDelivered: Bool { attempts.last?.result == .success }

    /// The next attempt after a failed one; nil after the last.
    var nextAttempt: UnixMilliseconds? {
        guard let last = attempts.last, last.result != .success, attempts.count < attemptCountMax
        else { return nil }
        return last.at + Self.hoursBetweenAttempts[attempts.count - 1] * 3_600_000
    }

    var requestBody: [UInt8] {
        JSONValue.object([JSONMember("signedPayload", .string(signedPayload))]).bytes
    }

    var attemptsJSON: JSONValue {
        .array(
            attempts.map { attempt in
                .object([
                    JSONMember("attemptDate", .integer(attempt.at)),
                    JSONMember("sendAttemptResult", .string(attempt.result.rawValue)),
                ])
            }
        )
    }
}

/// Times at which something is due, earliest first; equal ones in the order they came.
struct DueQueue<Event: Sendable>: Sendable {
    private struct Entry: Sendable {
        var due: UnixMilliseconds
        var sequence: Int
        var event: Event

        static func < (left: Entry, right: Entry) -> Bool {
            (left.due, left.sequence) < (right.due, right.sequence)
        }
    }

    private var heap: [Entry] = []
    private var sequence = 0

    var firstDue: UnixMilliseconds? { heap.first?.due }
    var count: Int { heap.count }

    mutating func add(_ event: Event, due: UnixMilliseconds) {
        heap.append(Entry(due: due, sequence: sequence, event: event))
        sequence += 1
        var child = heap.count - 1
        while child > 0, heap[child] < heap[(child - 1) / 2] {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    /// The first event, where it is due.
    mutating func takeFirst(at now: UnixMilliseconds) -> (due: UnixMilliseconds, event: Event)? {
        guard let first = heap.first, first.due <= now else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < heap.count && heap[child] < heap[least] {
                least = child
            }
            if least == parent { break }
            heap.swapAt(parent, least)
            parent = least
        }
        return (first.due, first.event)
    }
}
