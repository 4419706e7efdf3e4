import Foundation
import Kafka
import StateStore
import Testing
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import dedupe

private let keyCount =
    ProcessInfo.processInfo.environment["BENCHMARK_KEYS"].flatMap { Int($0) } ?? 0

/// What a record costs, and what ten million keys take.
///
/// It asserts no time; it prints them.
///
///     BENCHMARK_KEYS=1000000 swift test -c release -Xswiftc -enable-testing \
///         --filter DedupeBenchmark
@Suite(.serialized, .enabled(if: keyCount > 0, "set BENCHMARK_KEYS"))
struct DedupeBenchmark {
    private static let partitionCount = 12
    private static let batchSize = 2_000
    private let clock = ContinuousClock()
    private static let text = String(repeating: "e", count: 264)

    /// The time that this thread worked: what other processes take is not in it, nor what the
    /// store's own threads do.
    private func cpu(_ body: () throws -> Void) rethrows -> Double {
        let start = Self.threadMicroseconds()
        try body()
        return Self.threadMicroseconds() - start
    }

    private static func threadMicroseconds() -> Double {
        var time = timespec()
        unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e6 + Double(time.tv_nsec) / 1e3
    }

    private static func processSeconds() -> Double {
        var time = timespec()
        unsafe clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }

    @Test func `steady state`() throws {
        try inFolder { path in
            let directory = try Self.directory(path)
            let stage = DedupeStage()
            let state = StagedState()
            for partition in 0..<Int32(Self.partitionCount) {
                state.open(
                    try directory.open(partition: partition, changelogIdentity: "bench"),
                    partition: partition
                )
            }
            var judged = 0.0
            var committed = 0.0
            var offsets: [Int32: Int64] = [:]
            var outputByteCount = 0
            var changelog = OutputBatch()
            let start = clock.now
            for first in stride(from: 0, to: keyCount, by: Self.batchSize) {
                let batch = Self.batch(first..<min(first + Self.batchSize, keyCount))
                var plan = BatchPlan(
                    outputs: OutputBatch(),
                    state: state,
                    now: Timestamp(milliseconds: 1_750_000_000_000 + Int64(first))
                )
                judged += cpu { stage.judge(batch, into: &plan) }
                #expect(plan.storeFault == nil)
                outputByteCount += plan.outputs.arena.count
                committed += try cpu {
                    state.submit(to: &changelog, topic: 0)
                    for output in changelog.outputs {
                        offsets[output.partition, default: 0] += 1
                    }
                    changelog.removeAll()
                    state.settle()
                    try state.learn(changelogOffsets: offsets)
                }
                if first % 1_000_000 == 0 {
                    print("  at \(first): \(Self.memory())")
                }
            }
            let count = Double(keyCount)
            print(
                """
                \(keyCount) records, \(outputByteCount / keyCount) bytes out each: \
                judge \(judged / count) us, commit \(committed / count) us of CPU a record; \
                \(clock.now - start) and \(Self.processSeconds()) s of CPU in all, with \
                making them; \(Self.memory())
                """
            )
            state.close(state.partitions)
        }
    }

    @Test func `restore`() throws {
        try inFolder { path in
            let directory = try Self.directory(path)
            let stage = DedupeStage()
            var elapsed = Duration.zero
            let perPartition = keyCount / Self.partitionCount
            print("  before: \(Self.memory())")
            var stores: [any PartitionStore] = []
            for partition in 0..<Int32(Self.partitionCount) {
                let store = try directory.open(partition: partition, changelogIdentity: "bench")
                elapsed += try clock.measure { try store.beginRestore() }
                for first in stride(from: 0, to: perPartition, by: Restore.recordCountMax) {
                    let range = first..<min(first + Restore.recordCountMax, perPartition)
                    let records = range.map {
                        Self.changelogRecord(Int(partition) * perPartition + $0)
                    }
                    elapsed += try clock.measure {
                        try StagedState.apply(
                            records,
                            changelogOffset: Int64(range.upperBound),
                            to: store,
                            stage: stage
                        )
                    }
                }
                elapsed += try clock.measure { try store.endRestore() }
                print("  partition \(partition) after \(elapsed): \(Self.memory())")
                stores.append(store)
            }
            print("\(keyCount) keys restored in \(elapsed), \(Self.memory())")
            for store in stores {
                store.close()
            }
        }
    }

    // MARK: Below

    private func inFolder(_ body: (String) throws -> Void) throws {
        let path = NSTemporaryDirectory() + "/dedupe-benchmark-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        try body(path)
        try FileManager.default.removeItem(atPath: path)
    }

    private static func directory(_ path: String) throws -> StateDirectory {
        StateDirectory(
            root: path,
            clusterID: "bench",
            topicPrefix: "tollway.",
            worker: "dedupe",
            shared: try StoreShared(),
            clockMilliseconds: { 1_750_000_000_000 }
        )
    }

    /// One record in ten repeats an earlier one, one in ten is another token of an earlier period.
    private static func batch(_ range: Range<Int>) -> RecordBatch {
        var batch = RecordBatch()
        for number in range {
            let source = number % 10 == 9 ? number * 7 / 11 : number
            let customer = source % 10 == 8 ? source * 3 / 7 : source
            let start = batch.arena.count
            TokenDecoded(
                token: ExternalPurchaseToken(
                    externalPurchaseID: TokenID(id(source)),
                    appAppleID: 1_234_567_890,
                    bundleID: "com.example",
                    tokenType: .services,
                    tokenCreationDate: Timestamp(milliseconds: 1_749_000_000_000),
                    tokenExpirationDate: Timestamp(milliseconds: 1_780_000_000_000)
                ),
                customer: CustomerID("c1." + id(customer)),
                receivedAt: Timestamp(milliseconds: 1_750_000_000_000),
                text: text
            ).write(to: &batch.arena)
            batch.records.append(
                RecordBatch.Record(
                    topic: 0,
                    partition: Int32(customer % partitionCount),
                    offset: Int64(number),
                    timestampMilliseconds: 1_750_000_000_000,
                    key: .absent,
                    value: ByteRange(start: start, count: batch.arena.count - start),
                    headers: ByteRange(start: 0, count: 0)
                )
            )
        }
        return batch
    }

    private static func changelogRecord(_ number: Int) -> (key: [UInt8], value: [UInt8]?) {
        let record = DedupeRecord(
            identity: DedupeKey(high: mixed(2 * number), low: mixed(3 * number + 1)),
            place: PeriodPlace(
                period: DedupeKey(high: mixed(5 * number + 2), low: mixed(7 * number + 3)),
                index: 0
            ),
            externalPurchaseID: Array(id(number).utf8),
            keysExpire: Timestamp(milliseconds: 1_780_000_000_000)
        )
        return (record.changelogKey, record.changelogValue())
    }

    /// 36 characters, like a UUID.
    private static func id(_ number: Int) -> String {
        let digits = String(mixed(number), radix: 16)
        return "00000000-0000-4000-" + String(repeating: "0", count: 17 - digits.count) + digits
    }

    private static func mixed(_ number: Int) -> UInt64 {
        var generator = SeededGenerator(seed: UInt64(number))
        return generator.next()
    }

    /// Resident now and at its highest, of this whole process: Foundation and the tests included.
    private static func memory() -> String {
        guard let status = FileManager.default.contents(atPath: "/proc/self/status") else {
            return "memory unknown"
        }
        return String(decoding: status, as: UTF8.self).split(separator: "\n")
            .filter { $0.hasPrefix("VmRSS") || $0.hasPrefix("VmHWM") || $0.hasPrefix("RssAnon") }
            .map { $0.split(whereSeparator: \.isWhitespace).joined(separator: " ") }
            .joined(separator: ", ")
    }
}
