internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Finds keys that have expired, at constant cost: once a second, one partition in turn, a limited
/// stretch of its entries in key order.
///
/// A table of keys by expiry would name them exactly, for a third more entries to write, to keep and
/// to restore. Here ten million keys are scanned in under three hours of work, for a thing
/// that happens 400 days later; what is asked for is that the state does not grow for ever.
struct KeySweep {
    static let entryCountMax = 1_024
    static let interval = Milliseconds.seconds(1)

    /// A token whose keys are to be removed.
    struct Removal {
        var partition: Int32
        var identity: DedupeKey
        /// Where it has a period.
        var place: PeriodPlace?

        var changelogKey: [UInt8] {
            DedupeRecord.changelogKey(identity: identity, place: place)
        }

        func remove(in plan: inout BatchPlan) {
            let entries = plan.state.put(
                recordWithKey: plan.outputs.place(changelogKey),
                value: .absent,
                partition: partition
            )
            for key in DedupeRecord.entryKeys(identity: identity, place: place) {
                entries.remove(key: key.span)
            }
        }
    }

    private var last: Timestamp?
    private var turn = 0
    /// Where each partition's next stretch begins.
    private var cursors: [Int32: [UInt8]] = [:]

    /// The keys to be removed, if a stretch is due.
    ///
    /// They expired by `horizon`, which is ``ForgettingClock``'s; `now` only sets the sweep's rate.
    mutating func expired(
        by horizon: Timestamp,
        in state: StagedState,
        now: Timestamp
    ) throws(StoreFault) -> [Removal] {
        let partitions = state.partitions
        if let last, now >= last, now - last < Self.interval {
            return []
        }
        guard !partitions.isEmpty else {
            return []
        }
        last = now
        turn = (turn + 1) % partitions.count
        let partition = partitions[turn]
        var left = Self.entryCountMax
        var next: [UInt8]?
        var found: [[UInt8]] = []
        try state.scan(
            .state,
            partition: partition,
            from: cursors[partition] ?? Self.start(at: now),
            within: [DedupeEntry.identityPrefix]
        ) { key, value in
            guard left > 0 else {
                next = key
                return false
            }
            left -= 1
            if DedupeEntry.identity(value.span).keysExpire <= horizon {
                found.append(key)
            }
            return true
        }
        // At the end of the identities the next round begins at their start.
        cursors[partition] = next ?? [DedupeEntry.identityPrefix]
        return try Self.removals(of: found, by: horizon, in: state, partition: partition)
    }

    /// Of identities that expired as they are stored, those that do so as they are now.
    ///
    /// A token may have been read since the store was written, and is kept anew.
    private static func removals(
        of identities: [[UInt8]],
        by horizon: Timestamp,
        in state: StagedState,
        partition: Int32
    ) throws(StoreFault) -> [Removal] {
        guard !identities.isEmpty else {
            return []
        }
        var removals: [Removal] = []
        let values = try DedupeBatch.values(identities, state, partition)
        for (key, value) in zip(identities, values) {
            guard let entry = value.map({ DedupeEntry.identity($0.span) }),
                entry.keysExpire <= horizon
            else {
                continue
            }
            var removal = Removal(
                partition: partition,
                identity: DedupeKey(key.span.extracting(1..<key.count))
            )
            if case .member(let place) = entry.standing {
                removal.place = place
            }
            removals.append(removal)
        }
        return removals
    }

    /// Somewhere: a worker that is restarted often would otherwise never come to the last keys.
    private static func start(at now: Timestamp) -> [UInt8] {
        var key = [DedupeEntry.identityPrefix]
        DedupeKey(high: UInt64(bitPattern: now.milliseconds) &* 0x9e37_79b9_7f4a_7c15, low: 0)
            .write(to: &key)
        return key
    }
}
