internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Looks for everything that Kafka knows of one token.
///
/// What is keyed by its id is in one partition of each topic and is read there. What is keyed by
/// its customer, or by nothing, is looked for at the time that the others have.
struct TraceSearch {
    /// Clocks differ, and a batch takes its time.
    static let slackMilliseconds: Int64 = 60_000
    /// How long after dedupe last judged a token a repeat of it is still looked for.
    static let repeatMilliseconds: Int64 = 600_000
    /// A report may be older than the newest clock says its token is.
    static let dayMilliseconds: Int64 = 86_400_000
    /// Of report's state so many days before the newest value are read, for what it decided; what is
    /// older shows by the ledger alone, as it does once Kafka has compacted the state.
    static let stateDays: Int64 = 40

    let id: TokenID
    var topics: TopicSearch
    var trail: DeadLetterTrail

    var events: [TraceEvent] = []
    /// Those of report's state.
    private var stateEvents: [TraceEvent] = []
    /// When its reading began, UNIX milliseconds.
    private var stateReadAt: Int64 = 0
    /// The newest value of report's state.
    private(set) var account: TokenAccount?
    /// When the newest of its values was written, by whatever clock: an outcome is written with one of
    /// them, so none is younger.
    private(set) var accountAt: Int64?
    /// Whether the newest record of its state is a tombstone.
    private var isForgotten = false
    /// When the newest record of it in `tokens.distinct` was written, UNIX milliseconds, where report
    /// has read that and has no account of the token: what it had was lost.
    private var unaccountedAt: Int64?
    /// Whose group has read past its newest record and has made nothing of that: somebody set its offsets.
    private var passedBy: Worker?
    /// The newest word of dedupe about it.
    private(set) var distinct: TokenDistinct?
    /// The newest report of the ledger that Apple accepted or, where it accepted none, the newest one.
    private(set) var outcome: ReportOutcome?
    /// In the order in which they failed.
    var deadLetters: [TraceDeadLetter] { trail.deadLetters }
    var readCount: Int { topics.readCount }
    var notes: [String] { topics.notes }

    init(id: TokenID, _ configuration: Configuration, _ topics: TopicSearch) {
        self.id = id
        self.topics = topics
        trail = DeadLetterTrail(
            prefix: configuration.topicPrefix,
            deadlineDays: configuration.reportDeadlineDays
        )
    }

    mutating func run() throws(LogFault) {
        try readState()
        try readOthers()
    }

    /// All but report's state, and that again where something ended since it was read: it would seem
    /// to be under way, or forgotten.
    mutating func readOthers() throws(LogFault) {
        let told = try searchByID(.tokensDistinct)
        readDistinct(told)
        readNotices(try searchByID(.notificationsVerified))
        readRequests(try searchByID(.reportsRequested))
        let outcomes = try searchByID(
            .reportsOutcomes,
            from: reportedFrom(told),
            // What is under way may have been decided long ago.
            until: account?.current == nil ? reportedUntil : nil
        )
        readOutcomes(outcomes)
        trail.add(try searchByID(.deadLetters(.report)), telling: &events)
        let intake = try searchIntake(told)
        passedBy = try passedBy(intake: intake, told)
        try trail.readSettled(&topics, telling: &events)
        let endings =
            outcomes.map(\.timestamp)
            + deadLetters.flatMap { [$0.failedAt, $0.settled?.at].compactMap { $0 } }
        if let last = endings.max(), stateReadAt - Self.slackMilliseconds < last {
            try readState()
        }
        unaccountedAt = try lookForLostAccount(told)
        // Events of one time are listed in the order of the pipeline.
        events = (stateEvents + events).enumerated().sorted {
            ($0.element.at, $0.offset) < ($1.element.at, $1.offset)
        }.map(\.element)
    }

    /// What is owed now, in words.
    var standing: [String] {
        TraceStanding(
            id: id,
            account: account,
            deadLetters: deadLetters,
            now: Timestamp(milliseconds: WallClock.nowMilliseconds()),
            outcome: outcome,
            unaccountedAt: isHidden(.reportState) ? nil : unaccountedAt,
            passedBy: isHidden(
                .tokensDecoded,
                .tokensDistinct,
                .reportState,
                .deadLetters(.decode)
            ) ? nil : passedBy
        ).lines
    }

    /// Whether an open transaction holds back some of these topics.
    private func isHidden(_ made: Topic...) -> Bool {
        let names = made.map { topics.name($0) }
        return topics.openTransactions?.partitions.contains { names.contains($0.topic) } ?? false
    }

    // MARK: Where

    mutating func searchByID(
        _ topic: Topic,
        from: Int64? = nil,
        until: Int64? = nil
    ) throws(LogFault) -> [TopicReader.Found] {
        try topics.search(topic, key: Array(id.text.utf8), from: from, until: until)
    }

    /// What report has accepted lies before it, UNIX milliseconds; nil where nothing says so.
    private var reportedUntil: Int64? {
        [accountAt, account?.lastAcceptedAt?.milliseconds].compactMap { $0 }.max()
            .map { $0 + Self.repeatMilliseconds }
    }

    // MARK: What is keyed by the id

    mutating func readState() throws(LogFault) {
        stateEvents = []
        stateReadAt = WallClock.nowMilliseconds()
        var numbers: Set<Int> = []
        var newest: TopicReader.Found?
        for found in try searchState() {
            newest = found
            accountAt = max(accountAt ?? .min, found.timestamp)
            let value: TokenAccount
            do throws(WireFault) {
                value = try TokenAccount(reading: found.value.span)
            } catch {
                // Its tombstone: the account was forgotten.
                account = nil
                isForgotten = true
                continue
            }
            account = value
            isForgotten = false
            if let intent = value.current, numbers.insert(intent.number).inserted {
                stateEvents.append(
                    TraceEvent(
                        found,
                        stage: "report",
                        "decided on report \(intent.number): \(intent.status.rawValue)"
                            + " because of \(intent.reason.rawValue)",
                        Fact.number("number", Int64(intent.number))
                            + Fact.text("status", intent.status.rawValue)
                            + Fact.text("reason", intent.reason.rawValue)
                            + Fact.text("requestIdentifier", intent.identifier)
                            + Fact.number("deadline", intent.deadline.milliseconds)
                    )
                )
            }
        }
        if let intent = account?.current, let newest {
            stateEvents += TraceAnswers.events(
                of: intent.exchanges,
                intent.status,
                intent.identifier,
                newest
            )
        }
    }

    /// The newest values of the state: found from its end, for there is one of each token that ever
    /// came, and nothing says when this one changed last.
    ///
    /// What came before them is read up to their offset, not up to their time: a clock that was ahead
    /// for a while would end that reading early, and hide the newest.
    private mutating func searchState() throws(LogFault) -> [TopicReader.Found] {
        let key = Array(id.text.utf8)
        let (newest, hasEarlier) = try topics.searchNewest(.reportState, key: key)
        guard hasEarlier, let first = newest.first, let last = newest.last else {
            return newest
        }
        return try topics.search(
            .reportState,
            key: key,
            from: last.timestamp - Self.stateDays * Self.dayMilliseconds,
            untilOffset: first.offset
        ) + newest
    }

    /// When the newest of its records in `tokens.distinct` was written, where report has read that one
    /// and has no account of it; nil else, and where the account may have been forgotten.
    private mutating func lookForLostAccount(
        _ told: [TopicReader.Found]
    ) throws(LogFault) -> Int64? {
        // No account is forgotten earlier than that.
        let since = WallClock.nowMilliseconds() - SeenBefore.keyLifetime.count
        guard account == nil, !isForgotten, let newest = told.last, newest.timestamp > since,
            try topics.hasRead(newest, .report)
        else {
            return nil
        }
        // Report commits an account with the position behind its record: by now it would be there.
        try readState()
        return account == nil && !isForgotten ? newest.timestamp : nil
    }

    /// From when on a report of it may have been written, UNIX milliseconds: a day before its token
    /// was made; nil where nothing says so.
    ///
    /// A date in a token may be any: one that is later than what is known of it says nothing.
    func reportedFrom(_ told: [TopicReader.Found] = []) -> Int64? {
        guard let born = account?.tokenCreationDate ?? distinct?.tokenCreationDate else {
            return nil
        }
        let from = born.milliseconds.subtracting(saturating: Self.dayMilliseconds)
        let known = [accountAt, account?.lastAcceptedAt?.milliseconds].compactMap { $0 }
        return (told.map(\.timestamp) + known).allSatisfy { from <= $0 } ? from : nil
    }

    /// The reports that wait behind the one under way, in their order.
    ///
    /// Each is in a record of its own, in the partition of the token's account.
    mutating func readWaiting() throws(LogFault) -> [ReportIntent] {
        guard account?.line.isEmpty == false else {
            return []
        }
        let id = id
        let found = try topics.search(
            .reportState,
            partitionOf: Array(id.text.utf8),
            from: reportedFrom()
        ) { key, _ in
            WaitingReport.isKey(key, of: id)
        }
        var waiting: [[UInt8]: ReportIntent] = [:]
        for record in found {
            do throws(WireFault) {
                waiting[record.key] = try WaitingReport.read(record.value.span)
            } catch {
                // Its tombstone: it is no longer waiting.
                waiting[record.key] = nil
            }
        }
        return waiting.values.sorted { $0.number < $1.number }
    }

    private mutating func readDistinct(_ told: [TopicReader.Found]) {
        for found in told {
            do throws(WireFault) {
                let value = try TokenDistinct(reading: found.value.span)
                if distinct == nil || value.role != .seen {
                    distinct = value
                }
                var details = Fact.text("role", value.role.text)
                var text = "classified: \(value.role.text)"
                if case .duplicate(let primary) = value.role {
                    text += " of \(primary.text)"
                    details += Fact.text("primaryExternalPurchaseId", primary.text)
                }
                if let refused = value.promotedFrom {
                    text += " in place of \(refused.text), which Apple does not know"
                    details += Fact.text("promotedFrom", refused.text)
                }
                let stage = value.role == .seen ? "decode" : "dedupe"
                events.append(TraceEvent(found, stage: stage, text, details))
            } catch {
                events.append(unreadable(found, "dedupe"))
            }
        }
    }

    private mutating func readNotices(_ found: [TopicReader.Found]) {
        for found in found {
            do throws(WireFault) {
                let notice = try NotificationVerified(reading: found.value.span)
                events.append(
                    TraceEvent(
                        found,
                        stage: "notifications",
                        "Apple's notice \(notice.subtype ?? "without subtype")",
                        Fact.text("notificationUUID", notice.notificationUUID)
                            + Fact.text("subtype", notice.subtype)
                            + Fact.number("signedDate", notice.signedDate.milliseconds)
                    )
                )
            } catch {
                events.append(unreadable(found, "notifications"))
            }
        }
    }

    private mutating func readRequests(_ found: [TopicReader.Found]) {
        for found in found {
            do throws(WireFault) {
                let request = try ReportRequested(reading: found.value.span)
                events.append(
                    TraceEvent(
                        found,
                        stage: "report",
                        "report asked for: \(request.status.rawValue)"
                            + (found.header(HandOrder.header).map { " by hand (\($0))" } ?? ""),
                        Fact.text("status", request.status.rawValue)
                            + Fact.text("requestIdentifier", request.requestIdentifier)
                    )
                )
            } catch {
                events.append(unreadable(found, "report"))
            }
        }
    }

    private mutating func readOutcomes(_ found: [TopicReader.Found]) {
        for found in found {
            do throws(WireFault) {
                let outcome = try ReportOutcome(reading: found.value.span)
                events += TraceAnswers.events(of: outcome, found)
                if outcome.outcome != .rejected || self.outcome?.outcome ?? .rejected == .rejected {
                    self.outcome = outcome
                }
            } catch {
                events.append(unreadable(found, "report"))
            }
        }
    }

    func unreadable(_ found: TopicReader.Found, _ stage: String) -> TraceEvent {
        TraceEvent(found, stage: stage, "a record that cannot be read")
    }
}
