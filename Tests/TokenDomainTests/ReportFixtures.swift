import Testing
import TokenDomain

/// What the tests of the report rules share: one policy, one token, and records about it.
enum ReportFixtures {
    static let policy = ReportPolicy { id, number in "\(id.text)#\(number)" }
    static let id = TokenID("1c2d3e4f-0000-4000-8000-00000000a001")
    /// The date 2026-01-10T00:00:00Z.
    static let created = Timestamp(milliseconds: 1_768_003_200_000)
    static let received = created + .hours(1)

    static var token: ExternalPurchaseToken {
        ExternalPurchaseToken(
            externalPurchaseID: id,
            appAppleID: 1_234_567_890,
            bundleID: "com.example",
            tokenType: .services,
            tokenCreationDate: created,
            tokenExpirationDate: created + .days(365)
        )
    }

    static func distinct(
        _ role: TokenRole = .primary,
        customer: String? = nil,
        at time: Timestamp = received
    ) -> TokenDistinct {
        TokenDistinct(
            externalPurchaseID: id,
            appAppleID: token.appAppleID,
            bundleID: token.bundleID,
            tokenType: token.tokenType,
            tokenCreationDate: token.tokenCreationDate,
            tokenExpirationDate: token.tokenExpirationDate,
            customer: customer.map(CustomerID.init),
            receivedAt: time,
            role: role
        )
    }

    static func notice(
        _ subtype: String,
        uuid: String = "notice",
        at time: Timestamp = received
    ) -> NotificationVerified {
        NotificationVerified(
            notificationUUID: uuid,
            subtype: subtype,
            signedDate: time,
            token: token,
            receivedAt: time
        )
    }

    static func request(
        _ status: ReportStatus,
        identifier: String? = nil,
        lineItems: String? = nil
    ) -> ReportRequested {
        ReportRequested(
            externalPurchaseID: id,
            appAppleID: token.appAppleID,
            bundleID: token.bundleID,
            status: status,
            requestIdentifier: identifier,
            lineItems: lineItems
        )
    }

    static func account() -> TokenAccount {
        TokenAccount(externalPurchaseID: id, touchedAt: received)
    }

    static func origin(_ topic: Int, _ offset: Int64) -> RecordOrigin {
        RecordOrigin(topic: topic, partition: 0, offset: offset)
    }

    /// Apple's answer to the next request of an account.
    static func answer(
        _ meaning: ReportAnswer,
        to account: TokenAccount,
        at time: Timestamp,
        httpStatus: Int = 200,
        errors: [AppleError] = []
    ) -> AnsweredReport {
        AnsweredReport(
            number: account.current?.number ?? 0,
            requestCount: account.current?.requestCount ?? 0,
            request: account.nextRequest ?? .send,
            meaning: meaning,
            httpStatus: httpStatus,
            errors: errors,
            sentAt: time,
            answeredAt: time,
            retryAt: time + .seconds(10)
        )
    }
}

extension TokenAccount {
    /// Absorbs a token and plans what is due.
    mutating func take(
        _ distinct: TokenDistinct,
        offset: Int64 = 1,
        now: Timestamp
    ) -> Absorption {
        let policy = ReportFixtures.policy
        let absorption = absorb(
            distinct,
            origin: ReportFixtures.origin(0, offset),
            now: now,
            policy: policy
        )
        _ = advance(now: now, policy: policy)
        return absorption
    }

    mutating func take(
        _ notice: NotificationVerified,
        offset: Int64 = 1,
        now: Timestamp
    ) -> Absorption {
        let policy = ReportFixtures.policy
        let absorption = absorb(
            notice,
            origin: ReportFixtures.origin(1, offset),
            now: now,
            policy: policy
        )
        _ = advance(now: now, policy: policy)
        return absorption
    }

    /// A record without a time of its own has none.
    mutating func take(
        _ request: ReportRequested,
        offset: Int64 = 1,
        isTimed: Bool = true,
        now: Timestamp
    ) -> Absorption {
        let policy = ReportFixtures.policy
        let absorption = absorb(
            request,
            origin: ReportFixtures.origin(2, offset),
            time: isTimed ? now : nil,
            now: now,
            policy: policy
        )
        _ = advance(now: now, policy: policy)
        return absorption
    }

    /// Has the next report in line in memory, as the state would have it.
    mutating func layNext(from records: [Int: ReportIntent?]) {
        if !line.isEmpty, case .some(.some(let intent)) = records[line.first] {
            line.lay(intent)
        }
    }

    /// Apple answers the next request.
    mutating func hear(
        _ meaning: ReportAnswer,
        at time: Timestamp,
        httpStatus: Int = 200,
        errors: [AppleError] = []
    ) -> [ReportEffect] {
        absorb(
            ReportFixtures.answer(
                meaning,
                to: self,
                at: time,
                httpStatus: httpStatus,
                errors: errors
            ),
            policy: ReportFixtures.policy
        )
    }
}

/// `#expect` evaluates its parts in closures, where nothing can be changed; here they are plain
/// arguments.
func expect<Value: Equatable>(
    _ found: Value,
    _ wanted: Value,
    sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(found == wanted, sourceLocation: sourceLocation)
}
