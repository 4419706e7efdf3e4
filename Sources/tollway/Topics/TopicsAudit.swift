internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// A value of `<prefix>audit.v1`: which topics are made, and which settings of others are changed.
struct TopicsAudit {
    var order: HandOrder
    var reviews: [TopicReview]
    /// UNIX milliseconds.
    var at: Int64

    func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginAudit(TopicsCommand.apply.words.joined(separator: "."), order, at: at)
            writer.name("topics")
            writer.beginArray()
            for review in reviews {
                writer.beginObject()
                writer.field("topic", review.name)
                writer.field("isNew", review.present == nil)
                writer.name("settings")
                writer.beginObject()
                for difference in review.present == nil ? [] : review.differences {
                    writer.name(text: difference.setting.name)
                    writer.string(difference.setting.constraint.text)
                }
                writer.endObject()
                writer.endObject()
            }
            writer.endArray()
            writer.endObject()
        }
    }
}
