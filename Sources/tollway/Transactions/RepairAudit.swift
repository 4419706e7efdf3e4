internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// A value of `<prefix>audit.v1`: which markers are written, by whose order, and the result.
struct RepairAudit: HandAudit {
    static let transactionalName = "transactions.repair"
    private static let source = "__transaction_state"

    var order: HandOrder
    var transactions: [HangingTransaction]
    var state = AuditState.running
    var refusals: [(HangingTransaction, code: String)] = []

    func append(to arena: inout [UInt8], at now: Int64) {
        let done = state == .finished ? transactions.count - refusals.count : 0
        JSONWriter.append(to: &arena) { writer in
            writer.beginAudit("transactions.repair", order, part: state.part, at: now)
            writer.field("filter", "")
            writer.field("isPlan", false)
            writer.field("source", Self.source)
            writer.field("count", done)
            writer.field("runCount", done)
            writer.name("targets")
            writer.beginObject()
            if state == .finished {
                for (topic, count) in counts.sorted(by: { $0.key < $1.key }) {
                    writer.name(text: topic)
                    writer.integer(Int64(count))
                }
            }
            writer.endObject()
            writer.name("transactions")
            writer.beginArray()
            transactions.forEach { append($0, &writer) }
            writer.endArray()
            writer.endObject()
        }
    }

    private func refusal(of transaction: HangingTransaction) -> String? {
        refusals.first { $0.0 == transaction }?.code
    }

    private var counts: [String: Int] {
        Dictionary(
            transactions.filter { refusal(of: $0) == nil }.map { ($0.partition.topic, 1) },
            uniquingKeysWith: +
        )
    }

    private func append(_ transaction: HangingTransaction, _ writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("topic", transaction.partition.topic)
        writer.field("partition", Int(transaction.partition.partition))
        writer.field("startOffset", transaction.startOffset)
        writer.field("producerId", transaction.producerID)
        writer.field("producerEpoch", Int(transaction.producerEpoch))
        writer.field("transactionalId", transaction.transactionalID)
        writer.field("marker", transaction.verdict.rawValue)
        writer.field("refused", refusal(of: transaction))
        writer.endObject()
    }
}
