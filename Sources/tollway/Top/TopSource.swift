internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// Takes snapshots: from Kafka, and from the admin ports that were named.
///
/// Kept from look to look, so that each asks only for what is new. One thread uses it.
final class TopSource {
    private static let deadlineMilliseconds = 5_000
    /// Once questions about stages have taken so long, the rest waits for the next look.
    private static let patienceMilliseconds: Int64 = 10_000
    private static let deadLettersShownMax = 100

    private let configuration: Configuration
    private let ports: AdminPorts
    private var admin: KafkaAdmin?
    private var deadLetters: TopDeadLetters?
    /// Read anew from the beginning; it takes the place of the other one once it knows all.
    private var renewed: TopDeadLetters?
    private var ledger: TopLedger?
    private var earlier: TopSnapshot?

    init(_ configuration: Configuration, addresses: [String]) throws(CommandFailure) {
        self.configuration = configuration
        ports = try AdminPorts(addresses)
    }

    func close() {
        admin?.close()
        deadLetters?.close()
        renewed?.close()
        ledger?.close()
    }

    /// One look, with rates since the one before.
    func look() -> TopSnapshot {
        var snapshot = TopSnapshot()
        snapshot.at = WallClock.nowMilliseconds()
        snapshot.servers = configuration.kafka.bootstrapServers
        snapshot.prefix = configuration.topicPrefix
        do throws(LogFault) {
            let admin = try openAdmin()
            let clusterID = try admin.clusterID()
            let there = try admin.partitionCounts()
            snapshot.clusterID = clusterID
            readStages(&snapshot, there, admin)
            readDeadLetters(&snapshot, there: Set(there.keys))
            readLedger(&snapshot, there: Set(there.keys))
        } catch {
            snapshot.troubles.append(Self.trouble(error))
            drop()
        }
        ports.ask(&snapshot)
        snapshot.compare(with: earlier)
        earlier = snapshot
        return snapshot
    }

    /// What failed is made anew at the next look.
    private func drop() {
        close()
        admin = nil
        dropDeadLetters()
        ledger = nil
    }

    private static func trouble(_ fault: LogFault, about part: String? = nil) -> String {
        TopSnapshot.kafkaTrouble + (part.map { "\($0): " } ?? "") + fault.sentence
    }

    /// A stage that is not told keeps none of the others from being shown.
    private func readStages(
        _ snapshot: inout TopSnapshot,
        _ there: [String: Int],
        _ admin: KafkaAdmin
    ) {
        let end = WallClock.monotonicMilliseconds() + Self.patienceMilliseconds
        var stages = TopStages(prefix: configuration.topicPrefix, there: there, admin: admin)
        for worker in Worker.allCases where !worker.sources.isEmpty {
            stages.begin(worker)
            do throws(LogFault) {
                guard WallClock.monotonicMilliseconds() < end else {
                    throw .unavailable(code: "_TIMED_OUT", message: "the others took too long")
                }
                try stages.read(worker, clusterID: snapshot.clusterID ?? "", &snapshot)
            } catch {
                snapshot.troubles.append(
                    Self.trouble(error, about: "how far \(worker.rawValue) is")
                )
                // What failed is made anew at the next look.
                self.admin = nil
            }
            snapshot.stages += stages.take()
        }
        if self.admin == nil {
            admin.close()
        }
        if !stages.unknown.isEmpty {
            snapshot.troubles.append(
                TopSnapshot.kafkaTrouble + "not known: \(NameList.text(stages.unknown)): no leader,"
                    + " or it does not answer"
            )
        }
    }

    private func openAdmin() throws(LogFault) -> KafkaAdmin {
        if let admin {
            return admin
        }
        let made = try KafkaAdmin(
            settings: configuration.kafka,
            deadlineMilliseconds: Self.deadlineMilliseconds
        )
        admin = made
        return made
    }

    private func readDeadLetters(_ snapshot: inout TopSnapshot, there: Set<String>) {
        let prefix = configuration.topicPrefix
        let stages = DeadLetters.stages.filter {
            there.contains(Topic.deadLetters($0).name(prefix: prefix))
        }
        guard !stages.isEmpty else {
            snapshot.deadLetterTotal = 0
            snapshot.areDeadLettersAll = true
            return
        }
        let hasReplays = there.contains(Topic.deadLetterReplays.name(prefix: prefix))
        do throws(LogFault) {
            let deadLetters = try lookAtDeadLetters(stages, hasReplays)
            snapshot.deadLetterTotal = Int64(deadLetters.total)
            snapshot.areDeadLettersAll = deadLetters.isComplete
            snapshot.deadLetters = Array(deadLetters.shown.prefix(Self.deadLettersShownMax))
            if let failure = deadLetters.failure {
                snapshot.troubles.append(failure.message)
            }
        } catch {
            snapshot.troubles.append(Self.trouble(error, about: "dead letters"))
            dropDeadLetters()
        }
    }

    private func lookAtDeadLetters(
        _ stages: [Worker],
        _ hasReplays: Bool
    ) throws(LogFault) -> TopDeadLetters {
        if let deadLetters, deadLetters.stages != stages || deadLetters.hasReplays != hasReplays {
            // Topics were made since, or deleted.
            dropDeadLetters()
        }
        let known: TopDeadLetters
        if let deadLetters {
            known = deadLetters
        } else {
            known = try openDeadLetters(stages, hasReplays)
            deadLetters = known
        }
        try known.look()
        guard
            WallClock.monotonicMilliseconds() - known.madeAt > TopDeadLetters.lifeMilliseconds
        else {
            return known
        }
        let newest = try renew(known, stages, hasReplays)
        deadLetters = newest
        return newest
    }

    private func dropDeadLetters() {
        deadLetters?.close()
        renewed?.close()
        deadLetters = nil
        renewed = nil
    }

    /// Reads everything anew beside what is known, for Kafka has removed dead letters since.
    ///
    /// - Returns: the new one once it knows all, else the old one.
    private func renew(
        _ deadLetters: TopDeadLetters,
        _ stages: [Worker],
        _ hasReplays: Bool
    ) throws(LogFault) -> TopDeadLetters {
        let fresh: TopDeadLetters
        if let renewed {
            fresh = renewed
        } else {
            fresh = try openDeadLetters(stages, hasReplays)
            renewed = fresh
        }
        try fresh.look()
        guard fresh.isRead else {
            return deadLetters
        }
        deadLetters.close()
        renewed = nil
        return fresh
    }

    private func openDeadLetters(
        _ stages: [Worker],
        _ hasReplays: Bool
    ) throws(LogFault) -> TopDeadLetters {
        try TopDeadLetters(
            settings: configuration.kafka,
            prefix: configuration.topicPrefix,
            stages: stages,
            hasReplays: hasReplays
        )
    }

    private func readLedger(_ snapshot: inout TopSnapshot, there: Set<String>) {
        let topic = Topic.reportsOutcomes.name(prefix: configuration.topicPrefix)
        guard there.contains(topic) else {
            snapshot.reported = []
            snapshot.isReportedAll = true
            return
        }
        do throws(LogFault) {
            let ledger = try openLedger(topic, snapshot.at)
            try ledger.look(now: snapshot.at)
            snapshot.isReportedAll = ledger.isRead
            snapshot.reported = ledger.reported
        } catch {
            snapshot.troubles.append(Self.trouble(error, about: "the ledger"))
            ledger?.close()
            ledger = nil
        }
    }

    private func openLedger(_ topic: String, _ now: Int64) throws(LogFault) -> TopLedger {
        if let ledger {
            return ledger
        }
        let made = try TopLedger(settings: configuration.kafka, topic: topic, now: now)
        ledger = made
        return made
    }
}
