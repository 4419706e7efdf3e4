internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// A value of `<prefix>audit.v1`: which places of workers are set, what is lost there, and the result.
struct OffsetsAudit: HandAudit {
    static let transactionalName = "offsets.reset"

    var order: HandOrder
    var rows: [OffsetsCommand.Row]
    var state = AuditState.running
    /// Places that are set.
    var count = 0

    func append(to arena: inout [UInt8], at now: Int64) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginAudit(
                OffsetsCommand.reset.words.joined(separator: "."),
                order,
                part: state.part,
                at: now
            )
            writer.field("count", count)
            writer.name("offsets")
            writer.beginArray()
            for row in rows {
                writer.beginObject()
                writer.field("worker", row.worker.rawValue)
                writer.field("topic", row.lost.partition.topic)
                writer.field("partition", Int(row.lost.partition.partition))
                writer.field("committed", row.lost.position)
                writer.field("first", row.lost.start)
                writer.field("lost", row.lost.lostCount)
                writer.endObject()
            }
            writer.endArray()
            writer.endObject()
        }
    }
}
