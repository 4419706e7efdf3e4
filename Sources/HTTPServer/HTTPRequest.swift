internal import CHTTPServer
internal import Glibc

/// One request, or its head.
///
/// It waits, its connection held, until it is answered or reset; a head also until it is accepted.
package struct HTTPRequest: Sendable {
    package struct ID: Hashable, Sendable {
        let number: UInt64

        package init(number: UInt64) {
            self.number = number
        }
    }

    package let id: ID
    /// As it came, such as `POST`.
    package let method: String
    /// As it came, percent signs and all, without the query.
    package let path: String
    /// What follows the first `?`, as it came; empty where there is none.
    package let query: String
    /// Whether the body is here, too; else ``HTTPServer/accept(_:lane:bodyByteCountMax:)`` lets it in.
    package let isComplete: Bool
    /// The length of the body as the head gives it; nil where it comes in chunks.
    package let announcedByteCount: Int?
    /// The body, complete and within the limit; empty where there is none, and with a head alone.
    package let body: [UInt8]
    /// The peer's numeric address, without port; empty where unknown.
    package let remoteAddress: String
    /// Name, 0, value, 0, and so on: in the order in which they came.
    let headerBytes: [UInt8]

    package init(
        id: ID,
        method: String,
        path: String,
        query: String,
        body: [UInt8],
        remoteAddress: String,
        headerBytes: [UInt8],
        isComplete: Bool = true,
        announcedByteCount: Int? = nil
    ) {
        precondition(headerBytes.last ?? 0 == 0, "the last value ends, too")
        self.id = id
        self.method = method
        self.path = path
        self.query = query
        self.body = body
        self.remoteAddress = remoteAddress
        self.headerBytes = headerBytes
        self.isComplete = isComplete
        self.announcedByteCount = announcedByteCount
    }

    /// The value of the first header of that name, white space trimmed; nil where there is none.
    ///
    /// The name is in any case.
    package func header(_ name: StaticString) -> String? {
        rangeOfHeader(name).map { String(decoding: headerBytes[$0], as: UTF8.self) }
    }

    /// What ``header(_:)`` gives, as bytes.
    ///
    /// The absence of a header is no empty one.
    package func withHeader<Result>(
        _ name: StaticString,
        _ body: (Span<UInt8>?) -> Result
    ) -> Result {
        guard let range = rangeOfHeader(name) else {
            return body(nil)
        }
        return body(headerBytes.span.extracting(range))
    }

    private func rangeOfHeader(_ name: StaticString) -> Range<Int>? {
        unsafe headerBytes.withUnsafeBytes { bytes in
            guard let start = unsafe bytes.baseAddress?.assumingMemoryBound(to: CChar.self),
                let value = unsafe chttp_header_find(
                    start,
                    bytes.count,
                    UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self),
                    name.utf8CodeUnitCount
                )
            else {
                return nil
            }
            let position = unsafe value - start
            return unsafe position..<position + strlen(value)
        }
    }
}
