internal import Crypto
internal import Telemetry

/// Secrets of pages that were opened: whatever changes something must carry one.
struct ConsoleSessions {
    private struct Session {
        var person: ConsoleGate.Person
        var openedAt: Int64
    }

    static let countMax = 256
    static let milliseconds: Int64 = 12 * 3_600_000

    private var sessions: [String: Session] = [:]

    /// Opens one; the oldest is closed where there are too many.
    mutating func open(for person: ConsoleGate.Person, now: Int64) -> String {
        sessions = sessions.filter { now - $0.value.openedAt < Self.milliseconds }
        if sessions.count >= Self.countMax,
            let oldest = sessions.min(by: { $0.value.openedAt < $1.value.openedAt })
        {
            sessions[oldest.key] = nil
        }
        let secret = RandomBytes.next(count: 32)
            .map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
            .joined()
        sessions[secret] = Session(person: person, openedAt: now)
        return secret
    }

    /// Whether it was opened for this person, and not too long ago.
    func accepts(_ secret: String?, of person: ConsoleGate.Person, now: Int64) -> Bool {
        guard let secret, let session = sessions[secret] else {
            return false
        }
        return session.person == person && now - session.openedAt < Self.milliseconds
    }
}
