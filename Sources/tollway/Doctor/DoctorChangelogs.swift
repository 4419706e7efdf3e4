internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Whether a changelog holds nothing in a partition whose records its stage has read.
///
/// A worker that still has the state ends with 2 there at each start; one without a folder of the
/// partition begins it empty, without a word.
struct DoctorChangelogs {
    /// What was found of one stage's changelog, by partition number.
    struct Empty: Equatable {
        /// A record that the group has read left a value in the state, which is not there any more.
        var lost: [Int32] = []
        /// Perhaps all that was read there left none: dead letters, and markers of transactions.
        var doubtful: [Int32] = []
    }

    /// Of a partition's records so many are looked at, for one that left a value in the state.
    private static let recordCountMax = 1_000
    private static let readCountMax = 10
    private static let waitMilliseconds = 500

    let configuration: Configuration
    /// Full names of the topics that are there.
    let there: Set<String>

    private var prefix: String { configuration.topicPrefix }

    func findings(_ admin: KafkaAdmin) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        for worker in Worker.allCases {
            guard let changelog = worker.changelog?.name(prefix: prefix), there.contains(changelog)
            else {
                continue
            }
            do throws(LogFault) {
                let empty = try empty(changelog, of: worker, admin)
                findings += Self.findings(empty, changelog, worker, prefix: prefix)
            } catch {
                // The check of rights reports a missing right.
                guard case .misconfigured = error else {
                    let because = error.sentence
                    let sentence = "whether \(changelog) is empty is not known: \(because)"
                    findings.append(.skipped(.topics, sentence))
                    continue
                }
            }
        }
        return findings
    }

    static func findings(
        _ empty: Empty,
        _ changelog: String,
        _ worker: Worker,
        prefix: String
    ) -> [DoctorFinding] {
        let group = worker.group(prefix: prefix)
        var findings: [DoctorFinding] = []
        if !empty.lost.isEmpty {
            findings.append(
                .failed(
                    .topics,
                    "\(changelog) is empty in \(text(empty.lost)), and \(group) has read tokens there:"
                        + " it was deleted or made anew, and a \(worker.rawValue) that has its state"
                        + " ends with 2 at each start",
                    "stop \(worker.rawValue), keep every STATE_DIR, which may be the last copy, and"
                        + " see \(TopicSearch.changelogSection)"
                )
            )
        }
        if !empty.doubtful.isEmpty {
            findings.append(
                .warning(
                    .topics,
                    "\(changelog) is empty in \(text(empty.doubtful)), and \(group) has a position there:"
                        + " nothing is known to have left a state, as of dead letters, of notices that"
                        + " leave none and before the first record, or the changelog was made anew",
                    "if \(worker.rawValue) ends with 2 or had a state there: keep every STATE_DIR, and"
                        + " see \(TopicSearch.changelogSection)"
                )
            )
        }
        return findings
    }

    private static func text(_ partitions: [Int32]) -> String {
        let names = NameList.text(partitions.map { "\($0)" })
        return CountText.of(partitions.count, "partition") + " (\(names))"
    }

    // MARK: What Kafka has

    private func empty(
        _ changelog: String,
        of worker: Worker,
        _ admin: KafkaAdmin
    ) throws(LogFault) -> Empty {
        // What is committed first: the state of it is in the changelog by then.
        var committed: [Topic: [Int64?]] = [:]
        for source in worker.sources where there.contains(source.name(prefix: prefix)) {
            committed[source] = try admin.committedOffsets(
                ofGroup: worker.group(prefix: prefix),
                topic: source.name(prefix: prefix)
            )
        }
        func position(_ number: Int, of source: Topic) -> Int64 {
            guard let offsets = committed[source], offsets.indices.contains(number) else {
                return 0
            }
            return offsets[number] ?? 0
        }
        var empty = Empty()
        let starts = try admin.startOffsets(ofTopic: changelog)
        let ends = try admin.endOffsets(ofTopic: changelog)
        for (number, end) in ends.enumerated()
        where starts.indices.contains(number) && end <= starts[number]
            && worker.sources.contains(where: { position(number, of: $0) > 0 })
        {
            let partition = Int32(number)
            let source = Self.tokens(of: worker)
            let isLost = try hasToken(source, partition, before: position(number, of: source))
            if isLost {
                empty.lost.append(partition)
            } else {
                empty.doubtful.append(partition)
            }
        }
        return empty
    }

    /// The source of which a stage keeps every token in its state.
    private static func tokens(of worker: Worker) -> Topic {
        worker == .report ? .tokensDistinct : .tokensDecoded
    }

    /// Whether a partition still has a token before an offset.
    private func hasToken(
        _ source: Topic,
        _ number: Int32,
        before offset: Int64
    ) throws(LogFault) -> Bool {
        guard offset > 0 else {
            return false
        }
        let topic = source.name(prefix: prefix)
        let browser = try LogBrowser(settings: configuration.kafka, topics: [topic])
        defer { browser.close() }
        try browser.start(at: [TopicPartition(topic: topic, partition: number): .earliest])
        var batch = RecordBatch()
        for _ in 0..<Self.readCountMax {
            batch.removeAll()
            let isEnd = try browser.read(
                into: &batch,
                recordCountMax: Self.recordCountMax,
                waitMilliseconds: Self.waitMilliseconds
            )
            for record in batch.records {
                guard record.offset < offset else {
                    return false
                }
                let value = batch.arena.span.extracting(record.value.indices)
                if Self.isToken(value, of: source) {
                    return true
                }
            }
            guard !isEnd else {
                break
            }
        }
        return false
    }

    private static func isToken(_ value: Span<UInt8>, of source: Topic) -> Bool {
        do throws(WireFault) {
            if source == .tokensDistinct {
                _ = try TokenDistinct(reading: value)
            } else {
                _ = try TokenDecoded(reading: value)
            }
            return true
        } catch {
            // Its stage makes a dead letter of it, which leaves nothing in the state.
            return false
        }
    }
}
