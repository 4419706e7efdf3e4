package import TokenDomain

/// Values of `report.state.v1`, full and bare.
extension MessageExamples {
    package static let accounts = [
        fullAccount(),
        TokenAccount(externalPurchaseID: TokenID("a"), touchedAt: Timestamp(milliseconds: 0)),
    ]

    /// Each in a record of its own.
    package static let waitingReports: [ReportIntent] = {
        let bare = ReportIntent(
            number: 1,
            identifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            status: .noLineItem,
            lineItems: nil,
            reason: .request,
            origin: RecordOrigin(topic: 2, partition: 0, offset: 1),
            deadline: time
        )
        var full = bare
        full.status = .lineItem
        full.lineItems = #"[{"lineItemId": "ä"}]"#
        full.isRepeat = true
        return [bare, full]
    }()

    package static let accountTokenDebts: [AccountTokenDebt] = {
        let bare = AccountTokenDebt(
            originalTransactionID: "1",
            lane: Lane(appAppleID: 1, environment: .sandbox),
            bundleID: "com.example",
            touchedAt: time
        )
        var full = bare
        let request = AccountTokenDebt.Request(
            appAccountToken: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            requestedAt: time,
            requestID: "r-1",
            origin: RecordOrigin(topic: 3, partition: 0, offset: 1),
            history: ReplayHistory(
                firstFailedAt: nil,
                attempts: 0,
                replayCount: 1,
                replayID: nil
            )
        )
        full.current = request
        full.next = request
        full.newest = request
        full.attempts = 2
        full.failedCount = 1
        full.nextAttemptAt = time
        return [bare, full]
    }()

    private static func fullAccount() -> TokenAccount {
        var account = TokenAccount(
            externalPurchaseID: TokenID("SANDBOX_\u{7}é\"1"),
            touchedAt: time
        )
        let origin = RecordOrigin(topic: 2, partition: 11, offset: .max)
        var intent = ReportIntent(
            number: 3,
            identifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            status: .lineItem,
            lineItems: #"[ {"lineItemId": "ä\u0001"} ]"#,
            reason: .request,
            origin: origin,
            deadline: Timestamp(milliseconds: -5),
            phase: .doubtful,
            takenSince: time,
            attempts: 4,
            inquiries: 2,
            firstSentAt: time,
            nextAttemptAt: time + .seconds(1),
            refusal: [AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: "x")],
            history: ReplayHistory(
                firstFailedAt: "2026-01-01T00:00:00.000Z",
                attempts: 3,
                replayCount: 2,
                replayID: "r"
            )
        )
        for number in 0..<ReportIntent.exchangeCountMax + 2 {
            intent.note(
                ReportExchange(
                    request: number % 2 == 0 ? .send : .retrieve,
                    sentAt: time + .seconds(Int64(number)),
                    answeredAt: time + .seconds(Int64(number) + 1),
                    httpStatus: number,
                    errorCode: number == 0 ? 1 : nil
                )
            )
        }
        account.trace = TraceParent(random: [UInt8](repeating: 2, count: 24))
        account.appAppleID = 1
        account.bundleID = "com.example"
        account.tokenType = TokenType(text: "IN_APP")
        account.tokenCreationDate = time
        account.tokenExpirationDate = time + .days(1)
        account.role = .duplicate(of: TokenID("first"))
        account.customer = CustomerID("c1.x")
        account.ownerConflictCount = 2
        account.otherCustomers = [CustomerID("c1.y"), CustomerID("c1.z")]
        account.lastAccepted = .noLineItem
        account.lastAcceptedAt = time
        account.intentCount = 5
        intent.purchaseKey = PurchaseKey("c1.x")
        intent.askedAt = time
        intent.search = LineItemSearch(
            number: 2,
            open: ["a\u{1}"],
            verified: ["b", "c"],
            holders: ["h1", "h2"],
            requestCountBefore: 5
        )
        account.current = intent
        intent.purchaseKey = nil
        intent.askedAt = nil
        intent.search = nil
        account.refusedAt = time
        intent.lineItems = nil
        intent.phase = .planned
        account.line = RequestLine(
            first: 7,
            end: 1_000_000,
            lineItemByteCountMax: 262_144,
            textByteCountMax: 36
        )
        intent.frozenHash = .max
        account.parked = [intent]
        account.debt = .init(dueAt: time, reason: .month, origin: origin)
        account.waitingNotice = .init(
            receivedAt: time,
            guardedFrom: time + .minutes(15),
            origin: origin
        )
        account.waitingReminder = .init(receivedAt: time, guardedFrom: nil, origin: origin)
        account.notices = [
            .init(signedDate: time, uuid: "a"), .init(signedDate: time, uuid: "b"),
        ]
        account.accepted = [
            AcceptedReport(number: 1, identifier: nil, status: .lineItem, contentHash: .max),
            AcceptedReport(number: 2, identifier: "x", status: .noLineItem, contentHash: 0),
        ]
        account.lastRequestOffset = 0
        account.lastRequestAt = time
        return account
    }
}
