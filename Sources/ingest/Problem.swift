internal import TokenDomain
internal import TokenWire

/// A refusal, sent as `application/problem+json`: nothing of the request was stored, except where
/// the status is 503.
///
/// Source: RFC 9457
struct Problem: Error, Equatable {
    /// What is wrong in one line of a batch, or in the only object of a body.
    struct Line: Equatable {
        /// Counted from 1, blank lines included.
        var number: Int
        var code: String
        var detail: String
        /// Of a sale: the field whose rule is broken; empty where the whole event is meant.
        var field: String?
        /// Of a sale: the rule, which is the code without `purchases.`.
        var rule: String?
    }

    /// As many faults of lines as are named.
    static let lineCountMax = 100

    var status: Int
    /// Stable; clients and dashboards count it.
    var code: String
    /// One sentence; never anything of the request but names of its fields.
    var detail: String
    /// What is wrong in the lines, the first ``lineCountMax`` of it.
    var lines: [Line] = []
    /// Seconds after which to send again, where that helps.
    var retryAfterSeconds: Int?
    /// Headers that belong to the status.
    var headers: [(String, String)] {
        var headers = [("Content-Type", "application/problem+json")]
        switch status {
        case 401: headers.append(("WWW-Authenticate", "Bearer realm=\"tollway\""))
        case 405: headers.append(("Allow", "POST"))
        default: break
        }
        if let retryAfterSeconds {
            headers.append(("Retry-After", String(retryAfterSeconds)))
        }
        return headers
    }

    var title: String {
        switch status {
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 413: "Content Too Large"
        case 415: "Unsupported Media Type"
        case 421: "Misdirected Request"
        case 429: "Too Many Requests"
        default: "Service Unavailable"
        }
    }

    var body: [UInt8] {
        var body: [UInt8] = []
        JSONWriter.append(to: &body) { writer in
            writer.beginObject()
            writer.field("type", "about:blank")
            writer.field("title", title)
            writer.field("status", status)
            writer.field("code", code)
            writer.field("detail", detail)
            if !lines.isEmpty {
                writer.name("lines")
                writer.beginArray()
                for line in lines {
                    writer.beginObject()
                    writer.field("line", line.number)
                    writer.field("code", line.code)
                    writer.field("field", line.field)
                    writer.field("rule", line.rule)
                    writer.field("detail", line.detail)
                    writer.endObject()
                }
                writer.endArray()
            }
            writer.endObject()
        }
        body.append(UInt8(ascii: "\n"))
        return body
    }

    /// Told of one line of a batch: what it names itself, else the whole of it.
    func lines(at number: Int) -> [Line] {
        guard !lines.isEmpty else {
            return [Line(number: number, code: code, detail: detail)]
        }
        return lines.map { line in
            var line = line
            line.number = number
            return line
        }
    }
}

extension Problem {
    static let unauthorized = Problem(
        status: 401,
        code: "ingest.unauthorized",
        detail: "A bearer key that is live is needed."
    )
    static let notFound = Problem(
        status: 404,
        code: "ingest.not_found",
        detail: "There are /v1/tokens, /v1/purchases, /v1/notifications and /v1/account-tokens."
    )
    static let noNotifications = Problem(
        status: 404,
        code: "ingest.not_found",
        detail: "No notifications are taken in here: there are no roots to verify them by."
    )
    static let methodNotAllowed = Problem(
        status: 405,
        code: "ingest.method_not_allowed",
        detail: "Only POST."
    )
    static let misdirected = Problem(
        status: 421,
        code: "ingest.misdirected",
        detail: "The Host header is no address, and no name that this server answers to."
    )
    static let customerRefused = Problem(
        status: 400,
        code: "ingest.customer_refused",
        detail: "This server has no key to replace customers with, so it takes none."
    )
    static let tooManyRequests = Problem(
        status: 429,
        code: "ingest.too_many_requests",
        detail: "More notifications than are taken in; send it again.",
        retryAfterSeconds: 1
    )
    static let queueFull = Problem(
        status: 503,
        code: "ingest.queue_full",
        detail: "More waits for the broker than is safe; send it again.",
        retryAfterSeconds: 1
    )
    static let brokerAway = Problem(
        status: 503,
        code: "ingest.broker_away",
        detail: "The broker does not answer; send it again.",
        retryAfterSeconds: 5
    )
    static let nothingStored = Problem(
        status: 503,
        code: "ingest.broker_away",
        detail: "The broker has stored nothing for 5 s; send it again.",
        retryAfterSeconds: 5
    )
    /// Of records that were handed over.
    static let notStored = Problem(
        status: 503,
        code: "ingest.broker_away",
        detail: "Not all has the broker's receipt; part may be stored, send it again.",
        retryAfterSeconds: 5
    )
    static let stopping = Problem(
        status: 503,
        code: "ingest.stopping",
        detail: "This server is stopping; part may be stored, send it again.",
        retryAfterSeconds: 1
    )
    static let recordRefused = Problem(
        status: 413,
        code: "ingest.record_refused",
        detail: "The broker takes no record of this size; nothing was stored."
    )
    /// 413 would say that nothing is stored.
    static let recordRefusedOfMany = Problem(
        status: 503,
        code: "ingest.record_refused",
        detail: "The broker takes no record of the size of one of these; the others are stored,"
            + " send all again.",
        retryAfterSeconds: 5
    )
    static let batchRefused = Problem(
        status: 503,
        code: "ingest.record_refused",
        detail: "Kafka takes less at once than was sent to it; part may be stored, send it again.",
        retryAfterSeconds: 5
    )

    static func bodyTooLarge(byteCountMax: Int) -> Problem {
        Problem(
            status: 413,
            code: "http.body_too_large",
            detail: "The body has more than \(byteCountMax) bytes."
        )
    }

    static func unsupported(_ detail: String) -> Problem {
        Problem(status: 415, code: "ingest.unsupported_media_type", detail: detail)
    }

    /// What is wrong with the only sale of a body.
    init(_ faults: PurchaseFaults) {
        let first = faults.list[0]
        self.init(
            status: 400,
            code: first.code,
            detail: faults.list.count == 1
                ? first.message : "\(faults.list.count) rules are broken; nothing was stored.",
            lines: faults.list.prefix(Self.lineCountMax).map { fault in
                Line(
                    number: 1,
                    code: fault.code,
                    detail: fault.repair,
                    field: fault.field,
                    rule: fault.rule.rawValue
                )
            }
        )
    }

    /// What cannot be read as the JSON that is asked for.
    init(_ fault: WireFault) {
        let code =
            switch fault {
            case .notJSON, .tooDeep: "ingest.not_json"
            case .missing: "ingest.missing_field"
            case .wrongType: "ingest.wrong_type"
            case .outOfRange, .tooLong: "ingest.out_of_range"
            case .repeated: "ingest.repeated_field"
            }
        self.init(status: 400, code: code, detail: "The body is wrong: \(fault.message).")
    }
}
