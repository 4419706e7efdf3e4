import AppStoreAPI
import Kafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `Apple's answers` {
    @Test(
        arguments: [
            (.tokensReceived, false), (.tokensDecoded, false), (.tokensRefused, false),
            (.tokensDistinct, false), (.notificationsVerified, false), (.reportsRequested, true),
        ] as [(Topic, Bool)]
    )
    func `hold reports back, and no token, whose sales would wait for it`(
        target: Topic,
        isAsked: Bool
    ) {
        var subject = DeadLetterSubject()
        subject.externalPurchaseID = "id"
        subject.status = .noLineItem
        let question = DeadLetterJudge.question(target, failedAt: 1, subject)
        #expect((question != nil) == isAsked)
    }

    @Test(
        arguments: [
            (.decode, nil, .lineItem, true), (.dedupe, nil, .unrecognizedToken, true),
            (.purchases, nil, .noLineItem, true), (.report, .lineItem, .noLineItem, true),
            (.report, .noLineItem, .lineItem, false),
        ] as [(Worker, ReportStatus?, ReportStatus, Bool)]
    )
    func `decide what a trace advises as they decide a replay`(
        stage: Worker,
        status: ReportStatus?,
        lastAccepted: ReportStatus,
        goesBack: Bool
    ) throws {
        let value = status.map { #"{"status":"\#($0.rawValue)"}"# } ?? "{}"
        let found = TopicReader.Found(
            topic: Topic.deadLetters(stage).name(prefix: "t."),
            partition: 0,
            offset: 1,
            timestamp: 1,
            key: [],
            value: Array(value.utf8),
            headers: [:]
        )
        let deadLetter = try #require(TraceDeadLetter(found, prefix: "t.", deadlineDays: 10))
        var account = TokenAccount(
            externalPurchaseID: TokenID("id"),
            touchedAt: Timestamp(milliseconds: 1)
        )
        account.lastAccepted = lastAccepted
        let remedy = deadLetter.remedy(for: TokenID("id"), account)
        let command = remedy.command
        // A discard of all of the token's would take with it what may still go back.
        let stage = stage.rawValue
        #expect(
            command
                == (goesBack
                    ? "tollway dlq replay --token id --stage \(stage)"
                    : "tollway dlq discard --stage \(stage) --partition 0 --offset 1 --why TEXT")
        )
        let lines = TraceStanding(
            id: TokenID("id"),
            account: account,
            deadLetters: [deadLetter],
            now: Timestamp(milliseconds: 2)
        ).lines
        #expect(lines.first?.hasSuffix(command) == true, "\(lines)")
    }
}

@Suite struct `A dead letter's code` {
    private static let identifier = ReportPolicy.identifier(TokenID("id"), 1)
    private static let value =
        #"{"externalPurchaseId":"id","status":"LINE_ITEM","requestIdentifier":"\#(identifier)"}"#

    private func headers(_ code: String) -> [UInt8] {
        var headers: [UInt8] = []
        DeadLetter(
            fault: Fault(code: code, message: "m"),
            worker: .report,
            origin: DeadLetter.Origin(
                topic: "t.reports.requested.v1",
                partition: 0,
                offset: 1,
                group: "t.report"
            ),
            failedAt: Timestamp(milliseconds: 1)
        ).appendHeaders(to: &headers)
        return headers
    }

    /// Apple holds a report that the ledger knows nothing of.
    @Test(
        arguments: [
            ("report.identifier_conflict", nil, .identifierConflict),
            (
                "report.identifier_conflict", #"{"status":"NO_LINE_ITEM"}"#,
                .identifierConflict
            ),
            ("report.identifier_conflict", #"{"requestIdentifier":null}"#, nil),
            ("report.rejected", nil, nil),
        ] as [(String, String?, SkipReason?)]
    )
    func `holds a report back under the identifier of another one`(
        code: String,
        patch: String?,
        why: SkipReason?
    ) throws {
        var batch = RecordBatch()
        batch.arena = headers(code)
        let start = batch.arena.count
        batch.arena += Array(Self.value.utf8)
        let record = RecordBatch.Record(
            topic: 0,
            partition: 0,
            offset: 1,
            timestampMilliseconds: 1,
            key: .absent,
            value: ByteRange(start: start, count: batch.arena.count - start),
            headers: ByteRange(start: 0, count: start)
        )
        let deadLetter = DeadLetterRecord(record, stage: .report, in: batch.arena.span)
        let subject = SubjectReader().read(batch.arena.span.extracting(record.value.indices))
        let patcher = ReplayPatcher(try patch.map { try MergePatch(Array($0.utf8)) })
        let patched = patcher.patched(deadLetter, in: batch, subject: subject)
        let judge = DeadLetterJudge(
            prefix: "t.",
            replayCountMax: 2,
            forgottenBefore: nil,
            plannedBefore: nil
        )
        let outgoing = try #require(patched).subject
        switch judge.judge(deadLetter, in: batch, subject: outgoing) {
        case .skip(let reason): #expect(reason == why)
        case .go: #expect(why == nil)
        }
    }

    @Test(
        arguments: [
            ("report.rejected", 1, "tollway dlq replay --token id --stage report"),
            (
                "report.rejected", 2,
                "tollway dlq replay --token id --stage report --replays-max 3"
            ),
            // No option takes more.
            ("report.rejected", 100, "tollway dlq replay --token id --stage report"),
            ("report.identifier_conflict", 0, "tollway report show \(identifier) --ask-apple"),
            (
                "report.bad_key", 0,
                "tollway dlq discard --stage report --partition 0 --offset 1 --why TEXT"
            ),
        ] as [(String, Int, String)]
    )
    func `decides what a trace advises`(code: String, replays: Int, command: String) throws {
        let found = TopicReader.Found(
            topic: Topic.deadLetters(.report).name(prefix: "t."),
            partition: 0,
            offset: 1,
            timestamp: 1,
            key: [],
            value: Array(Self.value.replacing("LINE_ITEM", with: "NO_LINE_ITEM").utf8),
            headers: [
                "tollway.dlq.code": code, "tollway.dlq.replay_count": String(replays),
            ]
        )
        let deadLetter = try #require(TraceDeadLetter(found, prefix: "t.", deadlineDays: 10))
        func advised(_ change: (inout TokenAccount) -> Void) -> String {
            var account = TokenAccount(
                externalPurchaseID: TokenID("id"),
                touchedAt: Timestamp(milliseconds: 1)
            )
            account.intentCount = 1
            account.parked = [
                ReportIntent(
                    number: 1,
                    identifier: Self.identifier,
                    status: .noLineItem,
                    lineItems: nil,
                    reason: .hold,
                    origin: RecordOrigin(topic: 0, partition: 0, offset: 0),
                    deadline: Timestamp(milliseconds: 1)
                )
            ]
            change(&account)
            return deadLetter.remedy(for: TokenID("id"), account).command
        }
        #expect(deadLetter.remedy(for: TokenID("id"), nil).command == command)
        #expect(advised { _ in } == command)
        // What Apple has accepted since ends it all the same: what may not follow, and what the token
        // owed by itself, be it kept by an earlier version or not; but no month's report.
        #expect(advised { $0.lastAccepted = .duplicateToken } == deadLetter.discard)
        #expect(advised { $0.lastAccepted = .noLineItem } == deadLetter.discard)
        let dropped = advised { account in
            account.lastAccepted = .noLineItem
            account.parked = []
        }
        #expect(dropped == deadLetter.discard)
        // Under an identifier that the account has not given it may be sent.
        let foreign = advised { account in
            account.lastAccepted = .noLineItem
            account.parked = []
            account.intentCount = 0
        }
        #expect(foreign == command)
        let month = advised { account in
            account.lastAccepted = .noLineItem
            account.parked[0].reason = .month
        }
        #expect(month == command)
    }
}

@Suite struct `A dead letter's time` {
    private static let madeAt: Int64 = 1_772_366_400_000
    private static let plan = DeadLetterJudge(
        prefix: "t.",
        replayCountMax: 2,
        forgottenBefore: madeAt - 1_000,
        plannedBefore: madeAt + 600_000
    )

    @Test(
        arguments: [
            (-1_001, .forgotten), (-1_000, nil), (600_000, nil), (600_001, .newerThanPlan),
        ] as [(Int64, SkipReason?)]
    )
    func `tells whether the plan that is followed means it`(after: Int64, why: SkipReason?) {
        #expect(Self.plan.skipReason(writtenAt: Self.madeAt + after) == why)
        // Without a plan there is nothing to be newer than.
        let free = DeadLetterJudge(
            prefix: "t.",
            replayCountMax: 2,
            forgottenBefore: nil,
            plannedBefore: nil
        )
        #expect(free.skipReason(writtenAt: Self.madeAt + after) == nil)
    }
}
