internal import TokenDomain
internal import TokenWire

/// In which order the events of a file are judged: each as if those before it were settled.
extension PurchaseCheckBook {
    /// An event of a file.
    struct Entry {
        /// Of its line.
        var index: Int
        var event: PurchaseEvent
        /// It waits for an item, and did before.
        var hasWaited = false
    }

    /// Judges all events of a file.
    ///
    /// What refers to an item that a later line brings is judged as soon as that is.
    ///
    /// - Returns: the results of each line, in order: of a retraction, those of what is retracted with the
    ///   item come before its own.
    mutating func check(_ lines: [PurchaseCheckLine]) -> [PurchaseCheckResult] {
        var entries: [Entry] = []
        for (index, line) in lines.enumerated() {
            do throws(PurchaseFaults) {
                var event = try PurchaseEvent.read(line.text.span, from: .door, now: now)
                event.receivedAt = nil
                if let app = event.appAppleID, let bundle = event.bundleID {
                    appsByBundle[bundle] = app
                }
                entries.append(Entry(index: index, event: event))
            } catch {
                conclude(index, error.event?.lineItemID ?? "", .faults(error.list))
            }
        }
        for entry in entries {
            judge([entry])
        }
        // What waits for a start that was refused may have another one.
        var count: Int
        repeat {
            count = waiting.values.reduce(0) { $0 + $1.count }
            let left = waiting.values.joined().sorted { $0.index < $1.index }
            waiting = [:]
            judge(left)
        } while waiting.values.reduce(0) { $0 + $1.count } < count
        for entry in waiting.values.joined() {
            conclude(entry.index, entry.event.lineItemID, .faults([unknown(entry.event)]))
        }
        return lines.indices.flatMap { index in
            (ends[index] ?? []).map { id, end in
                PurchaseCheckResult(line: lines[index].line, lineItemID: id, end: end)
            }
        }
    }

    private mutating func conclude(_ index: Int, _ id: String, _ end: PurchaseCheckResult.End) {
        ends[index, default: []].append((id, end))
    }

    /// Judges events, and after each one what waited for its item.
    private mutating func judge(_ entries: [Entry]) {
        // The next one is the last.
        var agenda: [Entry] = entries.reversed()
        while var entry = agenda.popLast() {
            let event = entry.event
            let own = key(event, event.lineItemID)
            if !event.kind.isChange, !entry.hasWaited {
                let sale = event.normalized(appAppleID: own.app)
                if let other = waitingSales[own] {
                    conclude(entry.index, event.lineItemID, again(isKnown: sale == other))
                    continue
                }
                if items[own] == nil, unreported[own] == nil {
                    arrive(sale, own)
                }
            }
            switch step(event) {
            case .done(let end):
                for child in retracted {
                    conclude(entry.index, child.id, child.end)
                }
                retracted = []
                conclude(entry.index, event.lineItemID, end)
                if !event.kind.isChange {
                    waitingSales[own] = nil
                    wake(by: event, own, &agenda)
                }
            case .later:
                entry.hasWaited = true
                if event.kind.isChange {
                    waiting[own, default: []].append(entry)
                } else {
                    waitingSales[own] = event.normalized(appAppleID: own.app)
                    waiting[reference(of: event), default: []].append(entry)
                }
            }
        }
    }

    /// What waited for an item, or for a start of the same subscription, is judged next, in the order of
    /// lines.
    ///
    /// It looks again also where that was refused: it may refer to another start then.
    private mutating func wake(by event: PurchaseEvent, _ own: Key, _ agenda: inout [Entry]) {
        guard !waiting.isEmpty else {
            return
        }
        var woken = waiting.removeValue(forKey: own) ?? []
        if event.subscriptionEvent == .start, let id = event.subscriptionID {
            let name = subscription(event, id)
            let subscription = subscriptions[name] ?? Subscription()
            let starts = subscription.starts.map(\.id) + subscription.replaced
            for name in [name] + starts.map({ key(event, $0) }) {
                woken += waiting.removeValue(forKey: name) ?? []
            }
        }
        guard !woken.isEmpty else {
            return
        }
        // Months that were woken together are in one report: their changes come after it.
        let months =
            event.isLaterSubscriptionEvent ? agenda.reversed().prefix(while: Self.isMonth) : []
        let rest = (agenda.dropLast(months.count) + woken).sorted { $0.index < $1.index }
        agenda = Self.inOrderOfDates(rest).reversed() + months.reversed()
    }

    private static func isMonth(_ entry: Entry) -> Bool {
        !entry.event.kind.isChange && entry.event.isLaterSubscriptionEvent
    }

    /// Months that waited for their start are reported by their dates, as the queue of a token is: where
    /// no change lies between them.
    private static func inOrderOfDates(_ entries: [Entry]) -> [Entry] {
        func date(_ entry: Entry) -> (Int64, Int) {
            (entry.event.creationDate?.milliseconds ?? 0, entry.index)
        }
        var ordered = entries
        for segment in entries.indices.split(whereSeparator: { entries[$0].event.kind.isChange }) {
            let places = segment.filter { isMonth(entries[$0]) }
            let months = places.map { entries[$0] }.sorted { date($0) < date($1) }
            for (place, month) in zip(places, months) {
                ordered[place] = month
            }
        }
        return ordered
    }

    /// The item that a buy or a refund waits for; the subscription where no start of it is known.
    private func reference(of event: PurchaseEvent) -> Key {
        parent(of: event) ?? subscription(event, event.subscriptionID ?? "")
    }

    private func unknown(_ event: PurchaseEvent) -> PurchaseFault {
        PurchaseFault(
            .referenceUnknown,
            event.kind.isChange
                ? .lineItemID : event.kind == .refund ? .referenceLineItemID : .subscriptionID,
            repair: "Send the item that it refers to: no line of this file is that."
        )
    }
}
