package import TokenDomain

extension AccountTokenRequested {
    /// Reads a value of `account-tokens.requested.v1`.
    ///
    /// - Throws: ``WireFault/missing(field:)`` where neither `signedTransaction` nor all of
    ///   `originalTransactionId`, `bundleId` and `environment` are there. With both, the signed one
    ///   counts: it proves what the others only say.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var appAccountToken: String?
        var signedTransaction: String?
        var originalTransactionID: String?
        var bundleID: String?
        var environment: AppleEnvironment?
        var requestedAt: Timestamp?
        var requestID: String?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "appAccountToken": try scanner.fill(&appAccountToken, atMost: .identifier)
            case "signedTransaction": try scanner.fill(&signedTransaction)
            case "originalTransactionId":
                try scanner.fill(&originalTransactionID, atMost: .identifier)
            case "bundleId": try scanner.fill(&bundleID, atMost: .tokenField)
            case "environment": try scanner.fill(&environment)
            case "requestedAt": try scanner.fill(&requestedAt)
            case "requestId": try scanner.fill(&requestID, atMost: .identifier)
            default: try scanner.skip()
            }
        }
        let subject: Subject
        if let signedTransaction {
            subject = .signedTransaction(signedTransaction)
        } else {
            subject = .original(
                transactionID: try JSONScanner.require(
                    originalTransactionID,
                    "originalTransactionId"
                ),
                bundleID: try JSONScanner.require(bundleID, "bundleId"),
                environment: try JSONScanner.require(environment, "environment")
            )
        }
        self.init(
            appAccountToken: try JSONScanner.require(appAccountToken, "appAccountToken"),
            subject: subject,
            requestedAt: try JSONScanner.require(requestedAt, "requestedAt"),
            requestID: requestID ?? ""
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("appAccountToken", appAccountToken)
            switch subject {
            case .signedTransaction(let signedTransaction):
                writer.field("signedTransaction", signedTransaction)
            case .original(let transactionID, let bundleID, let environment):
                writer.field("originalTransactionId", transactionID)
                writer.field("bundleId", bundleID)
                writer.field("environment", environment.rawValue)
            }
            writer.field("requestedAt", requestedAt.milliseconds)
            writer.field("requestId", requestID)
            writer.endObject()
        }
    }
}

extension AccountTokenOutcome: WireMessage {
    package static let blank = AccountTokenOutcome(
        originalTransactionID: "",
        appAccountToken: "",
        outcome: .rejected,
        httpStatus: 0,
        errorCode: nil,
        attempts: 0,
        settledAt: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("originalTransactionId", &originalTransactionID, atMost: .identifier)
        coder.member("appAccountToken", &appAccountToken, atMost: .identifier)
        coder.member("outcome", &outcome)
        coder.member("httpStatus", &httpStatus)
        coder.member("errorCode", &errorCode)
        coder.member("attempts", &attempts)
        coder.member("settledAt", &settledAt)
    }

    /// Reads a value of `account-tokens.outcomes.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}
