internal import AppStoreAPI
internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Goes through the ledger of reports and the ledger of sales, row by row, in bounded memory.
struct LedgerReader {
    static let ledgers: [Topic] = [.reportsOutcomes, .purchasesOutcomes]

    let configuration: Configuration
    let selection: LedgerSelection

    /// Asked once for each batch; true ends the reading where it is.
    var isStopped: () -> Bool = { false }
    /// Records that are none of ours.
    private(set) var unreadableCount = 0
    /// Reports whose line items cannot be read.
    private(set) var unreadableItemCount = 0
    /// Behind the last record of each partition that the first reading of the reports saw: a second one
    /// ends there, as what was restated since would count twice.
    private var reportEnds: [Int32: Int64]?

    init(_ configuration: Configuration, _ selection: LedgerSelection) {
        self.configuration = configuration
        self.selection = selection
    }

    // MARK: Reports

    /// Shows every report's record, in the order of each partition; first of all how many records there
    /// are at most.
    ///
    /// For those of a token its partition alone is read.
    ///
    /// - Throws: exit 3 where there is no ledger, 6 without Kafka, 75 where a transaction in it does
    ///   not end, and what `body` throws.
    mutating func reports(
        of token: TokenID? = nil,
        begins: (_ recordCount: Int64) -> Void = { _ in },
        isWanted: (Span<UInt8>) -> Bool = { _ in true },
        _ body: (ReportOutcome, LedgerPlace) throws(CommandFailure) -> Bool
    ) throws(CommandFailure) {
        let name = Topic.reportsOutcomes.name(prefix: configuration.topicPrefix)
        let selection = selection
        let knownEnds = reportEnds
        var ends: [Int32: Int64] = [:]
        var unreadable = 0
        try scan(name, "reports of the ledger", of: token, begins: begins) {
            (value, place) throws(CommandFailure) in
            ends[place.partition] = place.offset + 1
            if let knownEnds, place.offset >= knownEnds[place.partition] ?? 0 {
                return true
            }
            guard isWanted(value) else {
                return true
            }
            let outcome: ReportOutcome
            do throws(WireFault) {
                outcome = try ReportOutcome(reading: value)
            } catch {
                unreadable += 1
                return true
            }
            guard
                selection.matches(
                    app: outcome.appAppleID,
                    outcome.externalPurchaseID.environment
                ), token == nil || token == outcome.externalPurchaseID
            else {
                return true
            }
            return try body(outcome, place)
        }
        reportEnds = knownEnds ?? ends
        unreadableCount += unreadable
    }

    /// Shows every row of the selection: reports and line items first, then sales not reported.
    ///
    /// `eachReport` gets every report of the apps and the environment of the selection with its line
    /// items, whether it has a row or not.
    mutating func rows(
        _ corrections: LedgerCorrections,
        eachReport: (ReportOutcome, [LedgerLineItem]) -> Void = { _, _ in },
        _ body: (LedgerRow) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        let selection = selection
        let restatements = corrections.restatements
        var repeats = corrections.repeats
        var unreadableItems = 0
        try reports { (outcome, place) throws(CommandFailure) in
            let items: [LedgerLineItem]
            do throws(WireFault) {
                items =
                    try outcome.details.lineItems.map { (text) throws(WireFault) in
                        try LedgerLineItem.list(text)
                    } ?? []
            } catch {
                // The report itself is shown all the same.
                unreadableItems += 1
                items = []
            }
            eachReport(outcome, items)
            let repetition = repeats.repetition(outcome)
            let position = place.text
            guard !items.isEmpty else {
                var row = LedgerRow(outcome, nil, selection, position)
                row.repetition = repetition
                if selection.matches(row) {
                    try body(row)
                }
                return true
            }
            for item in items {
                var row = LedgerRow(outcome, item, selection, position)
                row.repetition = repetition
                row.isSuperseded = restatements.isSuperseded(outcome, item, at: place)
                if selection.matches(row) {
                    try body(row)
                }
            }
            return true
        }
        unreadableItemCount += unreadableItems
        try sales(body)
    }

    // MARK: Sales

    /// Sales that are in no report; where there is no ledger of sales there are none.
    private mutating func sales(
        _ body: (LedgerRow) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        let name = Topic.purchasesOutcomes.name(prefix: configuration.topicPrefix)
        let isThere = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Bool in
            try admin.partitionCount(of: name) != nil
        }
        guard isThere else {
            return
        }
        let selection = selection
        var unreadable = 0
        try scan(name, "sales of the ledger") { (value, place) throws(CommandFailure) in
            let outcome: PurchaseOutcome
            let row: LedgerRow
            do throws(WireFault) {
                outcome = try PurchaseOutcome(reading: value)
                row = try LedgerRow(outcome, selection, place.text)
            } catch {
                unreadable += 1
                return true
            }
            if outcome.outcome != .reported, selection.matches(row) {
                try body(row)
            }
            return true
        }
        unreadableCount += unreadable
    }

    // MARK: Both

    /// What a reader must know where Kafka has lost the beginning of a ledger; a sentence for each.
    ///
    /// - Throws: exit 6 without Kafka.
    func lostBeginnings(
        of ledgers: [Topic] = LedgerReader.ledgers
    ) throws(CommandFailure) -> [String] {
        let names = ledgers.map { $0.name(prefix: configuration.topicPrefix) }
        return try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> [String] in
            let counts = try admin.partitionCounts()
            var sentences: [String] = []
            for name in names where counts[name] != nil {
                let starts = try admin.startOffsets(ofTopic: name)
                sentences += [Self.lostBeginning(of: name, starts)].compactMap { $0 }
            }
            return sentences
        }
    }

    /// A ledger is kept for ever: its partitions begin at offset 0.
    static func lostBeginning(of topic: String, _ starts: [Int64]) -> String? {
        let lost = starts.indices.filter { starts[$0] > 0 }
        guard let first = lost.first else {
            return nil
        }
        return "\(topic) has lost its beginning in " + CountText.of(lost.count, "partition")
            + " (\(first) begins at offset \(starts[first])):"
            + " what lay there cannot be read any more"
    }

    /// What a reader must know where sales came in, and there is no ledger of them; else nil.
    ///
    /// - Throws: exit 6 without Kafka.
    func missingSales() throws(CommandFailure) -> String? {
        guard try KnownSales.hadRecords(.purchasesOutcomes, configuration) == nil,
            try KnownSales.cameIn(besides: .purchasesOutcomes, configuration)
        else {
            return nil
        }
        let name = Topic.purchasesOutcomes.name(prefix: configuration.topicPrefix)
        return "Kafka shows no topic \(name), and sales did come in:"
            + " those that were not reported are not in this export"
    }

    private func scan(
        _ topic: String,
        _ what: String,
        of token: TokenID? = nil,
        begins: (Int64) -> Void = { _ in },
        _ body: (Span<UInt8>, LedgerPlace) throws(CommandFailure) -> Bool
    ) throws(CommandFailure) {
        let start: LogBrowser.Start =
            selection.readsFrom.map { .timestamp(max(0, $0.milliseconds)) } ?? .earliest
        var places = try TopicScan.places(of: topic, from: start, configuration)
        if let token {
            let own = TopicReader.partition(
                ofKey: Array(token.text.utf8),
                partitionCount: places.count
            )
            places = places.filter { $0.key.partition == own }
        }
        let progress = ProgressLine(what)
        try TopicScan(
            configuration: configuration,
            topics: [topic],
            // An open transaction would hide what was committed behind it.
            isToHighWatermark: true,
            readAheadKilobytes: TopicScan.largeReadAheadKilobytes
        ).run(
            from: places,
            progress: progress,
            begins: begins
        ) {
            batch throws(CommandFailure) in
            guard !isStopped() else {
                return false
            }
            for record in batch.records where !record.value.isAbsent {
                let value = batch.arena.span.extracting(record.value.indices)
                let place = LedgerPlace(
                    topic: topic,
                    partition: record.partition,
                    offset: record.offset
                )
                guard try body(value, place) else {
                    return false
                }
            }
            return true
        }
    }
}
