internal import Glibc

/// A topic as the broker describes it.
package struct TopicDescription: Equatable, Sendable {
    package struct Partition: Equatable, Sendable {
        package var partition: Int32
        /// Node id; -1 while there is none.
        package var leader: Int32
        package var replicas: [Int32]
        package var inSyncReplicas: [Int32]
    }

    package var name: String
    package var partitions: [Partition]

    /// Of the partition that has the fewest.
    package var replicationFactor: Int { partitions.map(\.replicas.count).min() ?? 0 }
}

/// A topic to be made.
package struct TopicPlan: Equatable, Sendable {
    package var name: String
    package var partitionCount: Int
    /// -1 is the broker's default.
    package var replicationFactor: Int
    package var configuration: [String: String]

    package init(
        name: String,
        partitionCount: Int,
        replicationFactor: Int = -1,
        configuration: [String: String] = [:]
    ) {
        self.name = name
        self.partitionCount = partitionCount
        self.replicationFactor = replicationFactor
        self.configuration = configuration
    }
}

/// A place in a partition that its leader knows.
package enum OffsetPlace: Sendable {
    /// The first record still there.
    case start
    /// The next one to be written, read uncommitted.
    case end
    /// Up to where a read-committed reader is let.
    case lastStable
}

/// Questions and orders to a cluster, for the command and for checks at start.
///
/// Every call blocks until it is answered, at most for the deadline; an order also until a broker
/// shows its result, at most 30 s.
///
/// The embedded broker knows none of the orders and no configurations: those calls end as
/// `.unavailable`.
package final class KafkaAdmin {
    /// Between two requests for what a broker does not show yet.
    private static let askAgainMilliseconds: Int32 = 20
    /// How long a broker may take to show what its controller has done: long, on a busy machine.
    private static let shownMillisecondsMax = 30_000

    /// A group's coordinator moves, or Kafka has yet to make the topic of the groups.
    private static let movedCoordinatorCodes: Set<String> = [
        "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS",
    ]
    /// Between two questions about who that is.
    private static let coordinatorMilliseconds: Int32 = 200

    private let client: LogClient
    /// For what Kafka returns only to a read-committed reader.
    private var committedClient: LogClient?
    private let settings: KafkaSettings
    private let deadlineMilliseconds: Int

    package init(settings: KafkaSettings, deadlineMilliseconds: Int = 10_000) throws(LogFault) {
        try settings.check()
        self.settings = settings
        self.deadlineMilliseconds = deadlineMilliseconds
        client = try Self.inquirer(settings, deadlineMilliseconds)
    }

    private static func inquirer(
        _ settings: KafkaSettings,
        _ deadlineMilliseconds: Int
    ) throws(LogFault) -> LogClient {
        try LogClient(
            settings: settings.inquirer(group: settings.clientID),
            deadlineMilliseconds: deadlineMilliseconds
        )
    }

    /// The client library's messages since the last call: why a broker is not reached.
    package func takeNotes() -> [KafkaNote] { client.takeNotes() }

    package func clusterID() throws(LogFault) -> String {
        try client.clusterID()
    }

    /// How many brokers the cluster counts as there.
    package func brokerCount() throws(LogFault) -> Int {
        try client.brokerCount()
    }

    /// Every topic, Kafka's own left out, by name.
    package func topics() throws(LogFault) -> [TopicDescription] {
        try client.topics(named: nil)
            .filter { !$0.name.hasPrefix("__") }
            .sorted { $0.name < $1.name }
    }

    /// One topic; nil where there is none.
    ///
    /// Does not create it, except on the embedded broker.
    package func topic(_ name: String) throws(LogFault) -> TopicDescription? {
        try client.topics(named: name).first
    }

    /// Every setting of a topic, defaults included.
    package func configuration(ofTopic name: String) throws(LogFault) -> [String: String] {
        try client.configuration(
            ofTopic: name,
            onlySet: false
        )
    }

    /// Every setting of a broker, defaults included; it wants DescribeConfigs on the cluster.
    package func configuration(ofBroker node: Int32) throws(LogFault) -> [String: String] {
        try client.configuration(ofBroker: node)
    }

    /// Makes topics, and returns when they can be used; one that is there already is left as it is.
    ///
    /// - Throws: ``LogFault/unavailable(code:message:)`` also where they were ordered and a broker
    ///   does not show them with their leaders within 30 s.
    package func create(_ plans: [TopicPlan]) throws(LogFault) {
        for plan in plans {
            try client.create(plan)
        }
        try awaitTopics(Set(plans.map(\.name)))
    }

    /// The controller answers before a broker shows the topics, and whoever is started next asks a
    /// broker.
    private func awaitTopics(_ names: Set<String>) throws(LogFault) {
        var rest = names
        try askAgain(orSay: "\(names.sorted().joined(separator: ", ")) cannot be used yet") {
            () throws(LogFault) in
            for topic in try topics()
            where !topic.partitions.isEmpty && topic.partitions.allSatisfy({ $0.leader >= 0 }) {
                rest.remove(topic.name)
            }
            return rest.isEmpty
        }
    }

    /// Changes some settings of a topic and keeps its others.
    ///
    /// The client library only replaces them all, so what is set is read first; another hand that
    /// changes the same topic in between loses its change.
    package func alterConfiguration(
        ofTopic name: String,
        _ changes: [String: String]
    ) throws(LogFault) {
        let present = try client.configuration(
            ofTopic: name,
            onlySet: true
        )
        try client.replaceConfiguration(
            ofTopic: name,
            with: present.merging(changes) { _, changed in changed }
        )
        try awaitConfiguration(ofTopic: name, changes)
    }

    /// The controller answers before a broker shows the change.
    ///
    /// The next change reads the broker's configuration and writes all of it, so one that came too
    /// soon would undo this one.
    private func awaitConfiguration(
        ofTopic name: String,
        _ changes: [String: String]
    ) throws(LogFault) {
        try askAgain(orSay: "\(name) does not show its new settings yet") { () throws(LogFault) in
            let shown = try client.configuration(
                ofTopic: name,
                onlySet: true
            )
            return changes.allSatisfy { shown[$0.key] == $0.value }
        }
    }

    /// Asks until the answer is yes, at most for 30 s.
    private func askAgain(
        orSay complaint: String,
        isThere: () throws(LogFault) -> Bool
    ) throws(LogFault) {
        let clock = ContinuousClock()
        let deadline = clock.now.advanced(by: .milliseconds(Self.shownMillisecondsMax))
        while clock.now < deadline {
            if try isThere() {
                return
            }
            _ = poll(nil, 0, Self.askAgainMilliseconds)
        }
        throw .unavailable(code: "_TIMED_OUT", message: complaint)
    }

    /// Deletes topics; one that does not exist is skipped.
    package func deleteTopics(_ names: [String]) throws(LogFault) {
        guard !names.isEmpty else {
            return
        }
        try client.delete(names)
    }

    /// First offsets still there, by partition number.
    package func startOffsets(ofTopic name: String) throws(LogFault) -> [Int64] {
        try client.offsets(ofTopic: name, at: -2)
    }

    /// The first offsets that are not older than a time, UNIX milliseconds, by partition number; the
    /// ends where nothing is as young.
    package func offsets(
        ofTopic name: String,
        notOlderThan milliseconds: Int64
    ) throws(LogFault) -> [Int64] {
        let found = try client.offsets(
            ofTopic: name,
            at: max(milliseconds, 0)
        )
        return try zip(found, endOffsets(ofTopic: name)).map { $0 < 0 ? $1 : $0 }
    }

    /// Next offsets to be written (read uncommitted), by partition number.
    package func endOffsets(ofTopic name: String) throws(LogFault) -> [Int64] {
        try client.offsets(ofTopic: name, at: -1)
    }

    /// Up to where a read-committed reader is let, by partition number: the end, but for transactions
    /// that are open, or whose markers are not written yet.
    package func lastStableOffsets(ofTopic name: String) throws(LogFault) -> [Int64] {
        try openCommitted().offsets(ofTopic: name, at: -1)
    }

    private func openCommitted() throws(LogFault) -> LogClient {
        if let committedClient {
            return committedClient
        }
        let reader = try LogClient(
            settings: settings.reader(isolation: .readCommitted),
            deadlineMilliseconds: deadlineMilliseconds
        )
        committedClient = reader
        return reader
    }

    /// An offset of each partition whose leader answers, by partition number; nil of the others.
    ///
    /// ``startOffsets(ofTopic:)``, ``endOffsets(ofTopic:)`` and ``lastStableOffsets(ofTopic:)`` fail
    /// where one of them does not. Who asks several questions keeps `silentNodes`, the leaders that
    /// did not answer in time: none is waited for twice.
    package func knownOffsets(
        _ place: OffsetPlace,
        ofTopic name: String,
        _ silentNodes: inout Set<Int32>
    ) throws(LogFault) -> [Int64?] {
        switch place {
        case .start: try client.knownOffsets(ofTopic: name, at: -2, &silentNodes)
        case .end: try client.knownOffsets(ofTopic: name, at: -1, &silentNodes)
        case .lastStable:
            try openCommitted().knownOffsets(ofTopic: name, at: -1, &silentNodes)
        }
    }

    /// What a group has committed, by partition number; nil where it has nothing.
    ///
    /// The first question to a group of a new cluster waits until Kafka has made the topic of the
    /// groups.
    package func committedOffsets(
        ofGroup group: String,
        topic: String
    ) throws(LogFault) -> [Int64?] {
        try client.groupOffsets(
            group,
            topic: topic
        ).map { $0 < 0 ? nil : $0 }
    }

    /// Who is in a group, as its coordinator sees it; of one that is not there, nobody.
    ///
    /// A member that ended without leaving counts until its session is over (15 s).
    package func group(_ name: String) throws(LogFault) -> GroupDescription {
        try LogClient.askAgain(
            on: Self.movedCoordinatorCodes,
            every: Self.coordinatorMilliseconds,
            within: deadlineMilliseconds
        ) { askedCount throws(LogFault) in
            // librdkafka 2.0.2 remembers a coordinator for as long as it is asked there, also when that
            // says that it is none: a client that has asked nothing yet learns of the new one.
            let asked =
                askedCount == 0 ? client : try Self.inquirer(settings, deadlineMilliseconds)
            return try asked.group(name)
        }
    }

    /// Commits positions of a topic for a group, as if it had read up to there; others stay.
    ///
    /// - Throws: ``LogFault/fenced(message:)`` while the group has members.
    package func commit(
        _ positions: [Int32: Int64],
        ofGroup group: String,
        topic: String
    ) throws(LogFault) {
        try client.commit(
            positions.sorted { $0.key < $1.key }.map { ($0.key, $0.value) },
            ofGroup: group,
            topic: topic
        )
    }

    package func close() {
        client.close()
        committedClient?.close()
    }
}
