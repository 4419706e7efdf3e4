internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Looks for everything that Kafka knows of one sale.
///
/// Sales, answers and the ledger are keyed by the customer, else the token: with that known, one
/// partition of each topic is read. Else the sale is looked for in what came in, and then in the
/// ledger, from the newest records back until one is found.
struct PurchaseSearch {
    let lineItemID: String
    /// Whose it may be: as it was given, or as its records say.
    private(set) var purchaseKeys: [String]
    /// Whether it was given whose it is.
    let isOfOneCustomer: Bool
    /// Whether that was a name which nothing replaced with a pseudonym.
    var isNameTakenForKey = false
    var topics: TopicSearch
    private var trail: DeadLetterTrail
    private let needle: LineItemNeedle
    /// Whether to look on where one was found.
    private let isEverything: Bool
    /// Whether there are records before the one that was found.
    private var hasEarlier = false
    /// Events that came in without a key, which purchases does not take.
    private var keyless: [TopicReader.Found] = []

    private(set) var events: [TraceEvent] = []
    /// What the name stands for: one sale as a rule; the same name may be one of both environments.
    private(set) var items: [TracedItem] = []
    private var found = TracedItems()
    /// How the sale of one customer stands, and when its reading began, UNIX milliseconds.
    private(set) var book: (readAt: Int64, standings: [Lane: BookStanding]) = (0, [:])
    /// Of the reports that carry it.
    private var identifiers: Set<String> = []
    /// The tokens that it was to be reported under.
    private var tokens: Set<String> = []
    /// When the first event came in that the ledger of sales names; UNIX milliseconds.
    private var receivedAt: Int64?

    var deadLetters: [TraceDeadLetter] { trail.deadLetters }
    var readCount: Int { topics.readCount }

    init(
        lineItemID: String,
        purchaseKey: String?,
        isEverything: Bool = false,
        _ configuration: Configuration,
        _ topics: TopicSearch
    ) {
        self.lineItemID = lineItemID
        self.isEverything = isEverything
        self.topics = topics
        purchaseKeys = purchaseKey.map { [$0] } ?? []
        isOfOneCustomer = purchaseKey != nil
        needle = LineItemNeedle(lineItemID)
        trail = DeadLetterTrail(
            prefix: configuration.topicPrefix,
            deadlineDays: configuration.reportDeadlineDays
        )
    }

    mutating func run() throws(LogFault) {
        if purchaseKeys.isEmpty {
            try findKeys()
        }
        for key in purchaseKeys {
            try readSale(Array(key.utf8))
        }
        if isOfOneCustomer, events.isEmpty {
            keyless = try keylessEvents()
        }
        if !keyless.isEmpty || events.isEmpty {
            try readKeyless()
        }
        items = found.sorted
        try readReports()
        try trail.readSettled(&topics, telling: &events)
        // Events of one time are listed in the order of the pipeline.
        events = events.enumerated().sorted {
            ($0.element.at, $0.offset) < ($1.element.at, $1.offset)
        }.map(\.element)
    }

    // MARK: Whose it is

    private mutating func findKeys() throws(LogFault) {
        let (needle, id) = (needle, lineItemID)
        var found = try look(in: .purchasesReceived) { value in
            needle.isIn(value) && TracedSale(value).lineItemID == id
        }
        // A record without a key may be one more of a sale that was told of long ago.
        if found.allSatisfy(\.key.isEmpty) || isEverything {
            found += try look(in: .purchasesOutcomes) { value in
                needle.isIn(value) && Self.outcome(value)?.lineItemID == id
            }
        }
        keyless = found.filter(\.key.isEmpty)
        for found in found {
            let key =
                found.key.isEmpty
                ? TracedSale(found.value.span).purchaseKey ?? ""
                : String(decoding: found.key, as: UTF8.self)
            if !key.isEmpty, !purchaseKeys.contains(key) {
                purchaseKeys.append(key)
            }
        }
    }

    /// Of the one customer, by what the events themselves say.
    private mutating func keylessEvents() throws(LogFault) -> [TopicReader.Found] {
        try look(in: .purchasesReceived, isSale(ofCustomers: purchaseKeys)).filter(\.key.isEmpty)
    }

    /// Whether a value is the sale, and names one of these where there are any.
    private func isSale(ofCustomers keys: [String]) -> (Span<UInt8>) -> Bool {
        let (needle, id) = (needle, lineItemID)
        return { value in
            guard needle.isIn(value) else {
                return false
            }
            let sale = TracedSale(value)
            return sale.lineItemID == id
                && (keys.isEmpty || sale.purchaseKey.map { keys.contains($0) } ?? false)
        }
    }

    /// The events without a key, and their dead letters, which have none either and outlast them.
    private mutating func readKeyless() throws(LogFault) {
        readReceived(keyless)
        readDeadLetters(
            try topics.searchAll(
                .deadLetters(.purchases),
                from: nil,
                until: nil,
                isWanted: isSale(ofCustomers: isOfOneCustomer ? purchaseKeys : [])
            ).filter(\.key.isEmpty)
        )
    }

    private mutating func look(
        in topic: Topic,
        _ isWanted: (Span<UInt8>) -> Bool
    ) throws(LogFault) -> [TopicReader.Found] {
        guard !isEverything else {
            return try topics.searchAll(topic, from: nil, until: nil, isWanted: isWanted)
        }
        let (found, hasEarlier) = try topics.searchNewest(topic, isWanted: isWanted)
        self.hasEarlier = self.hasEarlier || hasEarlier
        return found
    }

    /// What a reader must know beside what is shown.
    var notes: [String] {
        guard hasEarlier, !purchaseKeys.isEmpty || !keyless.isEmpty else {
            return topics.notes
        }
        return topics.notes + [
            "looked for from the newest records back until it was found; under another customer the"
                + " same line item may be older: --all looks everywhere"
        ]
    }

    // MARK: What is keyed by whose it is

    private mutating func readSale(_ key: [UInt8]) throws(LogFault) {
        let (needle, id) = (needle, lineItemID)
        readReceived(
            try topics.search(.purchasesReceived, key: key) { value in
                guard needle.isIn(value) else {
                    return false
                }
                let sale = TracedSale(value)
                return sale.lineItemID == id || sale.referenceLineItemID == id
            }
        )
        try readBook(key)
        try readEnds(key)
    }

    /// The answers to a customer's sale and how it ended, and the book again where it may have ended
    /// since that was read: it would seem to wait still.
    mutating func readEnds(_ key: [UInt8]) throws(LogFault) {
        let (needle, id) = (needle, lineItemID)
        readAnswers(
            try topics.search(.purchasesAnswered, key: key) { value in
                needle.isIn(value) && Self.answer(value)?.lineItemIDs.contains(id) == true
            }
        )
        let outcomes = try topics.search(.purchasesOutcomes, key: key) { value in
            needle.isIn(value) && Self.outcome(value)?.lineItemID == id
        }
        readOutcomes(outcomes)
        let deadLetters = try topics.search(.deadLetters(.purchases), key: key) { value in
            needle.isIn(value) && TracedSale(value).lineItemID == id
        }
        readDeadLetters(deadLetters)
        if let last = (outcomes + deadLetters).map(\.timestamp).max(),
            book.readAt - TraceSearch.slackMilliseconds < last
        {
            try readBook(key)
        }
        let whose = String(decoding: key, as: UTF8.self)
        for (lane, standing) in book.standings {
            found.note(.init(whose, lane)) { $0.standing = standing }
            if let token = standing.externalPurchaseID {
                tokens.insert(token)
            }
        }
    }

    /// How a customer's sale stands in the book of purchases.
    mutating func readBook(_ key: [UInt8]) throws(LogFault) {
        let (id, whose) = (lineItemID, String(decoding: key, as: UTF8.self))
        let readAt = WallClock.nowMilliseconds()
        let records = try topics.search(.purchasesState, partitionOf: key) { key, _ in
            BookStanding.isKey(key, of: id, whose)
        }
        book = (readAt, BookStanding.newest(in: records))
    }

    private mutating func readDeadLetters(_ records: [TopicReader.Found]) {
        for record in records {
            let knownCount = trail.deadLetters.count
            trail.add([record], telling: &events)
            for deadLetter in trail.deadLetters[knownCount...] {
                found.note(.init(Self.whose(record, deadLetter.sale), deadLetter.sale)) {
                    $0.deadLetters.append(deadLetter.position)
                }
            }
        }
    }

    /// A record's key; where it has none, what it should have been.
    private static func whose(_ record: TopicReader.Found, _ sale: TracedSale) -> String {
        record.key.isEmpty
            ? sale.purchaseKey ?? "" : String(decoding: record.key, as: UTF8.self)
    }

    private mutating func readReceived(_ records: [TopicReader.Found]) {
        for record in records {
            let sale = TracedSale(record.value.span)
            let app = sale.appAppleID.map { "app \($0)" } ?? sale.bundleID ?? "an app not named"
            var text = "received: \(sale.type) of \(app)"
            if sale.lineItemID == lineItemID {
                found.note(sale, of: Self.whose(record, sale))
                if let reference = sale.referenceLineItemID {
                    text += ", of \(reference)"
                }
            } else {
                text = "received: \(sale.type) \(sale.lineItemID ?? "") that refers to it"
            }
            text += sale.environment == .sandbox ? ", in the sandbox" : ""
            text += record.key.isEmpty ? ", without a key" : ""
            events.append(
                TraceEvent(
                    record,
                    stage: "ingest",
                    at: TokenReceived.receivedAt(
                        stated: sale.receivedAt.map { Timestamp(milliseconds: $0) },
                        recordTime: Timestamp(milliseconds: record.timestamp)
                    ),
                    text + (sale.requestID.map { ", request \($0)" } ?? ""),
                    Fact.text("type", sale.type) + Fact.text("lineItemId", sale.lineItemID)
                        + Fact.number("appAppleId", sale.appAppleID)
                        + Fact.text("bundleId", sale.bundleID)
                        + Fact.number("creationDate", sale.creationDate)
                        + Fact.text("requestId", sale.requestID)
                )
            )
        }
    }

    private mutating func readAnswers(_ found: [TopicReader.Found]) {
        for found in found {
            guard let answer = Self.answer(found.value.span) else {
                continue
            }
            identifiers.insert(answer.requestIdentifier.lowercased())
            tokens.insert(answer.externalPurchaseID.text)
            // Of a report with many items, the errors of this one and of the whole.
            let errors = answer.errors.filter { ($0.lineItemID ?? lineItemID) == lineItemID }
            events.append(
                TraceEvent(
                    found,
                    stage: "report",
                    at: answer.settledAt,
                    "answered to purchases: \(answer.outcome.rawValue)" + Self.text(errors)
                        + (answer.reason.map { ", \($0)" } ?? ""),
                    Fact.text("requestIdentifier", answer.requestIdentifier)
                        + Fact.text("externalPurchaseId", answer.externalPurchaseID.text)
                        + Fact.number("lineItemCount", Int64(answer.lineItemIDs.count))
                )
            )
        }
    }

    mutating func readOutcomes(_ records: [TopicReader.Found]) {
        for record in records {
            guard let outcome = Self.outcome(record.value.span) else {
                continue
            }
            let whose = String(decoding: record.key, as: UTF8.self)
            found.note(.init(whose, outcome.lane)) { $0.settle(outcome) }
            receivedAt = min(receivedAt ?? .max, outcome.receivedAt.milliseconds)
            if let identifier = outcome.requestIdentifier {
                identifiers.insert(identifier.lowercased())
            }
            if let token = outcome.externalPurchaseID {
                tokens.insert(token.text)
            }
            events.append(
                TraceEvent(
                    record,
                    stage: "purchases",
                    at: outcome.settledAt,
                    "\(outcome.type.rawValue), revision \(outcome.revision): "
                        + "\(outcome.outcome.rawValue) (\(outcome.reason))"
                        + (outcome.lane?.environment == .sandbox ? " in the sandbox" : "")
                        + (outcome.externalPurchaseID.map { " under \($0.text)" } ?? "")
                        + Self.text(outcome.errors),
                    Fact.text("type", outcome.type.rawValue)
                        + Fact.text("outcome", outcome.outcome.rawValue)
                        + Fact.text("reason", outcome.reason)
                        + Fact.number("revision", Int64(outcome.revision))
                        + Fact.text("externalPurchaseId", outcome.externalPurchaseID?.text)
                        + Fact.text("requestIdentifier", outcome.requestIdentifier)
                        + (outcome.item.map { [("item", $0)] } ?? [])
                )
            )
        }
    }

    private static func text(_ errors: [AppleError]) -> String {
        errors.map { ", error \($0.code)" + ($0.fieldName.map { " (\($0))" } ?? "") }.joined()
    }

    // MARK: What is keyed by the token

    /// Since when a report of it may have been asked for and answered; nil where nothing is known.
    ///
    /// What came in may be gone, and the worker may have told its end long after Apple's answer.
    var reportsFrom: Int64? {
        (events.map(\.at) + [receivedAt].compactMap { $0 }).min()
            .map { $0.subtracting(saturating: TraceSearch.slackMilliseconds) }
    }

    /// The reports that carry it: asked for, every request to Apple, and how each ended.
    private mutating func readReports() throws(LogFault) {
        let (needle, id) = (needle, lineItemID)
        let whose = Set(purchaseKeys)
        guard let from = reportsFrom else {
            return
        }
        let asked = try topics.searchAll(.reportsRequested, from: from, until: nil) { value in
            guard needle.isIn(value), let request = Self.request(value),
                whose.contains(request.purchaseKey?.text ?? "")
            else {
                return false
            }
            return Self.holds(request.lineItems, id)
        }
        for found in asked {
            guard let request = Self.request(found.value.span) else {
                continue
            }
            tokens.insert(request.externalPurchaseID.text)
            if let identifier = request.requestIdentifier {
                identifiers.insert(identifier.lowercased())
            }
            events.append(
                TraceEvent(
                    found,
                    stage: "purchases",
                    "token chosen, report asked for: \(request.externalPurchaseID.text)",
                    Fact.text("externalPurchaseId", request.externalPurchaseID.text)
                        + Fact.text("requestIdentifier", request.requestIdentifier)
                )
            )
        }
        for token in tokens.sorted() {
            try readReports(of: Array(token.utf8), from: from)
        }
    }

    private mutating func readReports(of token: [UInt8], from: Int64?) throws(LogFault) {
        let (identifiers, id) = (identifiers, lineItemID)
        for found in try topics.search(
            .reportsOutcomes,
            key: token,
            from: from,
            isWanted: { value in
                guard let outcome = Self.report(value) else {
                    return false
                }
                return identifiers.contains(outcome.requestIdentifier.lowercased())
                    || Self.holds(outcome.details.lineItems, id)
            }
        ) {
            if let outcome = Self.report(found.value.span) {
                events += TraceAnswers.events(of: outcome, found)
            }
        }
        // Under way: what was sent so far.
        let states = try topics.search(.reportState, key: token)
        guard let newest = states.last, let intent = Self.account(newest.value.span)?.current,
            identifiers.contains(intent.identifier.lowercased()) || Self.holds(intent.lineItems, id)
        else {
            return
        }
        events += TraceAnswers.events(
            of: intent.exchanges,
            intent.status,
            intent.identifier,
            newest
        )
    }

    /// Whether a JSON array of line items has one with this id.
    static func holds(_ lineItems: String?, _ lineItemID: String) -> Bool {
        guard let lineItems else {
            return false
        }
        var isThere = false
        do throws(WireFault) {
            try JSONScanner.scan(lineItems.utf8.span) { (scanner) throws(WireFault) in
                try scanner.beginArray()
                while try scanner.nextElement() {
                    try scanner.beginObject()
                    while let key = try scanner.nextKey() {
                        if case ("lineItemId", .string) = (key, try scanner.peekKind()) {
                            isThere = try scanner.string() == lineItemID || isThere
                        } else {
                            try scanner.skip()
                        }
                    }
                }
            }
        } catch {
            // Asked for by hand: not what is looked for.
        }
        return isThere
    }
}
