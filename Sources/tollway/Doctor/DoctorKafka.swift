internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// What the cluster is and has.
struct DoctorKafka {
    private static let deadlineMilliseconds = 10_000
    /// A transaction of ours ends within 40 s, or Kafka ends it.
    private static let transactionSecondsMax: Int64 = 60
    /// Asking for the record that a transaction holds back.
    private static let readWaitMilliseconds = 500
    private static let readCountMax = 10
    let configuration: Configuration
    /// The role whose rights are checked; nil: any role that they suffice for.
    let role: DoctorRights.Role?
    /// UNIX milliseconds.
    let now: Int64

    private var prefix: String { configuration.topicPrefix }

    /// - Throws: where Kafka does not answer at all.
    func findings() throws(LogFault) -> [DoctorFinding] {
        let admin = try KafkaAdmin(
            settings: configuration.kafka,
            deadlineMilliseconds: Self.deadlineMilliseconds
        )
        defer { admin.close() }
        let clusterID = try admin.clusterID()
        let isEmbedded = EmbeddedBroker.isClusterID(clusterID)
        let all = try admin.topics()
        let names = Set(Topic.all.map { $0.name(prefix: prefix) })
        let ours = all.filter { names.contains($0.name) && !$0.partitions.isEmpty }
        var findings = [cluster(clusterID, isEmbedded: isEmbedded, all)]
        findings += health(of: ours)
        if let silence = silence(of: ours, admin) {
            return findings + [silence]
        }
        guard !isEmbedded else {
            return findings
        }
        let there = Set(ours.map(\.name))
        let hidden = try hidden(among: names.subtracting(there), admin)
        if configuration.durability == .trial {
            findings.append(.warning(.kafka, Durability.trialSentence, Durability.trialRepair))
        }
        if configuration.delivery == .atLeastOnce {
            findings.append(
                .warning(
                    .kafka,
                    "\(Setting.delivery.fullName) is at-least-once, which is for the embedded broker:"
                        + " after a kill records are written twice",
                    "leave it out"
                )
            )
        }
        findings += topics(admin, there, hidden)
        findings += ledgers(admin, there)
        findings += DoctorChangelogs(configuration: configuration, there: there).findings(admin)
        findings += DoctorInternalTopics(durability: configuration.durability).findings(admin)
        findings += DoctorRights(
            configuration: configuration,
            role: role,
            now: now,
            there: there,
            hidden: hidden
        ).findings(admin)
        findings += DoctorStages(prefix: prefix, clusterID: clusterID, there: there)
            .findings(admin)
        findings += transactions(admin, ours)
        return findings
    }

    // MARK: Cluster

    private func cluster(
        _ id: String,
        isEmbedded: Bool,
        _ topics: [TopicDescription]
    ) -> DoctorFinding {
        let brokers = Set(topics.flatMap { $0.partitions.flatMap(\.replicas) }).count
        guard !isEmbedded else {
            return .warning(
                .kafka,
                "the broker is the embedded one, which keeps nothing",
                "use Kafka for anything but a trial"
            )
        }
        return .ok(
            .kafka,
            "cluster \(id) answers at \(configuration.kafka.bootstrapServers)"
                + (brokers > 0 ? ", \(brokers) brokers hold its topics" : "")
        )
    }

    private func health(of topics: [TopicDescription]) -> [DoctorFinding] {
        var headless: [String] = []
        var thin: [String] = []
        for topic in topics {
            for partition in topic.partitions {
                let name = "\(topic.name)/\(partition.partition)"
                if partition.leader < 0 {
                    headless.append(name)
                } else if partition.inSyncReplicas.count < partition.replicas.count {
                    thin.append(name)
                }
            }
        }
        var findings: [DoctorFinding] = []
        if !headless.isEmpty {
            findings.append(
                .failed(
                    .kafka,
                    "no leader for \(NameList.text(headless))",
                    "bring back the brokers that hold them; nothing is read or written there"
                )
            )
        }
        if !thin.isEmpty {
            findings.append(
                .warning(
                    .kafka,
                    "replicas are behind for \(NameList.text(thin))",
                    "look at the brokers' logs; one more loss can stop these partitions"
                )
            )
        }
        if findings.isEmpty, !topics.isEmpty {
            findings = [.ok(.kafka, "every partition has its leader and its replicas")]
        }
        return findings
    }

    /// Leaders that do not answer; nil where all do.
    ///
    /// Nothing else is asked then: each question would be waited for, and where most brokers are lost,
    /// one that is left tells of leaders and replicas as they were before.
    private func silence(of topics: [TopicDescription], _ admin: KafkaAdmin) -> DoctorFinding? {
        for topic in topics where topic.partitions.allSatisfy({ $0.leader >= 0 }) {
            do throws(LogFault) {
                _ = try admin.endOffsets(ofTopic: topic.name)
            } catch {
                guard case .unavailable = error else {
                    // The check of rights says which one is missing.
                    continue
                }
                let leaders = Set(topic.partitions.map(\.leader)).sorted()
                return .failed(
                    .kafka,
                    "of the brokers that lead \(topic.name) (\(NameList.text(leaders.map(String.init))))"
                        + " not all answer: \(error.sentence); nothing else was asked",
                    "see which of them run, and whether most of the controllers do"
                )
            }
        }
        return nil
    }

    // MARK: Topics

    /// Those that are there, perhaps, and that these credentials may not see.
    private func hidden(
        among names: Set<String>,
        _ admin: KafkaAdmin
    ) throws(LogFault) -> Set<String> {
        var hidden: Set<String> = []
        for name in names where try admin.isHidden(name) {
            hidden.insert(name)
        }
        return hidden
    }

    private func topics(
        _ admin: KafkaAdmin,
        _ there: Set<String>,
        _ hidden: Set<String>
    ) -> [DoctorFinding] {
        let missing = Topic.all.map { $0.name(prefix: prefix) }
            .filter { !there.contains($0) && !hidden.contains($0) }
        var findings: [DoctorFinding] = []
        let changelogs = Worker.allCases.compactMap { $0.changelog?.name(prefix: prefix) }
        if !missing.isEmpty {
            findings.append(
                .failed(
                    .topics,
                    "missing under the prefix \"\(prefix)\": \(NameList.text(missing))",
                    missing.allSatisfy { !changelogs.contains($0) }
                        ? "tollway topics apply --yes"
                        : "if a changelog was there before: see the runbook, A changelog was deleted, or"
                            + " made anew; else tollway topics apply --yes"
                )
            )
        }
        var present: [String: TopicReview.Present] = [:]
        for topic in Topic.all where there.contains(topic.name(prefix: prefix)) {
            do throws(LogFault) {
                present.merge(try admin.present([topic], prefix: prefix)) { $1 }
            } catch {
                // Counted below among those that these credentials may not look at.
            }
        }
        let reviews = TopicReview.all(
            prefix: prefix,
            wanted: TopicReview.Wanted(durability: configuration.durability),
            present: present
        )
        .filter { $0.present != nil }
        // Too few replicas are reported once for all topics, below.
        for review in reviews where review.replicationFactorShort == nil {
            findings += review.refusals.map {
                .failed(.topics, "\(review.name): \($0.sentence)", $0.repair)
            }
        }
        findings += TopicShortfall.among(reviews).map { shortfall in
            shortfall.isVital
                ? .failed(.topics, shortfall.sentence, shortfall.repair)
                : .warning(.topics, shortfall.sentence, shortfall.repair)
        }
        let unseenCount = Topic.all.count - missing.count - present.count
        if findings.isEmpty, unseenCount == 0 {
            findings = [.ok(.topics, "all \(Topic.all.count) are there, as they must be")]
        } else if findings.isEmpty {
            findings = [
                .ok(
                    .topics,
                    "\(present.count) are as they must be; at \(unseenCount) others these"
                        + " credentials may not look"
                )
            ]
        }
        return findings
    }

    /// Ledgers are kept for ever: one that has lost records is shorter than what was reported.
    func ledgers(_ admin: KafkaAdmin, _ there: Set<String>) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        let names = LedgerReader.ledgers.map { $0.name(prefix: prefix) }
        for name in names where there.contains(name) {
            do throws(LogFault) {
                let starts = try admin.startOffsets(ofTopic: name)
                if let sentence = LedgerReader.lostBeginning(of: name, starts) {
                    findings.append(
                        .warning(
                            .topics,
                            sentence,
                            "tollway topics plan shows whether it is kept for ever now; only a copy"
                                + " of yours has what was removed"
                        )
                    )
                }
            } catch {
                let because = error.sentence
                findings.append(.skipped(.topics, "where \(name) begins is not known: \(because)"))
            }
        }
        return findings
    }

    // MARK: Transactions

    /// Partitions whose last stable offset a transaction holds back for too long.
    func transactions(_ admin: KafkaAdmin, _ ours: [TopicDescription]) -> [DoctorFinding] {
        var stuck: [String] = []
        var hidden: [DoctorFinding] = []
        do throws(LogFault) {
            for name in ours.map(\.name) {
                stuck += try self.stuck(in: name, admin)
            }
        } catch {
            hidden.append(.skipped(.transactions, "not looked at: \(error.sentence)"))
        }
        let isWhole = hidden.isEmpty
        do throws(LogFault) {
            // What groups have committed: admin's list of topics is without it.
            if try admin.topic(HangingTransactions.groupOffsets) != nil {
                stuck += try self.stuck(in: HangingTransactions.groupOffsets, admin)
            }
        } catch {
            hidden.append(
                .skipped(
                    .transactions,
                    "\(HangingTransactions.groupOffsets) was not looked at: \(error.sentence)"
                )
            )
        }
        guard stuck.isEmpty else {
            return [
                .failed(
                    .transactions,
                    "a transaction that never ended hides what lies behind it: \(NameList.text(stuck))",
                    "tollway transactions list, then repair; see the runbook"
                )
            ] + hidden
        }
        guard isWhole else {
            return hidden
        }
        let ok = hidden.isEmpty ? "no transaction hangs" : "no transaction hangs in our topics"
        return [.ok(.transactions, ok)] + hidden
    }

    /// Places in a topic where a transaction has been open for too long.
    private func stuck(in topic: String, _ admin: KafkaAdmin) throws(LogFault) -> [String] {
        var stuck: [String] = []
        // The stable ones first: what is written in between must not count.
        let stable = try admin.lastStableOffsets(ofTopic: topic)
        let ends = try admin.endOffsets(ofTopic: topic)
        for (number, offset) in stable.enumerated()
        where number < ends.count && offset < ends[number] {
            let partition = TopicPartition(topic: topic, partition: Int32(number))
            guard let time = try time(of: partition, at: offset) else {
                continue
            }
            let seconds = (now - time) / 1_000
            if seconds > Self.transactionSecondsMax {
                stuck.append("\(partition) at offset \(offset) for \(seconds) s")
            }
        }
        return stuck
    }

    /// When the record at an offset was written; nil where none can be read.
    private func time(
        of partition: TopicPartition,
        at offset: Int64
    ) throws(LogFault) -> Int64? {
        let browser = try LogBrowser(
            settings: configuration.kafka,
            topics: [partition.topic],
            isolation: .readUncommitted
        )
        defer { browser.close() }
        try browser.start(at: [partition: .offset(offset)])
        var batch = RecordBatch()
        for _ in 0..<Self.readCountMax {
            let isEnd = try browser.read(
                into: &batch,
                recordCountMax: 1,
                waitMilliseconds: Self.readWaitMilliseconds
            )
            if let record = batch.records.first {
                return record.timestampMilliseconds
            }
            guard !isEnd else {
                break
            }
        }
        return nil
    }
}
