/// The accepted reports of one environment, each kept for ever and whole.
///
/// Bodies lie end to end in chunks of a mebibyte: half a million reports cost about 150 MB less
/// than as many arrays.
struct ReportStore: Sendable {
    struct Entry: Sendable {
        let requestIdentifier: UUIDKey
        /// Index into the issued tokens.
        let tokenIndex: Int32
        let lineItemCount: Int32
        let status: ReportStatus
        let acceptedAt: UnixMilliseconds
        fileprivate let chunkIndex: Int32
        fileprivate let offset: Int32
        fileprivate let byteCount: Int32
    }

    private static let chunkByteCount = 1 << 20

    private(set) var entries: [Entry] = []
    private var indexByIdentifier: [UUIDKey: Int32] = [:]
    private var chunks: [[UInt8]] = []

    func contains(_ requestIdentifier: UUIDKey) -> Bool {
        indexByIdentifier[requestIdentifier] != nil
    }

    func entry(_ requestIdentifier: UUIDKey) -> Entry? {
        indexByIdentifier[requestIdentifier].map { entries[Int($0)] }
    }

    /// The report of an entry, as JSON text.
    func body(of entry: Entry) -> ArraySlice<UInt8> {
        let start = Int(entry.offset)
        return chunks[Int(entry.chunkIndex)][start..<start + Int(entry.byteCount)]
    }

    mutating func append(
        _ report: ReportBody,
        identifier: UUIDKey,
        status: ReportStatus,
        tokenIndex: Int,
        acceptedAt: UnixMilliseconds
    ) {
        if chunks.isEmpty || chunks[chunks.count - 1].count >= Self.chunkByteCount {
            var chunk: [UInt8] = []
            chunk.reserveCapacity(Self.chunkByteCount + 4096)
            chunks.append(chunk)
        }
        let chunkIndex = chunks.count - 1
        let offset = chunks[chunkIndex].count
        report.json.write(to: &chunks[chunkIndex])
        let entry = Entry(
            requestIdentifier: identifier,
            tokenIndex: Int32(tokenIndex),
            lineItemCount: Int32(report.lineItems?.count ?? 0),
            status: status,
            acceptedAt: acceptedAt,
            chunkIndex: Int32(chunkIndex),
            offset: Int32(offset),
            byteCount: Int32(chunks[chunkIndex].count - offset)
        )
        indexByIdentifier[identifier] = Int32(entries.count)
        entries.append(entry)
    }
}
