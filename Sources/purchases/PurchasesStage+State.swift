internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

extension PurchasesStage {
    var derivesFromPrevious: Bool { true }

    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {
        Self.derive(key: key, value: value, previous: previous, into: &changes)
    }

    static func derive(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {
        let key = BookKey(bytes: key)
        do throws(WireFault) {
            let before =
                try previous.map { (value) throws(WireFault) in
                    try entries(key, value)
                } ?? []
            let after =
                try value.map { (value) throws(WireFault) in
                    try entries(key, value)
                } ?? []
            for old in before where !after.contains(where: { $0.key == old.key }) {
                changes.remove(key: old.key, from: .due)
            }
            for new in after where !before.contains(where: { $0 == new }) {
                changes.put(new.note, forKey: new.key, in: .due)
            }
        } catch {
            return changes.refuse(because: error.message)
        }
        if let value {
            changes.put(value, forKey: key.bytes, in: .state)
        } else {
            changes.remove(key: key.bytes, from: .state)
        }
    }

    private static func entries(
        _ key: BookKey,
        _ value: [UInt8]
    ) throws(WireFault) -> [BookDue.Entry] {
        guard key.bytes.count > 3 else {
            throw .outOfRange(field: "key")
        }
        switch key.kind {
        case .item: return BookDue.entries(of: try BookedItem(reading: value), key)
        case .token: return BookDue.entries(of: try BookedToken(reading: value, key: key), key)
        case .subscription:
            return BookDue.entries(of: try BookedSubscription(reading: value), key)
        case .event:
            _ = try BookedEvent(reading: value)
            return []
        case nil: throw .outOfRange(field: "key")
        }
    }
}
