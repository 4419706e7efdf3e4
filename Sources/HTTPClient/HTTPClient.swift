internal import CHTTPClient

/// Many requests in flight on one thread: libcurl and nghttp2 with an epoll of their own.
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

    /// Readable when ``run()`` has work; timers and new requests included.
    package let wakeDescriptor: Int32
    private let handle: ClientHandle
    private var nextNumber: UInt64 = 1
    /// The callers' tags of what is in flight.
    private var tags: [UInt64: UInt64] = [:]

    /// How many responses cross from C at a time.
    private static let takeCountMax = 64

    /// Makes a client; nothing is connected yet.
    ///
    /// - Parameters:
    ///   - limits: see there.
    ///   - userAgent: such as `tollway/1.0`.
    ///   - certificateAuthorityFile: PEM bundle to trust instead of the system's.
    /// - Throws: where the bundle cannot be read, or the library gives no handle.
    package init(
        limits: Limits = Limits(),
        userAgent: String,
        certificateAuthorityFile: String? = nil
    ) throws(HTTPClientFault) {
        precondition(limits.concurrency > 0, "a client has room for one request")
        handle = try ClientHandle(
            limits: limits,
            userAgent: userAgent,
            certificateAuthorityFile: certificateAuthorityFile
        )
        wakeDescriptor = unsafe chttp_client_descriptor(handle.pointer)
    }

    deinit {
        close()
    }

    /// Queues a request; it is sent by the following calls of ``run()``.
    package func submit(_ request: HTTPClientRequest) -> HTTPClientRequest.ID {
        let id = HTTPClientRequest.ID(number: nextNumber)
        nextNumber += 1
        let isQueued = handle.submit(request, number: id.number)
        precondition(isQueued, "out of memory")
        tags[id.number] = request.tag
        return id
    }

    /// Moves everything on that can be moved without waiting.
    package func run() {
        guard !handle.isClosed else {
            return
        }
        unsafe chttp_client_run(handle.pointer)
    }

    /// What has ended since the last call, in that order: one response a request.
    package func takeResponses() -> [HTTPClientResponse] {
        guard !handle.isClosed else {
            return []
        }
        var responses: [HTTPClientResponse] = []
        unsafe withUnsafeTemporaryAllocation(
            of: chttp_client_response.self,
            capacity: Self.takeCountMax
        ) { taken in
            while true {
                let count = unsafe chttp_client_take(
                    handle.pointer,
                    taken.baseAddress,
                    taken.count
                )
                for index in 0..<count {
                    let number = unsafe taken[index].id
                    let tag = tags.removeValue(forKey: number) ?? 0
                    unsafe responses.append(HTTPClientResponse(copying: taken[index], tag: tag))
                }
                guard count == taken.count else {
                    break
                }
            }
        }
        return responses
    }

    /// Gives a request up: no response will come for it.
    ///
    /// What was sent stays sent.
    package func cancel(_ id: HTTPClientRequest.ID) {
        guard !handle.isClosed, tags.removeValue(forKey: id.number) != nil else {
            return
        }
        _ = unsafe chttp_client_cancel(handle.pointer, id.number)
    }

    /// Requests submitted whose response was neither taken nor given up.
    package var inFlightCount: Int { tags.count }

    /// Drops everything under way.
    ///
    /// Idempotent.
    package func close() {
        tags.removeAll()
        handle.close()
    }
}

/// Why a client could not be made.
package enum HTTPClientFault: Error, Equatable, Sendable {
    /// The bundle of trusted roots cannot be read.
    case badCertificateAuthorityFile(path: String)
    case cannotStart(message: String)
}
