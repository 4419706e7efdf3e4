internal import Glibc
internal import HTTPClient

extension HTTPClient {
    private static let lookMilliseconds: Int32 = 1_000

    /// Hands over each response as it comes, until nothing is in flight.
    ///
    /// The client's own time limits end every request.
    func awaitAll(_ take: (HTTPClientResponse) -> Void) {
        while true {
            run()
            takeResponses().forEach(take)
            guard inFlightCount > 0 else {
                return
            }
            var entry = pollfd(fd: wakeDescriptor, events: Int16(POLLIN), revents: 0)
            _ = unsafe poll(&entry, 1, Self.lookMilliseconds)
        }
    }
}
