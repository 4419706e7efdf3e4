// The values of the topics, in the order of the pipeline. `TokenWire` reads and writes them;
// `Protocols/` holds their JSON Schemas.

/// A value of `tokens.received.v1`: a token as it came in, untouched.
package struct TokenReceived: Equatable, Sendable {
    package enum Source: String, Sendable, CaseIterable {
        case app, link, kafka
    }

    package var token: String
    package var customer: CustomerID?
    package var receivedAt: Timestamp?
    package var source: Source
    /// The bundle id that stood in the link's query, if the token came by link.
    package var bundleID: String?
    package var requestID: String

    package init(
        token: String,
        customer: CustomerID?,
        receivedAt: Timestamp?,
        source: Source,
        bundleID: String?,
        requestID: String
    ) {
        self.token = token
        self.customer = customer
        self.receivedAt = receivedAt
        self.source = source
        self.bundleID = bundleID
        self.requestID = requestID
    }
}

/// A value of `tokens.decoded.v1`.
package struct TokenDecoded: Equatable, Sendable {
    package var token: ExternalPurchaseToken
    package var customer: CustomerID?
    package var receivedAt: Timestamp
    /// The token's text as it was received, outer white space trimmed.
    package var text: String

    package init(
        token: ExternalPurchaseToken,
        customer: CustomerID?,
        receivedAt: Timestamp,
        text: String
    ) {
        self.token = token
        self.customer = customer
        self.receivedAt = receivedAt
        self.text = text
    }
}

/// What a token is among its customer's tokens.
package enum TokenRole: Equatable, Sendable {
    /// The first of its period, or a token that knows no period.
    case primary
    /// Another token of the same period; `of` is the first.
    case duplicate(of: TokenID)
    /// Known only because its dead letter could be read: not unknown, and nothing is owed yet.
    case seen

    package var text: String {
        switch self {
        case .primary: "primary"
        case .duplicate: "duplicate"
        case .seen: "seen"
        }
    }
}

/// A value of `tokens.distinct.v1`.
///
/// A `seen` record may know no more than the id and the app.
package struct TokenDistinct: Equatable, Sendable {
    package var externalPurchaseID: TokenID
    package var appAppleID: Int64?
    package var bundleID: String?
    package var tokenType: TokenType?
    package var tokenCreationDate: Timestamp?
    package var tokenExpirationDate: Timestamp?
    package var customer: CustomerID?
    package var receivedAt: Timestamp
    package var role: TokenRole
    /// Of a primary that was a duplicate: the token before it, which Apple does not know.
    package var promotedFrom: TokenID?

    package init(
        externalPurchaseID: TokenID,
        appAppleID: Int64?,
        bundleID: String?,
        tokenType: TokenType?,
        tokenCreationDate: Timestamp?,
        tokenExpirationDate: Timestamp?,
        customer: CustomerID?,
        receivedAt: Timestamp,
        role: TokenRole,
        promotedFrom: TokenID? = nil
    ) {
        self.externalPurchaseID = externalPurchaseID
        self.appAppleID = appAppleID
        self.bundleID = bundleID
        self.tokenType = tokenType
        self.tokenCreationDate = tokenCreationDate
        self.tokenExpirationDate = tokenExpirationDate
        self.customer = customer
        self.receivedAt = receivedAt
        self.role = role
        self.promotedFrom = promotedFrom
    }
}

/// A value of `notifications.received.v1`.
package struct NotificationReceived: Equatable, Sendable {
    package var signedPayload: String
    package var receivedAt: Timestamp

    package init(signedPayload: String, receivedAt: Timestamp) {
        self.signedPayload = signedPayload
        self.receivedAt = receivedAt
    }
}

/// A value of `notifications.verified.v1`: Apple's own word about a token.
package struct NotificationVerified: Equatable, Sendable {
    package var notificationUUID: String
    /// `CREATED`, `ACTIVE_TOKEN_REMINDER`, `UNREPORTED`, or one nobody knows yet.
    package var subtype: String?
    package var signedDate: Timestamp
    package var token: ExternalPurchaseToken
    package var receivedAt: Timestamp

    package init(
        notificationUUID: String,
        subtype: String?,
        signedDate: Timestamp,
        token: ExternalPurchaseToken,
        receivedAt: Timestamp
    ) {
        self.notificationUUID = notificationUUID
        self.subtype = subtype
        self.signedDate = signedDate
        self.token = token
        self.receivedAt = receivedAt
    }
}

/// A value of `notifications.other.v1`: what Apple signed about anything but a token.
package struct NotificationOther: Equatable, Sendable {
    /// `TEST`, `RESCIND_CONSENT`, or one nobody knows yet.
    package var notificationType: String
    package var subtype: String?
    package var notificationUUID: String?
    package var signedDate: Timestamp?
    /// The JSON object as it was signed, byte for byte.
    package var payload: String
    package var receivedAt: Timestamp

    package init(
        notificationType: String,
        subtype: String?,
        notificationUUID: String?,
        signedDate: Timestamp?,
        payload: String,
        receivedAt: Timestamp
    ) {
        self.notificationType = notificationType
        self.subtype = subtype
        self.notificationUUID = notificationUUID
        self.signedDate = signedDate
        self.payload = payload
        self.receivedAt = receivedAt
    }
}

/// `status` of a report to Apple.
package enum ReportStatus: String, Hashable, Sendable, CaseIterable {
    case lineItem = "LINE_ITEM"
    case noLineItem = "NO_LINE_ITEM"
    case unrecognizedToken = "UNRECOGNIZED_TOKEN"
    case duplicateToken = "DUPLICATE_TOKEN"
}

/// A value of `reports.requested.v1`: a report asked for by `purchases`, by hand or by a replay.
package struct ReportRequested: Equatable, Sendable {
    package var externalPurchaseID: TokenID
    package var appAppleID: Int64
    package var bundleID: String
    package var status: ReportStatus
    package var requestIdentifier: String?
    /// The JSON array as it came, byte for byte; required with LINE_ITEM, absent otherwise.
    package var lineItems: String?
    /// Until when Apple wants it.
    ///
    /// Of sales the lane orders by it; in a dead letter it is for who reads that.
    package var deadline: Timestamp?
    /// Of a report that carries sales: where its answer goes, which else is a dead letter or nothing.
    package var purchaseKey: PurchaseKey?
    /// When `purchases` asked for it first: its answer names that, so that no other is taken for it.
    package var askedAt: Timestamp?
    /// The token's dates, where whoever asks knows them: `dedupe` may not have passed it on yet.
    package var tokenCreationDate: Timestamp?
    package var tokenExpirationDate: Timestamp?

    package init(
        externalPurchaseID: TokenID,
        appAppleID: Int64,
        bundleID: String,
        status: ReportStatus,
        requestIdentifier: String?,
        lineItems: String?,
        deadline: Timestamp? = nil,
        purchaseKey: PurchaseKey? = nil,
        askedAt: Timestamp? = nil,
        tokenCreationDate: Timestamp? = nil,
        tokenExpirationDate: Timestamp? = nil
    ) {
        self.externalPurchaseID = externalPurchaseID
        self.appAppleID = appAppleID
        self.bundleID = bundleID
        self.status = status
        self.requestIdentifier = requestIdentifier
        self.lineItems = lineItems
        self.deadline = deadline
        self.purchaseKey = purchaseKey
        self.askedAt = askedAt
        self.tokenCreationDate = tokenCreationDate
        self.tokenExpirationDate = tokenExpirationDate
    }
}

/// One of Apple's reasons, as it stands in `errors[]` of a 400.
package struct AppleError: Equatable, Sendable {
    package var code: Int64
    package var fieldName: String?
    package var lineItemID: String?

    package init(code: Int64, fieldName: String?, lineItemID: String?) {
        self.code = code
        self.fieldName = fieldName
        self.lineItemID = lineItemID
    }
}

extension AppleError {
    /// A line item was accepted before, in another report; Apple may not say which, or not the field.
    package var isRepeatedLineItem: Bool {
        name == .duplicateValue
            && (fieldName == "lineItemId" || fieldName == nil && lineItemID != nil)
    }
    /// The line item was accepted or retracted before, in another report.
    var isHeldLineItem: Bool {
        (isRepeatedLineItem || name == .repeatErroneousSubmission) && lineItemID != nil
    }
    /// Apple does not know the token.
    package var isUnknownToken: Bool { name == .notFound && fieldName == "externalPurchaseId" }
}

/// A value of `reports.outcomes.v1`, the ledger: the outcome of one intent.
package struct ReportOutcome: Equatable, Sendable {
    package enum Outcome: String, Sendable, CaseIterable {
        /// Apple answered 200.
        case accepted
        /// Apple holds our very report; learnt by a GET after a doubtful answer.
        case verified
        case rejected
    }

    package var requestIdentifier: String
    package var externalPurchaseID: TokenID
    package var appAppleID: Int64
    package var status: ReportStatus
    package var outcome: Outcome
    package var httpStatus: Int
    package var errors: [AppleError]
    package var attempts: Int
    /// Why it was owed: `hold`, `deadline`, `duplicate`, `unreported`, `reminder`, `unknown`, `request`.
    package var reason: String
    package var firstSentAt: Timestamp
    package var settledAt: Timestamp
    /// The requests it took, oldest first: the first one and the newest.
    package var exchanges: [ReportExchange]
    /// What was reported to Apple besides the status; records of older versions have none of it.
    package var details: Details

    /// What proves, without the token's own topics, what was reported and whether in time.
    package struct Details: Equatable, Sendable {
        /// The JSON array as it was sent, byte for byte; only with LINE_ITEM.
        package var lineItems: String?
        package var tokenCreationDate: Timestamp?
        package var tokenExpirationDate: Timestamp?
        /// Until when Apple wanted it.
        package var deadline: Timestamp?
        /// How long after the deadline it was settled, in seconds rounded up; 0 when in time.
        package var lateBySeconds: Int64?
        package var purchaseKey: PurchaseKey?

        /// Takes the earlier of two deadlines.
        package mutating func bringForward(deadline: Timestamp, settledAt: Timestamp) {
            let deadline = min(self.deadline ?? deadline, deadline)
            self.deadline = deadline
            let late = max((settledAt - deadline).count, 0)
            lateBySeconds = late / 1_000 + (late % 1_000 > 0 ? 1 : 0)
        }

        package init(
            lineItems: String? = nil,
            tokenCreationDate: Timestamp? = nil,
            tokenExpirationDate: Timestamp? = nil,
            deadline: Timestamp? = nil,
            lateBySeconds: Int64? = nil,
            purchaseKey: PurchaseKey? = nil
        ) {
            self.lineItems = lineItems
            self.tokenCreationDate = tokenCreationDate
            self.tokenExpirationDate = tokenExpirationDate
            self.deadline = deadline
            self.lateBySeconds = lateBySeconds
            self.purchaseKey = purchaseKey
        }
    }

    package init(
        requestIdentifier: String,
        externalPurchaseID: TokenID,
        appAppleID: Int64,
        status: ReportStatus,
        outcome: Outcome,
        httpStatus: Int,
        errors: [AppleError],
        attempts: Int,
        reason: String,
        firstSentAt: Timestamp,
        settledAt: Timestamp,
        exchanges: [ReportExchange] = [],
        details: Details = Details()
    ) {
        self.requestIdentifier = requestIdentifier
        self.externalPurchaseID = externalPurchaseID
        self.appAppleID = appAppleID
        self.status = status
        self.outcome = outcome
        self.httpStatus = httpStatus
        self.errors = errors
        self.attempts = attempts
        self.reason = reason
        self.firstSentAt = firstSentAt
        self.settledAt = settledAt
        self.exchanges = exchanges
        self.details = details
    }
}

/// A value of `account-tokens.requested.v1`.
package struct AccountTokenRequested: Equatable, Sendable {
    package var appAccountToken: String
    package var subject: Subject
    package var requestedAt: Timestamp
    package var requestID: String

    /// Which transaction: signed by Apple, or named by hand.
    package enum Subject: Equatable, Sendable {
        case signedTransaction(String)
        case original(transactionID: String, bundleID: String, environment: AppleEnvironment)
    }

    package init(
        appAccountToken: String,
        subject: Subject,
        requestedAt: Timestamp,
        requestID: String
    ) {
        self.appAccountToken = appAccountToken
        self.subject = subject
        self.requestedAt = requestedAt
        self.requestID = requestID
    }
}

/// A value of `account-tokens.outcomes.v1`.
package struct AccountTokenOutcome: Equatable, Sendable {
    package enum Outcome: String, Sendable {
        case accepted, rejected
    }

    package var originalTransactionID: String
    package var appAccountToken: String
    package var outcome: Outcome
    package var httpStatus: Int
    package var errorCode: Int64?
    package var attempts: Int
    package var settledAt: Timestamp

    package init(
        originalTransactionID: String,
        appAccountToken: String,
        outcome: Outcome,
        httpStatus: Int,
        errorCode: Int64?,
        attempts: Int,
        settledAt: Timestamp
    ) {
        self.originalTransactionID = originalTransactionID
        self.appAccountToken = appAccountToken
        self.outcome = outcome
        self.httpStatus = httpStatus
        self.errorCode = errorCode
        self.attempts = attempts
        self.settledAt = settledAt
    }
}
