import Testing
import TokenDomain

@testable import tollway

@Suite struct `Apple's answers` {
    @Test(
        arguments: [
            (.tokensDecoded, .dedupe, true), (.tokensDecoded, .purchases, false),
            (.tokensRefused, .purchases, false), (.tokensReceived, .decode, true),
            (.tokensDistinct, .report, true), (.notificationsVerified, .report, false),
        ] as [(Topic, Worker, Bool)]
    )
    func `keep no token from purchases`(target: Topic, stage: Worker, isAsked: Bool) {
        var subject = DeadLetterSubject()
        subject.externalPurchaseID = "id"
        let question = DeadLetterJudge.question(target, of: stage, failedAt: 1, subject)
        #expect((question != nil) == isAsked)
    }
}
