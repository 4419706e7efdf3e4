internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// What the credentials may do, beside what each worker and the operator must: those of
/// `Deploy/acls.sh`.
struct DoctorRights {
    private static let deadlineMilliseconds = 10_000

    /// Whose rights these may be.
    enum Role: Hashable {
        case worker(Worker)
        case theOperator

        static let all = Worker.allCases.map(Role.worker) + [.theOperator]

        var name: String {
            switch self {
            case .worker(let worker): worker.rawValue
            case .theOperator: "operator"
            }
        }

        /// The one that was asked for, if any was.
        ///
        /// - Throws: exit 2 where there is no such role.
        init?(_ invocation: Invocation) throws(CommandFailure) {
            guard let name = invocation.value("--for") else {
                return nil
            }
            guard let role = Self.all.first(where: { $0.name == name }) else {
                throw .usage(
                    "bad_value",
                    "--for is \"\(name)\": it must be one of "
                        + Self.all.map(\.name).joined(separator: ", ")
                )
            }
            self = role
        }

        var reads: [Topic] {
            switch self {
            case .worker(.ingest): []
            case .worker(let worker):
                worker.sources + worker.follows + [worker.changelog].compactMap { $0 }
            case .theOperator: Topic.all
            }
        }

        var writes: [Topic] {
            switch self {
            case .worker(let worker):
                worker.targets + [worker.changelog, worker.deadLetters].compactMap { $0 }
            case .theOperator: Topic.all
            }
        }

        /// The groups whose offsets it asks for.
        var groups: [Worker] {
            switch self {
            case .worker(.ingest): []
            // The guard before UNRECOGNIZED_TOKEN asks how far the others have read.
            case .worker(.report): [.report, .decode, .dedupe]
            case .worker(let worker): [worker]
            case .theOperator: Worker.allCases.filter { !$0.sources.isEmpty }
            }
        }

        /// A name for transactions that it may use and nobody does.
        func transactionalID(prefix: String, _ delivery: KafkaDelivery) -> String? {
            switch self {
            case .worker(.ingest): nil
            case .worker(let worker):
                delivery == .exactlyOnce ? "\(prefix)\(worker.rawValue)-doctor" : nil
            case .theOperator: "\(prefix)dlq-doctor"
            }
        }
    }

    let configuration: Configuration
    /// Nil: any role that they suffice for.
    let role: Role?
    /// UNIX milliseconds.
    let now: Int64
    /// Full names of the topics that can be seen.
    let there: Set<String>
    /// Of those that may not; one that is in neither is missing, and nobody's right.
    let hidden: Set<String>

    private var prefix: String { configuration.topicPrefix }

    func findings(_ admin: KafkaAdmin) -> [DoctorFinding] {
        guard !there.isEmpty || !hidden.isEmpty else {
            return [.skipped(.rights, "not looked at: there are no topics")]
        }
        let roles = role.map { [$0] } ?? Role.all
        let rights = KafkaRights(
            settings: configuration.kafka,
            deadlineMilliseconds: Self.deadlineMilliseconds
        )
        var refused: [Role: [String]] = [:]
        let writes: [String: KafkaRights.Answer]?
        do throws(LogFault) {
            let reads = try mayRead(names(roles.flatMap(\.reads)))
            writes = try mayWrite(names(roles.flatMap(\.writes)), rights, admin)
            var groups: [Worker: Bool] = [:]
            for role in roles {
                let topics = (role.reads + role.writes).map { $0.name(prefix: prefix) }
                var missing = hidden.intersection(topics).sorted().map { "see \($0)" }
                missing += names(role.reads).filter { reads[$0] == false }.map { "read \($0)" }
                missing += names(role.writes)
                    .filter { topic in (writes?[topic] ?? .yes) != .yes }.map { "write \($0)" }
                for group in role.groups {
                    let may: Bool
                    if let known = groups[group] {
                        may = known
                    } else {
                        may = try mayAsk(group, admin)
                    }
                    groups[group] = may
                    missing += may ? [] : ["ask for group \(prefix)\(group.rawValue)"]
                }
                if let id = role.transactionalID(prefix: prefix, configuration.delivery),
                    try rights.transactions(under: id) != .yes
                {
                    missing.append("make transactions such as \(id)")
                }
                refused[role] = missing
            }
        } catch {
            return [.skipped(.rights, "not looked at: \(error.sentence)")]
        }
        return Self.findings(roles, refused, provesWrites: writes != nil)
    }

    /// One role that they are enough for will do: it is said of the others what they lack.
    static func findings(
        _ roles: [Role],
        _ refused: [Role: [String]],
        provesWrites: Bool = true
    ) -> [DoctorFinding] {
        let whole = roles.filter { refused[$0]?.isEmpty == true }
        let lacking = roles.filter { refused[$0]?.isEmpty == false }
        guard let least = lacking.min(by: { refused[$0]?.count ?? 0 < refused[$1]?.count ?? 0 })
        else {
            return [enough(whole, provesWrites)]
        }
        guard whole.isEmpty else {
            let others = lacking.map(\.name).joined(separator: ", ")
            return [
                enough(whole, provesWrites),
                .skipped(.rights, "they are not for \(others); --for says what one of them lacks"),
            ]
        }
        return [
            .failed(
                .rights,
                "these credentials may not \(NameList.text(refused[least] ?? [])), as"
                    + " \(least.name) must",
                "Deploy/acls.sh --only \(least.name) gives what it needs; --for says whose they are"
            )
        ]
    }

    private static func enough(_ roles: [Role], _ provesWrites: Bool) -> DoctorFinding {
        let names = roles.map(\.name).joined(separator: ", ")
        return provesWrites
            ? .ok(
                .rights,
                "these credentials may read, write and make transactions as \(names) must"
            )
            : .warning(
                .rights,
                "these credentials may read and make transactions as \(names) must; whether they"
                    + " may write, this Kafka does not tell without a record being written",
                "start the worker and see its log"
            )
    }

    private func names(_ topics: [Topic]) -> [String] {
        var names: [String] = []
        for name in topics.map({ $0.name(prefix: prefix) })
        where there.contains(name) && !names.contains(name) {
            names.append(name)
        }
        return names
    }

    /// Reads the end of each, by topic.
    private func mayRead(_ topics: [String]) throws(LogFault) -> [String: Bool] {
        var answers: [String: Bool] = [:]
        for topic in topics {
            do throws(LogFault) {
                let browser = try LogBrowser(
                    settings: configuration.kafka,
                    topics: [topic],
                    deadlineMilliseconds: Self.deadlineMilliseconds
                )
                defer { browser.close() }
                try browser.start(at: [
                    TopicPartition(topic: topic, partition: 0): .timestamp(now)
                ])
                var batch = RecordBatch()
                _ = try browser.read(into: &batch, recordCountMax: 1, waitMilliseconds: 200)
                answers[topic] = true
            } catch {
                guard case .misconfigured = error else {
                    throw error
                }
                answers[topic] = false
            }
        }
        return answers
    }

    /// Nil where it cannot be asked without writing.
    private func mayWrite(
        _ topics: [String],
        _ rights: KafkaRights,
        _ admin: KafkaAdmin
    ) throws(LogFault) -> [String: KafkaRights.Answer]? {
        var limits: [(name: String, byteCountMax: Int)] = []
        for topic in topics {
            var limit: Int?
            do throws(LogFault) {
                limit = try admin.configuration(ofTopic: topic)["max.message.bytes"].flatMap {
                    Int($0)
                }
            } catch {
                // A role that may not ask this may write all the same: the others go first.
            }
            limits.append((topic, limit ?? .max))
        }
        return limits.isEmpty ? [:] : try rights.write(to: limits)
    }

    /// - Throws: where the coordinator does not answer: that says nothing of rights.
    func mayAsk(_ worker: Worker, _ admin: KafkaAdmin) throws(LogFault) -> Bool {
        for source in names(worker.sources) {
            do throws(LogFault) {
                _ = try admin.committedOffsets(
                    ofGroup: worker.group(prefix: prefix),
                    topic: source
                )
            } catch {
                guard case .misconfigured = error else {
                    throw error
                }
                return false
            }
        }
        return true
    }
}
