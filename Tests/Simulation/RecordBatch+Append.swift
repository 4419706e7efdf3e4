package import Kafka

extension RecordBatch {
    /// Appends a record of a cluster in memory.
    package mutating func append(
        key: [UInt8]?,
        value: [UInt8]?,
        headers: [UInt8],
        timestampMilliseconds: Int64,
        topic: Int,
        partition: Int32,
        offset: Int64
    ) {
        func place(_ bytes: [UInt8]?) -> ByteRange {
            guard let bytes else {
                return .absent
            }
            let start = arena.count
            arena.append(contentsOf: bytes)
            return ByteRange(start: start, count: bytes.count)
        }
        let (key, value) = (place(key), place(value))
        records.append(
            Record(
                topic: topic,
                partition: partition,
                offset: offset,
                timestampMilliseconds: timestampMilliseconds,
                key: key,
                value: value,
                headers: place(headers)
            )
        )
    }
}
