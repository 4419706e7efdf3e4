package import Kafka

/// Asserts a part of a promise.
package func expect(_ condition: @autoclosure () throws -> Bool, _ sentence: String) throws {
    guard try condition() else {
        throw BrokenPromise(sentence)
    }
}

/// Calls until something comes back, as long as the world has patience.
///
/// A log that is not there yet is asked again.
@discardableResult
package func until<Value>(
    _ world: any RecordLogWorld,
    _ complaint: @autoclosure () -> String,
    _ attempt: () throws -> Value?
) throws -> Value {
    let start = ContinuousClock.now
    var lastFault = ""
    while ContinuousClock.now - start < .milliseconds(world.patienceMilliseconds) {
        do {
            if let value = try attempt() {
                return value
            }
        } catch let fault as LogFault {
            guard case .unavailable(let code, let message) = fault else {
                throw fault
            }
            lastFault = " (\(code): \(message))"
        }
    }
    throw BrokenPromise("\(complaint()) within \(world.patienceMilliseconds) ms\(lastFault)")
}

/// A log whose assignment is complete.
package final class Member {
    package let log: any RecordLog
    package let group: String
    package let positions: [TopicPartition: Int64]
    private let world: any RecordLogWorld

    package init(
        _ world: any RecordLogWorld,
        group: String,
        instance: String = "a",
        isHeld: Bool = false,
        sources: [String],
        targets: [String] = [],
        changelog: String? = nil
    ) throws {
        self.world = world
        // A group of its own for each first source, so that tests do not share one.
        self.group = "\(group)-\(sources[0])"
        let log = try world.openLog(
            group: self.group,
            instance: instance,
            sources: sources,
            targets: targets,
            changelog: changelog
        )
        self.log = log
        var batch = RecordBatch()
        positions = try until(world, "no assignment came") {
            let event = try log.poll(into: &batch, recordCountMax: 0, waitMilliseconds: 50)
            guard case .assigning = event else {
                return nil
            }
            return try log.completeAssignment(isHeld: isHeld)
        }
    }

    package func close() {
        log.close(deadlineMilliseconds: 5000)
    }

    /// Reads that many records.
    package func read(count: Int, atMost max: Int = 1000) throws -> RecordBatch {
        var batch = RecordBatch()
        _ = try until(world, "not all of \(count) records came") {
            let event = try log.poll(into: &batch, recordCountMax: max, waitMilliseconds: 50)
            try expect(event == nil, "an event that nobody caused: \(String(describing: event))")
            return batch.records.count >= count ? true : nil
        }
        try expect(
            batch.records.count == count,
            "\(batch.records.count) records instead of \(count)"
        )
        return batch
    }

    /// Submits and waits for the commit.
    package func commit(
        _ outputs: OutputBatch,
        positions: [TopicPartition: Int64]
    ) throws -> [TopicPartition: Int64] {
        try log.submit(outputs, positions: positions)
        let outcome = try until(world, "no outcome came") {
            try log.takeCommitResult(waitMilliseconds: 50)
        }
        guard case .committed(let nextOffsets) = outcome else {
            throw BrokenPromise("\(outcome) instead of a commit")
        }
        return nextOffsets
    }

    /// The first byte of every value of a changelog.
    package func changelog(_ partition: TopicPartition, from offset: Int64) throws -> [UInt8] {
        let reader = try until(world, "the changelog cannot be opened") {
            try log.changelogReader(partition, from: offset)
        }
        defer { reader.close() }
        var batch = RecordBatch()
        _ = try until(world, "the changelog has no end") {
            try reader.read(into: &batch, recordCountMax: 2, waitMilliseconds: 50) ? true : nil
        }
        return batch.records.map { batch.arena[$0.value.start] }
    }
}
