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

    /// Appends what a record carries; nothing where that is missing or not valid.
    ///
    /// Topic, partition and offset name such a record: a new trace would add nothing, and cost a
    /// tenth of what a worker writes.
    ///
    /// - Returns: where the header lies, a list of headers of its own; and whether that is all that the
    ///   record carries, byte for byte.
    static func append(
        of record: RecordBatch.Record,
        in batch: RecordBatch,
        to arena: inout [UInt8]
    ) -> (headers: ByteRange, isUnchanged: Bool) {
        let start = arena.count
        guard let value = value(of: record, in: batch) else {
            return (ByteRange(start: start, count: 0), false)
        }
        let trace = batch.arena.span.extracting(value.indices)
        arena.append(contentsOf: beginning)
        TraceParent.append(trace, to: &arena)
        let count = arena.count - start
        let isUnchanged = record.headers.count == count && TraceParent.isOfVersionZero(trace)
        return (ByteRange(start: start, count: count), isUnchanged)
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

    /// Appends a header: a request's own where that is valid, else a new one.
    ///
    /// - Returns: where it lies, a list of headers of its own.
    package static func append(
        ofRequest header: Span<UInt8>?,
        using random: inout some RandomNumberGenerator,
        to arena: inout [UInt8]
    ) -> ByteRange {
        let start = arena.count
        arena.append(contentsOf: beginning)
        if let header, TraceParent.isValid(header) {
            TraceParent.append(header, to: &arena)
        } else {
            TraceParent.append(using: &random, to: &arena)
        }
        return ByteRange(start: start, count: arena.count - start)
    }

    /// What a record carries; nil where it has none that is valid.
    package static func trace(
        of record: RecordBatch.Record,
        in batch: RecordBatch
    ) -> TraceParent? {
        value(of: record, in: batch).flatMap {
            TraceParent(batch.arena.span.extracting($0.indices))
        }
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
