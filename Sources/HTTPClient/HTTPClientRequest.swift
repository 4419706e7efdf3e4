/// One request to be sent.
package struct HTTPClientRequest: Sendable {
    package struct ID: Hashable, Sendable {
        let number: UInt64
    }

    /// Such as `PUT`.
    package var method: String
    /// Absolute, `http` or `https`.
    package var url: String
    /// Without Content-Length and Host, which the client writes.
    package var headers: [(String, String)]
    package var body: [UInt8]
    /// The caller's own; comes back with the response.
    package var tag: UInt64

    package init(
        method: String,
        url: String,
        headers: [(String, String)] = [],
        body: [UInt8] = [],
        tag: UInt64 = 0
    ) {
        self.method = method
        self.url = url
        self.headers = headers
        self.body = body
        self.tag = tag
    }
}

/// The result of a request.
package struct HTTPClientResponse: Sendable {
    package enum Outcome: Sendable {
        case answered(Answer)
        case failed(Failure)
    }

    package struct Answer: Sendable {
        package var status: Int
        /// Names in lower case, in the order in which they came.
        package var headers: [(name: String, value: String)]
        package var body: [UInt8]
        /// The body was larger than the limit, and this is its beginning.
        package var isCut: Bool
        /// 1 or 2.
        package var httpMajorVersion: Int

        /// The value of the first header of that name, which is given in lower case.
        package func header(_ name: String) -> String? {
            headers.first { $0.name == name }?.value
        }
    }

    package struct Failure: Error, Equatable, Sendable {
        package enum Kind: String, Sendable {
            /// Not one byte of the request reached the peer.
            case notSent
            /// The peer may have acted upon it: time over, reset, answer broken off.
            case doubtful
        }

        package var kind: Kind
        /// Stable, such as `http.timeout`, `http.connect`.
        package var code: String
        /// The library's own sentence; carries nothing of the request.
        package var message: String
    }

    package let id: HTTPClientRequest.ID
    package let tag: UInt64
    package let outcome: Outcome
}
