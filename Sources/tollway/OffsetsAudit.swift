internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// A value of `<prefix>audit.v1`: which places of workers are set, what is lost there, and the result.
struct OffsetsAudit {
    enum State: String {
        case running, finished
        /// Not all was set.
        case stopped
    }

    var order: HandOrder
    var rows: [OffsetsCommand.Row]
    var state = State.running
    /// Places that are set.
    var count = 0

    func store(_ configuration: Configuration) throws(CommandFailure) {
        let record = LoneRecord.audit(runID: order.id, transactionalName: "offsets.reset")
        try record.store(configuration) { arena in
            append(to: &arena, at: WallClock.nowMilliseconds())
        }
    }

    func append(to arena: inout [UInt8], at now: Int64) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginAudit(
                OffsetsCommand.reset.words.joined(separator: "."),
                order.id,
                part: (state == .running ? 1 : 2, state.rawValue),
                at: now,
                by: order.by,
                why: order.why
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
