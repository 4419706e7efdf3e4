/// One decided status for one token: numbered, named and stored before its first send.
package struct ReportIntent: Equatable, Sendable {
    /// What is known of its way to Apple, and so what the next request is.
    package enum Phase: String, Sendable {
        /// Not known to have reached Apple: PUT.
        case planned
        /// A send may have landed, or the identifier is taken: GET first.
        case doubtful
    }

    /// So many of Apple's reasons are kept, and so many bytes of what they name: they lie in the
    /// state.
    package static let refusalCountMax = 32
    package static let refusalTextByteCountMax = 2_048
    /// So many of its requests are remembered.
    package static let exchangeCountMax = 12

    /// From 1; in the order of decision.
    package var number: Int
    /// Apple's `requestIdentifier`; never changes.
    package var identifier: String
    package var status: ReportStatus
    /// The JSON array as it came, byte for byte; only with LINE_ITEM.
    package var lineItems: String?
    package var reason: ReportReason
    /// The record that made the debt: a refusal's dead letter names it.
    package var origin: RecordOrigin
    /// When Apple wants to have it; the earliest goes first.
    package var deadline: Timestamp
    package var phase: Phase
    /// Since when Apple says that the identifier is taken; only a GET can show by whom.
    package var takenSince: Timestamp?
    /// PUTs answered or given up so far.
    package var attempts: Int
    /// GETs likewise.
    package var inquiries: Int
    package var firstSentAt: Timestamp?
    /// Requests ended so far.
    package var requestCount: Int { attempts + inquiries }
    /// How many of them failed, as far as the wait before the next one grows by it: in a search those
    /// since its last step.
    package var failureCount: Int { requestCount - (search?.requestCountBefore ?? 0) }

    /// Not before this; nil: as soon as the lane has room.
    package var nextAttemptAt: Timestamp?
    /// What Apple refused beside a taken identifier: it stands if GET finds nothing.
    ///
    /// See ``keep(_:)``.
    package var refusal: [AppleError]
    /// Of the line items of one that ended because Apple calls its identifier taken and shows nothing
    /// under it: only they may go under it again.
    ///
    /// As ``ReportPolicy/contentHash`` has it. Nil where an earlier version ended it.
    package var frozenHash: UInt64?
    /// Of the dead letter whose replay asks for it; nil where none does.
    package var history: ReplayHistory?
    /// The calendar month that a repeated report is for, by its deadline.
    package var month: CalendarMonth { CalendarMonth(of: deadline).adding(-1) }
    /// The last month that Apple may ask about while it is not reported: where the token ends in a month
    /// its deadline is that month's.
    var lastMonth: CalendarMonth {
        let own = CalendarMonth(of: deadline)
        return deadline == own.start + ReportPolicy.deadlineAfterMonth ? own.adding(-1) : own
    }
    /// Of a report that carries sales: where its answer goes.
    package var purchaseKey: PurchaseKey?
    /// As its request has it.
    package var askedAt: Timestamp?
    /// Under way once Apple calls line items of it known.
    package var search: LineItemSearch?
    /// It names a number given before, whose result was unknown when it came: the account decides
    /// when it is due.
    package var isRepeat = false

    /// Requests that ended, oldest first: the first one and the newest; see ``exchangeCountMax``.
    package var exchanges: [ReportExchange] = []

    package mutating func note(_ exchange: ReportExchange) {
        exchanges.append(exchange)
        if exchanges.count > Self.exchangeCountMax {
            exchanges.remove(at: 1)
        }
    }

    /// Keeps what Apple refused: the first reasons, as many as the state has room for.
    package mutating func keep(_ errors: [AppleError]) {
        var byteCount = 0
        refusal = Array(
            errors.prefix(Self.refusalCountMax).prefix { error in
                byteCount += error.fieldName?.utf8.count ?? 0
                byteCount += error.lineItemID?.utf8.count ?? 0
                return byteCount <= Self.refusalTextByteCountMax
            }
        )
    }

    /// Bytes of ``lineItems`` as they came.
    var lineItemByteCount: Int { lineItems?.utf8.count ?? 0 }

    /// Bytes of the texts that came with it, beside those.
    var textByteCount: Int {
        identifier.utf8.count + (history?.firstFailedAt?.utf8.count ?? 0)
            + (history?.replayID?.utf8.count ?? 0) + (purchaseKey?.text.utf8.count ?? 0)
    }

    /// As it is taken up again after a refusal, with a body that may go under the same identifier.
    func resumed(lineItems: String?, history: ReplayHistory?) -> ReportIntent {
        var intent = self
        intent.lineItems = lineItems
        intent.phase = .planned
        intent.takenSince = nil
        intent.frozenHash = nil
        intent.nextAttemptAt = nil
        intent.search = nil
        intent.keep([])
        intent.history = history
        return intent
    }

    package init(
        number: Int,
        identifier: String,
        status: ReportStatus,
        lineItems: String?,
        reason: ReportReason,
        origin: RecordOrigin,
        deadline: Timestamp,
        phase: Phase = .planned,
        takenSince: Timestamp? = nil,
        attempts: Int = 0,
        inquiries: Int = 0,
        firstSentAt: Timestamp? = nil,
        nextAttemptAt: Timestamp? = nil,
        refusal: [AppleError] = [],
        history: ReplayHistory? = nil
    ) {
        self.number = number
        self.identifier = identifier
        self.status = status
        self.lineItems = lineItems
        self.reason = reason
        self.origin = origin
        self.deadline = deadline
        self.phase = phase
        self.takenSince = takenSince
        self.attempts = attempts
        self.inquiries = inquiries
        self.firstSentAt = firstSentAt
        self.nextAttemptAt = nextAttemptAt
        self.refusal = refusal
        self.history = history
    }
}

/// Apple calls line items of a report known: earlier reports of the token are asked for, the newest
/// first, and compared.
package struct LineItemSearch: Equatable, Sendable {
    /// The number of the report that is asked for next.
    package var number: Int
    /// Ids of the line items not found yet.
    package var open: [String]
    /// Ids of those that Apple holds as they were sent.
    package var verified: [String]
    /// The identifiers of the reports that it holds them by, one for each of ``verified``.
    package var holders: [String]
    /// Requests of the intent that had ended when it came to ``number``; 0 where an earlier version
    /// counted none.
    package var requestCountBefore: Int

    package init(
        number: Int,
        open: [String],
        verified: [String] = [],
        holders: [String] = [],
        requestCountBefore: Int = 0
    ) {
        self.number = number
        self.open = open
        self.verified = verified
        self.holders = holders
        self.requestCountBefore = requestCountBefore
    }
}

/// One request to Apple that ended, and what was answered.
package struct ReportExchange: Equatable, Sendable {
    /// ``ReportRequest/retrieve`` for every GET, as the state has it.
    package var request: ReportRequest
    package var sentAt: Timestamp
    package var answeredAt: Timestamp
    /// 0: there was no answer.
    package var httpStatus: Int
    /// The first of Apple's reasons.
    package var errorCode: Int64?

    package init(
        request: ReportRequest,
        sentAt: Timestamp,
        answeredAt: Timestamp,
        httpStatus: Int,
        errorCode: Int64?
    ) {
        self.request = request == .search ? .retrieve : request
        self.sentAt = sentAt
        self.answeredAt = answeredAt
        self.httpStatus = httpStatus
        self.errorCode = errorCode
    }
}

/// Why a report was owed: `reason` of its outcome.
package enum ReportReason: String, Sendable, CaseIterable {
    case hold, deadline, duplicate, unreported, reminder, unknown, request, month

    /// Whether it is of a token's first report alone; a reminder may be of the first, or of a month's.
    package var isOfFirstReport: Bool {
        switch self {
        case .hold, .deadline, .duplicate, .unreported, .unknown: true
        case .reminder, .request, .month: false
        }
    }
}

/// Where the record lies that made a debt.
package struct RecordOrigin: Hashable, Comparable, Sendable {
    /// Index into the `sources` of the worker that read it.
    package var topic: Int
    package var partition: Int32
    package var offset: Int64

    package init(topic: Int, partition: Int32, offset: Int64) {
        self.topic = topic
        self.partition = partition
        self.offset = offset
    }

    package static func < (left: RecordOrigin, right: RecordOrigin) -> Bool {
        (left.topic, left.partition, left.offset) < (right.topic, right.partition, right.offset)
    }
}
