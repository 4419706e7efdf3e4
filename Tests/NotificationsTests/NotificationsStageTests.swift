import Crypto
import Kafka
import MessageExamples
import StageRuntime
import Telemetry
import Testing
import TokenDomain
import TokenWire

@testable import notifications

/// A notification in the making; every case changes one thing.
struct NotificationDraft: Sendable {
    var type = #""EXTERNAL_PURCHASE_TOKEN""#
    var subtype = #""subtype":"UNREPORTED","#
    var uuid = #""notificationUUID":"9d1e0000-0000-4000-8000-000000000001","#
    var signedDate = #""signedDate":1700000000000,"#
    var section = "externalPurchaseToken"
    var id = #""externalPurchaseId":"1c2d3e4f-0000-4000-8000-00000000a001","#
    var created = #""tokenCreationDate":1690000000000,"#
    var app = #""appAppleId":1234567890,"#
    var bundle = #""bundleId":"com.example""#
    var more = ""

    var payload: String {
        "{\"notificationType\":\(type),\(subtype)\(uuid)\(signedDate)\"version\":\"2.0\","
            + "\"\(section)\":{\(id)\(created)\(app)\(bundle)\(more)}}"
    }
}

@Suite struct `The notifications stage` {
    let payloads: SignedPayloads
    let stage: NotificationsStage

    init() throws {
        payloads = try SignedPayloads()
        let apps = AppsFile(apps: [
            AppsFile.App(appAppleID: 1_234_567_890, bundleID: "com.example"),
            AppsFile.App(appAppleID: 2, bundleID: "com.example.two"),
        ])
        let files = TrustFiles(apps: apps, roots: payloads.roots)
        stage = try NotificationsStage { files }
    }

    /// What the stage makes of record values, in one batch.
    @discardableResult
    private func judge(
        _ values: [String],
        by other: NotificationsStage? = nil,
        now: Int64 = 1_800_000_000_000
    ) -> BatchPlan {
        var batch = RecordBatch()
        for (index, value) in values.enumerated() {
            let start = batch.arena.count
            batch.arena.append(contentsOf: value.utf8)
            batch.records.append(
                RecordBatch.Record(
                    topic: 0,
                    partition: 0,
                    offset: Int64(index),
                    timestampMilliseconds: 1,
                    key: .absent,
                    value: ByteRange(start: start, count: value.utf8.count),
                    headers: .absent
                )
            )
        }
        var plan = BatchPlan(
            outputs: OutputBatch(),
            state: StagedState(),
            now: Timestamp(milliseconds: now)
        )
        (other ?? stage).judge(batch, into: &plan)
        return plan
    }

    private func record(_ draft: NotificationDraft) -> String {
        #"{"signedPayload":"\#(payloads.sign(draft.payload))","receivedAt":1700000005000}"#
    }

    private func code(_ verdict: Verdict?) -> String? {
        guard case .deadLetter(let fault, _) = verdict else {
            return nil
        }
        return fault.code
    }

    @Test(arguments: [true, false])
    func `counts a gap only where the whole log has it`(isInLog: Bool) throws {
        let metrics = Metrics()
        var asked: [GapWatch.Gap] = []
        let files = TrustFiles(apps: AppsFile(apps: []), roots: payloads.roots)
        let start = Timestamp(milliseconds: 1_700_000_000_000)
        let test = payloads.sign(#"{"notificationType":"TEST","signedDate":1700000000000}"#)
        // None of them shows that the door stood open to Apple: a forgery, a buyer's transaction, and what
        // Apple has sent to somebody else.
        var draft = NotificationDraft()
        draft.app = #""appAppleId":99,"#
        draft.bundle = #""bundleId":"com.stranger""#
        let foreign = payloads.sign(draft.payload)
        let sale = payloads.sign(#"{"transactionId":"1","signedDate":1700000000000}"#)
        func ours(_ isOurs: NotificationsStage.IsOurs) -> [Bool] {
            [test, "a.b.c", sale, foreign].map {
                isOurs(NotificationReceived(signedPayload: $0, receivedAt: start))
            }
        }
        var told: [[Bool]] = []
        let stage = try NotificationsStage(
            gapCounter: GapWatch.counter(in: metrics),
            before: { isOurs in
                told.append(ours(isOurs))
                return .unknown
            },
            whole: { gap, isOurs in
                asked.append(gap)
                told.append(ours(isOurs))
                return isInLog ? gap : nil
            }
        ) { files }
        let heard =
            [(0, test), (1, test), (100, "a.b.c"), (101, sale)]
            + [(150, foreign), (200, test), (201, test), (1_000_000, test)]
        let values = heard.map { hours, signed in
            let time = (start + .hours(Int64(hours))).milliseconds
            return #"{"signedPayload":"\#(signed)","receivedAt":\#(time)}"#
        }
        judge(values, by: stage)
        // A clock that is ahead hides no gap until then.
        let now = Timestamp(milliseconds: 1_800_000_000_000)
        #expect(
            asked == [
                GapWatch.Gap(from: start + .hours(1), to: start + .hours(200)),
                GapWatch.Gap(from: start + .hours(201), to: now),
            ]
        )
        // The same is told to those who look into the log: at the start, and with each gap.
        #expect(told == Array(repeating: [true, false, false, false], count: 3))
        let line = "tollway_notification_gaps_total \(isInLog ? 2 : 0)\n"
        let text = String(decoding: metrics.render(), as: UTF8.self)
        #expect(text.contains(line), "\(text)")
    }

    @Test func `hands on what Apple says about a token`() throws {
        var draft = NotificationDraft()
        draft.more = #","tokenType":"SERVICES","tokenExpirationDate":1690003600000"#
        let plan = judge([record(draft)])
        #expect(plan.verdicts == [.forward(outputCount: 1)])
        let output = try #require(plan.outputs.outputs.first)
        let id = "1c2d3e4f-0000-4000-8000-00000000a001"
        #expect(Array(plan.outputs.arena[output.key.indices]) == Array(id.utf8))
        let value = plan.outputs.arena.span.extracting(output.value.indices)
        #expect(
            try NotificationVerified(reading: value)
                == NotificationVerified(
                    notificationUUID: "9d1e0000-0000-4000-8000-000000000001",
                    subtype: "UNREPORTED",
                    signedDate: Timestamp(milliseconds: 1_700_000_000_000),
                    token: ExternalPurchaseToken(
                        externalPurchaseID: TokenID(id),
                        appAppleID: 1_234_567_890,
                        bundleID: "com.example",
                        tokenType: .services,
                        tokenCreationDate: Timestamp(milliseconds: 1_690_000_000_000),
                        tokenExpirationDate: Timestamp(milliseconds: 1_690_003_600_000)
                    ),
                    receivedAt: Timestamp(milliseconds: 1_700_000_005_000)
                )
        )
        #expect(Worker.notifications.targets[output.topic] == .notificationsVerified)
    }

    @Test(arguments: [
        #""subtype":"CREATED","#, #""subtype":"ACTIVE_TOKEN_REMINDER","#, #""subtype":"NEW_ONE","#,
        "", #""subtype":null,"#,
    ])
    func `leaves the subtype to those who act on it`(subtype: String) {
        var draft = NotificationDraft()
        draft.subtype = subtype
        #expect(judge([record(draft)]).verdicts == [.forward(outputCount: 1)])
    }

    @Test func `takes sandbox tokens, new types, and a repeat again`() {
        var sandbox = NotificationDraft()
        sandbox.id = #""externalPurchaseId":"SANDBOX_1c2d","#
        var newType = NotificationDraft()
        newType.more = #","tokenType":"OUT_OF_APP","region":"JP""#
        let repeated = record(sandbox)
        let plan = judge([repeated, record(newType), repeated])
        #expect(plan.verdicts == [Verdict](repeating: .forward(outputCount: 1), count: 3))
        #expect(plan.outputs.outputs.count == 3)
    }

    @Test func `hands on no type that is longer than any of Apple's`() {
        var draft = NotificationDraft()
        (draft.section, draft.id, draft.created) = ("data", "", "")
        draft.type = "\"\(String(repeating: "T", count: 257))\""
        guard case .deadLetter(let fault, _) = judge([record(draft)]).verdicts.first else {
            Issue.record("it is no dead letter")
            return
        }
        #expect(fault.code == "notifications.out_of_range")
    }

    @Test(arguments: [
        ("TEST", "data"), ("RESCIND_CONSENT", "appData"), ("DID_RENEW", "data"),
        ("SOMETHING_NEW", "summary"),
    ])
    func `hands on every other type, as it was signed`(type: String, section: String) throws {
        var draft = NotificationDraft()
        (draft.type, draft.section, draft.id, draft.created) = ("\"\(type)\"", section, "", "")
        let plan = judge([record(draft)])
        #expect(plan.verdicts == [.forward(outputCount: 1)])
        let output = try #require(plan.outputs.outputs.first)
        #expect(output.topic == Worker.notifications.targets.firstIndex(of: .notificationsOther))
        let value = plan.outputs.arena.span.extracting(output.value.indices)
        let other = try NotificationOther(reading: value)
        #expect(other.notificationType == type && other.subtype == "UNREPORTED")
        #expect(other.payload == draft.payload)
        let key = String(decoding: plan.outputs.arena[output.key.indices], as: UTF8.self)
        #expect(key == other.notificationUUID)
        // A test notification in the sandbox may name no app at all.
        (draft.app, draft.bundle) = ("", #""environment":"Sandbox""#)
        #expect(judge([record(draft)]).verdicts == plan.verdicts)
    }

    /// Genuine, each with one thing wrong.
    static let unusable: [(String, String, @Sendable (inout NotificationDraft) -> Void)] = [
        (
            "another app", "notifications.unknown_app",
            { draft in
                draft.app = #""appAppleId":99,"#
                draft.bundle = #""bundleId":"com.stranger""#
            }
        ),
        (
            "another app's test", "notifications.unknown_app",
            { draft in
                (draft.type, draft.section) = (#""TEST""#, "data")
                draft.app = #""appAppleId":99,"#
                draft.bundle = #""bundleId":"com.stranger""#
            }
        ),
        ("another bundle", "jws.wrong_app", { $0.bundle = #""bundleId":"com.stranger""# }),
        (
            "our other app's bundle", "jws.wrong_app",
            { $0.bundle = #""bundleId":"com.example.two""# }
        ),
        ("another Apple id", "jws.wrong_app", { $0.app = #""appAppleId":99,"# }),
        (
            "an environment that contradicts the token", "jws.wrong_environment",
            { $0.more = #","environment":"Sandbox""# }
        ),
        ("no id", "notifications.missing_field", { $0.id = "" }),
        ("empty id", "notifications.out_of_range", { $0.id = #""externalPurchaseId":"","# }),
        ("id no text", "notifications.wrong_type", { $0.id = #""externalPurchaseId":5,"# }),
        ("no creation date", "notifications.missing_field", { $0.created = "" }),
        (
            "creation date no number", "notifications.wrong_type",
            { $0.created = #""tokenCreationDate":"1690000000000","# }
        ),
        ("no Apple id", "notifications.missing_field", { $0.app = "" }),
        ("no bundle", "notifications.missing_field", { $0.bundle = #""x":1"# }),
        ("no UUID", "notifications.missing_field", { $0.uuid = "" }),
        ("subtype no text", "notifications.wrong_type", { $0.subtype = #""subtype":1,"# }),
        (
            "expiration no number", "notifications.wrong_type",
            { $0.more = #","tokenExpirationDate":"soon""# }
        ),
        ("type no text", "notifications.wrong_type", { $0.more = #","tokenType":1"# }),
        ("no token", "notifications.missing_field", { $0.section = "data" }),
        ("no type at all", "notifications.missing_field", { $0.type = "null" }),
    ]

    @Test(arguments: unusable.indices)
    func `makes dead letters of what is genuine and cannot be used`(row: Int) {
        let (name, expected, change) = Self.unusable[row]
        var draft = NotificationDraft()
        change(&draft)
        let plan = judge([record(draft)])
        #expect(code(plan.verdicts.first) == expected, "\(name)")
        #expect(plan.outputs.outputs.isEmpty, "\(name)")
    }

    @Test func `names the token in the dead letter where it can`() {
        var draft = NotificationDraft()
        draft.created = ""
        guard case .deadLetter(let fault, _) = judge([record(draft)]).verdicts.first else {
            Issue.record("not a dead letter")
            return
        }
        #expect(fault.externalPurchaseID == TokenID("1c2d3e4f-0000-4000-8000-00000000a001"))
    }

    @Test func `makes dead letters of forgeries, and goes on`() throws {
        let good = record(NotificationDraft())
        let forged = try SignedPayloads().sign(NotificationDraft().payload)
        let plan = judge([
            #"{"signedPayload":"\#(forged)","receivedAt":1}"#,
            #"{"signedPayload":"a.b","receivedAt":1}"#,
            #"{"receivedAt":1}"#,
            #"{"signedPayload":7,"receivedAt":1}"#,
            "", "null", "[]", "not JSON",
            good,
        ])
        let codes = plan.verdicts.map { code($0) }
        #expect(
            codes == [
                "jws.chain", "jws.malformed", "notifications.bad_envelope",
                "notifications.bad_envelope", "notifications.bad_envelope",
                "notifications.bad_envelope", "notifications.bad_envelope",
                "notifications.bad_envelope", nil,
            ]
        )
        #expect(plan.verdicts.last == .forward(outputCount: 1))
    }

    /// The certificates are valid for 1,000 s around 1,700,000,000.
    @Test(
        arguments: [
            // They have ended since the door took it in.
            (1_700_000_005_000, 1_800_000_000_000, nil),
            (1_700_002_000_000, 1_800_000_000_000, "jws.chain"),
            // The door's clock was ahead.
            (1_800_000_000_000, 1_700_000_005_000, nil),
        ] as [(Int64, Int64, String?)]
    )
    func `takes the time of arrival where Apple signed no date`(
        receivedAt: Int64,
        now: Int64,
        expected: String?
    ) {
        var draft = NotificationDraft()
        draft.signedDate = ""
        let signed = payloads.sign(draft.payload)
        let value = #"{"signedPayload":"\#(signed)","receivedAt":\#(receivedAt)}"#
        let plan = judge([value], now: now)
        #expect(plan.verdicts.count == 1)
        #expect(code(plan.verdicts.first) == expected)
    }
}
