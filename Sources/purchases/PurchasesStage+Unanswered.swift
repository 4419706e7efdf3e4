internal import StageRuntime
internal import StateStore
internal import Telemetry
internal import TokenDomain

/// Reports whose answer does not come.
///
/// No failure of a worker loses a request or its answer: each is committed with the state. But a topic
/// made anew does, or the state of `report` given up; the token's sales would wait for ever.
extension PurchasesStage {
    /// A look at the reports of a partition that are under way.
    struct AnswerLook {
        /// From this entry of the due table on; nil between two looks.
        fileprivate(set) var from: [UInt8]?
        /// When the next look begins; at once at first.
        fileprivate(set) var next = Timestamp(milliseconds: 0)
        /// When this look or the last one began, and the one before.
        private var began = Timestamp(milliseconds: 0)
        private var before: Timestamp?
        /// Of the reports looked at, when the one was asked for that has waited longest.
        private var found: Timestamp?
        /// The same of the last look.
        fileprivate private(set) var oldest: Timestamp?

        fileprivate mutating func begin(now: Timestamp, interval: Milliseconds) {
            if from == nil {
                before = began.milliseconds > 0 ? min(began, now) : nil
            }
            from = BookDue.start(.sent)
            began = now
            next = now + interval
            found = nil
        }

        fileprivate mutating func end() {
            from = nil
            oldest = found
        }

        fileprivate mutating func note(askedAt: Timestamp) {
            found = .earlier(of: found, askedAt)
        }

        /// Whether a multiple of the wait has passed since the look before; where nobody knows of one,
        /// the partition came since, and with it what others may have asked for.
        fileprivate func isDue(askedAt: Timestamp, wait: Milliseconds, interval: Milliseconds)
            -> Bool
        {
            let waited = (began - askedAt).count
            let before = before.map { ($0 - askedAt).count } ?? waited - interval.count
            return waited / wait.count > max(0, before) / wait.count
        }

        /// What was asked for did not go out: the same look once more.
        mutating func restart() {
            from = BookDue.start(.sent)
            found = nil
        }
    }

    func lookForAnswers(
        _ partition: Int32,
        _ look: inout AnswerLook,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let now = plan.now
        if look.next <= now || look.next > now + limits.answersInterval {
            look.begin(now: now, interval: limits.answersInterval)
        }
        // Where there is none, nothing is read through for it.
        guard let from = look.from, hasRoomToReport(plan) else {
            return
        }
        var first: [(entry: [UInt8], place: BookPlace)] = []
        var group: [UInt8] = []
        var next: [UInt8]?
        var left = limits.queuedCountMax
        try plan.state.scan(
            .due,
            partition: partition,
            from: from,
            within: BookDue.start(.sent)
        ) { entry, _ in
            left -= 1
            let target = BookDue.target(of: entry)
            guard target != group, let key = BookDue.key(of: entry, after: target) else {
                return true
            }
            guard left > 0, first.count < limits.decisionCountMax else {
                next = entry
                return false
            }
            group = target
            first.append((entry, BookPlace(partition: partition, key: key)))
            return true
        }
        try book.load(first.map(\.place))
        for (entry, place) in first {
            guard hasRoomToReport(plan) else {
                // The commit, or the next transaction, makes room: the look goes on from here.
                look.from = entry
                return
            }
            guard let item = try book.item(place), case .sent(let token) = item.wait else {
                continue
            }
            look.note(askedAt: item.waitingSince)
            if look.isDue(
                askedAt: item.waitingSince,
                wait: policy.answerWait,
                interval: limits.answersInterval
            ) {
                let token = place.at(place.key.token(token))
                try askAgain(token, since: item.waitingSince, &book, into: &plan)
            }
        }
        if let next {
            look.from = next
        } else {
            look.end()
        }
    }

    /// Asks for the report under way of a token once more, as it was.
    ///
    /// Where `report` has it under way, nothing comes of it; where Apple has it, Apple says so, and the
    /// sales are settled by that.
    private func askAgain(
        _ place: BookPlace,
        since: Timestamp,
        _ book: inout Book,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let id = place.key.tokenID
        let places = try book.traffic(of: place).inFlight
        try book.load(places)
        var sent: [(date: Int64, place: BookPlace, item: BookedItem)] = []
        for place in places {
            if let item = try book.item(place), item.wait == .sent(id) {
                sent.append((BookDue.queueDate(of: item), place, item))
            }
        }
        // In the order in which they stood in the queue.
        sent.sort { ($0.date, $0.place) < ($1.date, $1.place) }
        var draft = Draft()
        for (_, place, item) in sent {
            if let number = item.turn, let event = try book.event(number, of: place),
                let flight = item.flight
            {
                draft.append(flight.item, of: item, at: place, event)
            }
        }
        guard !draft.items.isEmpty else {
            return
        }
        let token = try book.token(place) ?? BookedToken(touchedAt: plan.now)
        send(draft, token, id, place, at: since, into: &plan)
        log.limited(
            .error,
            "no answer came to a report of sales: it is asked for again",
            per: draft.trace?.traceID,
            ("appAppleId", .integer(draft.app)),
            ("waitSeconds", .integer((plan.now - since).count / 1_000)),
            ("traceId", .text(draft.trace?.traceID ?? ""))
        )
    }

    /// Tells how long the report has waited that has waited longest.
    func measureAnswers(now: Timestamp) {
        let oldest = sweeps.values.compactMap(\.answers.oldest).min()
        metrics.answerWaited(oldest.map { now - $0 } ?? Milliseconds(0))
    }
}
