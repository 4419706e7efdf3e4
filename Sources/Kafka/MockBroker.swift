/// The embedded broker: librdkafka's mock cluster, on loopback, on ports of its own choice.
///
/// It shows flow, not guarantees: transactions are theatre, nothing outlives the process, and it
/// keeps 5 MiB (as compressed) a partition. See ``KafkaDelivery/atLeastOnce``.
package final class MockBroker {
    /// A request of Kafka's protocol, by its key.
    package enum API: Int16, Sendable {
        case produce = 0
        case fetch = 1
        case listOffsets = 2
        case metadata = 3
        case offsetCommit = 8
        case offsetFetch = 9
        case findCoordinator = 10
        case joinGroup = 11
        case heartbeat = 12
        case initProducerID = 22
        case addPartitionsToTransaction = 24
        case addOffsetsToTransaction = 25
        case endTransaction = 26
        case transactionalOffsetCommit = 28
    }

    package init(brokerCount: Int = 1, topics: [String: Int] = [:]) throws(LogFault) {
        throw LogFault.unusable(message: "not built yet")
    }

    /// What clients connect to.
    package var bootstrapServers: String { "" }
    package func createTopic(_ name: String, partitionCount: Int) throws(LogFault) {}
    /// The next requests of this kind are answered with these error codes, one each; -195 cuts
    /// the connection.
    package func pushErrors(_ codes: [Int32], for api: API) {}
    package func clearErrors(for api: API) {}
    /// Takes a broker down, or brings it back; numbers start at 1.
    package func setBroker(_ number: Int32, isUp: Bool) throws(LogFault) {}
    /// How long a broker takes for every answer.
    package func setRoundTrip(ofBroker number: Int32, milliseconds: Int) throws(LogFault) {}
    package func close() {}
}
