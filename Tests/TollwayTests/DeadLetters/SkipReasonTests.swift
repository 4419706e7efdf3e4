import StageRuntime
import Testing
import TokenDomain

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
        let command = deadLetter.command(for: TokenID("id"), lastAccepted: lastAccepted)
        // A discard of all of the token's would take with it what may still go back.
        let stage = stage.rawValue
        #expect(
            command
                == (goesBack
                    ? "tollway dlq replay --token id --stage \(stage)"
                    : "tollway dlq discard --stage \(stage) --partition 0 --offset 1 --why TEXT")
        )
        var account = TokenAccount(
            externalPurchaseID: TokenID("id"),
            touchedAt: Timestamp(milliseconds: 1)
        )
        account.lastAccepted = lastAccepted
        let lines = TraceStanding(
            id: TokenID("id"),
            account: account,
            deadLetters: [deadLetter],
            now: Timestamp(milliseconds: 2)
        ).lines
        #expect(lines.first?.hasSuffix(command) == true, "\(lines)")
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
