import Kafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite struct `The filter of dead letters` {
    private static let now = Timestamp(milliseconds: 1_700_000_600_000)

    private func filter(_ arguments: [String]) throws -> DeadLetterFilter {
        let request = try ArgumentReader.read(
            ["dlq", "count"] + arguments,
            verbs: TollwayCommand.verbs
        )
        guard case .invocation(let invocation) = request else {
            preconditionFailure("dlq count was asked for")
        }
        return try DeadLetterFilter(invocation, now: Self.now)
    }

    /// Ten dead letters of each kind, as a scan sees them.
    private func deadLetters() -> (RecordBatch, [DeadLetterRecord]) {
        var maker = DeadLetterMaker(prefix: "tollway.", seed: 7)
        var outputs = OutputBatch()
        for kind in [DeadLetterMaker.Kind.unknownApp, .notBase64URL, .rejected] {
            for _ in 0..<10 {
                maker.append(kind, to: &outputs)
            }
        }
        var batch = RecordBatch()
        batch.arena = outputs.arena
        for (number, output) in outputs.outputs.enumerated() {
            batch.records.append(
                RecordBatch.Record(
                    topic: output.topic,
                    partition: Int32(number % 3),
                    offset: Int64(number),
                    timestampMilliseconds: 1_700_000_000_000,
                    key: output.key,
                    value: output.value,
                    headers: output.headers
                )
            )
        }
        let deadLetters = batch.records.map { record in
            DeadLetterRecord(
                record,
                stage: record.topic == 0 ? .decode : .report,
                in: batch.arena.span
            )
        }
        return (batch, deadLetters)
    }

    private func count(_ arguments: [String]) throws -> Int {
        let filter = try filter(arguments)
        let (batch, deadLetters) = deadLetters()
        let reader = SubjectReader()
        return deadLetters.count { deadLetter in
            filter.stages.contains(deadLetter.stage) && filter.matches(deadLetter, in: batch)
                && filter.matches(
                    reader.read(batch.arena.span.extracting(deadLetter.record.value.indices))
                )
        }
    }

    @Test(
        arguments: [
            ([], 30), (["--stage", "decode"], 20),
            (["--stage", "decode", "--stage", "report"], 30), (["--stage", "dedupe"], 0),
            (["--reason", "unknown_app"], 10), (["--code", "decode.not_base64url"], 10),
            (["--code", "not_base64url"], 0), (["--reason", "decode.unknown_app"], 0),
            (["--reason", "unknown_app", "--reason", "rejected"], 20),
            (["--reason", "unknown_app", "--stage", "report"], 0),
            (["--partition", "0"], 10), (["--partition", "0-1"], 20),
            (["--offset", "29-"], 1), (["--offset", "3,5-6"], 3), (["--offset", "-9"], 10),
            (["--key", "c1.0000000000000000000000000000000000000000010"], 1),
            (["--key", "c1."], 0), (["--attempts", "1"], 30), (["--attempts", "2-"], 0),
            (["--grep", "no token, but"], 10), (["--grep", "request-3\""], 1),
            (["--grep", "Apple answered 400"], 10), (["--grep", "nowhere at all"], 0),
            (["--since", "2023-11-14T22:13:20.011Z"], 20),
            (["--until", "2023-11-14T22:13:20.011Z"], 10),
            (["--since", "11m"], 30), (["--since", "9m"], 0), (["--since", "2023-11-14"], 30),
            (["--since", "1d", "--until", "9m"], 30),
        ] as [([String], Int)]
    )
    func `finds what it says`(arguments: [String], expected: Int) throws {
        #expect(try count(arguments) == expected)
    }

    @Test func `asks the token for its app and environment`() throws {
        let apps = try DeadLetterMaker.apps.map { try count(["--app", "\($0)"]) }
        #expect(apps.reduce(0, +) == 20, "dead letters without a token have no app")
        let bundles = try DeadLetterMaker.apps.map { try count(["--app", "com.example.\($0)"]) }
        #expect(bundles == apps)
        let production = try count(["--environment", "production"])
        let sandbox = try count(["--environment", "sandbox"])
        #expect(production + sandbox == 20 && sandbox > 0 && production > 0)
    }

    /// Sales name their app one way or the other, and requests for app account tokens by the bundle id.
    private static let oneName: [(value: String, environment: AppleEnvironment)] = [
        (#"{"lineItemId":"1","appAppleId":7}"#, .production),
        (#"{"lineItemId":"2","bundleId":"com.example.seven","environment":"sandbox"}"#, .sandbox),
        (#"{"externalPurchaseId":"SANDBOX_1","lineItemId":"3","appAppleId":7}"#, .sandbox),
        (
            #"{"lineItemId":"4","bundleId":"com.example.seven","externalPurchaseId":"1"}"#,
            .production
        ),
        (
            #"{"appAccountToken":"a","originalTransactionId":"1","bundleId":"com.example.seven","#
                + #""environment":"production"}"#, .production
        ),
        (
            #"{"appAccountToken":"b","signedTransaction":"e30."#
                + Base64URL.encode(
                    Array(
                        #"{"bundleId":"com.example.seven","environment":"Sandbox"}"#.utf8
                    ).span
                ) + #".c2ln"}"#, .sandbox
        ),
    ]

    private func subjects() -> [DeadLetterSubject] {
        Self.oneName.map { SubjectReader().read(Array($0.value.utf8).span) }
    }

    @Test(arguments: ["7", "com.example.seven"])
    func `finds an app by either name with the apps file, and else says how many may be it`(
        name: String
    ) throws {
        let file = AppsFile(apps: [AppsFile.App(appAppleID: 7, bundleID: "com.example.seven")])
        let other = SubjectReader().read(
            Array(#"{"lineItemId":"5","appAppleId":8,"bundleId":"com.example.eight"}"#.utf8).span
        )
        let subjects = subjects() + [other, DeadLetterSubject()]
        var filter = try filter(["--app", name])
        filter.nameApps(by: file)
        #expect(subjects.count { filter.matches($0) } == Self.oneName.count)
        #expect(subjects.count { filter.mayMatch($0) } == 0)
        let words = filter.text
        #expect(words == "--app \(name)")

        var alone = try self.filter(["--app", name])
        alone.nameApps(by: nil)
        let found = subjects.count { alone.matches($0) }
        #expect(found == (name == "7" ? 2 : 4))
        #expect(subjects.count { alone.mayMatch($0) } == Self.oneName.count - found)
        var sandbox = try self.filter(["--app", name, "--environment", "sandbox"])
        sandbox.nameApps(by: nil)
        #expect(subjects.count { sandbox.matches($0) || sandbox.mayMatch($0) } == 3)
        // By both names it is known.
        var both = try self.filter(["--app", "7", "--app", "com.example.seven"])
        both.nameApps(by: nil)
        #expect(subjects.count { both.matches($0) } == Self.oneName.count)
        #expect(subjects.count { both.mayMatch($0) } == 0)
    }

    /// A letter of which the name that was asked for says another app is of that one.
    @Test(
        arguments: [
            (#"{"appAppleId":7}"#, true, true), (#"{"bundleId":"com.example.seven"}"#, true, true),
            (#"{"appAppleId":7,"bundleId":"com.example.seven"}"#, true, true),
            (#"{"appAppleId":8,"bundleId":"com.example.seven"}"#, false, true),
            (#"{"appAppleId":7,"bundleId":"com.example.eight"}"#, true, false),
            (#"{"appAppleId":8,"bundleId":"com.example.eight"}"#, false, false),
        ]
    )
    func `takes a name from the apps file only where the one asked for is not stated`(
        value: String,
        isByNumber: Bool,
        isByBundle: Bool
    ) throws {
        let file = AppsFile(apps: [AppsFile.App(appAppleID: 7, bundleID: "com.example.seven")])
        let subject = SubjectReader().read(Array(value.utf8).span)
        for (name, isExpected) in [("7", isByNumber), ("com.example.seven", isByBundle)] {
            var filter = try filter(["--app", name])
            filter.nameApps(by: file)
            #expect(filter.matches(subject) == isExpected, "\(name)")
        }
    }

    @Test(
        arguments: [
            #"{"lineItemId":"1","environment":"staging"}"#,
            #"{"lineItemId":"1","environment":1}"#,
            #"{"lineItemId":"1","externalPurchaseId":"SANDBOX_1","environment":"staging"}"#,
            #"{"lineItemId":"1","appAppleId":"#,
            #"{"lineItemId":"1","appAppleId":x,"environment":"sandbox"}"#,
            #"{"externalPurchaseId":"SANDBOX_1","lineItemId":"1","appAppleId":x}"#,
        ]
    )
    func `gives no environment to a sale that states one which cannot be read`(value: String) throws
    {
        #expect(SubjectReader().read(Array(value.utf8).span).environment == nil)
    }

    @Test func `gives the environment that a sale states, also where it breaks off after that`() {
        let value = #"{"lineItemId":"1","environment":"sandbox","appAppleId":"#
        #expect(SubjectReader().read(Array(value.utf8).span).environment == .sandbox)
        let none = #"{"lineItemId":"1","environment":null}"#
        #expect(SubjectReader().read(Array(none.utf8).span).environment == .production)
    }

    @Test func `takes a sale that names no environment for one of its token, or of production`()
        throws
    {
        let subjects = subjects()
        #expect(subjects.map(\.environment) == Self.oneName.map(\.environment))
        // What nobody has verified decides nothing but which are shown.
        #expect(subjects.last?.originalTransactionID == nil)
        for environment in AppleEnvironment.allCases {
            let filter = try filter(["--environment", environment.rawValue])
            #expect(subjects.count { filter.matches($0) } == 3, "\(environment)")
        }
    }

    private static func received(
        _ members: String,
        before: String = "",
        beside: String = ""
    ) -> String {
        let token = Base64URL.encode(Array(#"{"externalPurchaseId":"id-1"\#(members)}"#.utf8).span)
        return #"{\#(before)"token":"\#(token)"\#(beside)}"#
    }

    private static let good = #","appAppleId":7,"bundleId":"b","tokenCreationDate":1"#

    /// As decode writes `seen` records of them.
    @Test(
        arguments: [
            (received(#","appAppleId":"7","bundleId":"b","tokenCreationDate":1"#), nil),
            (received(#","appAppleId":7,"tokenCreationDate":1"#), 7),
            (received(good + #","tokenExpirationDate":0"#), 7),
            (received(good + ","), 7), (received(good, beside: #","customer":7"#), 7),
            (received(good, before: #""bundleId":1,"#), 7),
            (received(good, beside: #","meta":NaN"#), 7),
            // What a platform adds names neither the token nor its app.
            (received(good, beside: #","externalPurchaseId":"order-77","appAppleId":8"#), 7),
            (received(good, before: #""appAppleId":1.5,"deadline":1e99,"#), 7),
        ] as [(String, Int64?)]
    )
    func `knows the token of what decode refused by what of it can be read`(
        value: String,
        app: Int64?
    ) throws {
        let subject = SubjectReader().read(Array(value.utf8).span)
        #expect(subject.externalPurchaseID == "id-1")
        #expect(subject.appAppleID == app)
        #expect(try filter(["--token", "id-1"]).matches(subject))
    }

    @Test func `takes no end from what lies beside a token that has none`() {
        let value = Self.received(Self.good, beside: #","tokenExpirationDate":5"#)
        #expect(SubjectReader().read(Array(value.utf8).span).tokenExpirationDate == nil)
    }

    @Test func `knows a token by its id and by its text`() throws {
        let maker = DeadLetterMaker(prefix: "tollway.", seed: 7)
        let (batch, deadLetters) = deadLetters()
        let first = deadLetters[0].record.value
        let subject = SubjectReader().read(batch.arena.span.extracting(first.indices))
        let id = try #require(subject.externalPurchaseID)
        #expect(try count(["--token", id]) == 1)
        #expect(try count(["--token", maker.token(id: id, app: 1)]) == 1)
        #expect(try count(["--token", id, "--stage", "report"]) == 0)
        #expect(try count(["--token", "nobody"]) == 0)
        let shown = try filter(["--token", maker.token(id: id, app: 1)]).text
        #expect(shown == "--token \(id)", "a token is in no plan and no audit")
    }

    @Test(arguments: [
        ("decode/3/100", true), ("dlq.tollway.decode/3/100", true), ("decode/3@100", true),
        ("dlq.tollway.decode/3@100", true), ("decode@3@100", false), ("decode/3", false),
        ("decode/3/100/1", false), ("other/3/100", false), ("decode/-3/100", false),
    ])
    func `reads positions as every verb prints them`(text: String, isOne: Bool) {
        let position = DeadLetterPosition(text, prefix: "tollway.")
        let expected = DeadLetterPosition(stage: .decode, partition: 3, offset: 100)
        #expect(position == (isOne ? expected : nil))
    }

    @Test func `takes the first digits of a fingerprint`() throws {
        let (batch, deadLetters) = deadLetters()
        let whole = deadLetters[0].headers.text(.fingerprint, of: batch.arena)
        #expect(whole.count == 16)
        // The app's number is folded, so all dead letters of the kind have it.
        #expect(try count(["--fingerprint", whole]) == 10)
        #expect(try count(["--fingerprint", String(whole.prefix(4)).uppercased()]) == 10)
    }

    @Test(
        arguments: [
            ["--stage", "ingest"], ["--environment", "test"], ["--since", "yesterday"],
            ["--since", "2026-13-01"],
            ["--since", "2026-02-29"], ["--since", "2100-02-29"],
            ["--since", "2026-04-31T12:00:00Z"],
            ["--since", "2026-03-01T12:00:00+24:00"], ["--since", "2026-03-01T12:00:00+02:60"],
            ["--fingerprint", "xyz1"], ["--fingerprint", "123"],
            ["--partition", "x"], ["--partition", "5-3"], ["--offset", "-"], ["--offset", ""],
            ["--attempts", "1,"], ["--token", ""], ["--since", "1h", "--until", "2h"],
            ["--grep", ""],
        ]
    )
    func `refuses what can match nothing`(arguments: [String]) {
        let fault = #expect(throws: CommandFailure.self) { try filter(arguments) }
        #expect(fault?.exit == .usage)
    }

    @Test(
        arguments: [
            ("2026-03-01T12:00:00Z", 1_772_366_400_000), ("2026-03-01", 1_772_323_200_000),
            ("2026-03-01T12:00:00.5Z", 1_772_366_400_500),
            ("2026-03-01T14:00:00+02:00", 1_772_366_400_000),
            ("2000-02-29T23:59:59.999Z", 951_868_799_999), ("2028-02-29", 1_835_395_200_000),
            ("10m", 1_700_000_000_000),
            ("1d", 1_699_914_200_000),
        ] as [(String, Int64)]
    )
    func `reads times`(text: String, milliseconds: Int64) {
        #expect(InstantText.read(text, now: Self.now)?.milliseconds == milliseconds)
    }

    @Test func `writes down what it was, with times made absolute`() throws {
        let filter = try filter(["--reason", "unknown_app", "--since", "10m", "--grep", "a b"])
        #expect(
            filter.text
                == "--reason unknown_app --since 2023-11-14T22:13:20.000Z --grep \"a b\""
        )
    }
}
