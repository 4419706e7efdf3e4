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
        /// The lines of the headers as they came, the status line among them.
        let headerLines: [UInt8]
        package var body: [UInt8]
        /// The body was larger than the limit, and this is its beginning.
        package var isCut: Bool
        /// 1 or 2.
        package var httpMajorVersion: Int

        /// The value of the first header of that name, which is given in lower case.
        package func header(_ name: String) -> String? {
            for line in headerLines.split(separator: UInt8(ascii: "\n")) {
                let rest = line.dropFirst(name.utf8.count)
                if rest.first == UInt8(ascii: ":"), Self.isSame(line.prefix(name.utf8.count), name)
                {
                    return Self.trimmed(rest.dropFirst())
                }
            }
            return nil
        }

        /// Whether it is that name, in upper or lower case.
        private static func isSame(_ bytes: ArraySlice<UInt8>, _ name: String) -> Bool {
            zip(bytes, name.utf8).allSatisfy { byte, lower in
                byte == lower || (0x41...0x5a).contains(byte) && byte | 0x20 == lower
            }
        }

        private static func trimmed(_ bytes: ArraySlice<UInt8>) -> String {
            let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 || $0 == 0x0d }
            let start = bytes.drop(while: isBlank)
            let end = start.lastIndex { !isBlank($0) }.map { $0 + 1 } ?? start.startIndex
            return String(decoding: start[..<end], as: UTF8.self)
        }
    }

    package struct Failure: Error, Equatable, Sendable {
        package enum Kind: String, Sendable {
            /// Nothing acted upon the request: not one byte of it went out, or the peer refused its
            /// stream (RFC 9113, 8.7).
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
