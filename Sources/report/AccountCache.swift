internal import StageRuntime
internal import StateStore
internal import TokenDomain

/// Accounts that are ready to be sent for, as they were put last: whoever sends for one, and whoever
/// settles its answer, need not look it up and read it again.
///
/// Each put of the stage comes through here, so what it has is what the state has, staged changes
/// among it. What it does not have is looked up.
final class AccountCache {
    /// Some 20 MB: what is put beyond is not kept, and what is looked up beyond begins anew.
    static let countMax = 8_192
    /// Of the value of an account; a larger one is looked up each time.
    static let valueByteCountMax = 4_096

    private var debtors: [AccountPlace: Debtor] = [:]

    var count: Int { debtors.count }

    subscript(place: AccountPlace) -> Debtor? { debtors[place] }

    func has(_ place: AccountPlace) -> Bool { debtors.index(forKey: place) != nil }

    /// Takes over what was put for an account, or looked up.
    func put(_ debtor: Debtor, valueByteCount: Int, at place: AccountPlace) {
        // Reports that wait in line are read with their account.
        guard debtor.queue != nil, !debtor.hasLine, valueByteCount <= Self.valueByteCountMax else {
            debtors[place] = nil
            return
        }
        if debtors.count < Self.countMax || has(place) {
            debtors[place] = debtor
        }
    }

    /// Looks up those of some accounts that are not here, all of a partition in one call.
    func load(_ places: [AccountPlace], _ state: StagedState) throws(StoreFault) {
        if debtors.count + places.count > Self.countMax {
            debtors.removeAll(keepingCapacity: true)
        }
        var keys: [Int32: [[UInt8]]] = [:]
        for place in places where !has(place) {
            keys[place.partition, default: []].append(place.key)
        }
        for (partition, keys) in keys {
            for (key, value) in zip(keys, try state.values(keys, partition: partition)) {
                if let value {
                    put(
                        Debtor(value, key: key),
                        valueByteCount: value.count,
                        at: AccountPlace(key: key, partition: partition)
                    )
                }
            }
        }
    }

    /// The account is gone from the state.
    func remove(_ place: AccountPlace) {
        debtors[place] = nil
    }

    func forget(partitions gone: Set<Int32>) {
        debtors = debtors.filter { !gone.contains($0.key.partition) }
    }

    /// What was put last may not have happened.
    func aborted() {
        debtors = [:]
    }
}
