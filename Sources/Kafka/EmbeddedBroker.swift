/// What every client knows of the embedded broker, which shows flow and not guarantees.
package enum EmbeddedBroker {
    /// Whether a cluster is an embedded one: librdkafka's mock cluster calls itself so.
    package static func isClusterID(_ id: String) -> Bool {
        id.hasPrefix("mockCluster")
    }
}
