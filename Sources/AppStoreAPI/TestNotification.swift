/// What Apple says of a test notification that it was asked for.
///
/// Source: Get Test Notification Status
package struct TestNotificationStatus: Equatable, Sendable {
    package var signedPayload: String
    /// How the newest try to deliver it ended, in Apple's word, such as `SUCCESS`; nil before the
    /// first.
    package var sendAttemptResult: String?

    /// Nil where the body is none.
    package init?(_ body: [UInt8]) {
        guard let body = JSONValue(body), let payload = body["signedPayload"]?.text else {
            return nil
        }
        signedPayload = payload
        let attempts = body["sendAttempts"]?.elements ?? []
        let newest = attempts.max {
            ($0["attemptDate"]?.integer ?? 0) < ($1["attemptDate"]?.integer ?? 0)
        }
        sendAttemptResult = newest?["sendAttemptResult"]?.text
    }

    /// The name by which Apple knows a test that it was just asked for; nil where the body has none.
    package static func token(in body: [UInt8]) -> String? {
        JSONValue(body)?["testNotificationToken"]?.text
    }
}
