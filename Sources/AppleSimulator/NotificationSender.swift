internal import HTTPClient

/// Carries due notifications to where they are wanted.
final class NotificationSender {
    private static let concurrency = 64
    private static let timeoutMilliseconds = 10_000

    private let client: HTTPClient
    /// Wakes the loop; see ``HTTPClient/wakeDescriptor``.
    var wakeDescriptor: Int32 { client.wakeDescriptor }

    init() throws(SimulatorFault) {
        do {
            client = try HTTPClient(
                limits: HTTPClient.Limits(
                    concurrency: Self.concurrency,
                    connectTimeoutMilliseconds: Self.timeoutMilliseconds,
                    totalTimeoutMilliseconds: Self.timeoutMilliseconds
                ),
                userAgent: "AppStoreServerNotifications/simulated"
            )
        } catch {
            throw .system(message: "no HTTP client: \(error)")
        }
    }

    /// Moves deliveries on and takes up new ones.
    ///
    /// - Returns: how many ended or began: with any, another turn may find more.
    func turn(_ world: AppleWorld, real: UnixMilliseconds) -> Int {
        client.run()
        let now = world.clock.now(real: real)
        let responses = client.takeResponses()
        for response in responses {
            world.noteAttempt(
                Self.result(response.outcome),
                notificationIndex: Int(response.tag),
                now: now
            )
        }
        let room = Self.concurrency - client.inFlightCount
        let deliveries = room > 0 ? world.takeDeliveries(at: now, limit: room) : []
        for delivery in deliveries {
            _ = client.submit(
                HTTPClientRequest(
                    method: "POST",
                    url: delivery.url,
                    headers: [("Content-Type", "application/json; charset=utf-8")],
                    body: delivery.body,
                    tag: UInt64(delivery.notificationIndex)
                )
            )
        }
        if !deliveries.isEmpty { client.run() }
        return responses.count + deliveries.count
    }

    /// Real milliseconds until something is due; nil while it would find no room anyway.
    func millisecondsUntilDue(_ world: AppleWorld, real: UnixMilliseconds) -> Int? {
        guard client.inFlightCount < Self.concurrency, let due = world.nextNotificationDue else {
            return nil
        }
        return world.clock.realDelay(until: due, real: real).map { Int($0) }
    }

    func close() {
        client.close()
    }

    /// Apple's reading of an answer, section 3.4.
    private static func result(_ outcome: HTTPClientResponse.Outcome) -> SendAttemptResult {
        switch outcome {
        case .answered(let answer):
            return (200...206).contains(answer.status) ? .success : .unsuccessfulStatus
        case .failed(let failure) where failure.code == "http.timeout": return .timedOut
        case .failed(let failure):
            return failure.kind == .notSent ? .noResponse : .socketIssue
        }
    }
}
