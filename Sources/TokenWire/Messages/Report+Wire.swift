package import TokenDomain

/// `lineItems` is an array, kept byte for byte. Whether it fits the status is the rules' to say.
extension ReportRequested: WireMessage {
    package static let blank = ReportRequested(
        externalPurchaseID: .blank,
        appAppleID: 0,
        bundleID: "",
        status: .noLineItem,
        requestIdentifier: nil,
        lineItems: nil
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("externalPurchaseId", &externalPurchaseID, atMost: .tokenField)
        coder.environment(statedFor: externalPurchaseID)
        coder.member("appAppleId", &appAppleID)
        coder.member("bundleId", &bundleID, atMost: .tokenField)
        coder.member("status", &status)
        coder.member("requestIdentifier", &requestIdentifier, atMost: .identifier)
        coder.member("lineItems", raw: .array, &lineItems)
        coder.member("deadline", &deadline)
        coder.member("purchaseKey", &purchaseKey, atMost: .tokenField)
        coder.member("askedAt", &askedAt)
        coder.member("tokenCreationDate", &tokenCreationDate)
        coder.member("tokenExpirationDate", &tokenExpirationDate)
    }

    /// Reads a value of `reports.requested.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}

/// One of Apple's reasons, as our own messages have it.
extension AppleError: WireMessage {
    package static let blank = AppleError(
        code: 0,
        fieldName: nil,
        lineItemID: nil
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("code", &code)
        coder.member("fieldName", &fieldName, atMost: .errorDetail)
        coder.member("lineItemId", &lineItemID, atMost: .errorDetail)
    }
}

extension ReportOutcome: WireMessage {
    package static let blank = ReportOutcome(
        requestIdentifier: "",
        externalPurchaseID: .blank,
        appAppleID: 0,
        status: .noLineItem,
        outcome: .rejected,
        httpStatus: 0,
        errors: [],
        attempts: 0,
        reason: "",
        firstSentAt: .blank,
        settledAt: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("requestIdentifier", &requestIdentifier, atMost: .identifier)
        coder.member("externalPurchaseId", &externalPurchaseID, atMost: .tokenField)
        coder.environment(of: externalPurchaseID.text)
        coder.member("appAppleId", &appAppleID)
        coder.member("status", &status)
        coder.member("outcome", &outcome)
        coder.member("httpStatus", &httpStatus)
        coder.member("errors", &errors, default: [], isAlwaysWritten: true)
        coder.member("attempts", &attempts)
        coder.member("reason", &reason, atMost: .identifier)
        coder.member("firstSentAt", &firstSentAt)
        coder.member("settledAt", &settledAt)
        coder.member("requests", &exchanges, default: [])
        coder.member("lineItems", raw: .array, &details.lineItems)
        coder.member("tokenCreationDate", &details.tokenCreationDate)
        coder.member("tokenExpirationDate", &details.tokenExpirationDate)
        coder.member("deadline", &details.deadline)
        coder.member("lateBySeconds", &details.lateBySeconds)
        coder.member("purchaseKey", &details.purchaseKey, atMost: .tokenField)
    }

    /// Reads a value of `reports.outcomes.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}
