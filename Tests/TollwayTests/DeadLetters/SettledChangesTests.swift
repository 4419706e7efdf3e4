import StageRuntime
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `Changes of sales in the ledger` {
    private static let key = "c1.4ZGy9n0wQfWkzJ3m0aQm4o1v8rjL2N5uXb7cKdTeYh0"
    /// When what is asked about came in.
    private static let time = LedgerMaker.time
    private static let lane = Lane(appAppleID: 7, environment: .production)

    private func change(_ kind: PurchaseEvent.Kind) -> PurchaseEvent {
        var event = PurchaseEvent(lineItemID: "sale-1")
        event.kind = kind
        event.customer = CustomerID(Self.key)
        event.appAppleID = 7
        event.receivedAt = Self.time
        return event
    }

    /// What a replay asks of it.
    private func question(
        _ event: PurchaseEvent,
        failedAt: Timestamp = Self.time + .days(1)
    ) -> LedgerQuestion.Change? {
        var value: [UInt8] = []
        event.write(to: &value)
        let question = DeadLetterJudge.question(
            ofSale: Array(Self.key.utf8).span,
            firstFailedAt: failedAt.milliseconds,
            SubjectReader().read(value.span)
        )
        guard case .change(let change)? = question else {
            return nil
        }
        return change
    }

    private func outcome(
        _ type: PurchaseEvent.Kind,
        _ outcome: PurchaseOutcome.Outcome = .reported,
        of lineItemID: String = "sale-1",
        after: Int64 = 1,
        failedAfter: Int64? = nil,
        lane: Lane? = Self.lane
    ) -> PurchaseOutcome {
        PurchaseOutcome(
            lineItemID: lineItemID,
            revision: 2,
            type: type,
            outcome: outcome,
            externalPurchaseID: nil,
            requestIdentifier: nil,
            reason: "r",
            errors: [],
            item: nil,
            receivedAt: Self.time + Milliseconds(after),
            settledAt: Self.time + .days(2),
            lane: lane,
            firstFailedAt: failedAfter.map {
                WallClock.rfc3339(milliseconds: Self.time.milliseconds + $0)
            }
        )
    }

    private func skipReason(
        _ question: LedgerQuestion.Change?,
        _ ledger: PurchaseOutcome...,
        key: String = Self.key,
        apps: AppsFile? = nil
    ) throws -> SkipReason? {
        let question = try #require(question)
        var changes = SettledChanges()
        changes.apps = apps
        changes.ask(question)
        for outcome in ledger {
            var value: [UInt8] = []
            outcome.write(to: &value)
            try changes.absorb(value.span, of: TextDigest.of(key))
        }
        return changes.skipReason(question)
    }

    /// What was settled, and how many milliseconds after this one it had come in.
    @Test(
        arguments: [
            (.restate, .restate, .reported, 1, .orderRules),
            (.restate, .retract, .reported, 1, .orderRules),
            (.retract, .restate, .reported, 1, .orderRules),
            // A token that comes reports it as it is then.
            (.restate, .restate, .notOwed, 1, .orderRules),
            (.restate, .restate, .rejected, 1, nil), (.restate, .restate, .reported, -1, nil),
            // This very one, under another record.
            (.restate, .restate, .reported, 0, nil),
            (.restate, .buy, .reported, 1, nil), (.restate, .refund, .reported, 1, nil),
        ]
            as [(
                PurchaseEvent.Kind, PurchaseEvent.Kind, PurchaseOutcome.Outcome, Int64, SkipReason?
            )]
    )
    func `hold back a change that may undo a newer one`(
        kind: PurchaseEvent.Kind,
        type: PurchaseEvent.Kind,
        outcome: PurchaseOutcome.Outcome,
        after: Int64,
        why: SkipReason?
    ) throws {
        let settled = self.outcome(type, outcome, after: after)
        #expect(try skipReason(question(change(kind)), settled) == why)
        // Whatever was settled last: an older one may have gone back in between.
        let older = self.outcome(.restate, after: -9)
        #expect(try skipReason(question(change(kind)), settled, older) == why)
    }

    /// A replay is taken in when it is sent, where the event does not say when that first was.
    @Test(arguments: [(-1, nil), (0, nil), (1, .orderRules)] as [(Int64, SkipReason?)])
    func `are as old as what failed first, where they came by a replay`(
        failedAfter: Int64,
        why: SkipReason?
    ) throws {
        let replayed = outcome(.restate, after: 3_600_000, failedAfter: failedAfter)
        #expect(try skipReason(question(change(.restate)), replayed) == why)
    }

    /// It may have waited so long before it failed.
    @Test func `are newer than one that states a time long before it failed`() throws {
        var event = change(.restate)
        event.receivedAt = Self.time + .days(-8)
        let settled = outcome(.restate, after: -1)
        #expect(try skipReason(question(event, failedAt: Self.time), settled) == .orderRules)
    }

    @Test func `are those of the same sale`() throws {
        let asked = question(change(.restate))
        #expect(try skipReason(asked, outcome(.restate, of: "sale-10")) == nil)
        #expect(try skipReason(asked, outcome(.restate), key: "c1.other") == nil)
        for lane in [
            Lane(appAppleID: 8, environment: .production),
            Lane(appAppleID: 7, environment: .sandbox),
        ] {
            #expect(try skipReason(asked, outcome(.restate, lane: lane)) == nil)
        }
        #expect(try skipReason(asked, outcome(.restate, lane: nil)) == .orderRules)
    }

    /// Where nobody says which app a bundle id is, it may be any.
    @Test(
        arguments: [
            ("com.example", true, .orderRules), ("com.other", true, nil),
            ("com.other", false, .orderRules), ("com.unknown", true, .orderRules),
        ] as [(String, Bool, SkipReason?)]
    )
    func `are of the app whose bundle id the change names`(
        bundleID: String,
        hasFile: Bool,
        why: SkipReason?
    ) throws {
        var named = change(.restate)
        named.appAppleID = nil
        named.bundleID = bundleID
        let apps = AppsFile(apps: [
            AppsFile.App(appAppleID: 7, bundleID: "com.example"),
            AppsFile.App(appAppleID: 8, bundleID: "com.other"),
        ])
        let asked = question(named)
        #expect(try skipReason(asked, outcome(.restate), apps: hasFile ? apps : nil) == why)
        var changes = SettledChanges()
        changes.ask(try #require(question(change(.restate))))
        #expect(!changes.namesBundles)
        changes.ask(try #require(asked))
        #expect(changes.namesBundles)
    }

    @Test(arguments: [PurchaseEvent.Kind.buy, .refund])
    func `are not asked about a sale, which undoes nothing`(kind: PurchaseEvent.Kind) {
        let isAsked = question(change(kind)) != nil
        #expect(!isAsked)
    }

    /// A platform that writes the topic itself may say nothing of it, or anything.
    @Test(arguments: [nil, Timestamp(milliseconds: .max)])
    func `are newer than one that had failed before they came in`(stated: Timestamp?) throws {
        var event = change(.restate)
        event.receivedAt = stated
        let asked = question(event, failedAt: Self.time)
        #expect(try skipReason(asked, outcome(.restate)) == .orderRules)
        #expect(try skipReason(asked, outcome(.restate, after: 0)) == nil)
    }

    @Test func `are read from the time on at which the oldest came in`() throws {
        var old = change(.restate)
        old.receivedAt = Timestamp(milliseconds: .min)
        var changes = SettledChanges()
        #expect(changes.isEmpty)
        changes.ask(try #require(question(change(.restate))))
        #expect(changes.since == Self.time.milliseconds && !changes.isEmpty)
        changes.ask(try #require(question(old)))
        #expect(changes.since == 0)
    }
}
