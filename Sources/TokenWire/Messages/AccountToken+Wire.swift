package import TokenDomain

/// A value of `account-tokens.requested.v1` while it is read or written.
struct AccountTokenFields: WireMessage {
    static let blank = AccountTokenFields(appAccountToken: "", requestedAt: .blank)

    var appAccountToken: String
    var signedTransaction: String?
    var originalTransactionID: String?
    var bundleID: String?
    var environment: AppleEnvironment?
    var requestedAt: Timestamp
    var requestID: String?

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("appAccountToken", &appAccountToken, atMost: .identifier)
        coder.member("signedTransaction", &signedTransaction)
        coder.member("originalTransactionId", &originalTransactionID, atMost: .identifier)
        coder.member("bundleId", &bundleID, atMost: .tokenField)
        coder.member("environment", &environment)
        coder.member("requestedAt", &requestedAt)
        coder.member("requestId", &requestID, atMost: .identifier)
    }

    func subject() throws(WireFault) -> AccountTokenRequested.Subject {
        if let signedTransaction {
            return .signedTransaction(signedTransaction)
        }
        return .original(
            transactionID: try JSONScanner.require(originalTransactionID, "originalTransactionId"),
            bundleID: try JSONScanner.require(bundleID, "bundleId"),
            environment: try JSONScanner.require(environment, "environment")
        )
    }
}

extension AccountTokenRequested {
    /// Reads a value of `account-tokens.requested.v1`.
    ///
    /// - Throws: ``WireFault/missing(field:)`` where neither `signedTransaction` nor all of
    ///   `originalTransactionId`, `bundleId` and `environment` are there. With both, the signed one
    ///   counts: it proves what the others only say.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        let fields = try AccountTokenFields.read(value: value)
        self.init(
            appAccountToken: fields.appAccountToken,
            subject: try fields.subject(),
            requestedAt: fields.requestedAt,
            requestID: fields.requestID ?? ""
        )
    }

    package func write(to arena: inout [UInt8]) {
        var fields = AccountTokenFields(
            appAccountToken: appAccountToken,
            requestedAt: requestedAt,
            requestID: requestID
        )
        switch subject {
        case .signedTransaction(let transaction): fields.signedTransaction = transaction
        case .original(let transactionID, let bundleID, let environment):
            fields.originalTransactionID = transactionID
            fields.bundleID = bundleID
            fields.environment = environment
        }
        fields.append(to: &arena)
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
