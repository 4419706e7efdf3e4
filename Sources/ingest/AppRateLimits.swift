internal import TokenDomain

/// A token bucket for each app that needed its share lately.
///
/// The door does not know which apps are ours, and every developer has as many genuine
/// notifications of his own app as he likes. So each has a share that no other app can take.
struct AppRateLimits {
    /// All shares together are the whole rate.
    static let bytesPerSecond = NotificationGate.storedBytesPerSecond / appCountMax
    /// All of them together are what is kept for shares; each holds two of the largest.
    static let bytesBurst = NotificationGate.storedBytesBurst / 2 / appCountMax
    /// Where there are more, the one that needed its share the longest ago begins anew.
    static let appCountMax = 64

    private struct App {
        var bundleIDs: Set<BundleID>
        var bytes: RateLimit
    }

    /// By when they needed their share last, got or not: the one that did the longest ago is the first.
    private var apps: [App] = []

    /// Whether so much of an app may pass now; what passes is taken.
    ///
    /// `bundleIDs` are those that a notification names; `now` is monotonic milliseconds.
    mutating func take(_ byteCount: Int, of bundleIDs: Set<BundleID>, now: Int64) -> Bool {
        var app: App
        if let index = apps.firstIndex(where: { $0.bundleIDs == bundleIDs }) {
            app = apps.remove(at: index)
        } else {
            if apps.count == Self.appCountMax {
                apps.removeFirst()
            }
            let bytes = RateLimit(
                perSecond: Double(Self.bytesPerSecond),
                burst: Double(Self.bytesBurst),
                now: now
            )
            app = App(bundleIDs: bundleIDs, bytes: bytes)
        }
        let isTaken = app.bytes.take(byteCount, now: now)
        apps.append(app)
        return isTaken
    }
}
