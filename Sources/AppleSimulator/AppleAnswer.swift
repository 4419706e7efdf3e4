/// One request at Apple's door, without the transport.
package struct AppleRequest: Sendable {
    package var environment: StoreEnvironment
    package var method: String
    /// Begins with a slash; no query.
    package var path: String
    package var query: String
    package var contentType: String?
    package var authorization: String?
    /// As it came: shown, and nothing else.
    package var traceparent: String?
    package var body: [UInt8]

    package init(
        environment: StoreEnvironment,
        method: String,
        path: String,
        query: String = "",
        contentType: String? = nil,
        authorization: String? = nil,
        traceparent: String? = nil,
        body: [UInt8] = []
    ) {
        self.environment = environment
        self.method = method
        self.path = path
        self.query = query
        self.contentType = contentType
        self.authorization = authorization
        self.traceparent = traceparent
        self.body = body
    }
}

/// What Apple answers.
package struct AppleAnswer: Equatable, Sendable {
    package var status: Int
    package var headers: [String: String]
    package var body: [UInt8]

    package init(status: Int, headers: [String: String] = [:], body: [UInt8] = []) {
        self.status = status
        self.headers = headers
        self.body = body
    }

    var headerList: [(String, String)] { headers.map { ($0.key, $0.value) } }

    package var bodyText: String { String(decoding: body, as: UTF8.self) }

    static func json(_ status: Int, _ value: JSONValue) -> AppleAnswer {
        AppleAnswer(
            status: status,
            headers: ["Content-Type": "application/json"],
            body: value.bytes
        )
    }

    /// One bare error object: App Store Server API style, 5.2 and 5.3 of the reference.
    static func error(_ status: Int, code: Int, _ message: String) -> AppleAnswer {
        .json(
            status,
            .object([
                JSONMember("errorCode", .integer(code)),
                JSONMember("errorMessage", .string(message)),
            ])
        )
    }

    /// A request that cannot be read as what it should be: a 400 without an error list (S6).
    static func malformed(_ message: String) -> AppleAnswer {
        .error(400, code: 4_000_000, message)
    }

    /// The same where Apple gives no code at all (5.2).
    static let malformedWithoutCode = AppleAnswer(
        status: 400,
        headers: ["Content-Type": "text/plain"],
        body: Array("Simulated: malformed request\n".utf8)
    )

    /// No JSON, so that no client depends on it on a 401 (S2).
    static let unauthenticated = AppleAnswer(
        status: 401,
        headers: ["Content-Type": "text/plain"],
        body: Array("Unauthenticated\n".utf8)
    )
}

/// An answer and what the network makes of it.
package struct AppleReply: Sendable {
    package enum Delivery: Equatable, Sendable {
        case answered
        /// The connection is reset; whether the request was processed is up to the fault.
        case reset
        /// Half of the body is sent, then the connection is reset.
        case torn
    }

    package var answer: AppleAnswer
    package var delivery: Delivery
    package var delayMilliseconds: Int64
    /// The token that this report keeps busy until it is answered (S11).
    package var busyToken: String?
}
