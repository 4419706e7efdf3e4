internal import Crypto
internal import Glibc
internal import HTTPServer
internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// Judges requests: refused with a problem, or made into records.
///
/// Knows no socket and no broker.
struct Door {
    /// What was let in: its records are the last of the batch, unless the broker has them already.
    struct Admission: Equatable {
        var route: Route
        /// At least one; an earlier copy's where the broker has that.
        var recordCount: Int
        /// Of all of them: key, value and headers.
        var byteCount = 0
        /// The same of the largest.
        var recordByteCountMax = 0
        /// Goes with the records and back with the answer.
        var requestID: String
        /// Nil: it is none.
        var notification: NotificationGate.Admitted?
    }

    /// Nil: whatever name the request came to.
    private let hosts: HostRule?
    /// Nil: no key is asked for (loopback only).
    private let keys: BearerKeys?
    private let pseudonyms: CustomerPseudonyms?
    /// Nil: no notification is taken in, for none could be verified.
    var notifications: NotificationGate?
    private var random = RandomWords()

    init(
        hosts: HostRule? = nil,
        keys: BearerKeys?,
        pseudonyms: CustomerPseudonyms?,
        notifications: NotificationGate?
    ) {
        self.hosts = hosts
        self.keys = keys
        self.pseudonyms = pseudonyms
        self.notifications = notifications
    }

    /// Judges the head of a request: everything that can be known before its body is taken.
    ///
    /// `isBusy` is what refuses everything at this time, if anything does.
    func judge(_ head: HTTPRequest, isBusy: Problem?) throws(Problem) -> Route {
        try look(at: head, isBusy: isBusy).route
    }

    private func look(
        at head: HTTPRequest,
        isBusy: Problem?
    ) throws(Problem) -> (route: Route, isBatch: Bool) {
        guard hosts?.accepts(head.header("host")) ?? true else {
            throw .misdirected
        }
        guard let route = Route(rawValue: head.path) else {
            throw .notFound
        }
        guard route != .notifications || notifications != nil else {
            throw .noNotifications
        }
        guard head.method == "POST" else {
            throw .methodNotAllowed
        }
        if route == .notifications {
            try notifications?.checkSource(head)
        }
        if route.needsKey, let keys {
            guard head.withHeader("authorization", { keys.accept($0) }) else {
                throw .unauthorized
            }
        }
        let isBatch = try isBatch(head, route)
        guard head.announcedByteCount ?? head.body.count <= route.bodyByteCountMax else {
            throw .bodyTooLarge(byteCountMax: route.bodyByteCountMax)
        }
        if let isBusy {
            throw isBusy
        }
        return (route, isBatch)
    }

    /// Judges one request, complete and within the server's limits.
    ///
    /// `isBusy` is what refuses everything at this time, if anything does. `isTurn`: it is a
    /// notification whose turn came. `now` is monotonic milliseconds, for the rate limits;
    /// `receivedAt` is what the records say. They are appended to `outputs`; nothing is where it
    /// throws.
    ///
    /// - Returns: nil for a notification that waits in line: it comes back as a turn. One that the
    ///   broker has already is admitted, and nothing is appended.
    mutating func admit(
        _ request: HTTPRequest,
        isBusy: Problem?,
        isTurn: Bool = false,
        now: Int64,
        receivedAt: Timestamp,
        to outputs: inout OutputBatch
    ) throws(Problem) -> Admission? {
        let (route, isBatch) = try look(at: request, isBusy: isBusy)
        guard request.body.count <= route.bodyByteCountMax else {
            throw .bodyTooLarge(byteCountMax: route.bodyByteCountMax)
        }
        let requestID = requestID(request)
        let arenaCount = outputs.arena.count
        let outputCount = outputs.outputs.count
        do throws(Problem) {
            var admission = Admission(route: route, recordCount: 1, requestID: requestID)
            if route == .notifications {
                let admitted = try notifications?.append(
                    request,
                    isTurn: isTurn,
                    now: now,
                    receivedAt: receivedAt,
                    to: &outputs
                )
                guard let admitted else {
                    return nil
                }
                admission.notification = admitted
                guard !admitted.isStored else {
                    return admission
                }
            } else {
                admission.recordCount = try append(
                    request,
                    admission,
                    isBatch: isBatch,
                    receivedAt: receivedAt,
                    to: &outputs
                )
            }
            let headers = request.withHeader("traceparent") { header in
                TraceHeader.append(ofRequest: header, using: &random, to: &outputs.arena)
            }
            for index in outputCount..<outputs.outputs.count {
                outputs.outputs[index].headers = headers
                admission.byteCount += outputs.outputs[index].byteCount
                admission.recordByteCountMax = max(
                    admission.recordByteCountMax,
                    outputs.outputs[index].byteCount
                )
            }
            return admission
        } catch {
            outputs.arena.removeLast(outputs.arena.count - arenaCount)
            outputs.outputs.removeLast(outputs.outputs.count - outputCount)
            throw error
        }
    }

    /// - Returns: how many records it made.
    private func append(
        _ request: HTTPRequest,
        _ admission: Admission,
        isBatch: Bool,
        receivedAt: Timestamp,
        to outputs: inout OutputBatch
    ) throws(Problem) -> Int {
        switch admission.route {
        case .tokens:
            let body = TokensBody(
                receivedAt: receivedAt,
                requestID: admission.requestID,
                pseudonyms: pseudonyms
            )
            guard !isBatch else {
                return try body.appendLines(request.body, to: &outputs)
            }
            try body.appendOne(request.body, to: &outputs)
        case .purchases:
            let body = PurchasesBody(
                receivedAt: receivedAt,
                requestID: admission.requestID,
                pseudonyms: pseudonyms
            )
            guard !isBatch else {
                return try body.appendLines(request.body, to: &outputs)
            }
            try body.appendOne(request.body, to: &outputs)
        case .accountTokens:
            try AccountTokenBody(receivedAt: receivedAt, requestID: admission.requestID)
                .append(request.body, to: &outputs)
        case .notifications:
            preconditionFailure("notifications have a gate of their own")
        }
        return 1
    }

    /// Whether the body is a batch of lines.
    ///
    /// - Throws: 415 where it is neither that nor JSON, or compressed.
    private func isBatch(_ request: HTTPRequest, _ route: Route) throws(Problem) -> Bool {
        let isPlain = request.withHeader("content-encoding") { encoding in
            guard let encoding else {
                return true
            }
            return isText(encoding, "identity")
        }
        guard isPlain else {
            throw .unsupported("The body must not be compressed.")
        }
        let isBatch: Bool? = request.withHeader("content-type") { type in
            guard let type else {
                return nil
            }
            var end = 0
            while end < type.count, type[end] != UInt8(ascii: ";"), type[end] != UInt8(ascii: " "),
                type[end] != UInt8(ascii: "\t")
            {
                end += 1
            }
            let essence = type.extracting(..<end)
            return isText(essence, "application/json")
                ? false
                : isText(essence, "application/x-ndjson") && route.takesBatches ? true : nil
        }
        guard let isBatch else {
            throw .unsupported(
                route.takesBatches
                    ? "The body is application/json or application/x-ndjson."
                    : "The body is application/json."
            )
        }
        return isBatch
    }

    /// Whether a header's value is a text of ours, in any case.
    private func isText(_ value: Span<UInt8>, _ text: StaticString) -> Bool {
        guard value.count == text.utf8CodeUnitCount else {
            return false
        }
        return unsafe value.withUnsafeBytes { bytes in
            guard let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: CChar.self) else {
                return true
            }
            let expected = unsafe UnsafeRawPointer(text.utf8Start)
                .assumingMemoryBound(to: CChar.self)
            return unsafe strncasecmp(start, expected, bytes.count) == 0
        }
    }

    /// The client's own where it is safe in logs and records as it is, else a new one.
    private mutating func requestID(_ request: HTTPRequest) -> String {
        if let own = request.header("x-request-id"), isPlain(own) {
            return own
        }
        return UUIDText.v4(using: &random)
    }

    private func isPlain(_ text: String) -> Bool {
        (1...IngestLimits.requestIDByteCountMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"),
                    UInt8(ascii: "."):
                    true
                default:
                    false
                }
            }
    }
}
