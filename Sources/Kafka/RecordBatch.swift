/// Where some bytes lie in an arena.
///
/// Absent bytes (a null key, a tombstone) have no count. There are three of them to a record, so they
/// are kept in half a word each: no arena has 2 GiB.
package struct ByteRange: Hashable, Sendable {
    private var shortStart: Int32
    private var shortCount: Int32

    package init(start: Int, count: Int) {
        shortStart = Int32(start)
        shortCount = Int32(count)
    }

    package var start: Int { Int(shortStart) }
    /// Negative where there are no bytes at all; an empty text has zero.
    package var count: Int { Int(shortCount) }

    package static let absent = ByteRange(start: 0, count: -1)

    package var isAbsent: Bool { count < 0 }
    /// The indices it covers; empty where absent.
    package var indices: Range<Int> { start..<start + max(count, 0) }
}

/// The headers of a record as the log's own client holds them, until the next transaction is handed
/// over.
///
/// An output that has its record's headers names them, so that the client takes them along and does
/// not make them again.
package struct KeptHeaders: Hashable, Sendable {
    /// Negative where there are none.
    package let number: Int32

    package init(number: Int32) {
        self.number = number
    }

    package static let none = KeptHeaders(number: -1)
}

/// One partition of one topic.
package struct TopicPartition: Hashable, Comparable, Sendable, CustomStringConvertible {
    package var topic: String
    package var partition: Int32

    package init(topic: String, partition: Int32) {
        self.topic = topic
        self.partition = partition
    }

    package var description: String { "\(topic)/\(partition)" }

    package static func < (left: TopicPartition, right: TopicPartition) -> Bool {
        (left.topic, left.partition) < (right.topic, right.partition)
    }
}

/// Records as they were read, their bytes side by side in one arena: one allocation a batch.
///
/// A stage reads them through spans: `batch.arena.span.extracting(record.value.indices)`.
package struct RecordBatch: Sendable {
    package struct Record: Sendable {
        /// Index into the log's `sources`.
        package var topic: Int
        package var partition: Int32
        package var keptHeaders = KeptHeaders.none
        package var offset: Int64
        /// Kafka's own time of the record, UNIX milliseconds; -1 where there is none.
        package var timestampMilliseconds: Int64
        package var key: ByteRange
        package var value: ByteRange
        /// Encoded headers, for ``HeaderList``; count 0 where there are none.
        package var headers: ByteRange

        package init(
            topic: Int,
            partition: Int32,
            offset: Int64,
            timestampMilliseconds: Int64,
            key: ByteRange,
            value: ByteRange,
            headers: ByteRange
        ) {
            self.topic = topic
            self.partition = partition
            self.offset = offset
            self.timestampMilliseconds = timestampMilliseconds
            self.key = key
            self.value = value
            self.headers = headers
        }
    }

    /// A partition read up to its end: `offset` is the next position, transaction markers included.
    package struct PartitionEnd: Hashable, Sendable {
        package var topic: Int
        package var partition: Int32
        package var offset: Int64

        package init(topic: Int, partition: Int32, offset: Int64) {
            self.topic = topic
            self.partition = partition
            self.offset = offset
        }
    }

    package var arena: [UInt8] = []
    package var records: [Record] = []
    package var ends: [PartitionEnd] = []

    package init() {}

    /// The least of the records' times, UNIX milliseconds; nil where none has one.
    package var oldestTimestampMilliseconds: Int64? {
        var oldest = Int64.max
        for record in records where record.timestampMilliseconds >= 0 {
            oldest = min(oldest, record.timestampMilliseconds)
        }
        return oldest == .max ? nil : oldest
    }

    /// Shows the last record of each run of one partition: records of a partition mostly lie together,
    /// and what asks for its last offset alone need not look at each.
    package func forEachRunEnd(_ visit: (Record) -> Void) {
        for (index, record) in records.enumerated() {
            let next = index + 1
            if next < records.count, records[next].partition == record.partition,
                records[next].topic == record.topic
            {
                continue
            }
            visit(record)
        }
    }

    /// Forgets the records and keeps the memory.
    package mutating func removeAll() {
        arena.removeAll(keepingCapacity: true)
        records.removeAll(keepingCapacity: true)
        ends.removeAll(keepingCapacity: true)
    }
}

/// Records to be written, their bytes side by side in one arena.
///
/// A writer appends to `arena` and then names the ranges: nothing is copied twice.
package struct OutputBatch: Sendable {
    package struct Output: Sendable {
        /// Index into the log's `targets`.
        package var topic: Int
        /// -1: by murmur2 of the key, at random without key.
        package var partition: Int32
        /// Those of a record read since the last transaction was handed over, where ``headers`` are
        /// that record's byte for byte.
        package var keptHeaders = KeptHeaders.none
        /// UNIX milliseconds; 0 is the time of writing.
        package var timestampMilliseconds: Int64
        package var key: ByteRange
        /// Absent is a tombstone.
        package var value: ByteRange
        package var headers: ByteRange

        /// Key, value and headers; a record's framing comes on top.
        package var byteCount: Int { max(key.count, 0) + max(value.count, 0) + headers.count }

        package init(
            topic: Int,
            partition: Int32 = -1,
            timestampMilliseconds: Int64 = 0,
            key: ByteRange,
            value: ByteRange,
            headers: ByteRange = ByteRange(start: 0, count: 0)
        ) {
            self.topic = topic
            self.partition = partition
            self.timestampMilliseconds = timestampMilliseconds
            self.key = key
            self.value = value
            self.headers = headers
        }
    }

    package var arena: [UInt8] = []
    package var outputs: [Output] = []

    package init() {}

    package mutating func removeAll() {
        arena.removeAll(keepingCapacity: true)
        outputs.removeAll(keepingCapacity: true)
    }

    /// Appends bytes to the arena and says where they lie.
    package mutating func place(_ bytes: some Collection<UInt8>) -> ByteRange {
        let start = arena.count
        arena.append(contentsOf: bytes)
        return placed(from: start)
    }

    /// Appends bytes to the arena and says where they lie.
    package mutating func place(_ bytes: Span<UInt8>) -> ByteRange {
        let start = arena.count
        unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe arena.append(contentsOf: bytes)
        }
        return ByteRange(start: start, count: bytes.count)
    }

    /// Appends an output without headers, whose value is written into the arena.
    @inline(__always)
    package mutating func append(
        topic: Int,
        key: ByteRange,
        _ write: (inout [UInt8]) -> Void
    ) {
        let start = arena.count
        write(&arena)
        outputs.append(Output(topic: topic, key: key, value: placed(from: start)))
    }

    /// What was appended to the arena from `start` on.
    package func placed(from start: Int) -> ByteRange {
        ByteRange(start: start, count: arena.count - start)
    }
}
