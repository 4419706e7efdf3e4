import Glibc
import HTTPClient
import SilentNames
import Testing

/// Goal: who waits for a name server waits alone, and the loop goes on.
///
/// Method: `SilentNames`, whose look-ups end when a test lets them.
@Suite(.serialized) struct `A name whose servers do not answer` {
    private let client: HTTPClient

    init() throws {
        client = try HTTPClient(
            limits: HTTPClient.Limits(connectTimeoutMilliseconds: 200),
            userAgent: "test"
        )
    }

    private func submit() -> HTTPClientRequest.ID {
        client.submit(HTTPClientRequest(method: "GET", url: "http://silent.invalid/", tag: 1))
    }

    private func run(until condition: () -> Bool) -> Bool {
        let end = ContinuousClock.now + .seconds(10)
        while !condition(), ContinuousClock.now < end {
            var entry = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&entry, 1, 10)
            client.run()
        }
        return condition()
    }

    private func release() -> Bool {
        silentnames_release()
        return run { silentnames_waiting() == 0 }
    }

    @Test func `is given up in time, while it is still looked up`() {
        _ = submit()
        var responses: [HTTPClientResponse] = []
        let hasEnded = run {
            responses += client.takeResponses()
            return !responses.isEmpty
        }
        #expect(hasEnded)
        #expect(silentnames_waiting() == 1, "the loop has waited for it")
        #expect(responses.first?.failure?.kind == .notSent)
        #expect(release())
    }

    @Test func `lets its request be cancelled at once`() {
        let id = submit()
        #expect(run { silentnames_waiting() == 1 })
        client.cancel(id)
        #expect(silentnames_waiting() == 1, "the loop has waited for it")
        client.close()
        #expect(silentnames_waiting() == 1, "the end has waited for it")
        #expect(release())
    }
}
