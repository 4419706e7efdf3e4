internal import TokenDomain

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
extension ReplayHistory {
    package init(_ scanner: inout JSONScanner) throws(WireFault) {
        var firstFailedAt: String?
        var attempts: Int?
        var replayCount: Int?
        var replayID: String?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "firstFailedAt": try scanner.fill(&firstFailedAt)
            case "attempts": try scanner.fill(&attempts)
            case "replayCount": try scanner.fill(&replayCount)
            case "replayId": try scanner.fill(&replayID)
            default: try scanner.skip()
            }
        }
        self.init(
            firstFailedAt: firstFailedAt,
            attempts: attempts ?? 0,
            replayCount: replayCount ?? 0,
            replayID: replayID
        )
    }

    package func write(_ writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("firstFailedAt", firstFailedAt)
        writer.field("attempts", attempts)
        writer.field("replayCount", replayCount)
        writer.field("replayId", replayID)
        writer.endObject()
    }
}
