/// Many requests in flight on one thread: libcurl's multi interface with an epoll of its own.
///
/// HTTP/2 over TLS where the server has it, connections kept, redirects never followed.
/// Wait until ``wakeDescriptor`` is readable, call ``run()``, take the responses.
package final class HTTPClient {
    package struct Limits: Sendable {
        /// Requests under way at one time; more wait in their order.
        package var concurrency: Int
        package var responseByteCountMax: Int
        package var connectTimeoutMilliseconds: Int
        /// From leaving the queue to the last byte of the answer.
        package var totalTimeoutMilliseconds: Int

        package init(
            concurrency: Int = 64,
            responseByteCountMax: Int = 1 << 20,
            connectTimeoutMilliseconds: Int = 10_000,
            totalTimeoutMilliseconds: Int = 30_000
        ) {
            self.concurrency = concurrency
            self.responseByteCountMax = responseByteCountMax
            self.connectTimeoutMilliseconds = connectTimeoutMilliseconds
            self.totalTimeoutMilliseconds = totalTimeoutMilliseconds
        }
    }

    /// Readable when ``run()`` has work; timers included.
    package let wakeDescriptor: Int32

    /// Makes a client; nothing is connected yet.
    ///
    /// - Parameters:
    ///   - userAgent: such as `tollway/1.0`.
    ///   - certificateAuthorityFile: PEM bundle to trust instead of the system's.
    package init(
        limits: Limits = Limits(),
        userAgent: String,
        certificateAuthorityFile: String? = nil
    ) throws(HTTPClientFault) {
        throw .cannotStart(message: "\(limits) \(userAgent) \(certificateAuthorityFile ?? "")")
    }

    /// Queues a request; it is sent by this and the following calls of ``run()``.
    package func submit(_ request: HTTPClientRequest) -> HTTPClientRequest.ID {
        HTTPClientRequest.ID(number: 0)
    }

    /// Moves everything on that can be moved without waiting.
    package func run() {}

    /// What has ended since the last call, in that order: one response a request.
    package func takeResponses() -> [HTTPClientResponse] { [] }

    /// Gives a request up: no response will come for it. What was sent stays sent.
    package func cancel(_ id: HTTPClientRequest.ID) {}

    /// Requests submitted and neither answered, failed nor cancelled.
    package var inFlightCount: Int { 0 }
    /// When ``run()`` must be called at the latest; nil where only the descriptor can bring work.
    package var millisecondsUntilTimeout: Int? { nil }

    /// Drops everything under way. Idempotent.
    package func close() {}
}

/// Why a client could not be made.
package enum HTTPClientFault: Error, Equatable, Sendable {
    /// The bundle of trusted roots cannot be read.
    case badCertificateAuthorityFile(path: String)
    case cannotStart(message: String)
}
