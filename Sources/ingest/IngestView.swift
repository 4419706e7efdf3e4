internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// `/debug/status` of `ingest`; on the loop's thread, once a second.
final class IngestView {
    /// What the loop sees in one turn.
    struct Moment {
        /// Requests that wait for receipts.
        var inFlightCount: Int
        var connectionCount: Int
        /// 0 to 1; at one half the door closes.
        var fillLevel: Double
        var isBrokerAway: Bool
        var isStopping: Bool
    }

    private static let interval = Milliseconds.seconds(1)

    private let instance: String
    private let listen: String
    private let board: StatusBoard
    private let health: Health
    private let startedAt: Timestamp
    private var shownAt: Timestamp?

    init(
        instance: String,
        listen: String,
        board: StatusBoard,
        health: Health,
        startedAt: Timestamp
    ) {
        self.instance = instance
        self.listen = listen
        self.board = board
        self.health = health
        self.startedAt = startedAt
    }

    func show(_ moment: Moment, now: Timestamp) {
        if let shownAt, now >= shownAt, now - shownAt < Self.interval {
            return
        }
        shownAt = now
        var writer = JSONWriter()
        writer.beginObject()
        writer.field("worker", Worker.ingest.rawValue)
        writer.field("instance", instance)
        writer.field("version", BuildInfo.version)
        writer.field("at", now.milliseconds)
        writer.field("startedAt", startedAt.milliseconds)
        HealthText.write(health, &writer)
        writer.field("listen", listen)
        writer.field("connections", moment.connectionCount)
        writer.field("requestsInFlight", moment.inFlightCount)
        writer.field("queueFillPercent", Int((moment.fillLevel * 100).rounded()))
        writer.field("isBrokerAway", moment.isBrokerAway)
        writer.field("isStopping", moment.isStopping)
        writer.endObject()
        board.publish(writer.bytes + [UInt8(ascii: "\n")])
    }
}
