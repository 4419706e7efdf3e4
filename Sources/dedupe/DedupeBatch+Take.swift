internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// What the state has of a token that was read.
extension DedupeBatch {
    func seat(of candidate: Candidate, head: PeriodHead?, isRefused: Bool) -> Seat {
        guard head != nil || isRefused else {
            return Seat(index: 0, head: nil)
        }
        var head = head ?? PeriodHead(count: 0, primary: nil)
        let index = head.count
        head.count += 1
        if head.primary == nil, !isRefused {
            head.primary = PeriodHead.Primary(
                index: index,
                id: Array(texts[candidate.record.externalPurchaseID])
            )
        }
        return Seat(index: index, head: head)
    }

    /// Puts a token into the state, and itself where it may become the primary of its period later.
    func take(
        _ candidate: Candidate,
        _ seat: Seat?,
        token: [UInt8]?,
        isRefused: Bool,
        into plan: inout BatchPlan,
        _ scratch: inout [UInt8]
    ) {
        let asked = questions[candidate.questions]
        let keys = asked.lookup.keys
        let identity = asked.lookup.key(candidate.identity)
        let period = seat.map { _ in asked.lookup.key(candidate.identity + 1) }
        let record = candidate.record
        let id = record.externalPurchaseID
        // Behind the prefix of the table's keys.
        let periodKey = period?.dropFirst()
        let keyStart = plan.outputs.arena.count
        DedupeRecord.appendChangelogKey(
            keys.span,
            identity: identity.dropFirst(),
            period: periodKey,
            index: seat?.index ?? 0,
            to: &plan.outputs.arena
        )
        let changelogKey = plan.outputs.placed(from: keyStart)
        let (value, isWhole) = write(
            candidate,
            seat,
            token: token,
            isRefused ? .refused : .taken,
            keyCount: changelogKey.count,
            to: &plan
        )
        let entries = plan.state.put(
            recordWithKey: changelogKey,
            value: value,
            partition: asked.partition
        )
        scratch.removeAll(keepingCapacity: true)
        DedupeEntry.appendIdentityValue(
            keysExpire: record.keysExpire,
            keys.span,
            period: periodKey,
            index: seat?.index ?? 0,
            to: &scratch
        )
        entries.put(scratch.span, forKey: keys.span.extracting(identity))
        guard let seat, let period else {
            return
        }
        if let head = seat.head {
            entries.put(head.entry.span, forKey: keys.span.extracting(period))
        } else {
            entries.put(texts.span.extracting(id), forKey: keys.span.extracting(period))
        }
        if let token, isWhole {
            var member: [UInt8] = []
            DedupeEntry.appendMemberValue(
                id: texts.span.extracting(id),
                token: token.span,
                to: &member
            )
            let place = PeriodPlace(
                period: DedupeKey(keys.span.extracting(period.dropFirst())),
                index: seat.index
            )
            let key = DedupeEntry.key(ofMember: place, isRefused: isRefused)
            entries.put(member.span, forKey: key.span)
        }
    }

    /// Writes the value of a changelog record.
    ///
    /// - Returns: where it lies, and whether the token is in it: where Kafka would not take the whole,
    ///   the duplicate stays one for ever.
    private func write(
        _ candidate: Candidate,
        _ seat: Seat?,
        token: [UInt8]?,
        _ standing: DedupeRecord.TokenStanding,
        keyCount: Int,
        to plan: inout BatchPlan
    ) -> (ByteRange, isWhole: Bool) {
        let start = plan.outputs.arena.count
        func append(_ token: [UInt8]?) {
            DedupeRecord.appendChangelogValue(
                externalPurchaseID: texts.span.extracting(candidate.record.externalPurchaseID),
                keysExpire: candidate.record.keysExpire,
                head: seat?.head,
                token: token,
                tokenStanding: standing,
                to: &plan.outputs.arena
            )
        }
        append(token)
        let isWhole = keyCount + plan.outputs.arena.count - start <= plan.recordByteCountMax
        if !isWhole, token != nil {
            plan.outputs.arena.removeSubrange(start...)
            append(nil)
        }
        return (plan.outputs.placed(from: start), isWhole)
    }
}
