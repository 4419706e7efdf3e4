/// What a request asks for, by its path.
enum Route: String, CaseIterable {
    case tokens = "/v1/tokens"
    case notifications = "/v1/notifications"
    case accountTokens = "/v1/account-tokens"
    case purchases = "/v1/purchases"

    /// Apple has no key of ours.
    var needsKey: Bool { self != .notifications }

    /// Whether it takes a batch of lines beside a single object.
    var takesBatches: Bool { self == .tokens || self == .purchases }

    /// The largest body, in bytes.
    var bodyByteCountMax: Int {
        switch self {
        case .tokens, .purchases: IngestLimits.batchByteCountMax
        // The envelope around the signed text is small; no client needs blanks in it.
        case .notifications, .accountTokens: IngestLimits.signedTextByteCountMax + 4_096
        }
    }

    /// Its place among all routes.
    var number: Int {
        switch self {
        case .tokens: 0
        case .notifications: 1
        case .accountTokens: 2
        case .purchases: 3
        }
    }

    /// Where its bodies are counted while they come in, so that none can eat the room of another's.
    var lane: Int { number }

    /// What all its incomplete bodies may hold together, in bytes; many of the largest.
    var incompleteByteCountMax: Int {
        switch self {
        case .tokens, .purchases: 16 << 20
        case .notifications, .accountTokens: 2 << 20
        }
    }

    /// How many connections may hold an incomplete body for it.
    ///
    /// Whoever knows the address can send notifications, one byte of a body each: as many as may wait
    /// in the ``NotificationLine``. So half of the connections stay open to whoever has a key.
    var incompleteConnectionCountMax: Int {
        self == .notifications
            ? NotificationLine.byteCountMax / NotificationLine.slotByteCount
            : IngestLimits.connectionCountMax
    }

    /// Index of the topic it stores into: the targets of `ingest` have the order of the routes.
    var topic: Int { number }

    var acceptedStatus: Int { self == .notifications ? 200 : 202 }
}

/// Every limit of the door for a request.
enum IngestLimits {
    static let connectionCountMax = 1_024
    static let batchByteCountMax = 1 << 20
    static let batchRecordCountMax = 10_000
    /// Longer than any token: what is longer than a token may be is decode's to refuse, and to keep.
    static let tokenByteCountMax = 64 << 10
    static let linkByteCountMax = 64 << 10
    /// A JWS: the notification or the transaction.
    static let signedTextByteCountMax = 64 << 10
    /// Transaction and bundle ids.
    static let identifierByteCountMax = 256
    static let requestIDByteCountMax = 64
    /// From a complete request to its answer, whatever the broker does.
    static let answerTimeoutMilliseconds: Int64 = 8_000
    /// From SIGTERM to the last answer; within 10 s the process is gone.
    static let stopTimeoutMilliseconds: Int64 = 7_000
    /// What waits for the broker at most, in bytes; the door closes at half of it.
    static let queueByteCountMax = 16 << 20
    /// Of the producer's queue, 0 to 1.
    static let fillLevelMax = 0.5
    /// The same of one topic's records: where that is full, the others still have a quarter of the door's half.
    static let topicFillLevelMax = 0.375
}
