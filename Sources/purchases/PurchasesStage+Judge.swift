internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// Taking records in: the book learns of them, and what follows is decided after the commit.
extension PurchasesStage {
    func judge(_ batch: RecordBatch, into plan: inout BatchPlan) {
        if let milliseconds = batch.oldestTimestampMilliseconds {
            forgetting.heard(recordTime: Timestamp(milliseconds: milliseconds))
        }
        var book = openBook(plan)
        var answers: [Int: PurchaseAnswered] = [:]
        defer { metrics.settle(into: &plan) }
        for (index, record) in batch.records.enumerated() {
            do throws(StoreFault) {
                if index % Self.sliceRecordCount == 0 {
                    // What is looked at once is mostly not looked at again.
                    try finish(&book, &plan)
                    book = openBook(plan)
                    let slice = batch.records[index...].prefix(Self.sliceRecordCount)
                    try loadCustomers(slice, of: batch, book)
                    answers = try loadAnswered(slice, of: batch, &book)
                }
                try judge(record, of: batch, answers[index], &book, into: &plan)
                if index == batch.records.count - 1 {
                    try finish(&book, &plan)
                }
            } catch {
                plan.storeFault = error
                for _ in plan.verdicts.count..<batch.records.count {
                    plan.conclude(.settled("store_fault"))
                }
                return
            }
        }
        if !ready.isEmpty {
            nextTick = plan.now
        }
    }

    private static let sliceRecordCount = 500

    /// Asks for reports of what some records made ready, and stages what they changed.
    private func finish(_ book: inout Book, _ plan: inout BatchPlan) throws(StoreFault) {
        try wake(&book, &plan)
        let outputCount = plan.outputs.outputs.count
        // What is queued and sent at once is written once.
        for (index, place) in readyInTurn().enumerated() {
            guard index < limits.reportCountMax, hasRoomToReport(plan, isTick: false) else {
                readyFrom = place
                break
            }
            ready.remove(place)
            try report(place, &book, into: &plan)
        }
        plan.setAside(from: outputCount)
        try close(&book, &plan)
    }

    private func judge(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        _ answer: PurchaseAnswered?,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        guard !record.value.isAbsent, !record.key.isAbsent else {
            return plan.conclude(.deadLetter(Self.badRecord("it has no value or no key")))
        }
        let value = batch.arena.span.extracting(record.value.indices)
        let key = PurchaseKey(
            String(decoding: batch.arena[record.key.indices], as: UTF8.self)
        )
        // A purchase key is a customer or a token's id, and stands in every key of the book.
        guard TextLimit.tokenField.holds(key.text) else {
            return plan.conclude(.deadLetter(Self.badRecord("its key is too long")))
        }
        let verdict: Verdict
        switch Worker.purchases.sources[record.topic] {
        case .purchasesReceived:
            verdict = try take(record, of: batch, value, key, &book, into: &plan)
        case .tokensDecoded:
            verdict = try takeToken(record, value, key, &book, now: plan.now)
        case .tokensRefused:
            verdict = try takeRefusal(record, value, key, &book)
        case .purchasesAnswered:
            verdict = try takeAnswer(answer, record, value, key, &book, into: &plan)
        default:
            preconditionFailure("purchases reads four topics")
        }
        plan.conclude(verdict)
    }

    /// Has the book read at once the tokens that the sales among some records may be reported under.
    private func loadCustomers(
        _ records: ArraySlice<RecordBatch.Record>,
        of batch: RecordBatch,
        _ book: Book
    ) throws(StoreFault) {
        var customers: Set<BookPlace> = []
        for record in records
        where Worker.purchases.sources[record.topic] == .purchasesReceived
            && !record.key.isAbsent && record.key.count <= TextLimit.tokenField.byteCountMax
        {
            let key = PurchaseKey(
                String(decoding: batch.arena[record.key.indices], as: UTF8.self)
            )
            customers.insert(BookPlace(partition: record.partition, key: .customer(key)))
        }
        try book.load(tokensOf: customers)
    }

    static func badRecord(_ message: String) -> Fault {
        Fault(code: "purchases.bad_record", message: message)
    }

    // MARK: Tokens

    private func takeToken(
        _ record: RecordBatch.Record,
        _ value: Span<UInt8>,
        _ key: PurchaseKey,
        _ book: inout Book,
        now: Timestamp
    ) throws(StoreFault) -> Verdict {
        let decoded: TokenDecoded
        do throws(WireFault) {
            decoded = try TokenDecoded(reading: value)
        } catch {
            return .deadLetter(Self.badRecord(error.message))
        }
        let place = BookPlace(
            partition: record.partition,
            key: .token(decoded.token.externalPurchaseID, of: key)
        )
        var token = try book.token(place) ?? BookedToken(touchedAt: decoded.receivedAt)
        // Of copies that differ the genuine one may come last.
        guard token.take(decoded.token, offset: record.offset, decodedAt: record.time ?? now)
        else {
            return .settled("repeat")
        }
        token.hasCustomer = decoded.customer != nil
        token.touchedAt = max(token.touchedAt, decoded.receivedAt)
        // Sales of the past may wait for it, or have been given up for want of it.
        try book.wake(token, at: place)
        try book.putNew(token, at: place, now: now)
        return .settled("token")
    }

    // MARK: Sales

    private func take(
        _ record: RecordBatch.Record,
        of batch: RecordBatch,
        _ value: Span<UInt8>,
        _ key: PurchaseKey,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Verdict {
        let now = plan.now
        let recordTime = record.time ?? now
        let history = ReplayHistory(of: record, in: batch)
        let event: PurchaseEvent
        do throws(PurchaseFaults) {
            event = try PurchaseEvent.read(value, from: .topic, now: now)
        } catch {
            return refuse(error.event, key, error.asFault, at: recordTime, history, into: &plan)
        }
        if let fault = fault(of: record, batch, event, key, plan) {
            return refuse(event, key, fault, at: recordTime, history, into: &plan)
        }
        guard let app = apps.appAppleID(event.appAppleID, bundleID: event.bundleID) else {
            let fault = PurchaseFault(
                .unknownApp,
                event.appAppleID == nil ? .bundleID : .appAppleID,
                repair: "Name an app of the apps file, and by both names the same one."
            )
            return refuse(event, key, fault.asFault, at: recordTime, history, into: &plan)
        }
        let place = BookPlace(
            partition: record.partition,
            key: .item(
                event.lineItemID,
                of: key,
                Lane(appAppleID: app, environment: event.environment)
            )
        )
        let receivedAt = TokenReceived.receivedAt(
            stated: event.receivedAt,
            recordTime: recordTime
        )
        let booked = BookedEvent(
            value: Array(batch.arena[record.value.indices]),
            offset: record.offset,
            receivedAt: receivedAt,
            readAt: BookedEvent.readAt(now, receivedAt: receivedAt),
            trace: TraceHeader.trace(of: record, in: batch),
            history: history
        )
        metrics.count(.received, event.kind.rawValue, of: place.key.lane)
        if event.kind != .buy {
            // Who was told of before has the turn before it.
            try wake(&book, &plan)
        }
        switch event.kind {
        case .buy, .refund:
            return try takeBase(event.normalized(appAppleID: app), booked, place, &book, &plan)
        case .restate, .retract:
            return try takeChange(booked, at: recordTime, place, &book, &plan)
        }
    }

    /// What is wrong with a sale's record beside its form.
    private func fault(
        of record: RecordBatch.Record,
        _ batch: RecordBatch,
        _ event: PurchaseEvent,
        _ key: PurchaseKey,
        _ plan: BatchPlan
    ) -> Fault? {
        // The book keeps it as it came; as a text, in which a byte may take two.
        guard record.value.count <= (plan.recordByteCountMax - Self.eventSpareByteCount) / 2 else {
            return PurchaseFault(
                .tooLong,
                nil,
                repair: "The event is too large for the book: leave out what is no field of a sale."
            ).asFault
        }
        guard event.purchaseKey == key.text else {
            return Fault(
                code: "purchases.bad_key",
                message: "the record's key is not its customer, nor its externalPurchaseId"
            )
        }
        // The customer's tokens are in another partition: the sale would wait for one in vain, and
        // then not be owed.
        if batch.isMisplaced(record, partitionCount: partitionCount) {
            return Fault(
                code: "purchases.wrong_partition",
                message: "the record was not partitioned by murmur2 of its key"
            )
        }
        return nil
    }

    /// Bytes of the record of an event, with its key, beside the event itself.
    private static let eventSpareByteCount = 8 << 10

    /// Refuses an event that no record of the book is made for.
    private func refuse(
        _ event: PurchaseEvent?,
        _ key: PurchaseKey,
        _ fault: Fault,
        at recordTime: Timestamp,
        _ history: ReplayHistory?,
        into plan: inout BatchPlan
    ) -> Verdict {
        let app = apps.appAppleID(event?.appAppleID, bundleID: event?.bundleID) ?? 0
        let lane = Lane(appAppleID: app, environment: event?.environment ?? .production)
        metrics.count(.received, event?.kind.rawValue ?? "unknown", of: lane)
        metrics.count(.deadLetter, String(fault.reason), of: lane)
        guard let event, !event.lineItemID.isEmpty, TextLimit.lineItemID.holds(event.lineItemID)
        else {
            return .deadLetter(fault)
        }
        append(
            PurchaseOutcome(
                lineItemID: event.lineItemID,
                revision: 1,
                type: event.kind,
                outcome: .rejected,
                externalPurchaseID: event.externalPurchaseID,
                requestIdentifier: nil,
                reason: fault.code,
                errors: [],
                item: nil,
                receivedAt: TokenReceived.receivedAt(
                    stated: event.receivedAt,
                    recordTime: recordTime
                ),
                settledAt: plan.now,
                lane: app == 0 ? nil : lane,
                firstFailedAt: history?.firstFailedAt
            ),
            key,
            trace: nil,
            to: &plan
        )
        return .deadLetter(fault, outputCount: 1)
    }

    /// A buy or a refund: new, a repeat, or another sale under the same name.
    private func takeBase(
        _ sale: PurchaseEvent,
        _ event: BookedEvent,
        _ place: BookPlace,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) -> Verdict {
        var sale = sale
        // The key names the customer.
        sale.customer = nil
        let item = try book.item(place) ?? BookedItem(touchedAt: plan.now)
        switch item.standing {
        case .pending, .live, .notOwed:
            guard isSame(sale, item.sale) || isSame(sale, item.first) else {
                let fault = PurchaseFault(
                    .conflict,
                    .lineItemID,
                    repair: "To change it, send type restate; for another sale, send another"
                        + " lineItemId."
                )
                metrics.count(.deadLetter, fault.rule.rawValue, of: place.key.lane)
                var ledger = outcome(
                    .rejected,
                    item,
                    place,
                    event,
                    sale.kind,
                    reason: fault.code,
                    plan
                )
                // What is under way is the line item of the first sale.
                ledger.item = nil
                append(
                    ledger,
                    place.key,
                    trace: event.trace,
                    to: &plan
                )
                return .deadLetter(fault.asFault, outputCount: 1)
            }
            guard try isOwedByNow(item, place, book) else {
                metrics.count(.repeated, "repeat", of: place.key.lane)
                return .settled("repeat")
            }
            return try begin(item.sale ?? sale, first: item.first, item, event, place, &book, &plan)
        case .unknown:
            guard let restated = item.restated, isSame(sale, item.first) else {
                return try begin(sale, first: nil, item, event, place, &book, &plan)
            }
            return try begin(restated, first: item.first, item, event, place, &book, &plan)
        }
    }

    /// As texts of Swift two names are equal that only look the same.
    private func isSame(_ sale: PurchaseEvent, _ other: PurchaseEvent?) -> Bool {
        guard let other else {
            return false
        }
        return sale == other && BookKey.isSame(sale.referenceLineItemID, other.referenceLineItemID)
            && BookKey.isSame(sale.subscriptionID, other.subscriptionID)
    }

    /// A sale is worked on from now on; `first` is what was sent first, where it is another now.
    private func begin(
        _ sale: PurchaseEvent,
        first: PurchaseEvent?,
        _ item: BookedItem,
        _ event: BookedEvent,
        _ place: BookPlace,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) -> Verdict {
        var item = item
        // Who says the same again says it in the same currency.
        if item.saidIn != nil, first == nil, !item.isSaidAgain(by: sale) {
            item.saidIn = nil
        }
        item.standing = .pending
        item.sale = sale
        item.first = first
        item.restated = nil
        item.touchedAt = plan.now
        item.wait(for: .now, now: plan.now)
        try book.wake(place)
        book.keep(event, of: &item, at: place)
        try noteStart(sale, event, place, &book, now: plan.now)
        try countArrival(&item, place, &book, now: plan.now)
        book.put(item, at: place)
        let outputCount = plan.outputs.outputs.count
        let decision = try decideBase(&item, place, event, &book, now: plan.now)
        try enact(correctable(decision, item), item, place, event, &book, into: &plan)
        // Where that ends it: its record in the ledger, and its dead letter, carry its own trace.
        plan.setAside(from: outputCount)
        return .settled("held")
    }

    /// A restatement or a retraction: it takes its place behind what is not settled.
    private func takeChange(
        _ event: BookedEvent,
        at time: Timestamp,
        _ place: BookPlace,
        _ book: inout Book,
        _ plan: inout BatchPlan
    ) throws(StoreFault) -> Verdict {
        let now = plan.now
        var item = try book.item(place) ?? BookedItem(touchedAt: now)
        let position = BookedItem.ChangePosition(offset: event.offset, time: time)
        guard item.takes(changeAt: position) else {
            metrics.count(.repeated, "repeat", of: place.key.lane)
            return .settled("repeat")
        }
        if let sale = replayed(item.restated, by: event, now: now) {
            return try begin(sale, first: item.first, item, event, place, &book, &plan)
        }
        book.put(event, number: item.changeNext, of: place)
        item.changeNext += 1
        item.touchedAt = now
        switch item.wait {
        case .idle, .reopening:
            let until = event.receivedAt + policy.referenceWait
            item.wait(for: item.standing == .unknown ? .base(until: until) : .now, now: now)
            book.put(item, at: place)
            try look(place, hasTurn: false, &book, &plan)
        case .rate where item.standing == .pending:
            // The change may ask for another rate, or for none.
            metrics.waited(now - item.waitingSince, for: item.wait)
            item.wait(for: .now, now: now)
            book.put(item, at: place)
        default:
            book.put(item, at: place)
        }
        return .settled("held")
    }

    /// The sale that a restatement brings back, as its dead letter; nil of any other change.
    private func replayed(
        _ restated: PurchaseEvent?,
        by event: BookedEvent,
        now: Timestamp
    ) -> PurchaseEvent? {
        guard var sale = restated, let change = change(event), change.kind == .restate else {
            return nil
        }
        let start = change.referenceLineItemID
        do throws(PurchaseFault) {
            guard try sale.applying(change, to: start, now: now) == sale else { return nil }
        } catch {
            return nil
        }
        // Else the START is found anew.
        sale.referenceLineItemID = sale.referenceLineItemID ?? start
        return sale
    }
}
