internal import Foundation
internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// `tollway-bench fill`: writes what a pipeline has after years into the topics of a prefix, so that
/// the operator's command and its console can be measured against it.
///
/// The records are those of the workers in form and size, at times spread over a span that ends now.
/// Nothing reads them as a worker does: only dead letters, ledgers and states are filled.
struct BenchFill {
    static let word = "fill"
    /// Made-up records are for nobody's pipeline.
    private static let prefixStart = "bench-"
    private static let countMax = 100_000_000
    private static let daysMax = 3_650
    private static let batchRecordCount = 2_000
    private static let queueByteCountMax = 64 << 20
    private static let fillLevelMax = 0.5
    private static let flushMilliseconds = 120_000

    static let help = """
        Usage: tollway-bench fill [ledger=N] [sales=N] [dead-letters=N] [settled=N] [tokens=N] [days=N]

        Writes made-up records, in the form of the workers, at times spread evenly over the last
        days=N (365) days, dead letters over the last 30. Needs TOLLWAY_KAFKA_BOOTSTRAP_SERVERS,
        and a TOLLWAY_TOPIC_PREFIX that begins with "bench-", whose topics are there
        (tollway topics apply) and empty.

          ledger=N        reports.outcomes: a fifth with line items, of which some are restated
          sales=N         purchases.outcomes: sales not owed, reported and refused
          dead-letters=N  dead letters: four fifths of decode, the rest of report and purchases
          settled=N       of the dead letters of decode of this call: replayed, the oldest first
          tokens=N        tokens received, decoded, classified, and report's state of each

        """

    private let settings: KafkaSettings
    private let prefix: String
    private let http: BenchHTTP
    private let counts: [String: Int]

    init(_ operands: [String]) throws {
        var counts: [String: Int] = [:]
        for operand in operands {
            let parts = operand.split(separator: "=", maxSplits: 1).map(String.init)
            let countMax = parts.first == "days" ? Self.daysMax : Self.countMax
            guard parts.count == 2, Self.names.contains(parts[0]), let count = Int(parts[1]),
                (0...countMax).contains(count)
            else {
                throw BenchFailure.usage("bad_value", "\"\(operand)\" is none\n" + Self.help)
            }
            counts[parts[0]] = count
        }
        guard !counts.isEmpty else {
            throw BenchFailure.usage("missing_value", Self.help)
        }
        let configuration: Configuration
        do throws(ConfigurationFault) {
            configuration = try Configuration(
                environment: ProcessInfo.processInfo.environment,
                program: .tollway
            )
        } catch {
            throw BenchFailure(.usage, code: error.code, error.sentence)
        }
        guard configuration.topicPrefix.hasPrefix(Self.prefixStart) else {
            throw BenchFailure.usage(
                "bad_prefix",
                "the topic prefix is \"\(configuration.topicPrefix)\": made-up records go only"
                    + " where it begins with \"\(Self.prefixStart)\""
            )
        }
        settings = configuration.kafka
        prefix = configuration.topicPrefix
        self.counts = counts
        http = try BenchHTTP()
    }

    static let names = Set(BenchFillRecords.Part.allCases.map(\.rawValue) + ["days"])

    func run() throws {
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        let records = BenchFillRecords(
            now: now,
            days: counts["days"] ?? 365,
            prefix: prefix,
            deadLetterCount: counts[BenchFillRecords.Part.deadLetters.rawValue] ?? 0
        )
        for part in BenchFillRecords.Part.allCases {
            guard let count = counts[part.rawValue], count > 0 else {
                continue
            }
            let startedAt = ContinuousClock.now
            try write(count, of: part, records)
            let seconds = BenchWorld.seconds(since: startedAt)
            Console.say("\(part.rawValue): \(count) in \(Int(seconds)) s")
        }
    }

    private func write(
        _ count: Int,
        of part: BenchFillRecords.Part,
        _ records: BenchFillRecords
    ) throws {
        let producer = try KafkaProducer(
            settings: settings,
            targets: part.topics.map { $0.name(prefix: prefix) },
            queueByteCountMax: Self.queueByteCountMax
        )
        defer { producer.close(deadlineMilliseconds: 2_000) }
        producer.nameTargets()
        var outputs = OutputBatch()
        var (madeCount, storedCount) = (0, 0)
        for number in 0..<count {
            records.append(number, of: count, part, to: &outputs)
            guard outputs.outputs.count >= Self.batchRecordCount || number == count - 1 else {
                continue
            }
            madeCount += outputs.outputs.count
            try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
            outputs.removeAll()
            repeat {
                storedCount += try stored(producer)
                if producer.fillLevel > Self.fillLevelMax {
                    try http.pause(milliseconds: 1)
                }
            } while producer.fillLevel > Self.fillLevelMax
        }
        guard producer.flush(deadlineMilliseconds: Self.flushMilliseconds) else {
            throw BenchFailure(.noKafka, code: "bench.kafka", "Kafka does not take the records")
        }
        storedCount += try stored(producer)
        guard storedCount == madeCount else {
            throw BenchFailure(
                code: "bench.count",
                "\(part.rawValue): \(storedCount) of \(madeCount) records are stored"
            )
        }
    }

    private func stored(_ producer: KafkaProducer) throws -> Int {
        let receipts = try producer.takeReceipts()
        if let failure = receipts.lazy.compactMap(\.failure).first {
            throw BenchFailure(.noKafka, code: "bench.kafka", "a record is not stored: \(failure)")
        }
        return receipts.reduce(0) { $0 + $1.outputCount }
    }
}
