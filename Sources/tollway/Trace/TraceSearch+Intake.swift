internal import Kafka
internal import TokenDomain
internal import TokenWire

/// What came in: the door, decode, and what failed before the token's id was a key.
extension TraceSearch {
    /// What is known of how a token came in: its newest record in each topic.
    struct Intake {
        var received: TopicReader.Found?
        var decoded: TopicReader.Found?
    }

    /// The door and decode: by the customer where one is known, and by the time.
    mutating func searchIntake(_ told: [TopicReader.Found]) throws(LogFault) -> Intake {
        let key = Array((distinct?.customer?.text ?? id.text).utf8)
        let received = distinct?.receivedAt.milliseconds
        // Where Kafka has no more what was classified, report's state says when it was about.
        let born = reportedFrom(told)
        let first = [told.map(\.timestamp).min(), received].compactMap { $0 }.min()
        let from = first.map { $0.subtracting(saturating: Self.slackMilliseconds) } ?? born
        let until = (told.map(\.timestamp).max() ?? accountAt).map { $0 + Self.repeatMilliseconds }
        let id = self.id
        let subjects = SubjectReader()
        let inText = LineItemNeedle(id.text)
        // Else the key is the customer's, or the id itself: its records are few.
        let ownersKey = isUnjudged ? nil : key
        // Apple's notice may have been there long before the token.
        let intakeUntil = isUnjudged ? nil : until
        let decoded = try search(
            .tokensDecoded,
            key: ownersKey,
            from: from,
            until: intakeUntil,
            isWanted: Self.isDecoded(id)
        )
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
                        // Copies of a token may differ in them.
                        + Fact.date("tokenCreationDate", token.token.tokenCreationDate)
                        + Fact.date("tokenExpirationDate", token.token.tokenExpirationDate)
                )
            )
        }
        // dedupe may not have been able to read it.
        let isAbout: (Span<UInt8>) -> Bool = { value in
            inText.isIn(value) && subjects.read(value).externalPurchaseID == id.text
        }
        trail.add(
            try search(
                .deadLetters(.dedupe),
                key: ownersKey,
                from: from,
                until: nil,
                isWanted: isAbout
            ),
            telling: &events
        )
        let needles = TokenNeedles(id: id, texts: texts)
        // As decode names the token of what it refuses, too.
        let isToken: (Span<UInt8>) -> Bool = { value in
            needles.isIn(value) && subjects.read(value).externalPurchaseID == id.text
        }
        // A token of which nothing else is known is looked for in all that could not be decoded.
        let deadLetters = try topics.searchAll(
            .deadLetters(.decode),
            from: from,
            // Of a token that got through, a later dead letter goes with a record that tells it
            // apart.
            until: isKnown ? until : nil,
            isWanted: isToken
        )
        trail.add(deadLetters, telling: &events)
        let inNotice = TokenNeedles(id: id)
        trail.add(
            try topics.searchAll(.deadLetters(.notifications), from: from, until: nil) { value in
                inNotice.isIn(value) && subjects.read(value).externalPurchaseID == id.text
            },
            telling: &events
        )
        // What has the id as its key was found by that. A record by hand may have any other.
        let ownKey = Array(id.text.utf8)
        trail.add(
            try topics.searchAll(.deadLetters(.report), from: from, until: nil, isWanted: isAbout)
                .filter { $0.key != ownKey },
            telling: &events
        )
        var cameIn: [TopicReader.Found] = []
        if let deadLetter = deadLetters.first, !deadLetter.key.isEmpty {
            // It came in before it failed, and a replay brought it again, whenever that was: under
            // the dead letter's key, so in one partition.
            let times = [first, deadLetters.map(\.timestamp).min()].compactMap { $0 }
            cameIn = try topics.search(
                .tokensReceived,
                key: deadLetter.key,
                from: times.min().map { $0 - Self.dayMilliseconds },
                until: nil,
                isWanted: isToken
            )
        } else if first != nil || !decoded.isEmpty || isUnjudged {
            let last =
                decoded.map(\.timestamp).max().map { $0 + Self.slackMilliseconds } ?? intakeUntil
            cameIn = try searchReceived(from: from, until: last, isToken)
        }
        readReceived(cameIn)
        return Intake(received: cameIn.last, decoded: decoded.last)
    }

    /// Whether dedupe, or report, has the token from a device or a link.
    private var isKnown: Bool {
        account?.isKnown == true || distinct.map { $0.role != .seen } == true
    }

    /// Whether dedupe has not judged it: nothing says under which customer it came.
    ///
    /// What the ledger has was judged once, but for what was told as unknown.
    private var isUnjudged: Bool {
        !isKnown && outcome?.status ?? .unrecognizedToken == .unrecognizedToken
    }

    /// Whose group has read past the newest record of a token that no stage behind it knows.
    ///
    /// A stage commits what it makes of a record with the position behind that: what was not there yet
    /// when it was looked for first is there now.
    mutating func passedBy(
        intake: Intake,
        _ told: [TopicReader.Found]
    ) throws(LogFault) -> Worker? {
        guard told.isEmpty, isUnjudged, deadLetters.isEmpty else {
            return nil
        }
        if let decoded = intake.decoded {
            guard try topics.hasRead(decoded, .dedupe) else {
                return nil
            }
            return try searchByID(.tokensDistinct).isEmpty ? .dedupe : nil
        }
        guard let received = intake.received, try topics.hasRead(received, .decode) else {
            return nil
        }
        let from = received.timestamp - Self.slackMilliseconds
        let (id, needles, subjects) = (id, TokenNeedles(id: id), SubjectReader())
        let decoded = Self.isDecoded(id)
        let made =
            try topics.searchAll(.tokensDecoded, from: from, until: nil, isWanted: decoded)
            + topics.searchAll(.deadLetters(.decode), from: from, until: nil) { value in
                needles.isIn(value) && subjects.read(value).externalPurchaseID == id.text
            }
        return made.isEmpty ? .decode : nil
    }

    /// The records of a key; of any where nothing says which it is.
    private mutating func search(
        _ topic: Topic,
        key: [UInt8]?,
        from: Int64?,
        until: Int64?,
        isWanted: (Span<UInt8>) -> Bool
    ) throws(LogFault) -> [TopicReader.Found] {
        guard let key else {
            return try topics.searchAll(topic, from: from, until: until, isWanted: isWanted)
        }
        return try topics.search(topic, key: key, from: from, until: until, isWanted: isWanted)
    }

    /// Under the customer's key, as the door writes it; who writes the topic directly may take another.
    private mutating func searchReceived(
        from: Int64?,
        until: Int64?,
        _ isToken: (Span<UInt8>) -> Bool
    ) throws(LogFault) -> [TopicReader.Found] {
        if let customer = distinct?.customer {
            let found = try topics.search(
                .tokensReceived,
                key: Array(customer.text.utf8),
                from: from,
                until: until,
                isWanted: isToken
            )
            guard found.isEmpty else {
                return found
            }
        }
        return try topics.searchAll(.tokensReceived, from: from, until: until, isWanted: isToken)
    }

    private mutating func readReceived(_ found: [TopicReader.Found]) {
        for found in found {
            guard let token = Self.received(found.value.span) else {
                events.append(unreadable(found, "ingest"))
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

    /// Whether a record of `tokens.decoded` is of a token.
    private static func isDecoded(_ id: TokenID) -> (Span<UInt8>) -> Bool {
        let inText = LineItemNeedle(id.text)
        return { value in
            inText.isIn(value) && Self.decoded(value)?.token.externalPurchaseID == id
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
            // decode has a dead letter of it.
            return nil
        }
    }
}
