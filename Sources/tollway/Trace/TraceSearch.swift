internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Looks for everything that Kafka knows of one token.
///
/// What is keyed by its id lies in one partition of each topic and is read there. What is keyed by
/// its customer, or by nothing, is looked for at the time that the others tell.
struct TraceSearch {
    /// Clocks differ, and a batch takes its time.
    private static let slackMilliseconds: Int64 = 60_000
    /// How long after a token was last told apart a repeat of it is still looked for.
    private static let repeatMilliseconds: Int64 = 600_000
    /// A report may be older than the newest clock says its token is.
    private static let dayMilliseconds: Int64 = 86_400_000

    let id: TokenID
    private let prefix: String
    /// How many partitions each topic has.
    private let partitionCounts: [String: Int]
    private var reader: TopicReader

    private(set) var events: [TraceEvent] = []
    /// The newest value of report's state.
    private(set) var account: TokenAccount?
    /// The newest word of dedupe about it.
    private(set) var distinct: TokenDistinct?
    var readCount: Int { reader.readCount }

    init(id: TokenID, _ configuration: Configuration, partitionCounts: [String: Int]) {
        self.id = id
        prefix = configuration.topicPrefix
        self.partitionCounts = partitionCounts
        reader = TopicReader(configuration)
    }

    mutating func run() throws(LogFault) {
        try readState()
        let told = try searchByID(.tokensDistinct)
        readDistinct(told)
        readNotices(try searchByID(.notificationsVerified))
        readRequests(try searchByID(.reportsRequested))
        let born = account?.tokenCreationDate ?? distinct?.tokenCreationDate
        let from = born.map { $0.milliseconds - Self.dayMilliseconds }
        readOutcomes(try searchByID(.reportsOutcomes, from: from))
        readDeadLetters(try searchByID(.deadLetters(.report)))
        try searchIntake(told)
        // What happened at one time is told in the order of the pipeline.
        events = events.enumerated().sorted {
            ($0.element.at, $0.offset) < ($1.element.at, $1.offset)
        }.map(\.element)
    }

    // MARK: Where

    private func name(_ topic: Topic) -> String { topic.name(prefix: prefix) }

    private mutating func searchByID(
        _ topic: Topic,
        from: Int64? = nil
    ) throws(LogFault) -> [TopicReader.Found] {
        try search(topic, key: Array(id.text.utf8), from: from, until: nil) { _ in true }
    }

    /// The records of a key that hold what is looked for.
    private mutating func search(
        _ topic: Topic,
        key: [UInt8],
        from: Int64?,
        until: Int64?,
        isWanted: (Span<UInt8>) -> Bool
    ) throws(LogFault) -> [TopicReader.Found] {
        guard let count = partitionCounts[name(topic)] else {
            return []
        }
        let partition = TopicReader.partition(ofKey: key, partitionCount: count)
        return try reader.search(
            .init(topic: name(topic), partition: partition, from: from, until: until)
        ) { Self.isEqual($0, key) && isWanted($1) }
    }

    private mutating func searchAll(
        _ topic: Topic,
        from: Int64?,
        until: Int64?,
        isWanted: (Span<UInt8>) -> Bool
    ) throws(LogFault) -> [TopicReader.Found] {
        guard partitionCounts[name(topic)] != nil else {
            return []
        }
        return try reader.search(.init(topic: name(topic), from: from, until: until)) {
            isWanted($1)
        }
    }

    private static func isEqual(_ left: Span<UInt8>, _ right: [UInt8]) -> Bool {
        guard left.count == right.count else {
            return false
        }
        for index in left.indices where left[index] != right[index] {
            return false
        }
        return true
    }

    // MARK: What came in

    /// The door and decode: by the customer where one is known, and by the time.
    private mutating func searchIntake(_ told: [TopicReader.Found]) throws(LogFault) {
        let key = Array((distinct?.customer?.text ?? id.text).utf8)
        let received = distinct?.receivedAt.milliseconds
        let first = [told.map(\.timestamp).min(), received].compactMap { $0 }.min()
        let from = first.map { $0 - Self.slackMilliseconds }
        let until = told.map(\.timestamp).max().map { $0 + Self.repeatMilliseconds }
        let id = self.id
        // The key is the customer's, or the id itself: its records are few.
        let decoded = try search(.tokensDecoded, key: key, from: from, until: until) { value in
            Self.decoded(value)?.token.externalPurchaseID == id
        }
        var texts: Set<String> = []
        for found in decoded {
            guard let token = Self.decoded(found.value.span) else {
                continue
            }
            texts.insert(token.text)
            events.append(
                TraceEvent(
                    found,
                    stage: "decode",
                    "decoded",
                    Fact.text("environment", token.token.externalPurchaseID.environment.rawValue)
                        + Fact.number("appAppleId", token.token.appAppleID)
                        + Fact.text("bundleId", token.token.bundleID)
                )
            )
        }
        readDeadLetters(
            try search(.deadLetters(.dedupe), key: key, from: from, until: nil) { value in
                Self.decoded(value)?.token.externalPurchaseID == id
            }
        )
        let needles = texts.isEmpty ? TokenNeedles(id: id) : TokenNeedles(texts: texts)
        let isToken: (Span<UInt8>) -> Bool = { value in
            guard needles.isIn(value), let token = Self.received(value) else {
                return false
            }
            return texts.contains(token.token) || Self.id(of: token.token) == id
        }
        // A token of which nothing else is known is looked for in all that could not be decoded.
        let letters = try searchAll(
            .deadLetters(.decode),
            from: from,
            until: nil,
            isWanted: isToken
        )
        readDeadLetters(letters)
        if let letter = letters.first, !letter.key.isEmpty {
            // It came in before it failed, and a replay brought it again, whenever that was: under the
            // letter's key, so in one partition.
            let times = [first, letters.map(\.timestamp).min()].compactMap { $0 }
            readReceived(
                try search(
                    .tokensReceived,
                    key: letter.key,
                    from: times.min().map { $0 - Self.dayMilliseconds },
                    until: nil,
                    isWanted: isToken
                )
            )
        } else if first != nil || !decoded.isEmpty {
            let last = decoded.map(\.timestamp).max().map { $0 + Self.slackMilliseconds } ?? until
            readReceived(
                try searchAll(.tokensReceived, from: from, until: last, isWanted: isToken)
            )
        }
    }

    private mutating func readReceived(_ found: [TopicReader.Found]) {
        for found in found {
            guard let token = Self.received(found.value.span) else {
                continue
            }
            events.append(
                TraceEvent(
                    found,
                    stage: "ingest",
                    at: token.receivedAt,
                    "received by \(token.source.rawValue)"
                        + (token.requestID.isEmpty ? "" : ", request \(token.requestID)"),
                    Fact.text("source", token.source.rawValue)
                        + Fact.text("requestId", token.requestID)
                )
            )
        }
    }

    private static func decoded(_ value: Span<UInt8>) -> TokenDecoded? {
        do throws(WireFault) {
            return try TokenDecoded(reading: value)
        } catch {
            // Not what is looked for: dedupe has a dead letter of it.
            return nil
        }
    }

    private static func received(_ value: Span<UInt8>) -> TokenReceived? {
        do throws(WireFault) {
            return try TokenReceived(reading: value)
        } catch {
            // Not what is looked for: decode has a dead letter of it.
            return nil
        }
    }

    private static func id(of text: String) -> TokenID? {
        do throws(DecodeFault) {
            return try decodeToken(text.utf8.span).externalPurchaseID
        } catch {
            // A text without an id is nobody's.
            return nil
        }
    }

    // MARK: What is keyed by the id

    private mutating func readState() throws(LogFault) {
        var numbers: Set<Int> = []
        var newest: TopicReader.Found?
        for found in try searchByID(.reportState) {
            newest = found
            let value: TokenAccount
            do throws(WireFault) {
                value = try TokenAccount(reading: found.value.span)
            } catch {
                // Its tombstone: the account was forgotten.
                account = nil
                continue
            }
            account = value
            if let intent = value.current, numbers.insert(intent.number).inserted {
                events.append(
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
            events += TraceAnswers.events(
                of: intent.exchanges,
                intent.status,
                intent.identifier,
                newest
            )
        }
    }

    private mutating func readDistinct(_ told: [TopicReader.Found]) {
        for found in told {
            do throws(WireFault) {
                let value = try TokenDistinct(reading: found.value.span)
                if distinct == nil || value.role != .seen {
                    distinct = value
                }
                var details = Fact.text("role", value.role.text)
                var text = "told apart: \(value.role.text)"
                if case .duplicate(let primary) = value.role {
                    text += " of \(primary.text)"
                    details += Fact.text("primaryExternalPurchaseId", primary.text)
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
                        "asked for by hand or replay: \(request.status.rawValue)",
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
            } catch {
                events.append(unreadable(found, "report"))
            }
        }
    }

    private mutating func readDeadLetters(_ found: [TopicReader.Found]) {
        for found in found {
            let code = found.header("tollway.dlq.code") ?? "no code"
            let stage = found.header("tollway.dlq.stage") ?? "unknown"
            let source = found.header("__dlq.errors.topic") ?? ""
            events.append(
                TraceEvent(
                    found,
                    stage: stage,
                    "dead letter: \(code)",
                    Fact.text("code", code)
                        + Fact.text("message", found.header("__dlq.errors.message"))
                        + Fact.text("sourceTopic", source)
                        + Fact.text("replayCount", found.header("tollway.dlq.replay_count"))
                )
            )
        }
    }

    private func unreadable(_ found: TopicReader.Found, _ stage: String) -> TraceEvent {
        TraceEvent(found, stage: stage, "a record that cannot be read")
    }
}
