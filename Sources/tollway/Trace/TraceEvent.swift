internal import Telemetry
internal import TokenDomain

/// One thing that happened to a token.
struct TraceEvent: Equatable {
    /// UNIX milliseconds: when it happened, by the record that shows it.
    var at: Int64
    /// Where: a worker, or `apple`.
    var stage: String
    /// A few words, for a person.
    var text: String
    /// Which record shows it.
    var topic: String
    var partition: Int32
    var offset: Int64
    /// 32 hexadecimal digits, where the record has one.
    var traceID: String?
    /// Further facts; values are JSON already.
    var details: [(name: String, json: String)] = []

    static func == (left: TraceEvent, right: TraceEvent) -> Bool {
        left.json == right.json
    }

    init(
        _ found: TopicReader.Found,
        stage: String,
        at: Timestamp? = nil,
        _ text: String,
        _ details: [(name: String, json: String)] = []
    ) {
        // What a replay brought again has the first one's times in it.
        let replayID =
            found.topic.hasPrefix("dlq.") ? nil : found.header("tollway.dlq.replay_id")
        self.at = replayID == nil ? at?.milliseconds ?? found.timestamp : found.timestamp
        self.stage = stage
        self.text = replayID.map { "sent back by \($0): \(text)" } ?? text
        topic = found.topic
        partition = found.partition
        offset = found.offset
        traceID = found.header("\(TraceParent.headerName)").flatMap { TraceParent($0)?.traceID }
        self.details = details + Fact.text("replayId", replayID)
    }

    /// As every verb takes positions.
    var place: String { "\(topic)/\(partition)/\(offset)" }

    var json: String {
        JSONLines.object(
            [
                ("at", "\(at)"), ("stage", JSONText.quoted(stage)),
                ("event", JSONText.quoted(text)), ("topic", JSONText.quoted(topic)),
                ("partition", "\(partition)"), ("offset", "\(offset)"),
            ] + (traceID.map { [("traceId", JSONText.quoted($0))] } ?? []) + details
        )
    }
}
