package import TokenDomain

/// One accepted report inside an account's value.
extension AcceptedReport {
    init(_ scanner: inout JSONScanner) throws(WireFault) {
        var number: Int?
        var identifier: String?
        var status: ReportStatus?
        var hash: String?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "number": try scanner.fill(&number)
            case "requestIdentifier": try scanner.fill(&identifier)
            case "status": try scanner.fill(&status)
            case "contentHash": try scanner.fill(&hash)
            default: try scanner.skip()
            }
        }
        guard let contentHash = UInt64(hash ?? "0", radix: 16) else {
            throw .outOfRange(field: "contentHash")
        }
        self.init(
            number: try JSONScanner.require(number, "number"),
            identifier: identifier,
            status: try JSONScanner.require(status, "status"),
            contentHash: contentHash
        )
    }

    func write(_ writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("number", number)
        writer.field("requestIdentifier", identifier)
        writer.field("status", status.rawValue)
        if contentHash != 0 {
            writer.field("contentHash", String(contentHash, radix: 16))
        }
        writer.endObject()
    }
}

/// The history of a replayed dead letter, inside what it asks for.
extension ReplayHistory: WireMessage {
    package static let blank = ReplayHistory(
        firstFailedAt: nil,
        attempts: 0,
        replayCount: 0,
        replayID: nil
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("firstFailedAt", &firstFailedAt)
        coder.member("attempts", &attempts)
        coder.member("replayCount", &replayCount)
        coder.member("replayId", &replayID)
    }
}
