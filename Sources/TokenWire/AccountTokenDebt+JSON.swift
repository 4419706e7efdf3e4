package import TokenDomain

/// The value of `report.state.v1` under a transaction.
extension AccountTokenDebt {
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var id: String?
        var appAppleID: Int64?
        var environment: AppleEnvironment?
        var bundleID: String?
        var current: Request?
        var next: Request?
        var newest: Request?
        var attempts: Int?
        var nextAttemptAt: Timestamp?
        var touchedAt: Timestamp?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "originalTransactionId": try scanner.fill(&id)
            case "appAppleId": try scanner.fill(&appAppleID)
            case "environment": try scanner.fill(&environment)
            case "bundleId": try scanner.fill(&bundleID)
            case "current": current = try Request(&scanner)
            case "next": next = try Request(&scanner)
            case "newest": newest = try Request(&scanner)
            case "attempts": try scanner.fill(&attempts)
            case "nextAttemptAt": try scanner.fill(&nextAttemptAt)
            case "touchedAt": try scanner.fill(&touchedAt)
            default: try scanner.skip()
            }
        }
        self.init(
            originalTransactionID: try JSONScanner.require(id, "originalTransactionId"),
            lane: Lane(
                appAppleID: try JSONScanner.require(appAppleID, "appAppleId"),
                environment: try JSONScanner.require(environment, "environment")
            ),
            bundleID: try JSONScanner.require(bundleID, "bundleId"),
            touchedAt: try JSONScanner.require(touchedAt, "touchedAt")
        )
        self.current = current
        self.next = next
        self.newest = newest
        self.attempts = attempts ?? 0
        self.nextAttemptAt = nextAttemptAt
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("originalTransactionId", originalTransactionID)
            writer.field("appAppleId", lane.appAppleID)
            writer.field("environment", lane.environment.rawValue)
            writer.field("bundleId", bundleID)
            writer.field("touchedAt", touchedAt.milliseconds)
            if let current {
                writer.name("current")
                current.write(&writer)
            }
            if let next {
                writer.name("next")
                next.write(&writer)
            }
            if let newest {
                writer.name("newest")
                newest.write(&writer)
            }
            writer.field("attempts", attempts)
            writer.field("nextAttemptAt", nextAttemptAt?.milliseconds)
            writer.endObject()
        }
    }
}

extension AccountTokenDebt.Request {
    init(_ scanner: inout JSONScanner) throws(WireFault) {
        var token: String?
        var requestedAt: Timestamp?
        var requestID: String?
        var origin: RecordOrigin?
        var trace: TraceParent?
        var history: ReplayHistory?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "appAccountToken": try scanner.fill(&token)
            case "requestedAt": try scanner.fill(&requestedAt)
            case "requestId": try scanner.fill(&requestID)
            case "origin": origin = try RecordOrigin(&scanner)
            case "traceparent": trace = TraceParent(try scanner.string())
            case "history": history = try ReplayHistory(&scanner)
            default: try scanner.skip()
            }
        }
        self.init(
            appAccountToken: try JSONScanner.require(token, "appAccountToken"),
            requestedAt: try JSONScanner.require(requestedAt, "requestedAt"),
            requestID: requestID ?? "",
            origin: try JSONScanner.require(origin, "origin"),
            trace: trace,
            history: history
        )
    }

    func write(_ writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("appAccountToken", appAccountToken)
        writer.field("requestedAt", requestedAt.milliseconds)
        writer.field("requestId", requestID)
        writer.name("origin")
        origin.write(&writer)
        writer.field("traceparent", trace?.text)
        if let history {
            writer.name("history")
            history.write(&writer)
        }
        writer.endObject()
    }
}
