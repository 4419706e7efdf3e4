import Crypto
import Kafka
import StateStore
import TokenDomain

@testable import StageRuntime
@testable import decode
@testable import dedupe
@testable import notifications
@testable import tollway

/// A stage run once more over what its topic holds, in this process, without Kafka and without
/// faults: what the killed workers wrote must be the same, record for record and byte for byte.
///
/// A record that was lost, written twice or judged against the wrong state differs, also where the
/// counts agree.
struct StageReplay {
    /// Differences named one by one; the rest is only counted.
    static let differenceCountMax = 5
    private static let recordsPerBatch = 500

    /// One record of an output, wherever it lies.
    struct Entry: Hashable {
        var key: [UInt8]?
        var value: [UInt8]?

        var text: String {
            String(decoding: (value ?? []).prefix(300), as: UTF8.self)
        }

        /// About a token of Apple's documentation, whose period is long over.
        var isExpired: Bool {
            String(decoding: value ?? [], as: UTF8.self).contains(PublishedSamples.productionID)
        }
    }

    let contents: TopicContents
    let prefix: String
    /// When the run began.
    let startedAt: Timestamp
    /// What is not like the topics, one sentence each.
    private(set) var differences: [String] = []
    /// The states that the replay of dedupe ends with, by partition.
    private(set) var dedupeStores: [Int32: MemoryStore] = [:]

    private struct Result {
        var outputs: [Topic: [Entry: Int]] = [:]
        var deadLetters: [String: Int] = [:]
    }

    /// Replays the topics at rest; apps and roots are those of the workers.
    init(
        _ contents: TopicContents,
        prefix: String,
        apps: AppsFile,
        roots: TrustedRoots,
        startedAt: Timestamp
    ) throws {
        self.contents = contents
        self.prefix = prefix
        self.startedAt = startedAt
        let decoded = try replay(.decode, DecodeStage(apps: apps))
        let told = try replay(
            .notifications,
            NotificationsStage { () throws(ConfigurationFault) in
                TrustFiles(apps: apps, roots: roots)
            }
        )
        let distinct = try replay(.dedupe, DedupeStage())
        compare(decoded, .tokensDecoded)
        compare(told, .notificationsVerified)
        var both = distinct
        // Decode writes there as well: `seen` records beside its dead letters.
        both.outputs[.tokensDistinct, default: [:]]
            .merge(decoded.outputs[.tokensDistinct] ?? [:], uniquingKeysWith: +)
        compare(both, .tokensDistinct)
        for (worker, result) in [
            (Worker.decode, decoded), (.dedupe, distinct), (.notifications, told),
        ] {
            compareDeadLetters(of: worker, result)
        }
    }

    private mutating func replay(_ worker: Worker, _ stage: any Stage) throws -> Result {
        let records = worker.sources.flatMap { contents[$0] }
        var result = Result()
        let state = StagedState()
        var offset: Int64 = 0
        if worker.changelog != nil {
            for partition in Set(records.map(\.partition)) {
                let store = MemoryStore()
                dedupeStores[partition] = store
                state.open(store, partition: partition)
            }
        }
        for start in stride(from: 0, to: records.count, by: Self.recordsPerBatch) {
            let slice = records[start..<min(start + Self.recordsPerBatch, records.count)]
            let batch = Self.batch(slice)
            var plan = BatchPlan(outputs: OutputBatch(), state: state, now: startedAt)
            stage.judge(batch, into: &plan)
            if let fault = plan.storeFault {
                throw fault
            }
            note(plan, on: slice, of: worker, in: &result)
            if stage is any StatefulStage {
                var changelog = OutputBatch()
                state.submit(to: &changelog, topic: 0)
                offset += 1
                state.settle()
                try state.learn(
                    changelogOffsets: Dictionary(
                        uniqueKeysWithValues: state.partitions.map { ($0, offset) }
                    )
                )
            }
        }
        return result
    }

    private func note(
        _ plan: BatchPlan,
        on records: ArraySlice<TopicContents.Record>,
        of worker: Worker,
        in result: inout Result
    ) {
        for output in plan.outputs.outputs {
            let arena = plan.outputs.arena
            let entry = Entry(
                key: output.key.isAbsent ? nil : Array(arena[output.key.indices]),
                value: output.value.isAbsent ? nil : Array(arena[output.value.indices])
            )
            result.outputs[worker.targets[output.topic], default: [:]][entry, default: 0] += 1
        }
        let source = worker.sources[0].name(prefix: prefix)
        for (record, verdict) in zip(records, plan.verdicts) {
            switch verdict {
            case .deadLetter:
                result.deadLetters["\(source)/\(record.partition)/\(record.offset)", default: 0] +=
                    1
            case .forward, .settled: break
            }
        }
    }

    private static func batch(_ records: ArraySlice<TopicContents.Record>) -> RecordBatch {
        var batch = RecordBatch()
        func place(_ bytes: [UInt8]?) -> ByteRange {
            guard let bytes else {
                return .absent
            }
            let start = batch.arena.count
            batch.arena.append(contentsOf: bytes)
            return ByteRange(start: start, count: bytes.count)
        }
        for record in records {
            let (key, value) = (place(record.key), place(record.value))
            batch.records.append(
                RecordBatch.Record(
                    topic: 0,
                    partition: record.partition,
                    offset: record.offset,
                    timestampMilliseconds: record.timestampMilliseconds,
                    key: key,
                    value: value,
                    headers: ByteRange(start: 0, count: 0)
                )
            )
        }
        return batch
    }

    // MARK: Comparing

    private mutating func compare(_ result: Result, _ topic: Topic) {
        var owed = result.outputs[topic] ?? [:]
        for record in contents[topic] {
            owed[Entry(key: record.key, value: record.value), default: 0] -= 1
        }
        // Dedupe may emit a token twice whose keys had expired; report knows it.
        let wrong = owed.filter { entry, count in count != 0 && !entry.isExpired }
        tell(
            "\(topic.name(prefix: prefix)): in the topic and owed by nothing it was made from",
            wrong.filter { $0.value < 0 }.map { ($0.key.text, -$0.value) }
        )
        tell(
            "\(topic.name(prefix: prefix)): owed and not in the topic",
            wrong.filter { $0.value > 0 }.map { ($0.key.text, $0.value) }
        )
    }

    private mutating func compareDeadLetters(of worker: Worker, _ result: Result) {
        var owed = result.deadLetters
        for deadLetter in contents[.deadLetters(worker)] {
            owed[deadLetter.origin, default: 0] -= 1
        }
        let name = Topic.deadLetters(worker).name(prefix: prefix)
        tell(
            "\(name): dead letters too many",
            owed.filter { $0.value < 0 }.map { ($0.key, -$0.value) }
        )
        tell(
            "\(name): dead letters that are not there",
            owed.filter { $0.value > 0 }.map { ($0.key, $0.value) }
        )
    }

    private mutating func tell(_ sentence: String, _ found: [(text: String, count: Int)]) {
        guard !found.isEmpty else {
            return
        }
        let count = found.reduce(0) { $0 + $1.count }
        let examples = found.sorted { $0.text < $1.text }.prefix(Self.differenceCountMax)
            .map { "\($0.count) x \($0.text)" }
        differences.append("\(sentence): \(count): \(examples.joined(separator: "; "))")
    }
}
