internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Counts the sales of a window, from the events to the ledger of sales.
///
/// What is held is the rest, as it lies in the worker's state alone: that it is not below zero is what
/// can be checked here, which finds what was reported twice and not what was lost.
struct SalesCount {
    let configuration: Configuration
    let window: AccountWindow
    /// By bundle id, where the apps file is known.
    let appIDs: [BundleID: Int64]
    private(set) var lines: [Int64: SalesLine] = [:]

    private static let replayHeader = ByteNeedle(Array("tollway.dlq.replay_id".utf8))

    init(_ configuration: Configuration, _ window: AccountWindow, appIDs: [BundleID: Int64]) {
        self.configuration = configuration
        self.window = window
        self.appIDs = appIDs
    }

    /// Counts partition by partition: all of a customer lies in one.
    mutating func run() throws(CommandFailure) {
        let name = Topic.purchasesReceived.name(prefix: configuration.topicPrefix)
        let count = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Int in
            try admin.topic(name)?.partitions.count ?? 0
        }
        for partition in 0..<Int32(try isEmpty() ? 0 : count) {
            let apps = try countReceived(partition)
            try countOutcomes(partition, apps)
        }
        try countLetters()
    }

    /// Whether no sale ever came in: then there is nothing to read.
    private func isEmpty() throws(CommandFailure) -> Bool {
        let name = Topic.purchasesReceived.name(prefix: configuration.topicPrefix)
        return try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Bool in
            try admin.endOffsets(ofTopic: name).allSatisfy { $0 == 0 }
        }
    }

    /// - Returns: the app of each line item.
    private mutating func countReceived(
        _ partition: Int32
    ) throws(CommandFailure) -> [UInt64: Int64] {
        var apps: [UInt64: Int64] = [:]
        var seen: Set<Int> = []
        try scan(.purchasesReceived, partition, "sales received") { book, record, batch in
            let value = batch.arena.span.extracting(record.value.indices)
            let event: PurchaseEvent
            do throws(PurchaseFaults) {
                // The door has judged its dates; here any date will do.
                event = try PurchaseEvent.read(
                    value,
                    from: .topic,
                    now: Timestamp(milliseconds: .max)
                )
            } catch {
                // A dead letter, under whatever app can be read of it.
                if book.window.contains(Self.time(of: record, value)) {
                    book.lines[0, default: SalesLine()].received += 1
                }
                return
            }
            let app = book.app(of: event)
            apps[TextDigest.of(event.lineItemID)] = app
            var content = event
            content.receivedAt = nil
            content.requestID = nil
            let isReplayed =
                !record.headers.isAbsent
                && Self.replayHeader.isIn(batch.arena.span.extracting(record.headers.indices))
            let isFirst = seen.insert(content.hashValue).inserted
            guard book.window.contains(Self.time(of: record, value)) else {
                return
            }
            book.lines[app, default: SalesLine()].received += 1
            if !isFirst, !isReplayed {
                book.lines[app, default: SalesLine()].repeats += 1
            }
        }
        return apps
    }

    private mutating func countOutcomes(
        _ partition: Int32,
        _ apps: [UInt64: Int64]
    ) throws(CommandFailure) {
        // A sale that was not owed may be reported after all: its newest word counts.
        var newest: [UInt64: (app: Int64, outcome: PurchaseOutcome.Outcome)] = [:]
        try scan(.purchasesOutcomes, partition, "sales of the ledger") { book, record, batch in
            do throws(WireFault) {
                let outcome = try PurchaseOutcome(
                    reading: batch.arena.span.extracting(record.value.indices)
                )
                guard book.window.contains(outcome.receivedAt) else {
                    return
                }
                let app =
                    outcome.lane?.appAppleID ?? apps[TextDigest.of(outcome.lineItemID)] ?? 0
                let key = TextDigest.of("\(outcome.revision)/\(outcome.lineItemID)")
                newest[key] = (app, outcome.outcome)
            } catch {
                // Counted by ledger export.
                return
            }
        }
        for (app, outcome) in newest.values {
            switch outcome {
            case .reported: lines[app, default: SalesLine()].reported += 1
            case .notOwed: lines[app, default: SalesLine()].notOwed += 1
            // Its dead letter counts.
            case .rejected: break
            }
        }
    }

    private mutating func countLetters() throws(CommandFailure) {
        let source = Topic.purchasesReceived.name(prefix: configuration.topicPrefix)
        try scan(.deadLetters(.purchases), nil, "dead letters of purchases") {
            book,
            record,
            batch in
            let letter = Letter(record, stage: .purchases, in: batch.arena.span)
            guard letter.headers.text(.topic, of: batch.arena) == source else {
                return
            }
            let value = batch.arena.span.extracting(record.value.indices)
            guard book.window.contains(Self.time(of: record, value)) else {
                return
            }
            var app: Int64 = 0
            do throws(PurchaseFaults) {
                app = book.app(
                    of: try PurchaseEvent.read(
                        value,
                        from: .topic,
                        now: Timestamp(milliseconds: .max)
                    )
                )
            } catch {
                // As it was counted when it came in.
                app = 0
            }
            book.lines[app, default: SalesLine()].deadLetters += 1
        }
    }

    private func app(of event: PurchaseEvent) -> Int64 {
        event.appAppleID ?? event.bundleID.flatMap { appIDs[BundleID($0)] } ?? 0
    }

    private static func time(of record: RecordBatch.Record, _ value: Span<UInt8>) -> Timestamp {
        StatedTime.read(value) ?? Timestamp(milliseconds: record.timestampMilliseconds)
    }

    private mutating func scan(
        _ topic: Topic,
        _ partition: Int32?,
        _ what: String,
        _ body: (inout SalesCount, RecordBatch.Record, RecordBatch) -> Void
    ) throws(CommandFailure) {
        var copy = self
        let partitions = partition.map { $0..<$0 + 1 }
        try AccountScan.run(topic, partitions, what, configuration) { record, batch in
            if !record.value.isAbsent {
                body(&copy, record, batch)
            }
        }
        self = copy
    }
}
