internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

extension ReportStage {
    /// Every region of the due table: it is looked through after each commit, and what waits in memory
    /// need not go to the disk for it.
    var storeGroups: StoreGroups {
        var groups = StoreGroups()
        groups.byKind = [.due: DueKey.Region.allCases.map(\.rawValue)]
        return groups
    }

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
        changes.make(
            DueChange(
                before: before.map { DueKey.entries(of: $0, key: key) } ?? [],
                after: after.map { DueKey.entries(of: $0, key: key) } ?? []
            )
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
