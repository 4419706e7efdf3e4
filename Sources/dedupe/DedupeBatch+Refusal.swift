internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// Apple does not know a token: the next one of its period takes its place. Or Apple does after all.
extension DedupeBatch {
    /// Duplicates looked at in one question.
    private static let memberCountMax: UInt32 = 64

    private struct Member {
        var index: UInt32
        var id: [UInt8]
        var token: [UInt8]
    }

    func conclude(_ refusal: Refusal, into plan: inout BatchPlan) throws(StoreFault) {
        let asked = questions[refusal.questions]
        let found = plan.state.entry(
            refusal.identity,
            of: asked.lookup,
            partition: asked.partition
        ).map { DedupeEntry.identity($0.span) }
        let keys = asked.lookup.keys
        var record = DedupeRecord(
            identity: DedupeKey(
                keys.span.extracting(asked.lookup.key(refusal.identity).dropFirst())
            ),
            place: nil,
            externalPurchaseID: Array(refusal.token.externalPurchaseID.text.utf8),
            keysExpire: found?.keysExpire ?? refusal.token.refusedAt + SeenBefore.keyLifetime
        )
        let isWithdrawn = refusal.token.withdrawnAt != nil
        switch found?.standing {
        case nil where refusal.token.customer != nil && !isWithdrawn:
            record.isUnheard = true
            put(record, asked.partition, into: &plan)
        case .refusedUnheard where isWithdrawn:
            KeySweep.Removal(partition: asked.partition, identity: record.identity)
                .remove(in: &plan)
        case nil, .heard, .refusedUnheard:
            // Without a customer there is no period.
            break
        case .member(let place):
            record.place = place
            guard !isWithdrawn else {
                try reinstate(record, place, asked.partition, into: &plan)
                break
            }
            if try refuse(record, place, asked.partition, into: &plan) {
                return
            }
        }
        plan.conclude(.settled(isWithdrawn ? "known_token" : "refused_token"))
    }

    /// Apple knows a token after all: it is the primary of its period, unless one before it is.
    ///
    /// It may become the primary once that one is refused. Another one that took its place was
    /// reported as what it was then.
    private func reinstate(
        _ known: DedupeRecord,
        _ place: PeriodPlace,
        _ partition: Int32,
        into plan: inout BatchPlan
    ) throws(StoreFault) {
        let keys = [
            DedupeEntry.key(ofPeriod: place.period),
            DedupeEntry.key(ofMember: place, isRefused: true),
        ]
        let values = try Self.values(keys, plan.state, partition)
        guard var head = values[0].map({ PeriodHead(entry: $0.span) }) else {
            return
        }
        let isPrimary = head.primary.map { place.index < $0.index } ?? true
        var record = known
        record.token = values[1].map { DedupeEntry.member($0.span).token }
        record.tokenStanding = .known
        guard isPrimary || record.token != nil else {
            return
        }
        if isPrimary {
            head.primary = PeriodHead.Primary(index: place.index, id: known.externalPurchaseID)
        }
        record.head = head
        put(record, partition, into: &plan)
    }

    /// - Returns: whether another token was promoted, with which the record is concluded.
    private func refuse(
        _ refused: DedupeRecord,
        _ place: PeriodPlace,
        _ partition: Int32,
        into plan: inout BatchPlan
    ) throws(StoreFault) -> Bool {
        let keys = [DedupeEntry.key(ofPeriod: place.period), DedupeEntry.key(ofMember: place)]
        let values = try Self.values(keys, plan.state, partition)
        // The period may have been forgotten before its later tokens.
        guard var head = values[0].map({ PeriodHead(entry: $0.span) }) else {
            return false
        }
        var record = refused
        // What it said is kept: Apple may know it after all.
        record.token = values[1].map { DedupeEntry.member($0.span).token }
        record.tokenStanding = .refused
        guard head.primary?.index == place.index else {
            if record.token != nil {
                record.head = head
                put(record, partition, into: &plan)
            }
            return false
        }
        let next = try Self.nextMember(after: place, of: head, plan.state, partition)
        head.primary = next.map { PeriodHead.Primary(index: $0.index, id: $0.id) }
        record.head = head
        guard let next else {
            put(record, partition, into: &plan)
            return false
        }
        let key = plan.outputs.place(next.id)
        let start = plan.outputs.arena.count
        plan.outputs.arena += next.token
        DecodedRecord.writeRole(
            promotedFrom: TokenID(String(decoding: refused.externalPurchaseID, as: UTF8.self)),
            to: &plan.outputs.arena
        )
        let value = plan.outputs.placed(from: start)
        plan.outputs.outputs.append(
            OutputBatch.Output(topic: Self.distinct, key: key, value: value)
        )
        plan.conclude(.forward(outputCount: 1))
        if key.count + value.count <= plan.recordByteCountMax {
            put(record, partition, into: &plan)
        }
        return true
    }

    /// The token of the lowest offset behind a place that Apple has not refused.
    ///
    /// Those refused before are no members any more: each is skipped once, and once more whenever
    /// the primary has moved back to one before it.
    private static func nextMember(
        after place: PeriodPlace,
        of head: PeriodHead,
        _ state: StagedState,
        _ partition: Int32
    ) throws(StoreFault) -> Member? {
        var first = place.index + 1
        while first < head.count {
            let indices = first..<min(head.count, first + memberCountMax)
            let keys = indices.map {
                DedupeEntry.key(ofMember: PeriodPlace(period: place.period, index: $0))
            }
            for (index, value) in zip(indices, try values(keys, state, partition)) {
                if let value {
                    let (id, token) = DedupeEntry.member(value.span)
                    return Member(index: index, id: id, token: token)
                }
            }
            first = indices.upperBound
        }
        return nil
    }

    /// Entries as they are now, with what this batch and those before it put.
    static func values(
        _ keys: [[UInt8]],
        _ state: StagedState,
        _ partition: Int32
    ) throws(StoreFault) -> [[UInt8]?] {
        let lookup = StoreLookup()
        for key in keys {
            lookup.ask(key.span)
        }
        try state.look(up: lookup, partition: partition)
        return keys.indices.map { index -> [UInt8]? in
            state.entry(index, of: lookup, partition: partition)
        }
    }

    /// Where Kafka would not take the record with its token, the token is not kept.
    func put(
        _ record: DedupeRecord,
        _ partition: Int32,
        into plan: inout BatchPlan
    ) {
        var record = record
        let key = record.changelogKey
        var value = record.changelogValue()
        if record.token != nil, key.count + value.count > plan.recordByteCountMax {
            record.token = nil
            value = record.changelogValue()
        }
        let entries = plan.state.put(
            recordWithKey: plan.outputs.place(key),
            value: plan.outputs.place(value),
            partition: partition
        )
        var changes = StoreChanges()
        record.write(to: &changes)
        changes.forEach { _, key, value in
            if let value {
                entries.put(value.span, forKey: key.span)
            } else {
                entries.remove(key: key.span)
            }
        }
    }
}
