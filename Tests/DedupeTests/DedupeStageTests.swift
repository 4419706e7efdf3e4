import Kafka
import StateStore
import Testing
import TokenDomain
import TokenWire

@testable import StageRuntime
@testable import dedupe

@Suite struct `Dedupe` {
    static let day: Int64 = 86_400_000

    /// By default a SERVICES token of customer `c` in one period.
    static func token(
        _ id: String,
        customer: String? = "c1.customer",
        app: Int64 = 1,
        type: TokenType? = .services,
        creation: Int64 = 1_749_000_000_000,
        expiration: Int64? = 1_780_000_000_000,
        receivedAt: Int64 = 1_750_000_000_000
    ) -> TokenDecoded {
        TokenDecoded(
            token: ExternalPurchaseToken(
                externalPurchaseID: TokenID(id),
                appAppleID: app,
                bundleID: "com.example",
                tokenType: type,
                tokenCreationDate: Timestamp(milliseconds: creation),
                tokenExpirationDate: expiration.map { Timestamp(milliseconds: $0) }
            ),
            customer: customer.map { CustomerID($0) },
            receivedAt: Timestamp(milliseconds: receivedAt),
            text: "eyJ0b2tlbiI6MX0"
        )
    }

    /// Each row: tokens in the order of their offsets, and what each is.
    static let rows: [(name: String, tokens: [TokenDecoded], answers: [DedupeBench.Answer])] = [
        ("the same id", [token("a"), token("a")], [.primary, .again]),
        (
            "refreshed tokens of a period",
            [token("a"), token("b"), token("c"), token("b")],
            [.primary, .duplicate(of: "a"), .duplicate(of: "a"), .again]
        ),
        (
            "another customer's, dates and all",
            [token("a"), token("b", customer: "c1.other")],
            [.primary, .primary]
        ),
        (
            "the same id from another customer",
            [token("a"), token("a", customer: "c1.other")],
            [.primary, .primary]
        ),
        (
            "ACQUISITION beside SERVICES",
            [token("a"), token("b", type: .acquisition), token("c", type: .acquisition)],
            [.primary, .primary, .duplicate(of: "b")]
        ),
        ("another app", [token("a"), token("b", app: 2)], [.primary, .primary]),
        ("another world", [token("a"), token("SANDBOX_b")], [.primary, .primary]),
        (
            "another period",
            [
                token("a"), token("b", creation: 1_749_000_000_001),
                token("d", expiration: 1_780_000_000_001),
            ],
            [.primary, .primary, .primary]
        ),
        (
            "SERVICES without expiry",
            [
                token("a", expiration: nil), token("b", expiration: nil),
                token("a", expiration: nil),
            ],
            [.primary, .primary, .again]
        ),
        (
            "types without periods",
            [
                token("a", type: nil), token("b", type: nil),
                token("d", type: TokenType(text: "LINK_OUT")),
                token("e", type: TokenType(text: "LINK_OUT")),
            ],
            [.primary, .primary, .primary, .primary]
        ),
        (
            "no customer: no period, but repeats",
            [token("a", customer: nil), token("b", customer: nil), token("a", customer: nil)],
            [.primary, .primary, .again]
        ),
        (
            "with and without a customer",
            [token("a", customer: nil), token("a"), token("a", customer: nil)],
            [.primary, .primary, .again]
        ),
        (
            "a known id with other dates: the first claim stands",
            [
                token("a"), token("a", creation: 1, expiration: 2),
                token("b", creation: 1, expiration: 2),
            ],
            [.primary, .again, .primary]
        ),
        (
            "a known id with another's period",
            [token("a"), token("b", creation: 1, expiration: 2), token("b")],
            [.primary, .primary, .again]
        ),
        (
            "texts that JSON escapes",
            [token("a\"\\\u{1}é😀"), token("b"), token("a\"\\\u{1}é😀")],
            [.primary, .duplicate(of: "a\"\\\u{1}é😀"), .again]
        ),
    ]

    @Test(arguments: rows.indices)
    func `tells tokens apart within one batch`(row: Int) throws {
        let row = Self.rows[row]
        #expect(try DedupeBench().judge(row.tokens) == row.answers, "\(row.name)")
    }

    @Test(arguments: rows.indices)
    func `tells them apart over batches that wait for one commit`(row: Int) throws {
        let row = Self.rows[row]
        let bench = DedupeBench()
        #expect(try row.tokens.flatMap { try bench.judge([$0]) } == row.answers, "\(row.name)")
    }

    @Test(arguments: rows.indices)
    func `tells them apart with a transaction under way`(row: Int) throws {
        let row = Self.rows[row]
        let bench = DedupeBench()
        var answers: [DedupeBench.Answer] = []
        for (index, token) in row.tokens.enumerated() {
            answers += try bench.judge([token])
            if index == 0 {
                _ = bench.submit()
            }
        }
        #expect(answers == row.answers, "\(row.name)")
    }

    @Test(arguments: rows.indices)
    func `tells them apart over commits and restarts`(row: Int) throws {
        let row = Self.rows[row]
        var bench = DedupeBench()
        var answers: [DedupeBench.Answer] = []
        for token in row.tokens {
            answers += try bench.judge([token])
            try bench.submitAndCommit()
            let restored = try bench.restored()
            #expect(
                try restored.stores[0]?.checksum() == bench.stores[0]?.checksum(),
                "the store is the fold of its changelog"
            )
            bench = restored
        }
        #expect(answers == row.answers, "\(row.name)")
    }

    @Test(arguments: [
        token("a\"\\é", customer: nil, type: TokenType(text: "IN_APP"), expiration: nil),
        token("SANDBOX_b", type: .acquisition),
    ])
    func `writes what TokenDistinct writes`(token: TokenDecoded) throws {
        var value: [UInt8] = []
        token.write(to: &value)
        let plan = DedupeBench().plan(values: [(0, value)])
        let output = try #require(plan.outputs.outputs.first)
        var expected: [UInt8] = []
        TokenDistinct(
            externalPurchaseID: token.token.externalPurchaseID,
            appAppleID: token.token.appAppleID,
            bundleID: token.token.bundleID,
            tokenType: token.token.tokenType,
            tokenCreationDate: token.token.tokenCreationDate,
            tokenExpirationDate: token.token.tokenExpirationDate,
            customer: token.customer,
            receivedAt: token.receivedAt,
            role: .primary
        ).write(to: &expected)
        #expect(Array(plan.outputs.arena[output.value.indices]) == expected)
    }

    @Test func `forgets what was aborted`() throws {
        let bench = DedupeBench()
        #expect(try bench.judge([Self.token("a")]) == [.primary])
        bench.state.abort()
        #expect(
            try bench.judge([Self.token("b"), Self.token("a")]) == [.primary, .duplicate(of: "b")]
        )
    }

    @Test func `asks each partition's own state`() throws {
        let bench = DedupeBench()
        var value: [UInt8] = []
        Self.token("a").write(to: &value)
        let both = [(partition: Int32(0), value: value), (partition: Int32(1), value: value)]
        #expect(try bench.judge(values: both) == [.primary, .primary])
        #expect(try bench.judge(values: both) == [.again, .again])
        #expect(bench.submit().map(\.partition) == [0, 1])
    }

    @Test func `writes one changelog record per new id`() throws {
        let bench = DedupeBench()
        _ = try bench.judge(["a", "b", "a", "c"].map { Self.token($0) })
        #expect(bench.submit().map(\.changes.count) == [3])
    }

    @Test(arguments: [
        "", "null", "{}", "[]", "{", "\u{feff}{}",
        #"{"externalPurchaseId":"","appAppleId":1,"bundleId":"b","tokenCreationDate":1,"receivedAt":1}"#,
        #"{"externalPurchaseId":1,"appAppleId":1,"bundleId":"b","tokenCreationDate":1,"receivedAt":1}"#,
        #"{"externalPurchaseId":"a","appAppleId":"1","bundleId":"b","tokenCreationDate":1,"receivedAt":1}"#,
        #"{"externalPurchaseId":"a","appAppleId":1,"tokenCreationDate":1,"receivedAt":1}"#,
        #"{"externalPurchaseId":"a","appAppleId":1,"bundleId":"b","receivedAt":1}"#,
        #"{"externalPurchaseId":"a","appAppleId":1,"bundleId":"b","tokenCreationDate":1.5,"receivedAt":1}"#,
        #"{"externalPurchaseId":"a","appAppleId":1,"bundleId":"b","tokenCreationDate":1}"#,
        #"{"externalPurchaseId":"a","externalPurchaseId":"b","appAppleId":1,"bundleId":"b","tokenCreationDate":1,"receivedAt":1}"#,
        #"{"externalPurchaseId":"a","appAppleId":1,"bundleId":"b","tokenCreationDate":1,"receivedAt":1}x"#,
    ])
    func `buries what it cannot read, and goes on`(value: String) throws {
        let bench = DedupeBench()
        var good: [UInt8] = []
        Self.token("a").write(to: &good)
        let values = [(Int32(0), Array(value.utf8)), (0, good)].map {
            (partition: $0.0, value: $0.1)
        }
        let answers = try bench.judge(values: values)
        // A token in our dead letters is not unknown.
        let hasID = value.contains(#"Id":"a""#)
        let code = "dedupe.bad_record\(hasID ? " seen a" : "")"
        #expect(answers == [.deadLetter(code), .primary])
    }

    @Test func `tells of a token that it cannot read all that can be`() throws {
        let bench = DedupeBench()
        let value = """
            {"externalPurchaseId":"SANDBOX_a","appAppleId":7,"bundleId":3,"tokenType":"SERVICES",\
            "tokenCreationDate":1000,"customer":"c1.x","receivedAt":2000}
            """
        let plan = bench.plan(values: [(0, Array(value.utf8))])
        let seen = try #require(bench.texts(of: plan).first)
        #expect(
            try TokenDistinct(reading: Array(seen.utf8).span)
                == TokenDistinct(
                    externalPurchaseID: TokenID("SANDBOX_a"),
                    appAppleID: 7,
                    bundleID: nil,
                    tokenType: .services,
                    tokenCreationDate: Timestamp(milliseconds: 1_000),
                    tokenExpirationDate: nil,
                    customer: nil,
                    receivedAt: Timestamp(milliseconds: 2_000),
                    role: .seen
                )
        )
        // A refusal that cannot be read tells of no token that came in.
        let refusal = bench.plan(values: [(0, Array(value.utf8))], topic: 1)
        #expect(refusal.outputs.outputs.isEmpty)
    }

    @Test(arguments: [
        ("externalPurchaseId", TextLimit.tokenField), ("bundleId", .tokenField),
        ("tokenType", .tokenField), ("customer", .customer),
    ])
    func `takes a text of its limit, and buries one of a byte more`(
        field: String,
        limit: TextLimit
    ) throws {
        let bench = DedupeBench()
        // As decode writes it, in another order, with an escape.
        let forms = [
            (
                #"{"externalPurchaseId":"a","environment":"production","appAppleId":1,"#
                    + #""bundleId":"b","tokenType":"t","tokenCreationDate":1,"customer":"c","#
                    + #""receivedAt":1,"token":"a"}"#,
                ""
            ),
            (
                #"{"receivedAt":1,"externalPurchaseId":"a","appAppleId":1,"bundleId":"b","#
                    + #""tokenType":"t","tokenCreationDate":1,"customer":"c"}"#,
                #"\u0061"#
            ),
        ]
        for (form, escape) in forms {
            let head = try #require(form.firstRange(of: "\"\(field)\":\""))
            for more in [1, 0] {
                var value = form
                let end = try #require(form[head.upperBound...].firstIndex(of: "\""))
                let count = limit.byteCountMax + more - (escape.isEmpty ? 0 : 1)
                value.replaceSubrange(
                    head.upperBound..<end,
                    with: escape + String(repeating: "x", count: count)
                )
                let answers = try bench.judge(values: [(0, Array(value.utf8))])
                #expect(
                    answers.description.contains("dedupe.bad_record") == (more == 1),
                    "\(answers), \(value.prefix(30))"
                )
            }
        }
    }

    @Test func `keeps nothing of a token whose output Kafka does not take`() throws {
        let bench = DedupeBench()
        var value: [UInt8] = []
        Self.token("a").write(to: &value)
        bench.recordByteCountMax = 60
        _ = bench.plan(values: [(0, value)])
        #expect(bench.submit().isEmpty)
        bench.recordByteCountMax = 1_000
        #expect(try bench.judge(values: [(0, value)]) == [.primary])
    }

    @Test func `buries a record without a value`() throws {
        let bench = DedupeBench()
        var batch = RecordBatch()
        batch.records = [
            RecordBatch.Record(
                topic: 0,
                partition: 0,
                offset: 0,
                timestampMilliseconds: 0,
                key: .absent,
                value: .absent,
                headers: ByteRange(start: 0, count: 0)
            )
        ]
        var plan = BatchPlan(outputs: OutputBatch(), state: bench.state, now: bench.now)
        bench.stage.judge(batch, into: &plan)
        guard case .deadLetter(let fault, _) = plan.verdicts.first else {
            Issue.record("\(plan.verdicts)")
            return
        }
        #expect(fault.code == "dedupe.bad_record")
    }

    /// Goal: any stream, cut into any batches, commits, aborts and restarts, is answered as one pass
    /// over it with a set and a dictionary would.
    @Test(arguments: 0..<200)
    func `answers as the rule read aloud`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var bench = DedupeBench()
        var known: Set<String> = []
        var firsts: [String: String] = [:]
        let tokens = (0..<120).map { _ in Self.random(using: &generator) }
        var index = 0
        while index < tokens.count {
            let count = min(Int.random(in: 1...12, using: &generator), tokens.count - index)
            let batch = Array(tokens[index..<index + count])
            let isAborted = Int.random(in: 0..<8, using: &generator) == 0
            let answers = try bench.judge(batch)
            if isAborted {
                bench.state.abort()
                continue
            }
            let expected = batch.map { Self.answer($0, known: &known, firsts: &firsts) }
            #expect(answers == expected, "seed \(seed), from \(index)")
            try bench.submitAndCommit()
            if Int.random(in: 0..<6, using: &generator) == 0 {
                bench = try bench.restored()
            }
            index += count
        }
    }

    private static func random(using generator: inout SeededGenerator) -> TokenDecoded {
        let ids = (0..<30).map { $0 < 5 ? "SANDBOX_\($0)" : "\($0)" }
        let types: [TokenType?] = [
            .services, .services, .acquisition, nil, TokenType(text: "IN_APP"),
        ]
        return token(
            ids.randomElement(using: &generator) ?? "",
            customer: [nil, "c1.a", "c1.b"].randomElement(using: &generator) ?? nil,
            app: Int64.random(in: 1...2, using: &generator),
            type: types.randomElement(using: &generator) ?? nil,
            creation: Int64.random(in: 1...2, using: &generator),
            expiration: [nil, 3, 4].randomElement(using: &generator) ?? nil
        )
    }

    private static func answer(
        _ token: TokenDecoded,
        known: inout Set<String>,
        firsts: inout [String: String]
    ) -> DedupeBench.Answer {
        let id = token.token.externalPurchaseID.text
        guard known.insert("\(token.customer?.text ?? "")/\(id)").inserted else {
            return .again
        }
        guard let customer = token.customer, let type = token.token.tokenType,
            type == .services || type == .acquisition, let end = token.token.tokenExpirationDate
        else {
            return .primary
        }
        let parts: [String] = [
            customer.text, id.hasPrefix("SANDBOX") ? "s" : "p", "\(token.token.appAppleID)",
            type.text, "\(token.token.tokenCreationDate)", "\(end)",
        ]
        let period = parts.joined(separator: "/")
        if let first = firsts[period] {
            return .duplicate(of: first)
        }
        firsts[period] = id
        return .primary
    }
}
