internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// The sales of one partition that `purchases` has not settled, by where each came in.
///
/// From the changelog of its state, whose form is the worker's own: an event that is not settled is
/// kept as it came. The buy or the refund lies in the record of its line item, and there it stays
/// after it was settled as not owed, too, for a token may still come; restatements and retractions
/// lie under the item's key and a number. Earlier versions kept the buy or refund so, as number 0.
struct HeldSales {
    /// Where in the partition of `purchases.received` each came in, and when it was received: a topic that
    /// was made anew has other records at the places of those before.
    private(set) var places: Set<Place> = []
    /// Items whose buy or refund waits, wherever it came in: its record may be gone already.
    private var waiting: Set<UInt64> = []

    struct Place: Hashable {
        var offset: Int64
        var receivedAt: Timestamp
    }

    private struct Event {
        var item: UInt64
        var number: Int64
        var place: Place
    }

    private struct Item {
        /// Of its buy or refund; nil where that has a record of its own, or never came in.
        var place: Place?
    }

    private static let eventKind = UInt8(ascii: "e")
    private static let itemKind = UInt8(ascii: "i")
    private static let numberByteCount = 8

    private var events: [UInt64: Event] = [:]
    /// Items whose buy or refund is being worked on.
    private var pending: [UInt64: Item] = [:]

    init() {}

    init(_ partition: Int32, _ configuration: Configuration) throws(CommandFailure) {
        var held = HeldSales()
        try AccountScan.run(
            .purchasesState,
            partition..<partition + 1,
            "records of purchases' state",
            configuration
        ) { record, batch in
            guard !record.key.isAbsent else {
                return
            }
            held.take(
                batch.arena.span.extracting(record.key.indices),
                record.value.isAbsent ? nil : batch.arena.span.extracting(record.value.indices)
            )
        }
        held.finish()
        self = held
    }

    /// Takes in a record of the changelog; without value it was removed.
    mutating func take(_ key: Span<UInt8>, _ value: Span<UInt8>?) {
        guard key.count > Self.numberByteCount else {
            return
        }
        switch key[0] {
        case Self.itemKind:
            let item = TextDigest.of(key.extracting(1..<key.count))
            pending[item] = if let value { Self.pendingItem(value) } else { nil }
        case Self.eventKind:
            let numberStart = key.count - Self.numberByteCount
            let digest = TextDigest.of(key)
            guard let value, let place = Self.event(value) else {
                events[digest] = nil
                return
            }
            var number: UInt64 = 0
            for index in numberStart..<key.count {
                number = number << 8 | UInt64(key[index])
            }
            events[digest] = Event(
                item: TextDigest.of(key.extracting(1..<numberStart)),
                // Written so that negative numbers come first.
                number: Int64(bitPattern: number ^ (1 << 63)),
                place: place
            )
        default:
            return
        }
    }

    mutating func finish() {
        places = Set(pending.values.compactMap(\.place))
        waiting = Set(pending.keys)
        for event in events.values where event.number > 0 || pending.keys.contains(event.item) {
            places.insert(event.place)
        }
        events = [:]
        pending = [:]
    }

    /// Whether the record at an offset is one of them.
    func holds(_ offset: Int64, receivedAt: Timestamp) -> Bool {
        places.contains(Place(offset: offset, receivedAt: receivedAt))
    }

    /// Whether a buy or a refund of this name waits, so that the same again is a repeat.
    func isWaiting(_ name: String, of purchaseKey: String, _ lane: Lane) -> Bool {
        waiting.contains(TextDigest.of(TracedBookKey.itemTail(name, of: purchaseKey, lane).span))
    }

    /// Nil where its buy or refund is settled, or not known.
    private static func pendingItem(_ value: Span<UInt8>) -> Item? {
        var standing: String?
        var item = Item()
        do throws(WireFault) {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                switch key {
                case "standing": try scanner.fill(&standing)
                case "event": item.place = try Self.place(&scanner)
                default: try scanner.skip()
                }
            }
        } catch {
            // Of another version: then its sales show as lost, and a person looks.
            return nil
        }
        return standing == "pending" ? item : nil
    }

    /// Of an event's own record.
    private static func event(_ value: Span<UInt8>) -> Place? {
        do throws(WireFault) {
            return try JSONScanner.scan(value) { (scanner) throws(WireFault) in
                try place(&scanner)
            }
        } catch {
            return nil
        }
    }

    /// Nil for an event that the worker made itself: no record came for it.
    private static func place(_ scanner: inout JSONScanner) throws(WireFault) -> Place? {
        var offset: Int64?
        var receivedAt: Timestamp?
        var hasValue = false
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "offset": try scanner.fill(&offset)
            case "receivedAt": try scanner.fill(&receivedAt)
            case "value":
                hasValue = true
                try scanner.skip()
            default: try scanner.skip()
            }
        }
        guard hasValue, let offset, let receivedAt else {
            return nil
        }
        return Place(offset: offset, receivedAt: receivedAt)
    }
}
