internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// A dead letter of the token that is traced, and what was made of it since.
struct TraceDeadLetter {
    let position: DeadLetterPosition
    /// In the topic of replays.
    let key: [UInt8]
    let code: String
    let message: String
    /// UNIX milliseconds.
    let failedAt: Int64
    /// Before its replays, UNIX milliseconds.
    private let firstFailedAt: Int64
    /// Kafka's own, UNIX milliseconds.
    let timestamp: Int64
    let deadline: Timestamp?
    /// Of a report that was asked for, or refused.
    let status: ReportStatus?
    private let requestIdentifier: String?
    /// How often it was replayed before.
    private let replayCount: Int
    /// The sale that it is, where it is one.
    let sale: TracedSale
    /// Nil while it is open.
    var settled: SettledDeadLetter?

    /// Nil for a record of another topic than a stage's dead letters.
    init?(_ found: TopicReader.Found, prefix: String, deadlineDays: Int) {
        let place = "\(found.topic)/\(found.partition)/\(found.offset)"
        guard let position = DeadLetterPosition(place, prefix: prefix) else {
            return nil
        }
        let subject = SubjectReader().read(found.value.span)
        self.position = position
        key = Array(place.utf8)
        code = found.header("tollway.dlq.code") ?? "no code"
        message = found.header("__dlq.errors.message") ?? ""
        failedAt =
            found.header("tollway.dlq.failed_at").flatMap { InstantText.read($0.utf8.span) }
            ?? found.timestamp
        firstFailedAt =
            found.header("tollway.dlq.first_failed_at").flatMap { InstantText.read($0.utf8.span) }
            ?? failedAt
        timestamp = found.timestamp
        deadline = subject.deadline(days: deadlineDays)
        status = subject.status
        requestIdentifier = subject.requestIdentifier
        replayCount = found.header("tollway.dlq.replay_count").flatMap { Int($0) } ?? 0
        sale = TracedSale(found.value.span)
    }

    /// When a change of a sale came in, as a replay judges it; UNIX milliseconds.
    var changeReceivedAt: Int64 {
        LedgerQuestion.Change.receivedAt(
            stated: sale.receivedAt,
            firstFailedAt: firstFailedAt
        )
    }

    /// Whether a replay of it would be sent on, by what report knows of the token.
    ///
    /// A token or a notice is, whatever that is.
    func goesBack(_ account: TokenAccount?) -> Bool {
        guard let status, let account else {
            return true
        }
        return !hasEnded(requestIdentifier?.lowercased(), status, account)
            && NextStatus.mayFollow(lastAccepted: account.lastAccepted, requested: status)
    }

    private func hasEnded(
        _ identifier: String?,
        _ status: ReportStatus,
        _ account: TokenAccount
    ) -> Bool {
        guard let identifier else {
            return false
        }
        let isOurs = (0..<account.intentCount).contains { number in
            ReportPolicy.identifier(account.externalPurchaseID, number + 1) == identifier
        }
        return account.hasEnded(identifier, status, isOurs: isOurs)
    }

    /// What settles it: a few words, and the command as it is typed, which is dry until `--yes`.
    func remedy(for id: TokenID, _ account: TokenAccount?) -> (words: String, command: String) {
        guard goesBack(account) else {
            return ("Apple has accepted what ends it", discard)
        }
        switch (code, requestIdentifier) {
        case (Rejection.conflict.code, let identifier?):
            // A replay holds it back until a person knows which of the two reports is right.
            let command = "tollway report show \(ShellWord.of(identifier)) --ask-apple"
            return ("compare the two reports (RUNBOOK, identifier_conflict)", command)
        case ("report.bad_key", _):
            // A replay keeps the key.
            return ("write it again, keyed by its token, then", discard)
        default:
            // It judges each dead letter of the token anew. A discard does not, so it names one.
            let options = "--token \(ShellWord.of(id.text)) --stage \(position.stage.rawValue)"
            return ("mend the cause, then", replay(options))
        }
    }

    var discard: String { "tollway dlq discard \(position.options) --why TEXT" }

    /// A replay; once more of what came back so often that it would be held back.
    func replay(_ options: String) -> String {
        let command = "tollway dlq replay \(options)"
        guard replayCount >= DeadLetterOrder.replayCountMaxDefault,
            replayCount < DeadLetterAction.replayCountMaxMax
        else {
            return command
        }
        return command + " --replays-max \(replayCount + 1)"
    }

    func json(for id: TokenID, _ account: TokenAccount?) -> String {
        var members = Fact.text("position", position.description)
        members += Fact.text("state", settled?.state.text ?? "open")
        members += Fact.text("code", code) + Fact.text("message", message)
        members += Fact.number("failedAt", failedAt)
        members += Fact.text("status", status?.rawValue)
        members += Fact.number("deadline", deadline?.milliseconds)
        if let settled {
            members += Fact.text("replayId", settled.replayID)
            members += Fact.number("settledAt", settled.at)
        } else {
            members += Fact.text("command", remedy(for: id, account).command)
        }
        return JSONLines.object(members)
    }
}

/// A word as a shell takes it.
enum ShellWord {
    static func of(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "."),
                UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard !isPlain || text.isEmpty else {
            return text
        }
        // Byte by byte: with a mark behind it that combines, a quote is no Character of its own.
        let quoted = text.utf8.flatMap { byte in
            byte == UInt8(ascii: "'") ? Array(#"'\''"#.utf8) : [byte]
        }
        return "'" + String(decoding: quoted, as: UTF8.self) + "'"
    }
}
