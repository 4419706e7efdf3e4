internal import Foundation
internal import Kafka
internal import StageRuntime
internal import TokenDomain

/// `tollway-bench --scale`: what a token costs with little and with much in dedupe's state, and with
/// one instance of decode and dedupe and with several.
///
/// A sizing rests on costs that do not grow; this shows whether they do.
struct BenchScale {
    /// Tokens in dedupe's state, each step with what the steps before left.
    private static let storedCounts = [10_000, 1_000_000, 10_000_000]
    static let storedCountMin = storedCounts.min() ?? 0
    static let storedCountMax = storedCounts.max() ?? 0
    private static let instanceCounts = [1, 3, 6]
    /// The first batch of a run warms the programs.
    private static let warmRecordCount = 10_000
    private static let workers = [Worker.decode, .dedupe]
    private static let settledSeconds = 600.0
    private static let lookMilliseconds = 50

    let world: BenchWorld
    let recordCount: Int
    /// Steps above are left out.
    let storedCountMax: Int
    /// The folder of a Kafka of the bench's own, where its logs can be weighed.
    let kafkaFolder: URL?

    /// One line of the table.
    struct Point: Equatable {
        /// In dedupe's state before.
        var storedCount: Int
        var instanceCount: Int
        /// Microseconds of processor a token, by worker, all instances together.
        var cpuMicroseconds: [Worker: Double] = [:]
        var recordsPerSecond = 0.0
        /// Bytes of dedupe's state on disk, for a token in it.
        var stateByteCount = 0.0
        /// Bytes in Kafka for a token, as the broker stores them; nil where it is not the bench's.
        var kafkaByteCount: [String: Double]?
        /// From the start of instances that have no state until all have theirs from the changelog.
        var restoreSeconds = 0.0
        /// Of the largest process of dedupe.
        var peakByteCount = 0
    }

    func run() throws -> [Point] {
        var points: [Point] = []
        var stored = 0
        // Those that state is grown by begin behind decode.
        var received = 0
        for count in Self.storedCounts where count <= storedCountMax {
            Console.say("scale: \(count) tokens go into dedupe's state")
            stored = try grow(from: stored, to: count)
            for instanceCount in Self.instanceCounts {
                let point = try measure(&stored, &received, instanceCount)
                Console.say(BenchScaleReport.sentence(point))
                points.append(point)
            }
        }
        try BenchCheck(world: world).expectEachOnce(0..<stored, in: world.topic(.tokensDistinct))
        return points
    }

    // MARK: Steps

    /// Brings dedupe's state to a size.
    ///
    /// - Returns: how many tokens are in it.
    private func grow(from start: Int, to end: Int) throws -> Int {
        guard end > start else {
            return start
        }
        try removeStates()
        try world.start(.dedupe)
        defer { world.stop(Worker.dedupe.rawValue) }
        try awaitSettled(.dedupe, 1)
        try world.fill(world.topic(.tokensDecoded), .decoded, start..<end)
        try world.awaitDeduped(end - start, topic: world.topic(.tokensDecoded))
        return end
    }

    /// Restores the state into so many instances, and sends tokens through all of them.
    private func measure(
        _ stored: inout Int,
        _ received: inout Int,
        _ instanceCount: Int
    ) throws -> Point {
        var point = Point(storedCount: stored, instanceCount: instanceCount)
        try removeStates()
        defer { stopAll(instanceCount) }
        let start = ContinuousClock.now
        for instance in 1...instanceCount {
            try world.start(.dedupe, instance: instance)
        }
        try awaitSettled(.dedupe, instanceCount)
        point.restoreSeconds = BenchWorld.seconds(since: start)
        for instance in 1...instanceCount {
            try world.start(.decode, instance: instance)
        }
        try awaitSettled(.decode, instanceCount)
        var sent = 0
        func send(_ count: Int) throws {
            try world.fill(world.topic(.tokensReceived), .received, stored..<stored + count)
            stored += count
            sent += count
            try world.awaitDeduped(
                sent,
                topic: world.topic(.tokensDecoded),
                instanceCount: instanceCount
            )
        }
        try send(Self.warmRecordCount)
        let cpu = Self.workers.map { cpuSeconds($0, instanceCount) }
        let sendStart = ContinuousClock.now
        try send(recordCount)
        point.recordsPerSecond = Double(recordCount) / BenchWorld.seconds(since: sendStart)
        for (index, worker) in Self.workers.enumerated() {
            let spent = cpuSeconds(worker, instanceCount) - cpu[index]
            point.cpuMicroseconds[worker] = spent * 1e6 / Double(recordCount)
        }
        point.peakByteCount =
            (1...instanceCount).map { world.peakByteCount(BenchWorld.name(.dedupe, $0)) }.max()
            ?? 0
        // What it wrote last goes to disk when it ends.
        stopAll(instanceCount)
        let stateByteCount = try (1...instanceCount).reduce(0) {
            try $0 + Self.byteCount(under: world.stateDirectory($1))
        }
        point.stateByteCount = Double(stateByteCount) / Double(stored)
        received += sent
        point.kafkaByteCount = try kafkaByteCounts(stored, received)
        return point
    }

    private func stopAll(_ instanceCount: Int) {
        for worker in Self.workers {
            for instance in 1...instanceCount {
                world.stop(BenchWorld.name(worker, instance))
            }
        }
    }

    private func removeStates() throws {
        for instance in 1...(Self.instanceCounts.max() ?? 1) {
            let folder = world.stateDirectory(instance)
            if FileManager.default.fileExists(atPath: folder.path) {
                try FileManager.default.removeItem(at: folder)
            }
        }
    }

    // MARK: Waiting

    /// Waits until all instances share the partitions and have the state of theirs.
    private func awaitSettled(_ worker: Worker, _ instanceCount: Int) throws {
        let deadline = Date().addingTimeInterval(Self.settledSeconds)
        while try !isSettled(worker, instanceCount) {
            try world.refuseEnded()
            guard Date() < deadline else {
                throw BenchFailure(
                    code: "bench.start",
                    "\(instanceCount) instances of \(worker.rawValue) do not share the partitions"
                        + " after \(Int(Self.settledSeconds)) s"
                )
            }
            try world.http.pause(milliseconds: Self.lookMilliseconds)
        }
    }

    private func isSettled(_ worker: Worker, _ instanceCount: Int) throws -> Bool {
        var assigned = 0
        for instance in 1...instanceCount {
            guard
                try world.http.get(world.adminURL(worker, "readyz", instance: instance))?.status
                    == 200
            else {
                return false
            }
            let url = world.adminURL(worker, "metrics", instance: instance)
            let own = try world.http.sum("tollway_partitions_assigned", at: url)
            guard own > 0, try world.http.sum("tollway_partitions_restoring", at: url) == 0 else {
                return false
            }
            assigned += own
        }
        return assigned == worker.sources.count * Int(BenchKafka.partitionCount)
    }

    // MARK: Weighing

    private func cpuSeconds(_ worker: Worker, _ instanceCount: Int) -> Double {
        (1...instanceCount).reduce(0) { $0 + world.cpuSeconds(BenchWorld.name(worker, $1)) }
    }

    /// Bytes of the files under a folder whose names end so.
    static func byteCount(under folder: URL, suffix: String = "") throws -> Int {
        guard let paths = FileManager.default.enumerator(atPath: folder.path) else {
            return 0
        }
        return try paths.reduce(0) { sum, path in
            guard let path = path as? String, path.hasSuffix(suffix) else {
                return sum
            }
            let file = folder.appendingPathComponent(path)
            let values = try file.resourceValues(forKeys: [.isRegularFileKey, .fileSizeKey])
            return values.isRegularFile == true ? sum + (values.fileSize ?? 0) : sum
        }
    }

    /// What each topic of a token's way takes in Kafka, without its indexes, which are made at once
    /// for a whole segment.
    private func kafkaByteCounts(_ stored: Int, _ received: Int) throws -> [String: Double]? {
        guard let kafkaFolder else {
            return nil
        }
        var counts: [String: Double] = [:]
        for (topic, tokenCount) in [
            (Topic.tokensReceived, received), (.tokensDecoded, stored), (.tokensDistinct, stored),
            (.dedupeState, stored),
        ] {
            let name = world.topic(topic)
            let byteCount = try (0..<BenchKafka.partitionCount).reduce(0) {
                try $0
                    + Self.byteCount(
                        under: kafkaFolder.appendingPathComponent("\(name)-\($1)"),
                        suffix: ".log"
                    )
            }
            counts[topic.name(prefix: "")] = Double(byteCount) / Double(max(tokenCount, 1))
        }
        return counts
    }
}
