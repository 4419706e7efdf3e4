internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// What the state has of a token that was read.
extension DedupeBatch {
    /// What the period becomes with a token; nil for the first of it, its primary.
    func head(
        with candidate: Candidate,
        after head: PeriodHead?,
        isRefused: Bool
    ) -> PeriodHead? {
        guard head != nil || isRefused else {
            return nil
        }
        var head = head ?? PeriodHead(count: 0, primary: nil)
        if head.primary == nil, !isRefused {
            head.primary = PeriodHead.Primary(
                index: head.count,
                id: Array(texts[candidate.record.externalPurchaseID])
            )
        }
        head.count += 1
        return head
    }

    /// Puts the last token of a period into the state, and its text where it may become the primary
    /// later; `head` is what the period becomes with it.
    func take(
        _ candidate: Candidate,
        _ head: PeriodHead,
        token: [UInt8]?,
        isRefused: Bool,
        into plan: inout BatchPlan
    ) {
        let asked = questions[candidate.questions]
        func key(_ question: Int) -> DedupeKey {
            let keys = asked.lookup.keys
            // Behind the prefix of the table's keys.
            return DedupeKey(keys.span.extracting(asked.lookup.key(question).dropFirst()))
        }
        let record = DedupeRecord(
            identity: key(candidate.identity),
            place: PeriodPlace(period: key(candidate.identity + 1), index: head.count - 1),
            externalPurchaseID: Array(texts[candidate.record.externalPurchaseID]),
            keysExpire: candidate.record.keysExpire,
            head: head,
            token: token,
            tokenStanding: isRefused ? .refused : .taken
        )
        put(record, asked.partition, into: &plan)
    }

    /// Puts the first token of a period, or one without a period, into the state.
    ///
    /// Most tokens are such, so it makes no ``DedupeRecord``, whose bytes it writes.
    func takeFirst(
        _ candidate: Candidate,
        into plan: inout BatchPlan,
        _ scratch: inout [UInt8]
    ) {
        let asked = questions[candidate.questions]
        let keys = asked.lookup.keys
        let identity = asked.lookup.key(candidate.identity)
        let period = candidate.hasPeriod ? asked.lookup.key(candidate.identity + 1) : nil
        let record = candidate.record
        // Behind the prefix of the table's keys.
        let periodKey = period?.dropFirst()
        let keyStart = plan.outputs.arena.count
        DedupeRecord.appendChangelogKey(
            keys.span,
            identity: identity.dropFirst(),
            period: periodKey,
            index: 0,
            to: &plan.outputs.arena
        )
        let changelogKey = plan.outputs.placed(from: keyStart)
        let valueStart = plan.outputs.arena.count
        DedupeRecord.appendChangelogValue(
            externalPurchaseID: texts.span.extracting(record.externalPurchaseID),
            keysExpire: record.keysExpire,
            to: &plan.outputs.arena
        )
        let entries = plan.state.put(
            recordWithKey: changelogKey,
            value: plan.outputs.placed(from: valueStart),
            partition: asked.partition
        )
        scratch.removeAll(keepingCapacity: true)
        DedupeEntry.appendIdentityValue(
            keysExpire: record.keysExpire,
            keys.span,
            period: periodKey,
            index: 0,
            to: &scratch
        )
        entries.put(scratch.span, forKey: keys.span.extracting(identity))
        if let period {
            entries.put(
                texts.span.extracting(record.externalPurchaseID),
                forKey: keys.span.extracting(period)
            )
        }
    }
}
