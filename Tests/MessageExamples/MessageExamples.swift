package import TokenDomain

/// One message of each kind with everything in it, and one with as little as it may have.
package enum MessageExamples {
    package static let token = ExternalPurchaseToken(
        externalPurchaseID: TokenID("SANDBOX_1c2d3e4f-0000-4000-8000-00000000a001"),
        appAppleID: 1_234_567_890,
        bundleID: "com.example",
        tokenType: .services,
        tokenCreationDate: Timestamp(milliseconds: 1_706_169_600_000),
        tokenExpirationDate: Timestamp(milliseconds: 1_706_173_200_000)
    )
    package static let bareToken = ExternalPurchaseToken(
        externalPurchaseID: TokenID("00000000-0000-0000-0000-000000000000"),
        appAppleID: 1,
        bundleID: "é\"\\\u{1}\u{1f600}",
        tokenCreationDate: Timestamp(milliseconds: 1)
    )
    package static let customer = CustomerID("c1.4ZGy9n0wQfWkzJ3m0aQm4o1v8rjL2N5uXb7cKdTeYh0")
    package static let time = Timestamp(milliseconds: 1_760_000_000_000)

    package static let received = [
        TokenReceived(
            token: "eyJ9",
            customer: customer,
            receivedAt: time,
            source: .link,
            bundleID: "com.example",
            requestID: "r-1"
        ),
        TokenReceived(
            token: " \n",
            customer: nil,
            receivedAt: nil,
            source: .app,
            bundleID: nil,
            requestID: ""
        ),
    ]
    package static let decoded = [
        TokenDecoded(token: token, customer: customer, receivedAt: time, text: "eyJ9"),
        TokenDecoded(token: bareToken, customer: nil, receivedAt: time, text: "e+/_ ="),
    ]
    package static let distinct = [
        distinct(token, customer, .primary),
        distinct(token, customer, .duplicate(of: TokenID("another"))),
        distinct(bareToken, nil, .seen),
        promoted,
        TokenDistinct(
            externalPurchaseID: token.externalPurchaseID,
            appAppleID: nil,
            bundleID: nil,
            tokenType: nil,
            tokenCreationDate: nil,
            tokenExpirationDate: nil,
            customer: nil,
            receivedAt: time,
            role: .seen
        ),
    ]
    package static let notificationsReceived = [
        NotificationReceived(signedPayload: "e30.e30.AA", receivedAt: time)
    ]
    package static let notificationsVerified = [
        NotificationVerified(
            notificationUUID: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            subtype: "UNREPORTED",
            signedDate: time,
            token: token,
            receivedAt: time
        ),
        NotificationVerified(
            notificationUUID: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e40",
            subtype: nil,
            signedDate: time,
            token: bareToken,
            receivedAt: time
        ),
    ]
    package static let notificationsOther = [
        NotificationOther(
            notificationType: "RESCIND_CONSENT",
            subtype: "S",
            notificationUUID: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e41",
            signedDate: time,
            payload: #"{"notificationType": "RESCIND_CONSENT","appData":{}}"#,
            receivedAt: time
        ),
        NotificationOther(
            notificationType: "TEST",
            subtype: nil,
            notificationUUID: nil,
            signedDate: nil,
            payload: "{}",
            receivedAt: time
        ),
    ]
    package static let reportsRequested = [
        ReportRequested(
            externalPurchaseID: token.externalPurchaseID,
            appAppleID: 1,
            bundleID: "com.example",
            status: .lineItem,
            requestIdentifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            lineItems: #"[{"lineItemId": "a", "amountTaxInclusive": 4990}]"#,
            purchaseKey: PurchaseKey(customer.text),
            askedAt: time,
            tokenCreationDate: token.tokenCreationDate,
            tokenExpirationDate: token.tokenExpirationDate
        ),
        ReportRequested(
            externalPurchaseID: token.externalPurchaseID,
            appAppleID: 1,
            bundleID: "com.example",
            status: .noLineItem,
            requestIdentifier: nil,
            lineItems: nil,
            deadline: time
        ),
    ]
    package static let reportsOutcomes = [
        outcome(.accepted, httpStatus: 200, errors: []),
        outcome(
            .rejected,
            httpStatus: 400,
            errors: [
                AppleError(code: 6, fieldName: "creationDate", lineItemID: "a"),
                AppleError(code: 1, fieldName: nil, lineItemID: nil),
            ],
            details: ReportOutcome.Details(
                lineItems: #"[{"lineItemId": "a", "amountTaxInclusive": 4990}]"#,
                tokenCreationDate: token.tokenCreationDate,
                tokenExpirationDate: token.tokenExpirationDate,
                deadline: time,
                lateBySeconds: 7,
                purchaseKey: PurchaseKey(customer.text)
            )
        ),
    ]
    package static let tokensRefused = [
        TokenRefused(
            externalPurchaseID: token.externalPurchaseID,
            customer: customer,
            refusedAt: time
        ),
        TokenRefused(
            externalPurchaseID: bareToken.externalPurchaseID,
            customer: nil,
            refusedAt: time,
            withdrawnAt: time
        ),
    ]
    package static let purchasesAnswered = [
        PurchaseAnswered(
            requestIdentifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            externalPurchaseID: token.externalPurchaseID,
            lineItemIDs: ["a", "\u{1f600}\"b"],
            outcome: .accepted,
            errors: [],
            askedAt: Timestamp(milliseconds: 1_760_000_000_123),
            settledAt: time
        ),
        PurchaseAnswered(
            requestIdentifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            externalPurchaseID: token.externalPurchaseID,
            lineItemIDs: ["a"],
            outcome: .rejected,
            errors: [AppleError(code: 12, fieldName: "netAmountTaxExclusive", lineItemID: "a")],
            reason: "report.rejected",
            verifiedLineItemIDs: ["b"],
            verifiedRequestIdentifiers: ["0c1a525b-4f0e-4a55-9f1e-7f6a0c1d2e3f"],
            settledAt: time
        ),
        PurchaseAnswered(
            requestIdentifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            externalPurchaseID: token.externalPurchaseID,
            lineItemIDs: ["a"],
            outcome: .rejected,
            errors: [],
            reason: "report.is_duplicate",
            primaryExternalPurchaseID: TokenID("first\u{1}"),
            settledAt: time
        ),
    ]
    package static let purchasesOutcomes = [
        PurchaseOutcome(
            lineItemID: "a",
            revision: 2,
            type: .restate,
            outcome: .reported,
            externalPurchaseID: token.externalPurchaseID,
            requestIdentifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            reason: "accepted",
            errors: [AppleError(code: 36, fieldName: "creationDate", lineItemID: "a")],
            item: #"{"lineItemId": "a", "amountTaxInclusive": 4990}"#,
            receivedAt: time,
            settledAt: time
        ),
        PurchaseOutcome(
            lineItemID: "b",
            revision: 1,
            type: .buy,
            outcome: .notOwed,
            externalPurchaseID: nil,
            requestIdentifier: nil,
            reason: "no_active_token",
            errors: [],
            item: nil,
            receivedAt: time,
            settledAt: time,
            lane: Lane(appAppleID: 7, environment: .sandbox),
            firstFailedAt: "2026-01-01T00:00:00.000Z"
        ),
    ]
    package static let accountTokensRequested = [
        AccountTokenRequested(
            appAccountToken: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            subject: .signedTransaction("e30.e30.AA"),
            requestedAt: time,
            requestID: "r-1"
        ),
        AccountTokenRequested(
            appAccountToken: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            subject: .original(
                transactionID: "2000000000000001",
                bundleID: "com.example",
                environment: .sandbox
            ),
            requestedAt: time,
            requestID: "r-2"
        ),
    ]
    package static let accountTokensOutcomes = [
        accountOutcome(.accepted, httpStatus: 200, errorCode: nil),
        accountOutcome(.rejected, httpStatus: 400, errorCode: 4_000_183),
    ]

    package static let laneOrders = [
        LaneOrder(
            lane: Lane(appAppleID: 1_234_567_890, environment: .production),
            state: .paused,
            resetAt: time,
            by: "ann@host",
            why: "Apple asked \"us\" to",
            at: time
        ),
        LaneOrder(
            lane: Lane(appAppleID: 1, environment: .sandbox),
            state: .open,
            by: "a",
            why: "b",
            at: Timestamp(milliseconds: 1)
        ),
    ]

    private static let promoted: TokenDistinct = {
        var promoted = distinct(token, customer, .primary)
        promoted.promotedFrom = TokenID("forged")
        return promoted
    }()

    private static func distinct(
        _ token: ExternalPurchaseToken,
        _ customer: CustomerID?,
        _ role: TokenRole
    ) -> TokenDistinct {
        TokenDistinct(
            externalPurchaseID: token.externalPurchaseID,
            appAppleID: token.appAppleID,
            bundleID: token.bundleID,
            tokenType: token.tokenType,
            tokenCreationDate: token.tokenCreationDate,
            tokenExpirationDate: token.tokenExpirationDate,
            customer: customer,
            receivedAt: time,
            role: role
        )
    }

    private static func outcome(
        _ outcome: ReportOutcome.Outcome,
        httpStatus: Int,
        errors: [AppleError],
        details: ReportOutcome.Details = .init()
    ) -> ReportOutcome {
        ReportOutcome(
            requestIdentifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            externalPurchaseID: token.externalPurchaseID,
            appAppleID: 1,
            status: .noLineItem,
            outcome: outcome,
            httpStatus: httpStatus,
            errors: errors,
            attempts: 2,
            reason: "hold",
            firstSentAt: time,
            settledAt: time,
            exchanges: outcome == .rejected
                ? [exchange(.send, 0, nil), exchange(.retrieve, 404, 4_040_001)] : [],
            details: details
        )
    }

    private static func exchange(
        _ request: ReportRequest,
        _ httpStatus: Int,
        _ errorCode: Int64?
    ) -> ReportExchange {
        ReportExchange(
            request: request,
            sentAt: time,
            answeredAt: time,
            httpStatus: httpStatus,
            errorCode: errorCode
        )
    }

    private static func accountOutcome(
        _ outcome: AccountTokenOutcome.Outcome,
        httpStatus: Int,
        errorCode: Int64?
    ) -> AccountTokenOutcome {
        AccountTokenOutcome(
            originalTransactionID: "2000000000000001",
            appAccountToken: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            outcome: outcome,
            httpStatus: httpStatus,
            errorCode: errorCode,
            attempts: 1,
            settledAt: time
        )
    }
}
