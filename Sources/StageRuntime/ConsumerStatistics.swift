package import Kafka
package import TokenWire

/// The client library's statistics of the topics that a worker reads: their end offsets.
///
/// Source: librdkafka's STATISTICS.md, `topics.*.partitions.*`.
package struct ConsumerStatistics: Equatable, Sendable {
    /// The ends of one partition as of its last fetch.
    package struct Marks: Equatable, Sendable {
        /// The next offset to be written: the high watermark.
        package var end: Int64
        /// Up to where a read-committed reader is let.
        package var lastStable: Int64
        /// Without a leader nothing is fetched, and the ends stay as they were.
        package var isLed: Bool

        package init(end: Int64, lastStable: Int64, isLed: Bool = true) {
            self.end = end
            self.lastStable = lastStable
            self.isLed = isLed
        }
    }

    /// Of partitions that are fetched; what was never fetched has none.
    package private(set) var marks: [TopicPartition: Marks] = [:]
    /// How many partitions each topic has.
    package private(set) var partitionCounts: [String: Int] = [:]

    package init() {}

    /// - Throws: where the text is not the library's.
    package init(reading text: Span<UInt8>) throws(WireFault) {
        var read = ConsumerStatistics()
        try JSONScanner.scanObject(text) { (key, scanner) throws(WireFault) in
            guard key == "topics" else {
                return try scanner.skip()
            }
            try scanner.beginObject()
            while let topic = try scanner.nextName() {
                try read.readTopic(topic, &scanner)
            }
        }
        self = read
    }

    private mutating func readTopic(
        _ topic: String,
        _ scanner: inout JSONScanner
    ) throws(WireFault) {
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            guard key == "partitions" else {
                try scanner.skip()
                continue
            }
            try scanner.beginObject()
            while let number = try scanner.nextName() {
                let marks = try Self.readMarks(&scanner)
                // The library counts what has no partition yet as -1.
                guard let partition = Int32(number), partition >= 0 else {
                    continue
                }
                partitionCounts[topic, default: 0] += 1
                if let marks {
                    self.marks[TopicPartition(topic: topic, partition: partition)] = marks
                }
            }
        }
    }

    private static func readMarks(_ scanner: inout JSONScanner) throws(WireFault) -> Marks? {
        var end: Int64 = -1
        var lastStable: Int64 = -1
        var isLed = true
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "hi_offset": end = try scanner.integer()
            case "ls_offset": lastStable = try scanner.integer()
            case "leader": isLed = try scanner.integer() >= 0
            default: try scanner.skip()
            }
        }
        guard end >= 0 else {
            return nil
        }
        return Marks(
            end: end,
            lastStable: lastStable >= 0 ? min(lastStable, end) : end,
            isLed: isLed
        )
    }
}
