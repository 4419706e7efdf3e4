/// How far a worker's commit reaches.
package enum KafkaDelivery: String, Sendable, CaseIterable {
    /// Outputs, changelog and positions in one Kafka transaction.
    case exactlyOnce = "exactly-once"
    /// Flush, then commit: for the embedded broker, whose transactions are theatre.
    case atLeastOnce = "at-least-once"
}

/// Where Kafka is, and what every client of ours sets.
///
/// `extra` takes any setting of librdkafka by its own name (`sasl.username`). One that a client has
/// no use for is ignored by it; one that librdkafka does not know, or that delivery rests upon
/// (`isolation.level`, `acks`), is refused by ``check()``.
package struct KafkaSettings: Sendable, Equatable {
    /// `host:port`, comma-separated.
    package var bootstrapServers: String
    /// What the broker's log calls us.
    package var clientID: String
    package var extra: [String: String]

    package init(bootstrapServers: String, clientID: String, extra: [String: String] = [:]) {
        self.bootstrapServers = bootstrapServers
        self.clientID = clientID
        self.extra = extra
    }
}

/// A line from the client library, for the log.
package struct KafkaNote: Sendable, Equatable {
    /// syslog's: 3 error, 4 warning, 5 notice, 6 information, 7 debug.
    package var level: Int
    /// librdkafka's fixed word for it, such as `FAIL`.
    package var facility: String
    package var text: String
}
