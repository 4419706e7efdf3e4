internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

extension ReportStage {
    func deriveChanges(
        key: [UInt8],
        value: [UInt8]?,
        previous: [UInt8]?,
        into changes: inout StoreChanges
    ) {
        guard !WaitingReport.isKey(key) else {
            return deriveWaiting(key: key, value: value, into: &changes)
        }
        let before: Debtor?
        let after: Debtor?
        do throws(WireFault) {
            before = try previous.map { (value) throws(WireFault) in
                try Debtor(reading: value, key: key)
            }
            after = try value.map { (value) throws(WireFault) in
                try Debtor(reading: value, key: key)
            }
        } catch {
            return changes.refuse(because: error.message)
        }
        func move(
            from old: (key: [UInt8], note: [UInt8])?,
            to new: (key: [UInt8], note: [UInt8])?
        ) {
            if let old, old.key != new?.key {
                changes.remove(key: old.key, from: .due)
            }
            if let new, new.key != old?.key || new.note != old?.note {
                changes.put(new.note, forKey: new.key, in: .due)
            }
        }
        move(
            from: before.map { (DueKey.bytes(of: $0, key: key), DueKey.note(of: $0)) },
            to: after.map { (DueKey.bytes(of: $0, key: key), DueKey.note(of: $0)) }
        )
        move(
            from: before.flatMap { DueKey.retry(of: $0, key: key) }.map { ($0, []) },
            to: after.flatMap { DueKey.retry(of: $0, key: key) }.map { ($0, []) }
        )
        if let value {
            changes.put(value, forKey: key, in: .state)
        } else {
            changes.remove(key: key, from: .state)
        }
    }

    /// A report in line is due when its account says so.
    private func deriveWaiting(key: [UInt8], value: [UInt8]?, into changes: inout StoreChanges) {
        guard let value else {
            return changes.remove(key: key, from: .state)
        }
        do throws(WireFault) {
            _ = try WaitingReport.read(value.span)
        } catch {
            return changes.refuse(because: error.message)
        }
        changes.put(value, forKey: key, in: .state)
    }
}
