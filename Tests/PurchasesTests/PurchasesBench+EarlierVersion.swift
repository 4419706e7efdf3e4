import Simulation
import TokenDomain

@testable import purchases

extension PurchasesBench {
    /// Appends the changelog's items as an earlier version would have written them.
    ///
    /// `change` returns the records that lay beside an item then; nil: it stays as it is.
    func rewriteItems(
        _ change: (BookKey, inout BookedItem) -> [(key: BookKey, value: [UInt8])]?
    ) throws {
        let topic = Topic.purchasesState.name(prefix: Self.prefix)
        for record in cluster.committedRecords(of: topic) {
            let key = BookKey(bytes: record.key ?? [])
            guard key.kind == .item, let value = record.value else {
                continue
            }
            var item = try BookedItem(reading: value, key: key)
            guard let others = change(key, &item) else {
                continue
            }
            var old: [UInt8] = []
            item.write(to: &old)
            for (key, value) in [(key, old)] + others {
                cluster.append(
                    topic: topic,
                    partition: record.partition,
                    key: key.bytes,
                    value: value,
                    timestampMilliseconds: clock.now.milliseconds
                )
            }
        }
    }
}
