internal import Telemetry
internal import TokenDomain

/// How a token stands now, in words: what is open, what is under way, what Apple has.
struct TraceStanding {
    let id: TokenID
    let account: TokenAccount?
    /// Nil where nobody looked for them.
    let deadLetters: [TraceDeadLetter]?
    let now: Timestamp
    /// The newest report of the ledger that Apple accepted or, where it accepted none, the newest one.
    ///
    /// An outcome is written with its account: where that is not there, report has forgotten it, or
    /// has lost it.
    var outcome: ReportOutcome?
    /// When what report has read of it last was written, UNIX milliseconds, where it has no account of
    /// that although it is too young to be forgotten.
    var unaccountedAt: Int64?
    /// Whose group has read past a record of it that nothing was made of.
    var passedBy: Worker?

    var lines: [String] {
        let open = (deadLetters ?? []).filter { $0.settled == nil }.map(line)
        guard let account else {
            return open.isEmpty ? [unknown] : open
        }
        let passed = passedBy.map { [Self.passed($0)] } ?? []
        let words = open + passed + underWay(account) + settled(account)
        return words.isEmpty ? ["nothing is owed"] : words
    }

    private func line(_ deadLetter: TraceDeadLetter) -> String {
        let goesBack = deadLetter.goesBack(account)
        // What Apple has accepted ends a token's own debt; a report is asked for beyond that.
        let isOwed = goesBack && (deadLetter.status != nil || account?.lastAccepted == nil)
        var text =
            "dead letter \(deadLetter.position) is open since \(Self.time(deadLetter.failedAt)): "
        text += deadLetter.code + (deadLetter.message.isEmpty ? "" : ", \(deadLetter.message)")
        if let status = deadLetter.status, goesBack {
            text += "; \(status.rawValue) is to be reported"
        }
        if let deadline = deadLetter.deadline, isOwed {
            text += "; due at Apple \(Self.time(deadline.milliseconds))"
            text += " (\(AgeText.relative(deadline, now: now)))"
        }
        let remedy = deadLetter.remedy(for: id, account)
        return text + "; \(remedy.words): \(remedy.command)"
    }

    /// Report has no account of it, and no dead letter is open.
    private var unknown: String {
        let last = deadLetters?.max { ($0.settled?.at ?? 0) < ($1.settled?.at ?? 0) }
        if let outcome, outcome.outcome != .rejected {
            return ended(outcome, "accepted")
        }
        if let outcome, (last?.settled?.at ?? 0) <= outcome.settledAt.milliseconds {
            return ended(outcome, "rejected")
        }
        if let unaccountedAt, (last?.settled?.at ?? 0) <= unaccountedAt {
            return "report has read it and \(Self.hasNone)"
        }
        guard let last, let settled = last.settled else {
            return passedBy.map(Self.passed) ?? "on its way; report knows nothing of it yet"
        }
        let how =
            "dead letter \(last.position) was \(settled.state.text) at"
            + " \(Self.time(settled.at)) (\(settled.replayID))"
        return switch settled.state {
        case .replayed: how + " and is on its way; report knows nothing of it yet"
        case .discarded: how + ": nothing will be reported for it"
        }
    }

    private func ended(_ outcome: ReportOutcome, _ how: String) -> String {
        "by the ledger, \(outcome.status.rawValue) was \(how) at"
            + " \(Self.time(outcome.settledAt.milliseconds)); report has "
            + (unaccountedAt == nil ? "forgotten the token" : "read the token and \(Self.hasNone)")
    }

    private static func passed(_ worker: Worker) -> String {
        "\(worker.rawValue)'s group is past its record, and nothing was made of that: see RUNBOOK.md,"
            + " Offsets were moved past records"
    }

    private static let hasNone = "has no account of it: see \(TopicSearch.changelogSection)"

    private func underWay(_ account: TokenAccount) -> [String] {
        var words: [String] = []
        if let intent = account.current {
            let next =
                intent.nextAttemptAt.map { "not before \(Self.time($0.milliseconds))" }
                ?? "as soon as it may"
            let way =
                intent.search == nil
                ? account.nextRequest == .retrieve ? "asked for" : "sent"
                : "held against earlier reports"
            words.append(
                "report \(intent.number) (\(intent.status.rawValue)) is \(way) \(next), "
                    + "deadline \(Self.time(intent.deadline.milliseconds))"
            )
        }
        if !account.line.isEmpty {
            words.append("\(account.line.count) more wait behind it")
        }
        if let debt = account.debt {
            words.append(
                "owed at \(Self.time(debt.dueAt.milliseconds)) because of \(debt.reason.rawValue)"
            )
        }
        return words + asked(account)
    }

    /// What Apple asked for while no device and no link had brought the token: one line for notices
    /// that mean the same, with the time of the first.
    private func asked(_ account: TokenAccount) -> [String] {
        let notices = [account.waitingNotice, account.waitingReminder].compactMap { $0 }
            .sorted { $0.receivedAt < $1.receivedAt }
        var meanings: [String] = []
        var words: [String] = []
        for notice in notices {
            let meaning =
                if account.role == .seen {
                    "nothing more is sent unless its dead letter is replayed"
                } else if notice.guardedFrom == nil {
                    "that is only remembered: nothing more is sent until the token comes"
                } else {
                    "waits for the proof that it is unknown"
                }
            if !meanings.contains(meaning) {
                meanings.append(meaning)
                let time = Self.time(notice.receivedAt.milliseconds)
                words.append("Apple asked at \(time); \(meaning)")
            }
        }
        return words
    }

    private func settled(_ account: TokenAccount) -> [String] {
        var words: [String] = []
        if let deadLetters {
            // What came under another key was refused before it was the token's.
            let openCount = deadLetters.count {
                $0.settled == nil && $0.position.stage == .report && $0.code != "report.bad_key"
            }
            if account.parked.count > openCount {
                words.append(
                    "\(account.parked.count - openCount) refused by Apple, and no dead letter of them"
                        + " is open"
                )
            }
        } else if !account.parked.isEmpty {
            words.append("\(account.parked.count) refused by Apple\(traceNamesThem)")
        }
        if let at = account.refusedAt {
            words.append(
                "Apple said at \(Self.time(at.milliseconds)) that it does not know the token"
            )
        }
        if let status = account.lastAccepted, let at = account.lastAcceptedAt {
            words.append("Apple accepted \(status.rawValue) at \(Self.time(at.milliseconds))")
        }
        if account.role == .seen, words.isEmpty {
            let seen = "report knows of it only that it was a dead letter"
            if let deadLetters {
                words += deadLetters.allSatisfy { $0.settled != nil } ? ["\(seen): \(unknown)"] : []
            } else {
                words.append(seen + traceNamesThem)
            }
        }
        return words
    }

    private var traceNamesThem: String {
        "; tollway token trace \(id.text) says whether a dead letter is open"
    }

    private static func time(_ milliseconds: Int64) -> String {
        WallClock.rfc3339(milliseconds: milliseconds)
    }
}
