internal import CHTTPServer

/// An HTTP/1.1 server on one thread.
///
/// Wait until ``wakeDescriptor`` is readable or ``millisecondsUntilTimeout`` is over and call
/// ``run(waitingAtMost:)``, or let that wait; take the requests, answer them now or later. Every request of a connection is checked as strictly
/// as the first. It refuses by itself, with `application/problem+json`, what never becomes a
/// request: malformed (400), too slow (408), too large (413, 431), in another transfer encoding
/// than chunked (501), too many at one time (503), in another version (505).
package final class HTTPServer {
    package struct Limits: Sendable {
        /// The largest body, in bytes; more is refused with 413 while it arrives.
        ///
        /// Where heads are judged, one that announces more is given out as a head.
        package var bodyByteCountMax: Int
        /// What all incomplete bodies of a lane may hold together, in bytes.
        ///
        /// Where there is no room the slowest of that lane is closed, with 408.
        package var laneByteCountsMax: [Int]
        /// How many connections with an incomplete body a lane may have; empty: each as many as there
        /// are.
        ///
        /// Beyond it the slowest of that lane is closed, with 408.
        package var laneConnectionCountsMax: [Int]
        /// Whether a request is given out as a head first, where its body is not there with it.
        package var judgesHeads: Bool
        /// Request line and headers together, in bytes; more is refused with 431.
        package var headerByteCountMax: Int
        /// Connections open at one time.
        ///
        /// Beyond it one is closed: first one whose last answer is out, then one that sent nothing,
        /// then one with a part of a head, then one that was only ever refused, then one that does
        /// not read its answer. Then one with an incomplete body in a lane that has more than half
        /// of the connections that it may have, and fewer than there are. Then the one idle for
        /// longest, and then those passed over as newcomers.
        package var connectionCountMax: Int
        /// From the first byte of a request to its last, and for taking the whole answer.
        ///
        /// The last bytes of a body, fewer than 4 KiB, may take 5 s more.
        package var requestTimeoutMilliseconds: Int
        /// How long a connection without request is kept.
        package var idleTimeoutMilliseconds: Int
        /// Who sent nothing yet, or a part of its first head, for no longer is closed no earlier than the
        /// idle ones.
        ///
        /// Longer than a round trip with a lost packet; as many connections as there may be, in that time,
        /// close newcomers nevertheless.
        package var newcomerMilliseconds: Int

        package init(
            bodyByteCountMax: Int = 1 << 20,
            laneByteCountsMax: [Int] = [32 << 20],
            laneConnectionCountsMax: [Int] = [],
            judgesHeads: Bool = false,
            headerByteCountMax: Int = 16 << 10,
            connectionCountMax: Int = 1_024,
            requestTimeoutMilliseconds: Int = 10_000,
            idleTimeoutMilliseconds: Int = 60_000,
            newcomerMilliseconds: Int = 1_000
        ) {
            self.bodyByteCountMax = bodyByteCountMax
            self.laneByteCountsMax = laneByteCountsMax
            self.laneConnectionCountsMax = laneConnectionCountsMax
            self.judgesHeads = judgesHeads
            self.headerByteCountMax = headerByteCountMax
            self.connectionCountMax = connectionCountMax
            self.requestTimeoutMilliseconds = requestTimeoutMilliseconds
            self.idleTimeoutMilliseconds = idleTimeoutMilliseconds
            self.newcomerMilliseconds = newcomerMilliseconds
        }
    }

    /// The port it listens on; the one the system chose where 0 was asked for.
    package let port: UInt16
    /// Readable when ``run(waitingAtMost:)`` has work.
    package let wakeDescriptor: Int32
    private let handle: ServerHandle
    private var watchCount: UInt32 = 0

    /// Binds and listens.
    ///
    /// - Throws: where the address cannot be had.
    package init(
        listen: ListenAddress,
        limits: Limits = Limits()
    ) throws(HTTPServerFault) {
        handle = try ServerHandle(listen: listen, limits: limits)
        port = unsafe chttp_server_port(handle.pointer)
        wakeDescriptor = unsafe chttp_server_descriptor(handle.pointer)
    }

    deinit {
        close()
    }

    /// A descriptor of another's that wakes the server.
    package struct Watch: Sendable {
        fileprivate let number: UInt32
    }

    /// The watched descriptors that are readable.
    package struct Readable: Sendable {
        fileprivate let bits: UInt32

        package func contains(_ watch: Watch) -> Bool { bits >> watch.number & 1 == 1 }
    }

    /// From now on ``run(waitingAtMost:)`` also wakes when this descriptor is readable.
    ///
    /// One wait for everything costs one call of the system, and not two. The descriptor must live
    /// as long as the server.
    package func watch(_ descriptor: Int32) -> Watch {
        let watch = Watch(number: watchCount)
        let code = unsafe chttp_server_watch(handle.pointer, descriptor, watch.number)
        precondition(code == 0, "the system watches a few descriptors that are open")
        watchCount += 1
        return watch
    }

    /// Waits until there is something to do, and moves everything on that can be moved.
    ///
    /// Without `milliseconds` it does not wait.
    @discardableResult
    package func run(waitingAtMost milliseconds: Int = 0) -> Readable {
        guard !handle.isClosed else {
            return Readable(bits: 0)
        }
        return unsafe Readable(
            bits: chttp_server_run(handle.pointer, Int32(clamping: max(milliseconds, 0)))
        )
    }

    /// The requests and heads that were not yet taken, in their order.
    package func takeRequests() -> [HTTPRequest] {
        var requests: [HTTPRequest] = []
        while let request = takeRequest() {
            requests.append(request)
        }
        return requests
    }

    /// The first of them only, nil where there is none: for who is done with the body of one before
    /// that of the next is copied.
    package func takeRequest() -> HTTPRequest? {
        guard !handle.isClosed else {
            return nil
        }
        var taken = unsafe chttp_request()
        return unsafe chttp_server_take(handle.pointer, &taken) == 1
            ? HTTPRequest(copying: taken) : nil
    }

    /// Lets the body of a request come in, of which the head was taken; then it is taken again, whole.
    ///
    /// At most so many bytes are taken, counted in that lane. A head that is answered instead ends
    /// its connection, and no byte of its body is kept.
    package func accept(_ id: HTTPRequest.ID, lane: Int, bodyByteCountMax: Int) {
        guard !handle.isClosed else {
            return
        }
        unsafe chttp_server_accept(handle.pointer, id.number, UInt32(lane), bodyByteCountMax)
    }

    /// Answers a request; at once or much later.
    ///
    /// An id that was answered before is ignored. The headers come without Content-Length, which
    /// the server writes, and have no line ends inside.
    package func respond(
        to id: HTTPRequest.ID,
        status: Int,
        headers: [(String, String)] = [],
        body: [UInt8] = []
    ) {
        send(status, HTTPHeaders(headers), body, to: id, sentByteCount: body.count)
    }

    /// The same with headers that were put together before.
    package func respond(
        to id: HTTPRequest.ID,
        status: Int,
        headers: HTTPHeaders,
        body: [UInt8]
    ) {
        send(status, headers, body, to: id, sentByteCount: body.count)
    }

    /// Begins an answer that has no end of its own, such as server-sent events.
    ///
    /// What ``send(_:toStream:)`` sends is its body, and the end of the connection its end.
    package func beginStream(
        to id: HTTPRequest.ID,
        status: Int,
        headers: [(String, String)]
    ) {
        guard !handle.isClosed else {
            return
        }
        precondition((200...999).contains(status), "an answer has a final status")
        // As of a whole answer: without memory the connection is dropped.
        _ = unsafe HTTPHeaders(headers).withFlat { flat, byteCount in
            unsafe chttp_server_begin_stream(
                handle.pointer,
                id.number,
                UInt32(status),
                flat,
                byteCount
            )
        }
    }

    /// Sends more of an answer that was begun.
    ///
    /// - Returns: false where it has ended: the client is gone, or takes nothing any more.
    package func send(_ bytes: [UInt8], toStream id: HTTPRequest.ID) -> Bool {
        guard !handle.isClosed else {
            return false
        }
        return unsafe chttp_server_send_stream(handle.pointer, id.number, bytes, bytes.count) == 1
    }

    /// Promises the whole body, sends half of it and drops the connection.
    package func respondTorn(
        to id: HTTPRequest.ID,
        status: Int,
        headers: [(String, String)] = [],
        body: [UInt8]
    ) {
        send(status, HTTPHeaders(headers), body, to: id, sentByteCount: body.count / 2)
    }

    /// Drops the connection without an answer.
    package func reset(_ id: HTTPRequest.ID) {
        guard !handle.isClosed else {
            return
        }
        unsafe chttp_server_reset(handle.pointer, id.number)
    }

    /// Closes the listening socket and idle connections; what has begun may still end.
    package func stopAccepting() {
        guard !handle.isClosed else {
            return
        }
        unsafe chttp_server_stop_accepting(handle.pointer)
    }

    /// Drops every connection.
    ///
    /// Idempotent.
    package func close() {
        handle.close()
    }

    /// Connections open now.
    package var connectionCount: Int {
        handle.isClosed ? 0 : unsafe Int(chttp_server_connection_count(handle.pointer))
    }

    /// Requests begun and not complete.
    package var incompleteRequestCount: Int {
        handle.isClosed ? 0 : unsafe Int(chttp_server_receiving_count(handle.pointer))
    }

    /// Requests complete and not answered.
    package var heldRequestCount: Int {
        handle.isClosed ? 0 : unsafe Int(chttp_server_held_count(handle.pointer))
    }

    /// What the incomplete bodies of a lane hold now, in bytes.
    package func incompleteByteCount(lane: Int) -> Int {
        handle.isClosed ? 0 : unsafe chttp_server_lane_byte_count(handle.pointer, UInt32(lane))
    }

    /// What the server refuses by itself: too slow, too large, malformed, too many.
    package static let refusalStatuses = [400, 408, 413, 431, 501, 503, 505]

    /// How many requests the server itself has refused with a status, all its life.
    ///
    /// `lane`: of those whose body was let into it; nil: of those whose body was not let in.
    package func refusalCount(status: Int, lane: Int?) -> Int {
        guard !handle.isClosed else {
            return 0
        }
        let lane = lane.map { UInt32($0) } ?? UInt32(CHTTP_LANE_NONE)
        return unsafe Int(chttp_server_refusal_count(handle.pointer, lane, UInt32(status)))
    }

    /// In which state a connection was that was closed to make room for a new one.
    package enum Eviction: Equatable, Sendable {
        /// Its last answer was out.
        case lingering
        /// It had sent nothing.
        case silent
        /// It had sent a part of a head.
        case head
        /// Idle, and all its requests were refused.
        case unserved
        /// Idle.
        case idle
        /// It had sent a part of a body.
        case body(lane: Int)
        /// It did not take its answer.
        case answer

        fileprivate var number: UInt32 {
            switch self {
            case .lingering: CHTTP_EVICTION_LINGER.rawValue
            case .silent: CHTTP_EVICTION_SILENT.rawValue
            case .head: CHTTP_EVICTION_HEAD.rawValue
            case .unserved: CHTTP_EVICTION_UNSERVED.rawValue
            case .idle: CHTTP_EVICTION_IDLE.rawValue
            case .body(let lane): CHTTP_EVICTION_BODY.rawValue + UInt32(lane)
            case .answer: CHTTP_EVICTION_ANSWER.rawValue
            }
        }
    }

    /// How many connections were closed in that state to make room for a new one, all its life.
    package func evictionCount(_ eviction: Eviction) -> Int {
        guard !handle.isClosed else {
            return 0
        }
        return unsafe Int(chttp_server_eviction_count(handle.pointer, eviction.number))
    }

    /// When ``run()`` must be called at the latest; nil where only the descriptor can bring work,
    /// 0 while requests wait to be taken.
    package var millisecondsUntilTimeout: Int? {
        guard !handle.isClosed else {
            return nil
        }
        let milliseconds = unsafe chttp_server_timeout_ms(handle.pointer)
        return milliseconds < 0 ? nil : Int(milliseconds)
    }

    private func send(
        _ status: Int,
        _ headers: HTTPHeaders,
        _ body: [UInt8],
        to id: HTTPRequest.ID,
        sentByteCount: Int
    ) {
        guard !handle.isClosed else {
            return
        }
        precondition((200...999).contains(status), "an answer has a final status")
        // Out of memory is the only way left to fail; the connection is then dropped.
        _ = unsafe headers.withFlat { flat, byteCount in
            unsafe chttp_server_respond(
                handle.pointer,
                id.number,
                UInt32(status),
                flat,
                byteCount,
                body,
                body.count,
                sentByteCount
            )
        }
    }
}

extension HTTPRequest {
    /// Copies what C lends only until the next run.
    fileprivate init(copying request: chttp_request) {
        let target = unsafe String(cString: request.target)
        let mark = target.utf8.firstIndex(of: UInt8(ascii: "?"))
        unsafe self.init(
            id: ID(number: request.id),
            method: String(cString: request.method),
            path: mark.map { String(target[..<$0]) } ?? target,
            query: mark.map { String(target[target.utf8.index(after: $0)...]) } ?? "",
            body: Array(
                UnsafeBufferPointer(start: request.body, count: request.body_byte_count)
            ),
            remoteAddress: String(cString: request.address),
            headerBytes: Array(
                UnsafeRawBufferPointer(start: request.headers, count: request.header_byte_count)
            ),
            isComplete: request.is_complete != 0,
            announcedByteCount: Int(exactly: request.announced_byte_count)
        )
    }
}

/// Why a server could not start.
package enum HTTPServerFault: Error, Equatable, Sendable {
    /// The address is taken, forbidden, or not of this machine.
    case cannotListen(address: String, message: String)
    /// Something else that the system refused.
    case cannotStart(message: String)
}
