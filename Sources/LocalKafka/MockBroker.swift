internal import CLocalKafka
package import Kafka

/// The embedded broker: librdkafka's mock cluster, on loopback, on ports of its own choice.
///
/// It shows flow, not guarantees: transactions are theatre, nothing outlives the process, and it
/// keeps 5 MiB (as compressed) a partition. See ``KafkaDelivery/atLeastOnce``.
///
/// Safe because the handle lives as long as this object, or until ``close()``.
@safe package final class MockBroker {
    /// A request of Kafka's protocol, by its key.
    package enum API: Int16, CaseIterable, Sendable {
        case produce = 0
        case fetch = 1
        case listOffsets = 2
        case metadata = 3
        case offsetCommit = 8
        case offsetFetch = 9
        case findCoordinator = 10
        case joinGroup = 11
        case heartbeat = 12
        case leaveGroup = 13
        case syncGroup = 14
        case apiVersions = 18
        case initProducerID = 22
        case addPartitionsToTransaction = 24
        case addOffsetsToTransaction = 25
        case endTransaction = 26
        case transactionalOffsetCommit = 28
    }

    private var open: OpaquePointer?
    /// What clients connect to.
    package let bootstrapServers: String

    /// Makes `topics`, partition counts by name; one that a client asks for is made with 4.
    package init(brokerCount: Int = 1, topics: [String: Int] = [:]) throws(LogFault) {
        var message = [CChar](repeating: 0, count: Int(CLOCALKAFKA_MESSAGE_SIZE))
        let made = unsafe clocalkafka_mock_new(Int32(brokerCount), &message)
        guard let made = unsafe made else {
            let said = message.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }
            throw LogFault.unusable(message: String(decoding: said, as: UTF8.self))
        }
        unsafe open = made
        bootstrapServers = unsafe String(cString: clocalkafka_mock_bootstrap_servers(made))
        for (name, partitionCount) in topics.sorted(by: { $0.key < $1.key }) {
            try createTopic(name, partitionCount: partitionCount)
        }
    }

    deinit {
        close()
    }

    private var handle: OpaquePointer {
        guard let handle = unsafe open else {
            preconditionFailure("the embedded broker was closed")
        }
        return unsafe handle
    }

    package func createTopic(_ name: String, partitionCount: Int) throws(LogFault) {
        let count = Int32(clamping: partitionCount)
        guard unsafe clocalkafka_mock_create_topic(handle, name, count) == 0 else {
            throw LogFault.misconfigured(
                message:
                    "the embedded broker makes no topic \(name): it has it, or the name is none"
            )
        }
    }

    /// The next requests of this kind are answered with these error codes, one each; -195 cuts
    /// the connection.
    package func pushErrors(_ codes: [Int32], for api: API) {
        unsafe clocalkafka_mock_push_errors(handle, api.rawValue, codes, codes.count)
    }

    package func clearErrors(for api: API) {
        unsafe clocalkafka_mock_clear_errors(handle, api.rawValue)
    }

    /// Whether the cluster is away: every connection is cut at its next request, also at its first.
    ///
    /// librdkafka's own way to take a broker down closes the listening socket, and ends the whole
    /// process when it cannot have the port again. Ends by itself after 10,000 requests of a kind.
    package func setAway(_ isAway: Bool) {
        for api in API.allCases {
            clearErrors(for: api)
            if isAway {
                pushErrors(Array(repeating: Self.cut, count: Self.cutRequestCountMax), for: api)
            }
        }
    }

    /// librdkafka's `_TRANSPORT`: the mock cluster cuts the connection.
    private static let cut: Int32 = -195
    private static let cutRequestCountMax = 10_000

    /// How long a broker takes for every answer.
    package func setRoundTrip(ofBroker number: Int32, milliseconds: Int) throws(LogFault) {
        let time = Int32(clamping: milliseconds)
        guard unsafe clocalkafka_mock_set_round_trip(handle, number, time) == 0 else {
            throw LogFault.misconfigured(message: "there is no embedded broker \(number)")
        }
    }

    /// Takes the leader from a partition.
    package func removeLeader(of partition: TopicPartition) throws(LogFault) {
        try setLeader(of: partition, to: -1)
    }

    /// Has a broker lead a partition; they count from 1.
    package func setLeader(
        of partition: TopicPartition,
        to number: Int32
    ) throws(LogFault) {
        let (topic, index) = (partition.topic, partition.partition)
        guard unsafe clocalkafka_mock_set_leader(handle, topic, index, number) == 0 else {
            throw LogFault.misconfigured(message: "the embedded broker has no \(partition)")
        }
    }

    package func close() {
        guard let handle = unsafe open else {
            return
        }
        unsafe open = nil
        unsafe clocalkafka_mock_close(handle)
    }
}
