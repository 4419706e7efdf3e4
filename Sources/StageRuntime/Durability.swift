/// What a record that Kafka has acknowledged must survive.
///
/// Said once: the topics that are made, the check at a worker's start and `doctor` read it here.
package enum Durability: Equatable, Sendable {
    /// The loss of any one broker: three hold each record, and two have it before it is acknowledged.
    case promised
    /// `TOLLWAY_KAFKA_SINGLE_BROKER=yes`: a broker that is lost takes what it held with it.
    case trial

    package static let replicationFactor = 3
    package static let inSyncReplicaCountMin = 2

    /// What a trial gives up, for whoever runs one.
    package static let trialSentence =
        "TOLLWAY_KAFKA_SINGLE_BROKER is yes: this is a trial, and a broker that dies may take"
        + " acknowledged tokens with it"
    package static let trialRepair =
        "for anything but a trial three brokers, and TOLLWAY_KAFKA_SINGLE_BROKER left out"

    /// How many replicas a topic has at least.
    package var replicationFactorMin: Int {
        switch self {
        case .promised: Self.replicationFactor
        case .trial: 1
        }
    }

    /// With how many replicas a new topic is made.
    package func replicationFactor(brokerCount: Int) -> Int {
        switch self {
        case .promised: Self.replicationFactor
        case .trial: brokerCount < Self.replicationFactor ? 1 : Self.replicationFactor
        }
    }

    /// How many replicas must have a record before it is acknowledged, and what a topic is set to that
    /// has less or more.
    ///
    /// Never more than there are: nothing could be written then.
    func inSync(replicationFactor: Int) -> (range: ClosedRange<Int64>, made: Int64) {
        let least =
            switch self {
            case .promised: Self.inSyncReplicaCountMin
            case .trial: 1
            }
        let made = replicationFactor < Self.replicationFactor ? least : Self.inSyncReplicaCountMin
        return (Int64(least)...Int64(max(replicationFactor, least)), Int64(made))
    }
}

extension Configuration {
    /// What `topics`, `doctor` and the workers ask of Kafka.
    package var durability: Durability { kafkaSingleBroker ? .trial : .promised }
}
