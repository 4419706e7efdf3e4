internal import CKafka

extension RecordBatch {
    /// Largest share of a batch that one call brings: bounds memory, not the records of a
    /// transaction.
    static let byteCountMax = 1 << 20

    /// Appends what the C side shows; its memory is read here and never kept.
    mutating func append(_ shown: ckafka_batch) {
        let base = arena.count
        let bytes = unsafe UnsafeBufferPointer(start: shown.arena, count: shown.arena_count)
        unsafe arena.append(contentsOf: bytes)
        let recordsShown = unsafe UnsafeBufferPointer(
            start: shown.records,
            count: shown.record_count
        )
        records.reserveCapacity(records.count + recordsShown.count)
        // The formatter would join the name to `unsafe`.
        // swift-format-ignore
        for unsafe record in unsafe recordsShown {
            var read = Record(
                topic: Int(record.topic),
                partition: record.partition,
                offset: record.offset,
                timestampMilliseconds: record.timestamp_ms,
                key: ByteRange(
                    start: base + Int(record.key_start),
                    count: Int(record.key_count)
                ),
                value: ByteRange(
                    start: base + Int(record.value_start),
                    count: Int(record.value_count)
                ),
                headers: ByteRange(
                    start: base + Int(record.headers_start),
                    count: Int(record.headers_count)
                )
            )
            read.keptHeaders = KeptHeaders(number: record.kept_headers)
            records.append(read)
        }
        // The formatter would join the name to `unsafe`.
        // swift-format-ignore
        for unsafe end in unsafe UnsafeBufferPointer(start: shown.ends, count: shown.end_count) {
            ends.append(
                PartitionEnd(topic: Int(end.topic), partition: end.partition, offset: end.offset)
            )
        }
    }
}

extension OutputBatch {
    /// The outputs in the C side's form; they refer to `arena`.
    var flat: [ckafka_output] { outputs.map(\.flat) }
}

extension OutputBatch.Output {
    var flat: ckafka_output {
        ckafka_output(
            timestamp_ms: timestampMilliseconds,
            key_start: Int32(key.start),
            key_count: Int32(key.count),
            value_start: Int32(value.start),
            value_count: Int32(value.count),
            headers_start: Int32(headers.start),
            headers_count: Int32(max(headers.count, 0)),
            topic: Int32(topic),
            partition: partition,
            kept_headers: keptHeaders.number
        )
    }
}

extension [TopicPartition: Int64] {
    /// Positions in the C side's form, of the topics that they count through.
    init(_ positions: some Sequence<ckafka_position>, of topics: [String]) {
        self.init(
            positions.map { (TopicPartition($0, of: topics), $0.offset) },
            uniquingKeysWith: Swift.max
        )
    }
}

extension TopicPartition {
    init(_ position: ckafka_position, of topics: [String]) {
        self.init(topic: topics[Int(position.topic)], partition: position.partition)
    }
}
