internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// When the first of some buys and refunds was received that the ledger says is settled.
///
/// Its record may have left the topic: who sends such a sale again sends a repeat, of which `purchases`
/// writes nothing.
struct SettledSales {
    /// A buy or a refund that came in.
    struct Sale {
        /// Of its name, type, environment and app, and of the partition that it came in by.
        fileprivate let digest: UInt64
        fileprivate let receivedAt: Timestamp
        /// When one of the same content was received that is a dead letter and came before it; nil where none
        /// did, or where this is its replay.
        fileprivate let refusedFirst: Timestamp?

        /// App 0 is one that cannot be told: then a sale of that name of any app counts.
        init(
            _ event: PurchaseEvent,
            app: Int64,
            _ receivedAt: Timestamp,
            refusedFirst: Timestamp?,
            _ partition: Int32
        ) {
            self.refusedFirst = refusedFirst
            digest = SettledSales.digest(
                event.lineItemID,
                event.kind,
                Lane(appAppleID: app, environment: event.environment),
                partition
            )
            self.receivedAt = receivedAt
        }
    }

    private var firstTimes: [UInt64: Timestamp] = [:]
    /// From when to when those were worked on that were refused.
    private var refused: [UInt64: [ClosedRange<Timestamp>]] = [:]

    /// Reads the whole ledger, where there is something to look for.
    ///
    /// `partitionCount`: of the topic that the sales came in by; the ledger may have another.
    init(
        of sales: [Sale],
        partitionCount: Int32,
        _ configuration: Configuration
    ) throws(CommandFailure) {
        let wanted = Set(sales.map(\.digest))
        guard !wanted.isEmpty else {
            return
        }
        var found = self
        try AccountScan.run(
            .purchasesOutcomes,
            nil,
            "sales of the whole ledger",
            configuration
        ) { record, batch in
            guard !record.value.isAbsent else {
                return
            }
            do throws(WireFault) {
                let value = batch.arena.span.extracting(record.value.indices)
                let key = batch.arena.span.extracting(record.key.indices)
                found.take(
                    try PurchaseOutcome(reading: value),
                    Partitioner.partition(ofKey: key, partitionCount: partitionCount),
                    wanted
                )
            } catch {
                // Counted by ledger export.
                return
            }
        }
        self = found
    }

    /// Whether the same was received before it, or with it in one request, and is settled; where that was
    /// refused, whether the worker still had it when this one came: read after that, it were a new sale.
    func isRepeat(_ sale: Sale) -> Bool {
        if let firstTime = firstTimes[sale.digest], firstTime <= sale.receivedAt {
            return true
        }
        guard let first = sale.refusedFirst, first <= sale.receivedAt else {
            return false
        }
        return refused[sale.digest]?.contains { span in
            span.lowerBound == first && sale.receivedAt < span.upperBound
        } ?? false
    }

    private mutating func take(
        _ outcome: PurchaseOutcome,
        _ partition: Int32,
        _ wanted: Set<UInt64>
    ) {
        guard !outcome.type.isChange else {
            return
        }
        let lane = outcome.lane ?? Lane(appAppleID: 0, environment: .production)
        for app in Set([lane.appAppleID, 0]) {
            let digest = Self.digest(
                outcome.lineItemID,
                outcome.type,
                Lane(appAppleID: app, environment: lane.environment),
                partition
            )
            guard wanted.contains(digest) else {
                continue
            }
            let firstTime = firstTimes[digest]
            if outcome.outcome == .rejected, outcome.receivedAt < outcome.settledAt {
                refused[digest, default: []].append(outcome.receivedAt...outcome.settledAt)
            }
            if outcome.outcome != .rejected {
                firstTimes[digest] = min(firstTime ?? outcome.receivedAt, outcome.receivedAt)
            } else if firstTime == outcome.receivedAt {
                // It was not owed, and was refused after all: the same again is a new sale.
                firstTimes[digest] = nil
            }
        }
    }

    private static func digest(
        _ lineItemID: String,
        _ kind: PurchaseEvent.Kind,
        _ lane: Lane,
        _ partition: Int32
    ) -> UInt64 {
        TextDigest.of(
            "\(partition)/\(kind.rawValue)/\(lane.appAppleID)/\(lane.environment.rawValue)/"
                + lineItemID
        )
    }
}
