package import TokenDomain

/// An intent inside an account's value, or in a record of its own.
///
/// `lineItems` is a text: the bytes that were frozen are the bytes that come back.
extension ReportIntent: WireMessage {
    package static let blank = ReportIntent(
        number: 0,
        identifier: "",
        status: .noLineItem,
        lineItems: nil,
        reason: .hold,
        origin: .blank,
        deadline: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("number", &number)
        coder.member("requestIdentifier", &identifier)
        coder.member("status", &status)
        coder.member("reason", &reason)
        coder.member("origin", &origin)
        coder.member("deadline", &deadline)
        coder.member("lineItems", &lineItems)
        coder.member("phase", &phase, default: .planned)
        coder.member("takenSince", &takenSince)
        coder.member("attempts", &attempts, default: 0)
        coder.member("inquiries", &inquiries, default: 0)
        coder.member("firstSentAt", &firstSentAt)
        coder.member("nextAttemptAt", &nextAttemptAt)
        coder.member("requests", &exchanges, default: [])
        var kept = refusal.map { KeptError(error: $0) }
        coder.member("refusal", &kept, default: [])
        refusal = kept.map(\.error)
        var frozen = frozenHash.map { HexadecimalNumber(value: $0) }
        coder.member("frozenHash", &frozen)
        frozenHash = frozen?.value
        coder.member("history", &history)
        coder.member("isRepeat", &isRepeat, default: false)
        coder.member("purchaseKey", &purchaseKey, atMost: .tokenField)
        coder.member("askedAt", &askedAt)
        coder.member("search", &search)
    }
}

/// One of Apple's reasons as the state has it, which names its code otherwise than our messages do.
private struct KeptError: WireMessage, Equatable {
    static let blank = KeptError(error: .blank)

    var error: AppleError

    @inline(__always)
    mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("errorCode", &error.code)
        coder.member("fieldName", &error.fieldName)
        coder.member("lineItemId", &error.lineItemID)
    }
}

/// A search for line items, inside an intent.
extension LineItemSearch: WireMessage {
    package static let blank = Self(number: 0, open: [])

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("number", &number)
        coder.member("open", &open)
        coder.member("verified", &verified)
        coder.member("holders", &holders, default: [], isAlwaysWritten: false)
        coder.member("requestCountBefore", &requestCountBefore, default: 0)
    }
}
