/// What happened to one request, refused ones included (S21).
package struct RequestRecord: Equatable, Sendable {
    package var sequence: Int
    /// Real time, not the world's.
    package var at: UnixMilliseconds
    package var environment: StoreEnvironment
    package var method: String
    package var path: String
    package var bundleID: String?
    package var requestIdentifier: String?
    package var externalPurchaseID: String?
    package var traceparent: String?
    /// The status made, whether or not it reached the caller.
    package var status: Int
    package var errorCodes: [Int]
    /// One word: `accepted`, `found`, `refused`, `malformed`, `unauthorized`, `rate_limited`, `fault`.
    package var outcome: String
    /// The fault that struck, by its kind.
    package var fault: String?
    /// False where the connection was reset before the whole answer was out.
    package var isDelivered: Bool

    var json: JSONValue {
        var members = [
            JSONMember("sequence", .integer(sequence)),
            JSONMember("at", .integer(at)),
            JSONMember("environment", .string(environment.rawValue)),
            JSONMember("method", .string(method)),
            JSONMember("path", .string(path)),
        ]
        members += JSONMember.present("bundleId", bundleID.map { .string($0) })
        members += JSONMember.present("requestIdentifier", requestIdentifier.map { .string($0) })
        members += JSONMember.present("externalPurchaseId", externalPurchaseID.map { .string($0) })
        members += JSONMember.present("traceparent", traceparent.map { .string($0) })
        members += [
            JSONMember("status", .integer(status)),
            JSONMember("errorCodes", .array(errorCodes.map { .integer($0) })),
            JSONMember("outcome", .string(outcome)),
        ]
        members += JSONMember.present("fault", fault.map { .string($0) })
        members.append(JSONMember("delivered", .bool(isDelivered)))
        return .object(members)
    }
}

/// The newest requests, bounded, and a count of all by outcome.
struct RequestLog: Sendable {
    let capacity: Int
    private var ring: [RequestRecord] = []
    private(set) var totalCount = 0
    /// By environment, endpoint, outcome and fault, such as `production report accepted reset-after`.
    private(set) var countByKind: [String: Int] = [:]
    /// By code and field, such as `1 lineItemId`: one code may mean several things.
    private(set) var countByError: [String: Int] = [:]

    /// Of a report that Apple has, all other errors only repeat that.
    private static let repeatedReport = "1 requestIdentifier"

    init(capacity: Int) {
        self.capacity = capacity
    }

    /// Takes in a request and the errors of its answer, by code and field, each once.
    mutating func append(
        _ record: RequestRecord,
        endpoint: AppleEndpoint?,
        errors: Set<String> = []
    ) {
        let counted = errors.contains(Self.repeatedReport) ? [Self.repeatedReport] : errors
        for error in counted { countByError[error, default: 0] += 1 }
        var record = record
        record.sequence = totalCount
        totalCount += 1
        let kind = [
            record.environment.rawValue, endpoint?.rawValue ?? "none", record.outcome, record.fault,
        ].compactMap { $0 }.joined(separator: " ")
        countByKind[kind, default: 0] += 1
        guard capacity > 0 else { return }
        if ring.count < capacity {
            ring.append(record)
        } else {
            ring[record.sequence % capacity] = record
        }
    }

    /// Records still held with at least this sequence, oldest first, at most `limit`.
    func records(from sequence: Int, limit: Int) -> [RequestRecord] {
        let first = max(sequence, totalCount - ring.count, 0)
        guard first < totalCount else { return [] }
        return (first..<min(totalCount, first + limit)).map { ring[$0 % capacity] }
    }
}
