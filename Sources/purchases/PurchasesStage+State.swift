internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

extension PurchasesStage {
    var derivesFromPrevious: Bool { true }

    /// 5: a token is kept as long as any copy of it says; 4: what waits has the period that it is
    /// for; 3: what is not owed has it; 2: what is sent to Apple stands by its token.
    static var storeForm: Int { 5 }

    /// The tokens of a customer, and of the due table what ``BookDue/start(_:of:)`` begins and whole
    /// regions.
    var storeGroups: StoreGroups {
        let named: [BookDue.Region] = [.sent, .queued, .reference, .token, .child, .period]
        let whole: [BookDue.Region] = [.base, .rate, .waiting, .forgotten, .waking]
        var groups = StoreGroups()
        groups.byName = [.state: [BookKey.Kind.token.rawValue], .due: named.map(\.rawValue)]
        groups.byKind = [.due: whole.map(\.rawValue)]
        return groups
    }

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
        func entries(of value: [UInt8]?) throws(WireFault) -> DueEntries {
            try value.map { (value) throws(WireFault) in
                try BookRecord(reading: value, key: key)
            }?.entries(key) ?? DueEntries()
        }
        do throws(WireFault) {
            let due = DueChange(
                before: try entries(of: previous),
                after: try entries(of: value)
            )
            changes.make(due)
        } catch {
            return changes.refuse(because: error.message)
        }
        if let value {
            changes.put(value, forKey: key.bytes, in: .state)
        } else {
            changes.remove(key: key.bytes, from: .state)
        }
    }
}
