import AppStoreAPI
import Kafka
import MessageExamples
import Simulation
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import report

@Suite struct `Account tokens in the report worker` {
    static let tokens = (0..<4).map { "00000000-0000-4000-8000-00000000000\($0)" }
    static let transaction = "2000000000000001"

    @Test func `are set once, and told`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.requestAccountToken(Self.tokens[0])
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accountTokens == [Self.transaction: Self.tokens[0]])
        let outcomes = try bench.accountTokenOutcomes()
        #expect(outcomes.map(\.outcome) == [.accepted])
        #expect(outcomes.first?.originalTransactionID == Self.transaction)
        #expect(bench.instances[0]?.apple.calls.count == 1)
    }

    @Test func `count no request that had no key, and neither do reports`() throws {
        let bench = ReportBench()
        var hasKey = false
        bench.script = { _ in hasKey ? .answered : .noKey }
        bench.launch()
        bench.requestAccountToken(Self.tokens[0])
        bench.distinct(bench.id(1), .duplicate(of: bench.id(9)))
        try bench.pass(.hours(1))
        #expect(try #require(bench.instances[0]?.apple.calls.count) > 10)
        hasKey = true
        try bench.pass(.minutes(15))
        #expect(try bench.accountTokenOutcomes().map(\.attempts) == [1])
        let outcome = try #require(try bench.outcomes().first)
        #expect(outcome.attempts == 1)
        #expect(outcome.exchanges.map(\.sentAt) == [outcome.firstSentAt])
    }

    @Test func `make way for what was asked for later where there is no key`() throws {
        let bench = ReportBench()
        var hasKey = false
        bench.script = { _ in hasKey ? .answered : .noKey }
        bench.latency = .seconds(1)
        let instance = bench.launch()
        bench.requestAccountToken(Self.tokens[0])
        while instance.apple.calls.isEmpty {
            _ = try instance.loop.step(waitMilliseconds: 0)
        }
        bench.requestAccountToken(Self.tokens[1], ahead: .seconds(1))
        try bench.pass(.minutes(1))
        hasKey = true
        try bench.pass(.minutes(15))
        #expect(bench.appleStore.accountTokens == [Self.transaction: Self.tokens[1]])
        #expect(try bench.accountTokenOutcomes().map(\.attempts) == [1])
    }

    /// A transaction of app 1 in the sandbox.
    private static func payload(ownership: String = "PURCHASED") -> String {
        #"{"originalTransactionId":"\#(transaction)","bundleId":"com.example.1","#
            + #""environment":"Sandbox","inAppOwnershipType":"\#(ownership)","#
            + #""signedDate":\#(SignedPayloads.signedSeconds * 1_000)}"#
    }

    private func request(_ signedTransaction: String, on bench: ReportBench) {
        var value: [UInt8] = []
        AccountTokenRequested(
            appAccountToken: Self.tokens[0],
            subject: .signedTransaction(signedTransaction),
            requestedAt: bench.clock.now,
            requestID: "r"
        ).write(to: &value)
        bench.append(.accountTokensRequested, key: nil, value: value)
    }

    @Test func `are set on a transaction that Apple has signed`() throws {
        let bench = ReportBench()
        let payloads = try SignedPayloads()
        bench.roots = payloads.roots
        bench.launch()
        request(payloads.sign(Self.payload()), on: bench)
        try bench.pass(.minutes(1))
        let calls = try #require(bench.instances[0]?.apple.calls)
        #expect(calls.map(\.lane) == [Lane(appAppleID: 1, environment: .sandbox)])
        #expect(bench.appleStore.accountTokens == [Self.transaction: Self.tokens[0]])
        #expect(try bench.accountTokenOutcomes().map(\.outcome) == [.accepted])
    }

    @Test(arguments: [
        ("forged", "jws.chain"), ("other roots", "jws.chain"), ("no roots", "report.no_roots"),
        ("of the family", "report.family_shared"),
    ])
    func `are not asked for of a transaction that is not genuine, or shared`(
        what: String,
        code: String
    ) throws {
        let bench = ReportBench()
        let payloads = try SignedPayloads()
        bench.roots =
            switch what {
            case "no roots": nil
            case "other roots": try SignedPayloads().roots
            default: payloads.roots
            }
        bench.launch()
        let payload = Self.payload(
            ownership: what == "of the family" ? "FAMILY_SHARED" : "PURCHASED"
        )
        request(
            what == "forged" ? try payloads.forge(payload) : payloads.sign(payload),
            on: bench
        )
        try bench.pass(.minutes(1))
        #expect(bench.instances[0]?.apple.calls.isEmpty == true)
        #expect(bench.tally.deadLetterCodes == [code])
        #expect(try bench.accountTokenOutcomes().map(\.outcome) == [.rejected])
    }

    @Test func `go one after the other for a transaction, and the newest wins`() throws {
        let bench = ReportBench()
        bench.latency = .seconds(2)
        bench.launch()
        bench.requestAccountToken(Self.tokens[0])
        try bench.pass(.seconds(1))
        for token in Self.tokens.dropFirst() {
            bench.requestAccountToken(token)
            try bench.pass(Milliseconds(100))
        }
        try bench.pass(.minutes(1))
        let calls = try #require(bench.instances[0]?.apple.calls)
        #expect(calls.map(\.requestIdentifier) == [Self.tokens[0], Self.tokens[3]])
        #expect(calls[1].at >= calls[0].at + .seconds(2))
        #expect(bench.appleStore.accountTokens == [Self.transaction: Self.tokens[3]])
    }

    /// The clock of the one door is ahead, or was set back since.
    @Test func `win by the order in which they came, whatever the doors' clocks say`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.requestAccountToken(Self.tokens[0], ahead: .hours(1))
        try bench.pass(.minutes(1))
        bench.requestAccountToken(Self.tokens[1])
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accountTokens == [Self.transaction: Self.tokens[1]])
        #expect(try bench.accountTokenOutcomes().map(\.outcome) == [.accepted, .accepted])
    }

    @Test func `of two apps are kept apart, though their transactions have one id`() throws {
        let bench = ReportBench()
        bench.launch()
        bench.requestAccountToken(Self.tokens[0], app: 1)
        bench.requestAccountToken(Self.tokens[1], app: 2)
        try bench.pass(.minutes(1))
        let calls = try #require(bench.instances[0]?.apple.calls)
        #expect(calls.map(\.lane.appAppleID).sorted() == [1, 2])
        #expect(try bench.accountTokenOutcomes().map(\.outcome) == [.accepted, .accepted])
    }

    /// Apple has refused the first token.
    private func benchOfRefused() throws -> ReportBench {
        let bench = ReportBench()
        bench.script = { _ in
            .refused([AppleError(code: 4_000_187, fieldName: nil, lineItemID: nil)])
        }
        bench.launch()
        bench.requestAccountToken(Self.tokens[0])
        try bench.pass(.minutes(1))
        return bench
    }

    @Test func `that Apple refuses are outcomes and dead letters, and may be replayed`() throws {
        let bench = try benchOfRefused()
        let outcome = try #require(try bench.accountTokenOutcomes().first)
        #expect(outcome.outcome == .rejected && outcome.errorCode == 4_000_187)
        let deadLetter = try #require(bench.deadLetters().first)
        #expect(deadLetter.headers["tollway.dlq.code"] == "report.account_token_rejected")
        #expect(deadLetter.headers["__dlq.errors.topic"] == "tollway.account-tokens.requested.v1")
        let request = try AccountTokenRequested(reading: deadLetter.value.span)
        #expect(request.appAccountToken == Self.tokens[0])
        bench.script = { _ in .answered }
        bench.append(
            .accountTokensRequested,
            key: Array(Self.transaction.utf8),
            value: deadLetter.value
        )
        try bench.pass(.minutes(1))
        #expect(try bench.accountTokenOutcomes().map(\.outcome) == [.rejected, .accepted])
    }

    /// Offsets begin anew with the topic; the record itself, read once more, is none.
    @Test func `that were refused may be replayed after their topic was made anew`() throws {
        let bench = try benchOfRefused()
        let name = Topic.reportState.name(prefix: ReportBench.prefix)
        let states = bench.cluster.committedRecords(of: name)
        let value = try #require(states.compactMap(\.value).last)
        var debt = try AccountTokenDebt(reading: value.span)
        var request = try #require(debt.newest)
        request.history = ReplayHistory(
            firstFailedAt: nil,
            attempts: 1,
            replayCount: 1,
            replayID: "r"
        )
        let known = debt.absorb(request)
        request.origin.offset -= 1
        let replayed = debt.absorb(request)
        let again = debt.absorb(request)
        #expect([known, replayed, again] == [.outdated, .owed, .outdated])
    }

    /// Apple says "try again later" of one transaction, for ever: it goes to a person after a day.
    @Test(
        arguments: [
            (500, 5_000_000), (500, 5_000_001), (404, 4_040_002), (404, 4_040_004),
            (404, 4_040_006),
        ] as [(Int, Int64)]
    )
    func `are given up where Apple says for a day that it fails`(
        status: Int,
        code: Int64
    ) throws {
        let bench = ReportBench()
        bench.script = { _ in .status(status, code: code) }
        bench.launch()
        bench.requestAccountToken(Self.tokens[0])
        try bench.pass(.hours(12))
        #expect(try bench.accountTokenOutcomes().isEmpty && bench.deadLetters().isEmpty)
        try bench.pass(.hours(14))
        #expect(try bench.accountTokenOutcomes().map(\.outcome) == [.rejected])
        #expect(bench.deadLetters().count == 1)
        // What is down says nothing of a transaction, whatever comes when it is up again.
        bench.script = { _ in .status(500) }
        bench.requestAccountToken(Self.tokens[1])
        try bench.pass(.hours(40))
        bench.script = { _ in .status(status, code: code) }
        try bench.pass(.hours(2))
        #expect(bench.deadLetters().count == 1)
    }

    @Test func `survive lost answers, 500 and 429`() throws {
        let bench = ReportBench()
        var fates: [ScriptedApple.Fate] = [
            .answerLost, .status(500), .status(429, retryAfter: ReportBench.start + .minutes(5)),
        ]
        bench.script = { _ in fates.isEmpty ? .answered : fates.removeFirst() }
        bench.launch()
        bench.requestAccountToken(Self.tokens[0])
        try bench.pass(.minutes(10))
        #expect(try bench.accountTokenOutcomes().map(\.outcome) == [.accepted])
        #expect(try bench.accountTokenOutcomes().map(\.attempts) == [4])
    }

    /// The transaction is free text of whoever asks, and what stands before Apple reads paths.
    @Test func `go on beside one whose path is refused`() throws {
        let bench = ReportBench()
        bench.rate = 1
        bench.script = { $0.externalPurchaseID == ".." ? .status(403) : .answered }
        bench.launch()
        bench.requestAccountToken(Self.tokens[0], transaction: "..")
        try bench.pass(.seconds(2))
        for number in 0..<5 {
            bench.requestAccountToken(Self.tokens[1], transaction: "\(number)")
        }
        try bench.pass(.hours(1))
        let outcomes = try bench.accountTokenOutcomes().map(\.outcome)
        #expect(outcomes == Array(repeating: .accepted, count: 5))
    }

    @Test func `of an app whose key Apple refuses wait with its reports, on one probe`()
        throws
    {
        let bench = ReportBench()
        bench.rate = 50
        var isKeyGood = false
        bench.script = { _ in isKeyGood ? .answered : .status(401) }
        bench.launch()
        for number in 0..<10 {
            bench.distinct(bench.id(number), .duplicate(of: bench.id(99)))
            bench.requestAccountToken(Self.tokens[0], transaction: "\(number)")
        }
        try bench.pass(.minutes(30))
        // At once again, then 5, 10, 20 … 300 s apart: for both endpoints together.
        let count = try #require(bench.instances[0]?.apple.calls.count)
        #expect((10...16).contains(count), "\(count)")
        #expect(bench.deadLetters().isEmpty)
        isKeyGood = true
        try bench.pass(.minutes(6))
        #expect(bench.appleStore.accepted.count == 10)
        #expect(bench.appleStore.accountTokens.count == 10)
    }

    @Test func `go on while Apple limits the reports of their app`() throws {
        let bench = ReportBench()
        bench.script = { call in
            call.externalPurchaseID == Self.transaction
                ? .answered : .status(429, retryAfter: ReportBench.start + .hours(1))
        }
        bench.launch()
        bench.distinct(bench.id(1), .duplicate(of: bench.id(99)))
        bench.requestAccountToken(Self.tokens[0])
        try bench.pass(.minutes(1))
        #expect(bench.appleStore.accountTokens.count == 1)
        #expect(bench.appleStore.accepted.isEmpty)
    }

    @Test(arguments: [
        (
            #"{"appAccountToken":"x","originalTransactionId":"1","bundleId":"com.example.1","environment":"sandbox","requestedAt":1}"#,
            "report.bad_record"
        ),
        (
            #"{"appAccountToken":"00000000-0000-4000-8000-000000000000","originalTransactionId":"1","bundleId":"com.other","environment":"sandbox","requestedAt":1}"#,
            "report.unknown_app"
        ),
        (
            #"{"appAccountToken":"00000000-0000-4000-8000-000000000000","signedTransaction":"a.b.c","requestedAt":1}"#,
            "report.no_roots"
        ),
        (#"{"appAccountToken":"00000000-0000-4000-8000-000000000000"}"#, "report.bad_record"),
    ])
    func `that cannot be sent are dead letters`(value: String, code: String) throws {
        let bench = ReportBench()
        bench.launch()
        bench.append(.accountTokensRequested, key: Array("1".utf8), value: Array(value.utf8))
        try bench.pass(.minutes(1))
        #expect(bench.deadLetters().map { $0.headers["tollway.dlq.code"] } == [code])
        #expect(bench.instances[0]?.apple.calls.isEmpty == true)
    }
}
