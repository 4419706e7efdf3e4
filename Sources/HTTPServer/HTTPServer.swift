/// An HTTP/1.1 server on one thread, libmicrohttpd in external epoll mode behind it.
///
/// Wait until ``wakeDescriptor`` is readable or ``millisecondsUntilTimeout`` is over, call ``run()``,
/// take the requests, answer them now or later. It refuses by itself, with `application/problem+json`,
/// what never becomes a request: too slow (408), too large (413, 431).
package final class HTTPServer {
    package struct Limits: Sendable {
        /// The largest body, in bytes; more is refused with 413 while it arrives.
        package var bodyByteCountMax: Int
        /// All bodies held at one time, in bytes; more is refused with 503.
        package var heldByteCountMax: Int
        /// Request line and headers together, in bytes; more is refused with 431.
        package var headerByteCountMax: Int
        /// Connections open at one time. Beyond it the one that has been incomplete for longest goes.
        package var connectionCountMax: Int
        /// From the first byte of a request to its last, and for taking the whole answer.
        package var requestTimeoutMilliseconds: Int
        /// How long a connection without request is kept.
        package var idleTimeoutMilliseconds: Int

        package init(
            bodyByteCountMax: Int = 1 << 20,
            heldByteCountMax: Int = 32 << 20,
            headerByteCountMax: Int = 16 << 10,
            connectionCountMax: Int = 1_024,
            requestTimeoutMilliseconds: Int = 10_000,
            idleTimeoutMilliseconds: Int = 60_000
        ) {
            self.bodyByteCountMax = bodyByteCountMax
            self.heldByteCountMax = heldByteCountMax
            self.headerByteCountMax = headerByteCountMax
            self.connectionCountMax = connectionCountMax
            self.requestTimeoutMilliseconds = requestTimeoutMilliseconds
            self.idleTimeoutMilliseconds = idleTimeoutMilliseconds
        }
    }

    /// The server's own certificate chain and key, both PEM.
    package struct Identity: Sendable {
        package var certificatePEM: [UInt8]
        package var keyPEM: [UInt8]

        package init(certificatePEM: [UInt8], keyPEM: [UInt8]) {
            self.certificatePEM = certificatePEM
            self.keyPEM = keyPEM
        }
    }

    /// The port it listens on; the one the system chose where 0 was asked for.
    package let port: UInt16
    /// Readable when ``run()`` has work.
    package let wakeDescriptor: Int32

    /// Binds and listens.
    ///
    /// - Parameter identity: with it the server speaks TLS, without it plain HTTP.
    /// - Throws: where the address cannot be had or the identity not be read.
    package init(
        listen: ListenAddress,
        limits: Limits = Limits(),
        identity: Identity? = nil
    ) throws(HTTPServerFault) {
        throw .cannotStart(message: "\(listen) \(limits) \(identity == nil)")
    }

    /// Moves everything on that can be moved without waiting.
    package func run() {}

    /// The requests that have become complete since the last call, in their order.
    package func takeRequests() -> [HTTPRequest] { [] }

    /// Answers a request; at once or much later. An id that was answered before is ignored.
    ///
    /// - Parameter headers: without Content-Length, which the server writes.
    package func respond(
        to id: HTTPRequest.ID,
        status: Int,
        headers: [(String, String)] = [],
        body: [UInt8] = []
    ) {}

    /// Promises the whole body, sends half of it and drops the connection.
    package func respondTorn(
        to id: HTTPRequest.ID,
        status: Int,
        headers: [(String, String)] = [],
        body: [UInt8]
    ) {}

    /// Drops the connection without an answer.
    package func reset(_ id: HTTPRequest.ID) {}

    /// Closes the listening socket and idle connections; what has begun may still end.
    package func stopAccepting() {}

    /// Drops every connection. Idempotent.
    package func close() {}

    /// Connections open now.
    package var connectionCount: Int { 0 }
    /// Requests taken in and not answered.
    package var heldRequestCount: Int { 0 }
    /// When ``run()`` must be called at the latest; nil where only the descriptor can bring work.
    package var millisecondsUntilTimeout: Int? { nil }
}

/// Why a server could not start.
package enum HTTPServerFault: Error, Equatable, Sendable {
    /// The address is taken, forbidden, or not of this machine.
    case cannotListen(address: String, message: String)
    /// The certificate or the key cannot be used.
    case badIdentity
    /// Something else libmicrohttpd or the system refused.
    case cannotStart(message: String)
}
