/// The endpoints that Apple counts apart.
package enum AppleEndpoint: String, CaseIterable, Hashable, Sendable {
    case report = "report"
    case reportLookup = "report-get"
    case accountToken = "account-token"
    case notificationHistory = "history"
    case testNotification = "test"

    /// The External Purchase Server API; the others belong to the App Store Server API.
    var isExternalPurchase: Bool { self == .report || self == .reportLookup }
}

/// Apple's published form of limits: so many a second, enforced by the hour, per app (S14).
struct RateLimiter: Sendable {
    /// Requests per second in production, a tenth of it in the sandbox; nil is no limit.
    ///
    /// Source: section 5.3 of the reference; nothing is published for reports.
    var limitPerSecond: [AppleEndpoint: Double] = [
        .accountToken: 20, .notificationHistory: 50, .testNotification: 1,
    ]
    /// An hour at Apple; others in tests and demonstrations, and several where each has to be kept.
    var windowsMilliseconds: [Int64] = [3_600_000]

    private struct Bucket: Hashable {
        var environment: StoreEnvironment
        var bundleID: String
        var endpoint: AppleEndpoint
        /// Its length.
        var windowMilliseconds: Int64
    }

    private var counts: [Bucket: (window: Int64, count: Int64)] = [:]

    /// Counts one request, unless a window is full.
    ///
    /// - Returns: nil where it is allowed, else when the last of the full windows ends.
    mutating func admit(
        _ endpoint: AppleEndpoint,
        environment: StoreEnvironment,
        bundleID: String,
        now: UnixMilliseconds
    ) -> UnixMilliseconds? {
        guard let perSecond = limitPerSecond[endpoint] else { return nil }
        let share = environment == .sandbox ? 0.1 : 1
        var admitted: [Bucket: (window: Int64, count: Int64)] = [:]
        var retryAt: UnixMilliseconds?
        for length in windowsMilliseconds {
            let portion = Int64(perSecond * share * Double(length) / 1000)
            // A window too short for one request would admit none for ever; 0 means just that.
            let allowance = perSecond > 0 ? max(1, portion) : 0
            let window = now / length
            let bucket = Bucket(
                environment: environment,
                bundleID: bundleID,
                endpoint: endpoint,
                windowMilliseconds: length
            )
            var entry = counts[bucket, default: (window, 0)]
            if entry.window != window { entry = (window, 0) }
            entry.count += 1
            admitted[bucket] = entry
            if entry.count > allowance { retryAt = max(retryAt ?? 0, (window + 1) * length) }
        }
        if retryAt == nil { counts.merge(admitted) { _, new in new } }
        return retryAt
    }
}

/// How a 429 looks: the documented form, or with less, for what is undocumented about reports.
package enum RateLimitAnswer: String, Sendable {
    case full
    case noHeader = "no-header"
    case bare

    func answer(retryAt: UnixMilliseconds) -> AppleAnswer {
        var answer = AppleAnswer.error(429, code: 4_290_000, "Rate limit exceeded.")
        if self == .bare { answer = AppleAnswer(status: 429) }
        // An absolute time in milliseconds, not RFC 9110's seconds to wait.
        if self == .full { answer.headers["Retry-After"] = String(retryAt) }
        return answer
    }
}
