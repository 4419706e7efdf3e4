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
        #expect(command.hasPrefix(goesBack ? "tollway dlq replay" : "tollway dlq discard"))
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
