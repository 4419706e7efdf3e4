internal import TokenDomain
internal import TokenWire

/// In which order the events of a file are judged: each as if those before it were settled.
extension PurchaseCheckBook {
    private struct Waiting {
        /// Of its line.
        var index: Int
        var event: PurchaseEvent
        var isNew = true
    }

    /// Judges all events of a file.
    ///
    /// What refers to a later line is judged after it; events of one line item in their order.
    ///
    /// - Returns: the results of each line, in order: of a retraction, those of what is retracted with the
    ///   item come before its own.
    mutating func check(_ lines: [PurchaseCheckLine]) -> [PurchaseCheckResult] {
        var results: [Int: [PurchaseCheckResult]] = [:]
        var waiting: [Waiting] = []
        for (index, line) in lines.enumerated() {
            do throws(PurchaseFaults) {
                var event = try PurchaseEvent.read(line.text.span, from: .door, now: now)
                event.receivedAt = nil
                if let app = event.appAppleID, let bundle = event.bundleID {
                    appsByBundle[bundle] = app
                }
                waiting.append(Waiting(index: index, event: event))
            } catch {
                results[index] = [
                    PurchaseCheckResult(
                        line: line.line,
                        lineItemID: error.event?.lineItemID ?? "",
                        end: .faults(error.list)
                    )
                ]
            }
        }
        var count: Int
        repeat {
            count = waiting.count
            waiting = Self.inOrderOfDates(waiting)
            waiting = round(waiting) { index, id, end in
                results[index, default: []].append(
                    PurchaseCheckResult(line: lines[index].line, lineItemID: id, end: end)
                )
            }
        } while waiting.count < count
        for (index, id, end) in unknown(waiting) {
            results[index] = [
                PurchaseCheckResult(line: lines[index].line, lineItemID: id, end: end)
            ]
        }
        return lines.indices.flatMap { results[$0] ?? [] }
    }

    /// Judges what can be judged.
    ///
    /// - Returns: what refers to nothing that is known, or stands behind such an event of its own item or
    ///   of the one that it refers to.
    private mutating func round(
        _ waiting: [Waiting],
        _ conclude: (Int, String, PurchaseCheckResult.End) -> Void
    ) -> [Waiting] {
        var left: [Waiting] = []
        /// Buys and refunds that wait, and what they refer to.
        var bases: Set<Key> = []
        var referredTo: Set<Key> = []
        var changed: Set<Key> = []
        for var entry in waiting {
            let event = entry.event
            let own = key(event, event.lineItemID)
            if entry.isNew, !event.kind.isChange, items[own] == nil, unreported[own] == nil,
                !bases.contains(own)
            {
                arrive(event.normalized(appAppleID: own.app), own)
            }
            entry.isNew = false
            let parent: Key? =
                event.kind.isChange
                ? items[own]?.parent : refersToAnother(event) ? self.parent(of: event) : nil
            var isBlocked = bases.contains(own) || parent.map { changed.contains($0) } ?? false
            if event.kind.isChange {
                isBlocked = isBlocked || changed.contains(own) || isReferredTo(own, referredTo)
            }
            if !isBlocked, case .done(let end) = step(event) {
                for child in retracted {
                    conclude(entry.index, child.id, child.end)
                }
                retracted = []
                conclude(entry.index, event.lineItemID, end)
                continue
            }
            left.append(entry)
            if event.kind.isChange {
                changed.insert(own)
            } else {
                bases.insert(own)
                referredTo.formUnion(reference(of: event))
            }
        }
        return left
    }

    /// Months that waited for their start are reported by their dates, as the queue of a token is.
    private static func inOrderOfDates(_ waiting: [Waiting]) -> [Waiting] {
        func isMonth(_ entry: Waiting) -> Bool {
            !entry.isNew && !entry.event.kind.isChange && entry.event.isLaterSubscriptionEvent
        }
        func date(_ entry: Waiting) -> (Int64, Int) {
            (entry.event.creationDate?.milliseconds ?? 0, entry.index)
        }
        var ordered = waiting
        var start = 0
        while start < ordered.count {
            // One at least, and all months in a row.
            let count = max(1, ordered[start...].prefix(while: isMonth).count)
            ordered[start..<start + count].sort { date($0) < date($1) }
            start += count
        }
        return ordered
    }

    /// What an event refers to by name: a line item, or the subscription whose start it looks for.
    private func reference(of event: PurchaseEvent) -> Set<Key> {
        if let id = event.referenceLineItemID {
            return [key(event, id)]
        }
        return event.subscriptionID.map { [subscription(event, $0)] } ?? []
    }

    /// Whether an item, or the subscription that it starts, is among some references.
    private func isReferredTo(_ item: Key, _ references: Set<Key>) -> Bool {
        guard !references.contains(item) else {
            return true
        }
        guard let sale = items[item]?.sale, sale.subscriptionEvent == .start,
            let id = sale.subscriptionID
        else {
            return false
        }
        return references.contains(subscription(sale, id))
    }

    /// What refers to no line of the file.
    private func unknown(_ waiting: [Waiting]) -> [(Int, String, PurchaseCheckResult.End)] {
        waiting.map { entry in
            let event = entry.event
            let field: PurchaseField =
                event.kind.isChange
                ? .lineItemID : event.kind == .refund ? .referenceLineItemID : .subscriptionID
            let fault = PurchaseFault(
                .referenceUnknown,
                field,
                repair: "Send the item that it refers to: no line of this file is that."
            )
            return (entry.index, event.lineItemID, .faults([fault]))
        }
    }
}
