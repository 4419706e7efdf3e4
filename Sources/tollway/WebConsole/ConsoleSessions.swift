internal import Crypto
internal import Telemetry

/// Secrets of pages that were opened: whatever changes something must carry one.
struct ConsoleSessions {
    private struct Session {
        var person: ConsoleGate.Person
        /// By the page, or when it was opened.
        var usedAt: Int64
    }

    static let countMax = 256
    static let milliseconds: Int64 = 12 * 3_600_000

    private var sessions: [String: Session] = [:]

    /// Opens one; the one unused for longest is closed where there are too many.
    ///
    /// - Returns: its secret, which is the one that the page has where that is still accepted.
    mutating func open(
        for person: ConsoleGate.Person,
        known secret: String? = nil,
        now: Int64
    ) -> String {
        if let secret, accepts(secret, of: person, now: now) {
            return secret
        }
        sessions = sessions.filter { now - $0.value.usedAt < Self.milliseconds }
        if sessions.count >= Self.countMax,
            let oldest = sessions.min(by: { $0.value.usedAt < $1.value.usedAt })
        {
            sessions[oldest.key] = nil
        }
        let secret = RandomBytes.next(count: 32)
            .map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
            .joined()
        sessions[secret] = Session(person: person, usedAt: now)
        return secret
    }

    /// Whether it was opened for this person, and used not too long ago; this is a use.
    mutating func accepts(_ secret: String?, of person: ConsoleGate.Person, now: Int64) -> Bool {
        guard let secret, let session = sessions[secret] else {
            return false
        }
        guard session.person == person, now - session.usedAt < Self.milliseconds else {
            return false
        }
        sessions[secret]?.usedAt = now
        return true
    }
}
