internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Counts the results of each sale of a window that came in.
///
/// One is a dead letter where such a record names its position, and held where the worker's state
/// does. It is settled where the ledger has one of its line item and type that was received at its
/// time. The rest are repeats of what came before, changes that ask for what is so already, or not
/// read yet; what is none of these was lost. What the ledger has beyond that never came in.
struct SalesCount {
    let configuration: Configuration
    let window: AccountWindow
    let positions: AccountPositions
    /// By bundle id, where the apps file is known.
    let appIDs: [BundleID: Int64]
    private(set) var lines: [Int64: SalesLine] = [:]

    /// What the ledger says of the events of one name, type and time: of changes there may be several.
    private struct Told {
        var app: Int64
        var reportedCount = 0
        var notOwedCount = 0
        /// A retraction may follow from another one: no record came for it.
        var isRetraction: Bool

        var isEmpty: Bool { reportedCount + notOwedCount == 0 }

        /// Takes in the next word about a sale, or about one more change of it.
        mutating func note(_ outcome: PurchaseOutcome) {
            switch (outcome.type, outcome.outcome) {
            // What was not owed may be refused after all; that is a dead letter then.
            case (.buy, .rejected), (.refund, .rejected): notOwedCount = 0
            case (_, .rejected): break
            case (.buy, .reported), (.refund, .reported): (reportedCount, notOwedCount) = (1, 0)
            case (.buy, .notOwed), (.refund, .notOwed): (reportedCount, notOwedCount) = (0, 1)
            case (_, .reported): reportedCount += 1
            case (_, .notOwed): notOwedCount += 1
            }
        }
    }

    private struct Missing {
        var position: RecordPlace
        var writtenAt: Int64
        var app: Int64
        /// Nil where no sale can be read.
        var sale: SettledSales.Sale?
    }

    /// Sales that came in by a bundle id alone, which stands for no app that is known here: they count as
    /// app 0.
    private(set) var unnamedCount = 0

    /// Those of which nothing was found at first: a dead letter may have been written since, and
    /// what one repeats may have left the topic.
    private var missing: [Missing] = []

    init(
        _ configuration: Configuration,
        _ window: AccountWindow,
        _ positions: AccountPositions,
        appIDs: [BundleID: Int64]
    ) {
        self.configuration = configuration
        self.window = window
        self.positions = positions
        self.appIDs = appIDs
    }

    /// Counts partition by partition: all of a customer is in one.
    mutating func run() throws(CommandFailure) {
        let name = Topic.purchasesReceived.name(prefix: configuration.topicPrefix)
        let count = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> Int in
            guard let topic = try admin.topic(name),
                try admin.endOffsets(ofTopic: name).contains(where: { $0 > 0 })
            else {
                return 0
            }
            return topic.partitions.count
        }
        guard count > 0 else {
            return
        }
        let deadLetters = try deadLetters()
        for partition in 0..<Int32(count) {
            // The state first: what it settles meanwhile shows in the ledger then.
            let held = try HeldSales(partition, configuration)
            var told = try told(partition)
            try judge(partition, deadLetters, held, &told)
            for told in told.values where !told.isRetraction {
                lines[told.app, default: SalesLine()].unknown +=
                    told.reportedCount + told.notOwedCount
            }
        }
        guard !missing.isEmpty else {
            return
        }
        let newer = try self.deadLetters()
        var open: [Missing] = []
        for missing in missing {
            if newer.contains(missing.position, writtenAt: missing.writtenAt) {
                lines[missing.app, default: SalesLine()].deadLetters += 1
            } else {
                open.append(missing)
            }
        }
        let settled = try SettledSales(
            of: open.compactMap(\.sale),
            partitionCount: Int32(count),
            configuration
        )
        for missing in open {
            if let sale = missing.sale, settled.isRepeat(sale) {
                lines[missing.app, default: SalesLine()].repeats += 1
            } else {
                lines[missing.app, default: SalesLine()].lost += 1
            }
        }
    }

    /// Nothing that followed from a sale of the window is older.
    private var start: LogBrowser.Start {
        let from = window.from + -AccountWindow.margin
        return from.milliseconds > 0 ? .timestamp(from.milliseconds) : .earliest
    }

    // MARK: Results

    /// Where the events came in that are dead letters.
    private func deadLetters() throws(CommandFailure) -> RefusedRecords {
        let source = Topic.purchasesReceived.name(prefix: configuration.topicPrefix)
        var found = RefusedRecords()
        try AccountScan.run(
            .deadLetters(.purchases),
            nil,
            from: start,
            "dead letters of purchases",
            configuration
        ) { record, batch in
            let arena = batch.arena.span
            let deadLetter = DeadLetterRecord(record, stage: .purchases, in: arena)
            guard deadLetter.headers.text(.topic, of: batch.arena) == source else {
                return
            }
            found.insert(
                RecordPlace(origin: deadLetter, in: arena),
                at: record.timestampMilliseconds
            )
        }
        return found
    }

    private func told(_ partition: Int32) throws(CommandFailure) -> [UInt64: Told] {
        // A sale that was not owed may be reported after all: its newest word counts.
        var newest: [UInt64: Told] = [:]
        try AccountScan.run(
            ledger: .purchasesOutcomes,
            of: .purchasesReceived,
            partition..<partition + 1,
            from: start,
            "sales of the ledger",
            configuration
        ) { record, batch in
            guard !record.value.isAbsent else {
                return
            }
            do throws(WireFault) {
                let outcome = try PurchaseOutcome(
                    reading: batch.arena.span.extracting(record.value.indices)
                )
                guard window.contains(outcome.receivedAt) else {
                    return
                }
                let lane = outcome.lane ?? Lane(appAppleID: 0, environment: .production)
                let key = Self.key(outcome.lineItemID, outcome.type, lane, outcome.receivedAt)
                var told =
                    newest[key]
                    ?? Told(app: lane.appAppleID, isRetraction: outcome.type == .retract)
                told.note(outcome)
                newest[key] = told.isEmpty ? nil : told
            } catch {
                // Counted by ledger export.
                return
            }
        }
        return newest
    }

    private static func key(
        _ lineItemID: String,
        _ kind: PurchaseEvent.Kind,
        _ lane: Lane,
        _ receivedAt: Timestamp
    ) -> UInt64 {
        TextDigest.of(
            "\(kind.rawValue)/\(lane.appAppleID)/\(lane.environment.rawValue)/"
                + "\(receivedAt.milliseconds)/\(lineItemID)"
        )
    }

    // MARK: What came in

    private mutating func judge(
        _ partition: Int32,
        _ deadLetters: RefusedRecords,
        _ held: HeldSales,
        _ told: inout [UInt64: Told]
    ) throws(CommandFailure) {
        var book = self
        var left = told
        var lent: [UInt64: Bool] = [:]
        // Where only the ledger knows the number of an app.
        let toldApps = Set(told.values.map(\.app)).sorted()
        func apps(_ app: Int64) -> [Int64] { app == 0 ? toldApps : [app] }
        var seen: Set<Int> = []
        // By content, when the first was received that is a dead letter.
        var refused: [Int: Timestamp] = [:]
        try AccountScan.run(
            .purchasesReceived,
            partition..<partition + 1,
            "sales received",
            configuration
        ) { record, batch in
            guard !record.value.isAbsent else {
                return
            }
            let position = RecordPlace(record)
            let isDeadLetter = deadLetters.contains(
                position,
                writtenAt: record.timestampMilliseconds
            )
            let event = Self.event(record, batch)
            let recordTime = Timestamp(milliseconds: record.timestampMilliseconds)
            let receivedAt = TokenReceived.receivedAt(
                stated: event?.receivedAt,
                recordTime: recordTime
            )
            let app = event.map(book.app) ?? 0
            let content = event.map { Self.content($0, app: app) }
            let refusedFirst =
                ReplayHistory(of: record, in: batch) == nil
                ? content.flatMap { refused[$0] } : nil
            if let content, isDeadLetter, refused[content] == nil {
                refused[content] = receivedAt
            }
            func noteContent() {
                if let content {
                    seen.insert(content)
                }
            }
            guard book.window.contains(receivedAt) else {
                if !isDeadLetter {
                    noteContent()
                }
                return
            }
            // A sale that was refused is no sale: the same again is not a repeat.
            let isSeen = content.map(seen.contains) ?? false
            var line = book.lines[app, default: SalesLine()]
            line.received += 1
            book.unnamedCount += app == 0 && event?.bundleID != nil ? 1 : 0
            if isDeadLetter {
                line.deadLetters += 1
                // It was not owed, was held again, and was refused then.
                if let event, event.kind == .restate {
                    Self.takeNotOwed(event, of: apps(app), receivedAt, from: &left)
                }
            } else if held.holds(record.offset, receivedAt: receivedAt) {
                line.held += 1
                noteContent()
                // It was not owed, and is again.
                if let event {
                    _ = Self.take(event, of: apps(app), receivedAt, from: &left, &lent)
                }
            } else if let event,
                let isReported = Self.take(event, of: apps(app), receivedAt, from: &left, &lent)
            {
                noteContent()
                line.reported += isReported ? 1 : 0
                line.notOwed += isReported ? 0 : 1
            } else if book.positions.isUnread(.purchasesReceived, record) {
                noteContent()
                line.onTheWay += 1
            } else if isSeen
                || event.map({ $0.kind.isChange || Self.isWaiting($0, of: apps(app), held) })
                    == true
            {
                line.repeats += 1
            } else {
                book.missing.append(
                    Missing(
                        position: position,
                        writtenAt: record.timestampMilliseconds,
                        app: app,
                        sale: event.map {
                            SettledSales.Sale(
                                $0,
                                app: app,
                                receivedAt,
                                refusedFirst: refusedFirst,
                                record.partition
                            )
                        }
                    )
                )
            }
            book.lines[app] = line
        }
        self = book
        told = left
    }

    /// Whether the same sale came in before and waits, for a rate perhaps.
    private static func isWaiting(
        _ event: PurchaseEvent,
        of apps: [Int64],
        _ held: HeldSales
    ) -> Bool {
        apps.contains { app in
            held.isWaiting(
                event.lineItemID,
                of: event.purchaseKey ?? "",
                Lane(appAppleID: app, environment: event.environment)
            )
        }
    }

    /// Takes one event from what the ledger says.
    ///
    /// - Returns: whether it was reported; nil where the ledger has no more of them.
    private static func take(
        _ event: PurchaseEvent,
        of apps: [Int64],
        _ receivedAt: Timestamp,
        from told: inout [UInt64: Told],
        _ lent: inout [UInt64: Bool]
    ) -> Bool? {
        func take(_ kind: PurchaseEvent.Kind) -> Bool? {
            for app in apps {
                let lane = Lane(appAppleID: app, environment: event.environment)
                let key = key(event.lineItemID, kind, lane, receivedAt)
                if let isReported = Self.take(key, from: &told) {
                    if kind != event.kind {
                        lent[key] = isReported
                    }
                    return isReported
                }
                if let isReported = lent.removeValue(forKey: key) {
                    return isReported
                }
            }
            return nil
        }
        let own = take(event.kind)
        guard event.kind == .restate, own != true else {
            return own
        }
        // What was not owed and taken back is held again from its restatement on, and is told with
        // the time of that; or of the one that it was folded into, of which nothing else is told.
        return take(.buy) ?? take(.refund) ?? own
    }

    /// Takes what the ledger says of a restatement while it was not owed.
    private static func takeNotOwed(
        _ restatement: PurchaseEvent,
        of apps: [Int64],
        _ receivedAt: Timestamp,
        from told: inout [UInt64: Told]
    ) {
        for app in apps {
            let lane = Lane(appAppleID: app, environment: restatement.environment)
            let key = key(restatement.lineItemID, .restate, lane, receivedAt)
            if var found = told[key], found.notOwedCount > 0 {
                found.notOwedCount -= 1
                told[key] = found.isEmpty ? nil : found
                return
            }
        }
    }

    private static func take(_ key: UInt64, from told: inout [UInt64: Told]) -> Bool? {
        guard var found = told[key] else {
            return nil
        }
        let isReported = found.reportedCount > 0
        if isReported {
            found.reportedCount -= 1
        } else {
            found.notOwedCount -= 1
        }
        told[key] = found.isEmpty ? nil : found
        return isReported
    }

    /// Nil where it cannot be read: a dead letter, under whatever app can be read of it.
    private static func event(_ record: RecordBatch.Record, _ batch: RecordBatch) -> PurchaseEvent?
    {
        do throws(PurchaseFaults) {
            // The door has judged its dates; here any date will do.
            return try PurchaseEvent.read(
                batch.arena.span.extracting(record.value.indices),
                from: .topic,
                now: Timestamp(milliseconds: .max)
            )
        } catch {
            return error.event
        }
    }

    /// What is compared to know a repeat, as the worker does.
    private static func content(_ event: PurchaseEvent, app: Int64) -> Int {
        var content = event.normalized(appAppleID: app)
        if app == 0 {
            content.bundleID = event.bundleID
        }
        return content.hashValue
    }

    private func app(of event: PurchaseEvent) -> Int64 {
        event.appAppleID ?? event.bundleID.flatMap { appIDs[BundleID($0)] } ?? 0
    }
}
