internal import Foundation
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// A change that somebody ordered: its name in headers and audit, who, and why.
struct HandOrder {
    /// Names the order in the records that it wrote.
    static let header = "tollway.order_id"
    static let whyByteCountMax = 500

    /// What it does, then when, then chance: `replay-20260301120000-0123abcd`.
    var id: String
    /// The user of this machine, as it says of itself.
    var by: String
    var why: String?

    /// - Throws: exit 2 for a reason that is none.
    init(_ what: String, why: String?, now: Timestamp) throws(CommandFailure) {
        id = Self.newID(what, now: now)
        by = Self.user()
        if let why {
            self.why = try Self.checked(why)
        }
    }

    private static func checked(_ text: String) throws(CommandFailure) -> String {
        let trimmed = text.trimmingCharacters(in: .whitespacesAndNewlines)
        guard !trimmed.isEmpty, trimmed.utf8.count <= whyByteCountMax else {
            throw .usage(
                "bad_value",
                "--why must be a sentence of at most \(whyByteCountMax) bytes for who reads the audit"
            )
        }
        return trimmed
    }

    private static func newID(_ what: String, now: Timestamp) -> String {
        let time = WallClock.rfc3339(milliseconds: now.milliseconds)
            .filter { $0.isNumber }
            .prefix(14)
        let random = String(UInt32.random(in: .min ... .max), radix: 16)
        return "\(what)-\(time)-" + String(repeating: "0", count: 8 - random.count) + random
    }

    static func user() -> String {
        let environment = ProcessInfo.processInfo.environment
        let name = ["SUDO_USER", "USER", "LOGNAME"].compactMap { environment[$0] }
            .first { !$0.isEmpty }
        return PlainText.printable(
            "\(name ?? "uid \(getuid())")@\(HostName.current)",
            characterCountMax: 128
        )
    }
}
