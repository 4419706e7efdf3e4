internal import Kafka
package import TokenDomain

/// How a topic must be, said once: the plan, the check at a worker's start and the demo read it
/// here.
package struct TopicShape: Equatable, Sendable {
    /// What one setting must be.
    package enum Constraint: Equatable, Sendable {
        case exactly(String)
        case atLeast(Int64)
        /// A time in milliseconds; -1 is for ever, and more than any.
        case lastingAtLeast(Int64)
        /// `made` is what a topic is set to that has a number outside.
        case within(ClosedRange<Int64>, made: Int64)

        /// As a topic is made with it.
        package var text: String {
            switch self {
            case .exactly(let text): text
            case .atLeast(let number), .lastingAtLeast(let number), .within(_, let number):
                String(number)
            }
        }

        package func isMet(by text: String?) -> Bool {
            switch self {
            case .exactly(let wanted):
                // A list such as `compact,delete` has no order.
                text.map { Set($0.split(separator: ",")) } == Set(wanted.split(separator: ","))
            case .atLeast(let least): text.flatMap { Int64($0) }.map { $0 >= least } ?? false
            case .lastingAtLeast(let least):
                text.flatMap { Int64($0) }.map { $0 == -1 || $0 >= least } ?? false
            case .within(let range, _): text.flatMap { Int64($0) }.map(range.contains) ?? false
            }
        }
    }

    package struct Setting: Equatable, Sendable {
        package var name: String
        package var constraint: Constraint
        /// Whether records or state are lost, or a worker cannot go on, where it is otherwise: a
        /// worker refuses to start.
        package var isVital = false
    }

    package static let partitionCountDefault = 12
    /// Kafka's default for `max.message.bytes`.
    package static let recordByteCountMax = KafkaLog.recordByteCountMaxDefault
    /// What a dead letter may be larger than its source: its own headers, four times over, for
    /// those that Kafka and replays add.
    package static let deadLetterByteCountMore = 16 << 10
    /// How much larger a dead letter in the archive may be: who put it there, when and why.
    package static let archivedByteCountMore = 4 << 10
    static let dayMilliseconds: Int64 = 86_400_000
    /// How long a dead letter can lie there: its retention, counted from the newest record of its
    /// segment, and Kafka's default for how long one is written to.
    package static let deadLetterMilliseconds = (30 + 7) * dayMilliseconds

    package var topic: Topic
    /// By name, in a fixed order.
    package var settings: [Setting]

    /// The shape of a topic.
    ///
    /// `sourceByteCountMax` is the largest `max.message.bytes` of the topics whose records may come
    /// to lie in this one; only dead letters have such. `deadLetterMilliseconds` is how long a dead
    /// letter can lie there, nil for ever: its replay or discard is remembered for longer.
    /// `replicationFactor` is what the topic has, or is made with.
    package init(
        of topic: Topic,
        sourceByteCountMax: Int = Self.recordByteCountMax,
        deadLetterMilliseconds: Int64? = Self.deadLetterMilliseconds,
        durability: Durability = .promised,
        replicationFactor: Int = Durability.replicationFactor
    ) {
        self.topic = topic
        let policy =
            switch topic.retention {
            case .newestOfKey: "compact"
            case .newestOfKeyOutlivingDeadLetters: "compact,delete"
            case .sevenDays, .thirtyDays, .forEver: "delete"
            }
        settings = [Setting(name: "cleanup.policy", constraint: .exactly(policy), isVital: true)]
        switch topic.retention {
        case .newestOfKey: lasting("delete.retention.ms", days: 7)
        case .sevenDays: lasting("retention.ms", days: 7)
        case .thirtyDays: lasting("retention.ms", days: 30)
        case .forEver: settings.append(Setting(name: "retention.ms", constraint: .exactly("-1")))
        case .newestOfKeyOutlivingDeadLetters:
            lasting("delete.retention.ms", days: 7)
            let constraint = deadLetterMilliseconds.map {
                Constraint.lastingAtLeast($0 + Self.dayMilliseconds)
            }
            settings.append(
                Setting(
                    name: "retention.ms",
                    constraint: constraint ?? .exactly("-1"),
                    isVital: true
                )
            )
        }
        if topic.retention != .newestOfKey {
            // A bound in bytes would take records before their time.
            settings.append(Setting(name: "retention.bytes", constraint: .exactly("-1")))
        }
        let byteCount =
            switch topic {
            case .deadLetters: sourceByteCountMax + Self.deadLetterByteCountMore
            case .deadLetterArchive:
                sourceByteCountMax + Self.deadLetterByteCountMore + Self.archivedByteCountMore
            default: Self.recordByteCountMax
            }
        settings.append(
            Setting(
                name: "max.message.bytes",
                constraint: .atLeast(Int64(byteCount)),
                // A dead letter that cannot be written stops its stage.
                isVital: topic.isForDeadLetters
            )
        )
        let inSync = durability.inSync(replicationFactor: replicationFactor)
        settings.append(
            Setting(
                name: "min.insync.replicas",
                constraint: .within(inSync.range, made: inSync.made),
                isVital: true
            )
        )
        settings.append(
            Setting(
                name: "unclean.leader.election.enable",
                constraint: .exactly("false"),
                isVital: durability == .promised
            )
        )
    }

    /// As a topic is made, by name.
    package var configuration: [String: String] {
        Dictionary(uniqueKeysWithValues: settings.map { ($0.name, $0.constraint.text) })
    }

    private mutating func lasting(_ name: String, days: Int64) {
        settings.append(
            Setting(name: name, constraint: .lastingAtLeast(days * Self.dayMilliseconds))
        )
    }
}

extension Topic {
    fileprivate var isForDeadLetters: Bool {
        if case .deadLetters = self { true } else { false }
    }

    /// The topics whose records may come to lie in this one as they are.
    package var deadLetterSources: [Topic] {
        switch self {
        case .deadLetters(let worker): worker.sources
        case .deadLetterArchive: Worker.allCases.flatMap(\.sources)
        default: []
        }
    }

    /// The topics that must have as many partitions as this one, itself included, in the order of
    /// the pipeline: one worker reads them together by key and keeps its changelog by their numbers.
    ///
    /// Workers that share a source bind all of theirs together: `dedupe` and `purchases` both read
    /// `tokens.decoded`.
    package var countedTogether: [Topic] {
        let groups = Worker.allCases
            .map { worker in worker.sources + [worker.changelog].compactMap { $0 } }
            .filter { $0.count > 1 }
        var together: Set<Topic> = [self]
        var count = 0
        while count < together.count {
            count = together.count
            for group in groups where !together.isDisjoint(with: group) {
                together.formUnion(group)
            }
        }
        return Topic.all.filter(together.contains)
    }
}
