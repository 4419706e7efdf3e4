internal import Kafka
internal import StageRuntime

/// Whether Kafka keeps what commits rest upon, the positions of groups and the fate of transactions,
/// as safely as our own topics.
struct DoctorInternalTopics {
    /// A topic of Kafka's own, which it makes when it is first needed.
    private struct Subject {
        var name: String
        /// What is lost with it.
        var stake: String
        /// Whether fewer replicas in sync than wanted cost more than records that are read again: those
        /// are settled as repeats.
        var isInSyncVital: Bool
    }

    private static let subjects = [
        Subject(
            name: "__transaction_state",
            stake: "a commit that was confirmed can be lost, and records with it",
            isInSyncVital: true
        ),
        Subject(
            name: "__consumer_offsets",
            stake: "positions can go back, and what lies behind them is read again",
            isInSyncVital: false
        ),
    ]

    private static let retentionSetting = "offsets.retention.minutes"
    /// 30 days; Kafka's default is 7, as long as our topics keep records.
    private static let retentionMinutesMin = 43_200

    let durability: Durability

    func findings(_ admin: KafkaAdmin) -> [DoctorFinding] {
        guard durability == .promised else {
            return []
        }
        var findings: [DoctorFinding] = []
        for subject in Self.subjects {
            do throws(LogFault) {
                guard let topic = try admin.topic(subject.name) else {
                    continue
                }
                findings += Self.findings(
                    subject,
                    replicationFactor: topic.replicationFactor,
                    try admin.configuration(ofTopic: subject.name)
                )
                if subject.name == HangingTransactions.groupOffsets {
                    // The leaders there are the coordinators of groups.
                    findings += Self.retention(
                        of: Set(topic.partitions.map(\.leader)),
                        ask: admin.configuration(ofBroker:)
                    )
                }
            } catch {
                findings.append(
                    .skipped(
                        .topics,
                        "\(subject.name) not looked at: \(error.sentence);"
                            + " Deploy/acls.sh gives the operator that right"
                    )
                )
            }
        }
        return findings
    }

    /// The first of these brokers that forgets a group's positions too soon, else the first that
    /// could not be asked.
    static func retention(
        of nodes: Set<Int32>,
        ask: (Int32) throws(LogFault) -> [String: String]
    ) -> [DoctorFinding] {
        var skipped: DoctorFinding?
        for node in nodes.sorted() where node >= 0 {
            do throws(LogFault) {
                if let finding = retention(ofBroker: node, try ask(node)) {
                    return [finding]
                }
            } catch {
                // Nothing rests on it while workers run: a broker that does not tell is no fault.
                let sentence =
                    "\(retentionSetting) of broker \(node) not looked at, which wants"
                    + " DescribeConfigs on the cluster: \(error.sentence);"
                    + " it should be \(retentionMinutesMin); Deploy/acls.sh gives the operator that"
                    + " right"
                skipped = skipped ?? DoctorFinding.skipped(.kafka, sentence)
            }
        }
        return skipped.map { [$0] } ?? []
    }

    /// Kafka forgets the positions of a group that had no member for so long: the stage begins at the first
    /// record there is then, and what was removed unread before it is not missed.
    ///
    /// `configuration` is what the broker says of itself, `node` is its number.
    static func retention(
        ofBroker node: Int32,
        _ configuration: [String: String]
    ) -> DoctorFinding? {
        guard let minutes = configuration[retentionSetting].flatMap({ Int($0) }),
            minutes < retentionMinutesMin
        else {
            return nil
        }
        return .warning(
            .kafka,
            "broker \(node) has \(retentionSetting) \(minutes) and should have \(retentionMinutesMin):"
                + " a stage that was stopped for longer does not notice what was removed unread",
            "set \(retentionSetting)=\(retentionMinutesMin) in the configuration of every broker, and"
                + " restart them in turn"
        )
    }

    /// `name` is one of the two topics; `configuration` is what Kafka says of it.
    static func findings(
        of name: String,
        replicationFactor: Int,
        _ configuration: [String: String]
    ) -> [DoctorFinding] {
        subjects.filter { $0.name == name }.flatMap {
            findings($0, replicationFactor: replicationFactor, configuration)
        }
    }

    private static func findings(
        _ subject: Subject,
        replicationFactor: Int,
        _ configuration: [String: String]
    ) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        func add(isVital: Bool, _ what: String, _ repair: String) {
            let sentence = "\(subject.name) has \(what): \(subject.stake)"
            findings.append(
                isVital ? .failed(.topics, sentence, repair) : .warning(.topics, sentence, repair)
            )
        }
        func set(_ setting: String) -> String {
            "kafka-configs.sh --alter --entity-type topics --entity-name \(subject.name)"
                + " --add-config \(setting)"
        }
        let factorMin = Durability.replicationFactor
        if replicationFactor < factorMin {
            add(
                isVital: true,
                "replication factor \(replicationFactor) and needs \(factorMin)",
                TopicShortfall.replicaRepair
            )
        }
        let inSyncMin = Durability.inSyncReplicaCountMin
        let inSync = configuration["min.insync.replicas"].flatMap { Int($0) } ?? 0
        if inSync < inSyncMin {
            add(
                isVital: subject.isInSyncVital,
                "min.insync.replicas \(inSync) and needs \(inSyncMin)",
                set("min.insync.replicas=\(inSyncMin)")
            )
        }
        if configuration["unclean.leader.election.enable"] == "true" {
            add(
                isVital: true,
                "unclean.leader.election.enable true and needs false",
                set("unclean.leader.election.enable=false")
            )
        }
        return findings
    }
}
