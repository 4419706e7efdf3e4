package import Kafka
package import TokenDomain

/// The `traceparent` of records: read from what comes in, written to what goes out.
package enum TraceHeader {
    /// A header list of one header, up to its value.
    private static let beginning: [UInt8] = {
        var list: [UInt8] = []
        let name = "\(TraceParent.headerName)"
        let value = [UInt8](repeating: 0, count: TraceParent.byteCount)
        HeaderList.append(name: name.utf8, value: value, to: &list)
        return Array(list.dropLast(TraceParent.byteCount))
    }()

    /// Appends what a record carries, or a new one where that is missing or not valid.
    ///
    /// The seed is ``TraceParent/seed(_:)`` of the record's topic.
    ///
    /// - Returns: where the header lies, a list of headers of its own; and whether that is all that the
    ///   record carries, byte for byte.
    static func append(
        of record: RecordBatch.Record,
        in batch: RecordBatch,
        seed: UInt64,
        to arena: inout [UInt8]
    ) -> (headers: ByteRange, isUnchanged: Bool) {
        let start = arena.count
        arena.append(contentsOf: beginning)
        var isUnchanged = false
        if let value = value(of: record, in: batch) {
            let trace = batch.arena.span.extracting(value.indices)
            TraceParent.append(trace, to: &arena)
            isUnchanged =
                record.headers.count == arena.count - start && TraceParent.isOfVersionZero(trace)
        } else {
            TraceParent.appendNew(
                seed: seed,
                partition: record.partition,
                offset: record.offset,
                to: &arena
            )
        }
        return (ByteRange(start: start, count: arena.count - start), isUnchanged)
    }

    /// Appends a header.
    ///
    /// - Returns: where it lies: a list of headers of its own; empty where there is nothing to write.
    package static func append(_ trace: TraceParent?, to arena: inout [UInt8]) -> ByteRange {
        let start = arena.count
        if let trace {
            arena.append(contentsOf: beginning)
            arena.append(contentsOf: trace.text.utf8)
        }
        return ByteRange(start: start, count: arena.count - start)
    }

    /// What a record carries, or a new one.
    package static func trace(
        of record: RecordBatch.Record,
        in batch: RecordBatch,
        topic: String
    ) -> TraceParent {
        value(of: record, in: batch).flatMap {
            TraceParent(batch.arena.span.extracting($0.indices))
        } ?? TraceParent(ofTopic: topic, partition: record.partition, offset: record.offset)
    }

    /// Where a record's valid header lies; nil without one.
    private static func value(
        of record: RecordBatch.Record,
        in batch: RecordBatch
    ) -> ByteRange? {
        guard record.headers.count > 0,
            let value = HeaderList.value(
                named: TraceParent.headerName,
                in: record.headers,
                of: batch.arena
            ),
            TraceParent.isValid(batch.arena.span.extracting(value.indices))
        else {
            return nil
        }
        return value
    }
}
