import AppStoreAPI
import Kafka
import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import report

/// What is stored of a token must fit one record of Kafka's, whatever its records and Apple's
/// answers say.
@Suite struct `The size of an account` {
    private static let policy = ReportPolicy(requestIdentifier: ReportPolicy.identifier)

    /// The longest text that a field takes, of characters that JSON writes with six.
    private static func long(_ limit: TextLimit) -> String {
        String(repeating: "\u{1}", count: limit.byteCountMax)
    }

    private static func byteCount(_ account: TokenAccount) -> Int {
        var value: [UInt8] = []
        account.write(to: &value)
        return value.count + account.externalPurchaseID.text.utf8.count
    }

    /// Goal: whatever was let in within a limit stays within it, through every answer of Apple's.
    @Test(arguments: 0..<6)
    func `never passes its bound`(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let limit = seed % 2 == 0 ? 262_144 : 131_072
        let isLong = seed % 3 != 0
        let id = TokenID(isLong ? Self.long(.tokenField) : "1c2d")
        let token = ExternalPurchaseToken(
            externalPurchaseID: id,
            appAppleID: .max,
            bundleID: isLong ? Self.long(.tokenField) : "com.example",
            tokenType: isLong ? TokenType(text: Self.long(.tokenField)) : .services,
            tokenCreationDate: ReportBench.start,
            tokenExpirationDate: ReportBench.start + .days(365)
        )
        var account = TokenAccount(externalPurchaseID: id, touchedAt: ReportBench.start)
        var now = ReportBench.start
        var refusedCount = 0
        for step in 0..<40 as Range<Int64> {
            now = now + .hours(1)
            var next = account
            switch generator.next() % 8 {
            case 0:
                _ = next.absorb(
                    distinct(token, isLong, now),
                    origin: origin(0, step),
                    now: now,
                    policy: Self.policy
                )
            case 1, 2:
                _ = next.absorb(
                    notice(token, step, now),
                    origin: origin(1, step),
                    now: now,
                    policy: Self.policy
                )
            case 3, 4:
                _ = next.absorb(
                    request(token, step, &generator),
                    origin: origin(2, step),
                    time: now,
                    now: now,
                    history: ReplayHistory(
                        firstFailedAt: String(repeating: "\u{1}", count: 192),
                        attempts: .max,
                        replayCount: .max,
                        replayID: String(repeating: "\u{1}", count: 192)
                    ),
                    policy: Self.policy
                )
            default:
                answer(&account, now, &generator)
                #expect(Self.byteCount(account) <= limit, "seed \(seed), step \(step)")
                continue
            }
            _ = next.advance(now: now, policy: Self.policy)
            guard next.byteCountBound <= limit || next.byteCountBound <= account.byteCountBound
            else {
                refusedCount += 1
                continue
            }
            account = next
            account.trace = TraceParent(
                random: [UInt8](repeating: UInt8(truncatingIfNeeded: step), count: 24)
            )
            #expect(Self.byteCount(account) <= account.byteCountBound, "seed \(seed), step \(step)")
        }
        #expect(account.hasSubstance)
        #expect(limit == 262_144 || refusedCount > 0, "seed \(seed): nothing was too large")
    }

    @Test func `has room for the holders of all line items that are searched for`() {
        let texts = (0..<ReportIntent.refusalCountMax).map { _ in
            String(
                repeating: "\u{1}",
                count: ReportIntent.refusalTextByteCountMax / ReportIntent.refusalCountMax
            )
        }
        let id = TokenID("1c2d")
        var account = TokenAccount(externalPurchaseID: id, touchedAt: ReportBench.start)
        var intent = ReportIntent(
            number: 1,
            identifier: String(repeating: "a", count: TextLimit.identifier.byteCountMax),
            status: .lineItem,
            lineItems: nil,
            reason: .request,
            origin: origin(2, .max),
            deadline: ReportBench.start
        )
        intent.keep(texts.map { AppleError(code: 1, fieldName: nil, lineItemID: $0) })
        intent.search = LineItemSearch(number: 1, open: [], verified: texts)
        account.current = intent
        let byteCount = Self.byteCount(account)
        let bound = account.byteCountBound
        account.current?.search?.holders = texts.map { _ in intent.identifier }
        let added = Self.byteCount(account) - byteCount
        // Nothing of what the rest needs in the worst case is taken.
        #expect(intent.refusal.count == texts.count && added > 8_192)
        #expect(account.byteCountBound == bound && TokenAccount.holderByteCount >= added)
    }

    @Test func `of a transaction is far below what any topic takes`() {
        var debt = AccountTokenDebt(
            originalTransactionID: Self.long(.identifier),
            lane: Lane(appAppleID: .max, environment: .production),
            bundleID: Self.long(.tokenField),
            touchedAt: Timestamp(milliseconds: .max)
        )
        let text = String(repeating: "\u{1}", count: 192)
        debt.current = AccountTokenDebt.Request(
            appAccountToken: Self.long(.identifier),
            requestedAt: Timestamp(milliseconds: .max),
            requestID: Self.long(.identifier),
            origin: RecordOrigin(topic: 3, partition: .max, offset: .max),
            trace: TraceParent(random: [UInt8](repeating: 1, count: 24)),
            history: ReplayHistory(
                firstFailedAt: text,
                attempts: .max,
                replayCount: .max,
                replayID: text
            )
        )
        debt.next = debt.current
        debt.newest = debt.current
        var value: [UInt8] = []
        debt.write(to: &value)
        #expect(value.count + debt.originalTransactionID.utf8.count < 65_536)
    }

    @Test func `is the fault of the record that would pass it, however many wait`() throws {
        let bench = ReportBench()
        bench.limits.outputRecordByteCountMax = 140_000
        bench.launch()
        bench.script = { _ in .status(503) }
        bench.distinct(bench.id(1))
        func items(_ count: Int) -> String {
            #"[{"lineItemId":"\#(String(repeating: "x", count: count))"}]"#
        }
        for count in [20_000, 60_000, 20_000, 20_000, 20_000, 20_000] {
            bench.request(bench.id(1), .lineItem, lineItems: items(count))
        }
        try bench.pass(.seconds(1))
        #expect(bench.tally.deadLetterCodes == ["report.account_full"])
        let deadLetters = bench.deadLetters()
        #expect(
            deadLetters.allSatisfy {
                String(decoding: $0.value, as: UTF8.self).contains(items(60_000))
            }
        )
        bench.script = { _ in .answered }
        try bench.pass(.hours(2))
        #expect(
            bench.appleStore.statuses[bench.id(1).text]
                == [String](repeating: "LINE_ITEM", count: 5)
        )
    }

    @Test func `survives what filled it before: a bundle id and a notice's id of 600 KB`() throws {
        let bench = ReportBench()
        bench.launch()
        let long = String(repeating: "a", count: 600_000)
        let token =
            #""externalPurchaseId":"a","environment":"production","appAppleId":1,"#
            + #""tokenCreationDate":1,"receivedAt":1"#
        bench.append(
            .tokensDistinct,
            key: Array("a".utf8),
            value: Array(#"{\#(token),"bundleId":"\#(long)","role":"primary"}"#.utf8)
        )
        bench.append(
            .notificationsVerified,
            key: Array("a".utf8),
            value: Array(
                #"{\#(token),"bundleId":"b","notificationUUID":"\#(long)","signedDate":1}"#.utf8
            )
        )
        bench.distinct(bench.id(1))
        try bench.pass(.days(2))
        #expect(bench.tally.deadLetterCodes == ["report.bad_record", "report.bad_record"])
        #expect(bench.appleStore.accepted.count == 1)
    }

    // MARK: Records and answers

    private func origin(_ topic: Int, _ offset: Int64) -> RecordOrigin {
        RecordOrigin(topic: topic, partition: .max, offset: offset)
    }

    private func distinct(
        _ token: ExternalPurchaseToken,
        _ isLong: Bool,
        _ now: Timestamp
    ) -> TokenDistinct {
        TokenDistinct(
            externalPurchaseID: token.externalPurchaseID,
            appAppleID: token.appAppleID,
            bundleID: token.bundleID,
            tokenType: token.tokenType,
            tokenCreationDate: token.tokenCreationDate,
            tokenExpirationDate: token.tokenExpirationDate,
            customer: CustomerID(Self.long(.customer)),
            receivedAt: now,
            role: .duplicate(of: TokenID(isLong ? Self.long(.tokenField) : "2d3e"))
        )
    }

    private func notice(
        _ token: ExternalPurchaseToken,
        _ step: Int64,
        _ now: Timestamp
    ) -> NotificationVerified {
        NotificationVerified(
            notificationUUID: String(Self.long(.identifier).dropLast(4)) + "\(1_000 + step)",
            subtype: step % 2 == 0 ? "UNREPORTED" : "ACTIVE_TOKEN_REMINDER",
            signedDate: now,
            token: token,
            receivedAt: now
        )
    }

    private func request(
        _ token: ExternalPurchaseToken,
        _ step: Int64,
        _ generator: inout SeededGenerator
    ) -> ReportRequested {
        let isItem = generator.next() % 3 != 0
        // Quotes, which JSON within JSON doubles.
        let items = "[" + String(repeating: #""","#, count: Int(generator.next() % 20_000)) + "1]"
        let digits = String(step + 1_000)
        return ReportRequested(
            externalPurchaseID: token.externalPurchaseID,
            appAppleID: token.appAppleID,
            bundleID: token.bundleID,
            status: isItem ? .lineItem : .noLineItem,
            requestIdentifier: generator.next() % 2 == 0
                ? nil : "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d\(digits)",
            lineItems: isItem ? items : nil
        )
    }

    private func answer(
        _ account: inout TokenAccount,
        _ now: Timestamp,
        _ generator: inout SeededGenerator
    ) {
        let length = Int(generator.next() % 512)
        let error = AppleError(
            code: .max,
            fieldName: nil,
            lineItemID: String(repeating: "\u{1}", count: length)
        )
        let errors = Array(repeating: error, count: 100)
        let meanings: [ReportAnswer] = [
            .accepted, .rejected(.refused), .verify(isTaken: true, isRefused: true), .notHeld,
            .again(isDoubtful: true, notBefore: nil),
        ]
        _ = account.absorb(
            AnsweredReport(
                number: account.current?.number ?? 0,
                requestCount: account.current?.requestCount ?? 0,
                request: account.nextRequest ?? .send,
                meaning: meanings[Int(generator.next() % UInt64(meanings.count))],
                httpStatus: 400,
                errors: errors,
                sentAt: now,
                answeredAt: now,
                retryAt: now
            ),
            policy: Self.policy
        )
        _ = account.advance(now: now, policy: Self.policy)
    }
}
