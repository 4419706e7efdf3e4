import Kafka
import TokenDomain

/// All that a read_committed reader sees of the pipeline's topics once they are at rest.
struct TopicContents {
    struct Record {
        var partition: Int32
        var offset: Int64
        var timestampMilliseconds: Int64
        /// Nil: none.
        var key: [UInt8]?
        /// Nil: a tombstone.
        var value: [UInt8]?
        var headers: [String: String] = [:]

        /// Where a dead letter's record lay: `topic/partition/offset`.
        var origin: String {
            ["topic", "partition", "offset"].map { headers["__dlq.errors.\($0)"] ?? "?" }
                .joined(separator: "/")
        }
    }

    private var records: [Topic: [Record]] = [:]

    /// Reads every topic from its beginning to its last stable offset.
    init(settings: KafkaSettings, prefix: String) throws {
        let topics = Topic.all
        let browser = try LogBrowser(
            settings: settings,
            topics: topics.map { $0.name(prefix: prefix) }
        )
        defer { browser.close() }
        try browser.start()
        try browser.readToEnd { batch in
            for record in batch.records {
                records[topics[record.topic], default: []].append(Record(record, of: batch.arena))
            }
        }
        for topic in topics {
            records[topic]?.sort { ($0.partition, $0.offset) < ($1.partition, $1.offset) }
        }
    }

    /// By partition, then by offset.
    subscript(topic: Topic) -> [Record] { records[topic] ?? [] }

    var recordCount: Int { records.values.reduce(0) { $0 + $1.count } }
}

extension TopicContents.Record {
    fileprivate init(_ record: RecordBatch.Record, of arena: [UInt8]) {
        partition = record.partition
        offset = record.offset
        timestampMilliseconds = record.timestampMilliseconds
        key = record.key.isAbsent ? nil : Array(arena[record.key.indices])
        value = record.value.isAbsent ? nil : Array(arena[record.value.indices])
        for (name, value) in HeaderList.entries(in: record.headers, of: arena) {
            headers[name] = String(decoding: arena[value.indices], as: UTF8.self)
        }
    }
}
