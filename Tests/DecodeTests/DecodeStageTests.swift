import Kafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import decode

@Suite struct `The decode stage` {
    static let appID: Int64 = 1_234_567_890
    static let customer = "c1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    static let now = Timestamp(milliseconds: 1_800_000_000_000)
    static let recordTime = Timestamp(milliseconds: 1_760_000_000_000)

    static func json(
        id: String = "id-1",
        app: String = "1234567890",
        bundle: String = "com.example",
        more: String = ""
    ) -> String {
        #"{"appAppleId":\#(app),"bundleId":"\#(bundle)","tokenCreationDate":1706169600000,"#
            + #""externalPurchaseId":"\#(id)"\#(more)}"#
    }

    static func token(_ json: String = json()) -> String {
        Base64URL.encode(Array(json.utf8).span)
    }

    @Test func `forwards a token with what is known of it`() throws {
        let text = Self.token(
            Self.json(
                id: "SANDBOX_1",
                more: #","tokenType":"SERVICES","tokenExpirationDate":1706173200000"#
            )
        )
        let result = judge([
            #"{"token":" \#(text)\n","customer":"\#(Self.customer)","receivedAt":1760000000001,"#
                + #""source":"link","bundleId":"com.example","requestId":"r","x":[1]}"#
        ])
        #expect(result.verdicts == [.forward(outputCount: 1)])
        #expect(result.outputs[0].topic == "decoded")
        #expect(result.outputs[0].key == Self.customer)
        let decoded = try TokenDecoded(reading: Array(result.outputs[0].value.utf8).span)
        #expect(
            decoded
                == TokenDecoded(
                    token: ExternalPurchaseToken(
                        externalPurchaseID: TokenID("SANDBOX_1"),
                        appAppleID: Self.appID,
                        bundleID: "com.example",
                        tokenType: .services,
                        tokenCreationDate: Timestamp(milliseconds: 1_706_169_600_000),
                        tokenExpirationDate: Timestamp(milliseconds: 1_706_173_200_000)
                    ),
                    customer: CustomerID(Self.customer),
                    receivedAt: Timestamp(milliseconds: 1_760_000_000_001),
                    text: text
                )
        )
    }

    @Test func `writes what the message's own writer writes`() throws {
        for json in [
            Self.json(),
            Self.json(id: "SANDBOX", more: #","tokenType":"","x":{}"#),
            Self.json(id: #"\"\u0001é"#, more: #","tokenType":"\\""#),
        ] {
            let result = judge([#"{"token":"\#(Self.token(json))"}"#])
            let value = try #require(result.outputs.first?.value)
            var rewritten: [UInt8] = []
            try TokenDecoded(reading: Array(value.utf8).span).write(to: &rewritten)
            #expect(String(decoding: rewritten, as: UTF8.self) == value)
        }
    }

    @Test func `keys by the id where there is no customer, unescaped`() {
        let result = judge([
            #"{"token":"\#(Self.token())"}"#,
            #"{"token":"\#(Self.token(Self.json(id: #"\"é\u000a"#)))","customer":null}"#,
        ])
        #expect(result.outputs.map(\.key) == ["id-1", "\"é\n"])
    }

    @Test func `reads an envelope that escapes what it need not`() {
        let escaped = Self.token().replacing("e", with: #"\u0065"#)
        let customer = Self.customer.replacing("A", with: #"\u0041"#)
        let result = judge([
            #"{"t\u006fken":"\#(escaped)","customer":"\#(customer)","bundleId":"com\u002eexample"}"#
        ])
        #expect(result.verdicts == [.forward(outputCount: 1)])
        #expect(result.outputs.map(\.key) == [Self.customer])
        #expect(result.outputs[0].value.contains(Self.token()))
    }

    static let times: [(String, Timestamp)] = [
        ("", recordTime),
        (#","receivedAt":null"#, recordTime),
        (#","receivedAt":1760000000001"#, Timestamp(milliseconds: 1_760_000_000_001)),
        (#","receivedAt":1759395200000"#, Timestamp(milliseconds: 1_759_395_200_000)),
        (#","receivedAt":1759395199999"#, recordTime),
        (#","receivedAt":1760604800000"#, Timestamp(milliseconds: 1_760_604_800_000)),
        (#","receivedAt":1760604800001"#, recordTime),
        (#","receivedAt":0"#, recordTime),
        (#","receivedAt":-9223372036854775808"#, recordTime),
        (#","receivedAt":9223372036854775808"#, recordTime),
        // Of no type that a time has.
        (#","receivedAt":"1760000000001""#, recordTime),
        (#","receivedAt":1760000000001.5"#, recordTime),
        (#","receivedAt":1.760000000001e12"#, recordTime),
        (#","receivedAt":{"ms":[1760000000001]}"#, recordTime),
        (#","receivedAt":true"#, recordTime),
    ]

    @Test(arguments: times)
    func `believes a receivedAt within seven days of the record's time`(
        member: String,
        expected: Timestamp
    ) throws {
        let result = judge([#"{"token":"\#(Self.token())"\#(member)}"#])
        let value = try #require(result.outputs.first?.value)
        #expect(try TokenDecoded(reading: Array(value.utf8).span).receivedAt == expected)
    }

    @Test(arguments: [
        #""source":"web""#, #""source":7"#, #""source":["app"]"#, #""source":"app","source":"web""#,
        #""requestId":7"#, #""requestId":{"a":null}"#, #""requestId":"a","requestId":"b""#,
        #""receivedAt":1,"receivedAt":"x""#, #""schemaVersion":"2","schemaVersion":3"#,
    ])
    func `loses no token for a field that it does not need`(members: String) throws {
        let text = #"{\#(members),"token":"\#(Self.token())"}"#
        let result = judge([text])
        #expect(result.verdicts == [.forward(outputCount: 1)])
        #expect(try TokenReceived(reading: text.utf8.span).token == Self.token())
    }

    @Test func `takes its own time where a record has none`() throws {
        let result = judge([#"{"token":"\#(Self.token())"}"#], recordTime: -1)
        let value = try #require(result.outputs.first?.value)
        #expect(try TokenDecoded(reading: Array(value.utf8).span).receivedAt == Self.now)
    }

    static let faults: [(value: String?, code: String, seen: String?)] = [
        (nil, "bad_envelope", nil),
        ("", "bad_envelope", nil),
        ("null", "bad_envelope", nil),
        ("[]", "bad_envelope", nil),
        ("{}", "bad_envelope", nil),
        (#"{"token":null}"#, "bad_envelope", nil),
        (#"{"token":1}"#, "bad_envelope", nil),
        (#"{"token":"\#(token())""#, "bad_envelope", "id-1"),
        (#"{"token":"\#(token().dropLast(8))"#, "bad_envelope", nil),
        (#"{"token":"\#(token())","meta":{"price":NaN}}"#, "bad_envelope", "id-1"),
        (#"{"token":"\#(token())","token":"\#(token())"}"#, "bad_envelope", nil),
        (#"{"bundleId":1,"token":"\#(token())"}"#, "bad_envelope", "id-1"),
        (#"{"token":"\#(token())","requestId":tru}"#, "bad_envelope", "id-1"),
        (#"{"token":"\#(token())","customer":null,"customer":7}"#, "bad_envelope", "id-1"),
        (#"{"token":""}"#, "empty", nil),
        (#"{"token":" \n "}"#, "empty", nil),
        (#"{"token":"*"}"#, "not_base64url", nil),
        (#"{"token":"\#(String(repeating: "A", count: 4_097))"}"#, "too_long", nil),
        (#"{"token":"bm8"}"#, "not_json", nil),
        (#"{"token":"\#(token("[]"))"}"#, "not_json", nil),
        (#"{"token":"\#(token(json(more: ",")))"}"#, "not_json", "id-1"),
        (#"{"token":"\#(token(json(more: #","externalPurchaseId":"id-2""#)))"}"#, "not_json", nil),
        (#"{"token":"\#(token("{}"))"}"#, "missing_field", nil),
        (#"{"token":"\#(token(#"{"externalPurchaseId":"id-1"}"#))"}"#, "missing_field", "id-1"),
        (#"{"token":"\#(token(json(id: "")))"}"#, "out_of_range", nil),
        (#"{"token":"\#(token(json(app: "0")))"}"#, "out_of_range", "id-1"),
        (#"{"token":"\#(token(json(app: "1.5")))"}"#, "wrong_type", "id-1"),
        (#"{"token":"\#(token(json(app: "1234567891")))"}"#, "unknown_app", "id-1"),
        (#"{"token":"\#(token(json(bundle: "com.exampl")))"}"#, "bundle_mismatch", "id-1"),
        (#"{"token":"\#(token(json(bundle: "com.Example")))"}"#, "bundle_mismatch", "id-1"),
        (#"{"token":"\#(token())","bundleId":"com.other"}"#, "bundle_mismatch", "id-1"),
        (#"{"token":"\#(token())","bundleId":""}"#, "bundle_mismatch", "id-1"),
        (#"{"token":"\#(token())","customer":""}"#, "bad_customer", "id-1"),
        (#"{"token":"\#(token())","customer":"mia@example.com"}"#, "bad_customer", "id-1"),
        (#"{"token":"\#(token())","customer":"\#(customer)A"}"#, "bad_customer", "id-1"),
        (#"{"token":"\#(token())","customer":"\#(customer.dropLast())"}"#, "bad_customer", "id-1"),
        (#"{"token":"\#(token())","customer":"\#(customer.dropLast())B"}"#, "bad_customer", "id-1"),
        (#"{"token":"\#(token())","customer":"\#(customer.dropLast())+"}"#, "bad_customer", "id-1"),
        (
            #"{"token":"\#(token())","customer":"C1\#(customer.dropFirst(2))"}"#,
            "bad_customer", "id-1"
        ),
        (#"{"token":"\#(token())","customer":7}"#, "bad_customer", "id-1"),
        (#"{"token":"\#(token())","customer":{"id":[]}}"#, "bad_customer", "id-1"),
    ]

    @Test(arguments: faults)
    func `says what is wrong, and whose token it was`(
        row: (value: String?, code: String, seen: String?)
    ) throws {
        // Between two good records, so that nothing of one can leak into another.
        let good =
            #"{"token":"\#(Self.token(Self.json(id: "good")))","customer":"\#(Self.customer)"}"#
        let result = judge([good, row.value, good])
        #expect(result.verdicts[0] == .forward(outputCount: 1))
        #expect(result.verdicts[2] == .forward(outputCount: 1))
        let fault: Fault
        switch result.verdicts[1] {
        case .deadLetter(let found, 0):
            fault = found
            #expect(result.outputs.count == 2)
            #expect(found.externalPurchaseID == nil)
        case .deadLetter(let found, let outputCount):
            fault = found
            #expect(outputCount == 1)
            let seen = try TokenDistinct(reading: Array(result.outputs[1].value.utf8).span)
            #expect(result.outputs[1].topic == "distinct")
            #expect(result.outputs[1].key == seen.externalPurchaseID.text)
            #expect(seen.role == .seen)
            #expect(seen.receivedAt == Self.recordTime)
            #expect(found.externalPurchaseID == seen.externalPurchaseID)
        case .forward, .settled:
            Issue.record("it was not refused: \(result.verdicts[1])")
            return
        }
        #expect(fault.code == "decode.\(row.code)")
        #expect(fault.externalPurchaseID?.text == row.seen)
        #expect(!fault.message.contains("id-1"))
    }

    @Test func `tells of a dead letter's token all that is known`() throws {
        let result = judge([
            #"{"token":"\#(Self.token(Self.json(app: "7", more: #","tokenType":"SERVICES""#)))"}"#
        ])
        let seen = try TokenDistinct(reading: Array(result.outputs[0].value.utf8).span)
        #expect(
            seen
                == TokenDistinct(
                    externalPurchaseID: TokenID("id-1"),
                    appAppleID: 7,
                    bundleID: "com.example",
                    tokenType: .services,
                    tokenCreationDate: Timestamp(milliseconds: 1_706_169_600_000),
                    tokenExpirationDate: nil,
                    customer: nil,
                    receivedAt: Self.recordTime,
                    role: .seen
                )
        )
    }

    // MARK: A batch by hand

    private struct Result {
        var verdicts: [Verdict]
        var outputs: [(topic: String, key: String, value: String)]
    }

    private func judge(
        _ values: [String?],
        recordTime: Int64 = Self.recordTime.milliseconds
    ) -> Result {
        var batch = RecordBatch()
        for (offset, value) in values.enumerated() {
            let start = batch.arena.count
            batch.arena += Array((value ?? "").utf8)
            batch.records.append(
                RecordBatch.Record(
                    topic: 0,
                    partition: 0,
                    offset: Int64(offset),
                    timestampMilliseconds: recordTime,
                    key: .absent,
                    value: value == nil
                        ? .absent : ByteRange(start: start, count: batch.arena.count - start),
                    headers: ByteRange(start: 0, count: 0)
                )
            )
        }
        let stage = DecodeStage(
            apps: AppsFile(apps: [.init(appAppleID: Self.appID, bundleID: "com.example")])
        )
        var plan = BatchPlan(outputs: OutputBatch(), state: StagedState(), now: Self.now)
        stage.judge(batch, into: &plan)
        let arena = plan.outputs.arena
        return Result(
            verdicts: plan.verdicts,
            outputs: plan.outputs.outputs.map { output in
                (
                    topic: output.topic == 0 ? "decoded" : "distinct",
                    key: String(decoding: arena[output.key.indices], as: UTF8.self),
                    value: String(decoding: arena[output.value.indices], as: UTF8.self)
                )
            }
        )
    }
}
