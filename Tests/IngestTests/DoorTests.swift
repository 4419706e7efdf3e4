import Foundation
import HTTPServer
import Kafka
import MessageExamples
import Testing
import TokenDomain
import TokenWire

@testable import ingest

/// A JWS in shape: its parts say nothing.
func signedText(certificateCount: Int = 3, payload: String = "{}") -> String {
    let certificates = Array(repeating: "\"MII=\"", count: certificateCount)
        .joined(separator: ",")
    let header = "{\"alg\":\"ES256\",\"x5c\":[\(certificates)]}"
    return [header, payload, "signature"].map {
        Base64URL.encode(Array($0.utf8).span)
    }.joined(separator: ".")
}

func readToken(_ value: [UInt8]) throws -> TokenReceived {
    try TokenReceived(reading: value.span)
}

func readAccountToken(_ value: [UInt8]) throws -> AccountTokenRequested {
    try AccountTokenRequested(reading: value.span)
}

@Suite struct `The door of ingest` {
    static let key = "0123456789abcdef"
    static let otherKey = "fedcba9876543210"
    static let uuid = "3b9dd6b4-9d52-4c6b-9f8e-0a1b2c3d4e5f"

    /// The name, what is sent, and what comes back.
    struct Case: CustomTestStringConvertible, Sendable {
        var name: String
        var method = "POST"
        var path = "/v1/tokens"
        var headers = [
            ("Content-Type", "application/json"), ("Authorization", "Bearer 0123456789abcdef"),
        ]
        var body = "{\"token\":\"abc\"}"
        var status = 202
        var code = ""

        var testDescription: String { name }

        func with(_ name: String, _ value: String?) -> Case {
            var changed = self
            changed.headers.removeAll { $0.0 == name }
            if let value {
                changed.headers.append((name, value))
            }
            return changed
        }

        var headerBytes: [UInt8] {
            headers.flatMap { Array($0.utf8) + [0] + Array($1.utf8) + [0] }
        }

        var request: HTTPRequest {
            HTTPRequest(
                id: HTTPRequest.ID(number: 1),
                method: method,
                path: path,
                query: "",
                body: Array(body.utf8),
                remoteAddress: "127.0.0.1",
                headerBytes: headerBytes
            )
        }
    }

    static func door(isOpen: Bool = false, takesCustomers: Bool = true) throws -> Door {
        Door(
            keys: isOpen ? nil : BearerKeys([Array(key.utf8), Array(otherKey.utf8)]),
            pseudonyms: takesCustomers
                ? CustomerPseudonyms(key: Array("customer-key-16b".utf8)) : nil,
            notifications: NotificationGate(
                roots: try SignedPayloads().roots,
                sources: nil,
                now: 0
            )
        )
    }

    static let refusals: [Case] = [
        Case(name: "no such path", path: "/v1/token", status: 404, code: "ingest.not_found"),
        Case(name: "the root", path: "/", status: 404, code: "ingest.not_found"),
        Case(name: "GET", method: "GET", status: 405, code: "ingest.method_not_allowed"),
        Case(name: "PUT", method: "PUT", status: 405, code: "ingest.method_not_allowed"),
        Case(name: "no key", status: 401, code: "ingest.unauthorized").with("Authorization", nil),
        Case(name: "a wrong key", status: 401, code: "ingest.unauthorized")
            .with("Authorization", "Bearer 0123456789abcdeF"),
        Case(name: "a tab behind the scheme", status: 401, code: "ingest.unauthorized")
            .with("Authorization", "Bearer\t0123456789abcdef"),
        Case(name: "a key and more", status: 401, code: "ingest.unauthorized")
            .with("Authorization", "Bearer 0123456789abcdef0"),
        Case(name: "half a key", status: 401, code: "ingest.unauthorized")
            .with("Authorization", "Bearer 01234567"),
        Case(name: "another scheme", status: 401, code: "ingest.unauthorized")
            .with("Authorization", "Basic 0123456789abcdef"),
        Case(
            name: "account tokens without key",
            path: "/v1/account-tokens",
            status: 401,
            code: "ingest.unauthorized"
        ).with("Authorization", nil),
        Case(name: "no content type", status: 415, code: "ingest.unsupported_media_type")
            .with("Content-Type", nil),
        Case(name: "a form", status: 415, code: "ingest.unsupported_media_type")
            .with("Content-Type", "application/x-www-form-urlencoded"),
        Case(name: "compressed", status: 415, code: "ingest.unsupported_media_type")
            .with("Content-Encoding", "gzip"),
        Case(
            name: "a batch of notifications",
            path: "/v1/notifications",
            status: 415,
            code: "ingest.unsupported_media_type"
        ).with("Content-Type", "application/x-ndjson"),
        Case(name: "no body", body: "", status: 400, code: "ingest.not_json"),
        Case(name: "no JSON", body: "{\"token\":", status: 400, code: "ingest.not_json"),
        Case(name: "two values", body: "{\"token\":\"a\"}{}", status: 400, code: "ingest.not_json"),
        Case(
            name: "not UTF-8 in spirit",
            body: "{\"token\":\"\\ud800\"}",
            status: 400,
            code: "ingest.not_json"
        ),
        Case(name: "an array", body: "[\"abc\"]", status: 400, code: "ingest.wrong_type"),
        Case(name: "no token", body: "{}", status: 400, code: "ingest.missing_field"),
        Case(
            name: "a null token",
            body: "{\"token\":null}",
            status: 400,
            code: "ingest.missing_field"
        ),
        Case(name: "a number", body: "{\"token\":1}", status: 400, code: "ingest.wrong_type"),
        Case(
            name: "the token twice",
            body: "{\"token\":\"a\",\"token\":\"a\"}",
            status: 400,
            code: "ingest.repeated_field"
        ),
        Case(
            name: "token and url",
            body: "{\"token\":\"a\",\"url\":\"https://a?externalPurchaseToken=b\"}",
            status: 400,
            code: "ingest.both"
        ),
        Case(
            name: "too deep",
            body: "{\"token\":\"a\",\"x\":\(String(repeating: "[", count: 16))"
                + "\(String(repeating: "]", count: 16))}",
            status: 400,
            code: "ingest.not_json"
        ),
        Case(
            name: "a token beyond all tokens",
            body: "{\"token\":\"\(String(repeating: "a", count: 65_537))\"}",
            status: 413,
            code: "ingest.too_large"
        ),
        Case(
            name: "an empty customer",
            body: "{\"token\":\"a\",\"customer\":\"\"}",
            status: 400,
            code: "ingest.out_of_range"
        ),
        Case(
            name: "a customer that is a number",
            body: "{\"token\":\"a\",\"customer\":7}",
            status: 400,
            code: "ingest.wrong_type"
        ),
        Case(
            name: "a customer too long",
            body: "{\"token\":\"a\",\"customer\":\"\(String(repeating: "c", count: 1_025))\"}",
            status: 413,
            code: "ingest.too_large"
        ),
        Case(
            name: "a link of another scheme",
            body: "{\"url\":\"myapp://a?externalPurchaseToken=b\"}",
            status: 400,
            code: "ingest.bad_link"
        ),
        Case(
            name: "a link without token",
            body: "{\"url\":\"https://a?bundleId=b\"}",
            status: 400,
            code: "ingest.bad_link"
        ),
        Case(
            name: "a link with two tokens",
            body: "{\"url\":\"https://a?externalPurchaseToken=b&externalPurchaseToken=b\"}",
            status: 400,
            code: "ingest.bad_link"
        ),
        Case(
            name: "a notification without payload",
            path: "/v1/notifications",
            body: "{}",
            status: 400,
            code: "ingest.missing_field"
        ),
        Case(
            name: "a notification that is no JWS",
            path: "/v1/notifications",
            body: "{\"signedPayload\":\"abc\"}",
            status: 400,
            code: "jws.malformed"
        ),
        Case(
            name: "a notification with two certificates",
            path: "/v1/notifications",
            body: "{\"signedPayload\":\"\(signedText(certificateCount: 2))\"}",
            status: 400,
            code: "jws.chain"
        ),
        Case(
            name: "a notification with four certificates",
            path: "/v1/notifications",
            body: "{\"signedPayload\":\"\(signedText(certificateCount: 4))\"}",
            status: 400,
            code: "jws.chain"
        ),
        Case(
            name: "a notification with four parts",
            path: "/v1/notifications",
            body: "{\"signedPayload\":\"\(signedText()).x\"}",
            status: 400,
            code: "jws.malformed"
        ),
        Case(
            name: "a notification of more than 64 KiB",
            path: "/v1/notifications",
            body: "{\"signedPayload\":\"\(signedText())\(String(repeating: "a", count: 65_536))\"}",
            status: 413,
            code: "ingest.too_large"
        ),
        Case(
            name: "a body for a notification of far more",
            path: "/v1/notifications",
            body: String(repeating: " ", count: (64 << 10) + 4_097),
            status: 413,
            code: "http.body_too_large"
        ),
        Case(
            name: "an account token that is no UUID",
            path: "/v1/account-tokens",
            body: "{\"appAccountToken\":\"x\",\"signedTransaction\":\"\(signedText())\"}",
            status: 400,
            code: "ingest.not_a_uuid"
        ),
        Case(
            name: "an account token without transaction",
            path: "/v1/account-tokens",
            body: "{\"appAccountToken\":\"\(uuid)\"}",
            status: 400,
            code: "ingest.missing_field"
        ),
        Case(
            name: "an account token of another environment",
            path: "/v1/account-tokens",
            body: "{\"appAccountToken\":\"\(uuid)\",\"originalTransactionId\":\"1\","
                + "\"bundleId\":\"b\",\"environment\":\"Xcode\"}",
            status: 400,
            code: "ingest.out_of_range"
        ),
        Case(
            name: "an account token with an empty transaction id",
            path: "/v1/account-tokens",
            body: "{\"appAccountToken\":\"\(uuid)\",\"originalTransactionId\":\"\","
                + "\"bundleId\":\"b\",\"environment\":\"sandbox\"}",
            status: 400,
            code: "ingest.out_of_range"
        ),
        Case(
            name: "an account token for no transaction",
            path: "/v1/account-tokens",
            body: "{\"appAccountToken\":\"\(uuid)\",\"signedTransaction\":\"a.b.c\"}",
            status: 400,
            code: "ingest.not_signed"
        ),
    ]

    @Test(arguments: refusals)
    func `refuses before anything is stored`(refused: Case) throws {
        var door = try Self.door()
        var outputs = OutputBatch()
        let problem = try #require(throws: Problem.self) {
            try door.admit(
                refused.request,
                isBusy: nil,
                now: 0,
                receivedAt: Timestamp(milliseconds: 1),
                to: &outputs
            )
        }
        #expect(problem.status == refused.status)
        #expect(problem.code == refused.code)
        // The client has written no record.
        #expect(!problem.detail.contains("tokens.received"), "\(problem.detail)")
        #expect(outputs.arena.isEmpty && outputs.outputs.isEmpty)
        let headers = Dictionary(uniqueKeysWithValues: problem.headers)
        #expect(headers["Content-Type"] == "application/problem+json")
        #expect((headers["Allow"] == "POST") == (refused.status == 405))
        #expect((headers["WWW-Authenticate"] != nil) == (refused.status == 401))
        let body = try #require(
            try JSONSerialization.jsonObject(with: Data(problem.body)) as? [String: Any]
        )
        #expect(body["status"] as? Int == refused.status)
        #expect(body["code"] as? String == refused.code)
        #expect((body["detail"] as? String)?.isEmpty == false)
    }

    @Test(arguments: [
        Case(name: "a batch too large", status: 413, code: "http.body_too_large"),
        Case(name: "the largest batch"),
        Case(name: "no key", status: 401, code: "ingest.unauthorized").with("Authorization", nil),
        Case(name: "no path", path: "/v2", status: 404, code: "ingest.not_found"),
        Case(name: "GET", method: "GET", status: 405, code: "ingest.method_not_allowed"),
        Case(name: "a form", status: 415, code: "ingest.unsupported_media_type")
            .with("Content-Type", "text/plain"),
        Case(
            name: "a large notification",
            path: "/v1/notifications",
            status: 413,
            code: "http.body_too_large"
        ),
    ])
    func `is decided by the head alone, as far as that goes`(judged: Case) throws {
        let byteCounts = [
            "a batch too large": (1 << 20) + 1, "the largest batch": 1 << 20,
            "a large notification": (64 << 10) + 4_097,
        ]
        let whole = judged.request
        let head = HTTPRequest(
            id: whole.id,
            method: whole.method,
            path: whole.path,
            query: "",
            body: [],
            remoteAddress: "",
            headerBytes: judged.headerBytes,
            isComplete: false,
            announcedByteCount: byteCounts[judged.name]
        )
        guard judged.status != 202 else {
            #expect(try Self.door().judge(head, isBusy: nil) == .tokens)
            // What refuses everything does so before the body, too.
            #expect(throws: Problem.queueFull) {
                try Self.door().judge(head, isBusy: .queueFull)
            }
            return
        }
        let problem = try #require(throws: Problem.self) {
            try Self.door().judge(head, isBusy: .queueFull)
        }
        #expect(problem.status == judged.status)
        #expect(problem.code == judged.code)
    }

    /// Admits one request and gives back its records.
    private func admit(_ accepted: Case) throws -> [(key: String?, value: [UInt8])] {
        var door = try Self.door()
        var outputs = OutputBatch()
        // What an earlier request of the same turn left in the batch.
        _ = outputs.place(Array("earlier".utf8))
        let admitted = try door.admit(
            accepted.request,
            isBusy: nil,
            now: 0,
            receivedAt: Timestamp(milliseconds: 1_700_000_000_000),
            to: &outputs
        )
        let admission = try #require(admitted)
        #expect(admission.recordCount == outputs.outputs.count)
        return outputs.outputs.map { output in
            #expect(output.topic == admission.route.topic)
            return (
                output.key.isAbsent
                    ? nil : String(decoding: outputs.arena[output.key.indices], as: UTF8.self),
                Array(outputs.arena[output.value.indices])
            )
        }
    }

    @Test(arguments: [
        ("abc", "abc"), ("", ""), (" a+b/c== ", " a+b/c== "), ("a\\u0041\\n\\\"", "aA\n\""),
        ("ü€😀", "ü€😀"),
    ])
    func `keeps a token untouched, whatever it is`(json: String, token: String) throws {
        let records = try admit(
            Case(name: "", body: " { \"x\":[1], \"token\" : \"\(json)\" } \n")
                .with("X-Request-Id", "trace-1")
        )
        #expect(records.count == 1)
        #expect(records[0].key == nil)
        #expect(
            try readToken(records[0].value)
                == TokenReceived(
                    token: token,
                    customer: nil,
                    receivedAt: Timestamp(milliseconds: 1_700_000_000_000),
                    source: .app,
                    bundleID: nil,
                    requestID: "trace-1"
                )
        )
    }

    @Test func `replaces a customer by what the key makes of it`() throws {
        let records = try admit(
            Case(name: "", body: "{\"customer\":\"alice@example.com\",\"token\":\"abc\"}")
        )
        // printf %s alice@example.com | openssl dgst -sha256 -hmac customer-key-16b -binary
        //     | basenc --base64url
        let sealed = "c1.P_1O96EW6DJGO5qYus7XAOhHyftOEf0WTrfWm_Fbs4k"
        #expect(records[0].key == sealed)
        let record = try readToken(records[0].value)
        #expect(record.customer?.text == sealed)
        #expect(!String(decoding: records[0].value, as: UTF8.self).contains("alice"))
    }

    @Test func `refuses a customer where there is no key to replace it`() throws {
        var door = try Self.door(takesCustomers: false)
        var outputs = OutputBatch()
        let request = Case(name: "", body: "{\"customer\":\"a\",\"token\":\"abc\"}").request
        let problem = try #require(throws: Problem.self) {
            try door.admit(
                request,
                isBusy: nil,
                now: 0,
                receivedAt: Timestamp(milliseconds: 1),
                to: &outputs
            )
        }
        #expect(problem.status == 400)
        #expect(problem.code == "ingest.customer_refused")
    }

    @Test func `takes the token and the bundle id out of a link`() throws {
        let records = try admit(
            Case(
                name: "",
                body: "{\"url\":\"https://shop.example/buy?a=b&externalPurchaseToken=ab%2Bc%3D&"
                    + "bundleId=com.example\",\"customer\":\"bob\"}"
            )
        )
        let record = try readToken(records[0].value)
        #expect(record.token == "ab+c=")
        #expect(record.bundleID == "com.example")
        #expect(record.source == .link)
        #expect(record.customer?.text == records[0].key)
    }

    @Test(arguments: [
        ("{\"token\":\"a\"}\n{\"token\":\"b\"}\n", ["a", "b"]),
        ("{\"token\":\"a\"}\r\n\r\n  {\"token\":\"b\"} \r\n", ["a", "b"]),
        ("{\"token\":\"a\"}", ["a"]),
    ])
    func `makes a record of every line`(body: String, tokens: [String]) throws {
        let records = try admit(
            Case(name: "", body: body).with("Content-Type", "application/x-ndjson; charset=utf-8")
        )
        #expect(try records.map { try readToken($0.value).token } == tokens)
    }

    @Test func `takes as many lines as its limit, and not one more`() throws {
        let line = "{\"token\":\"a\"}\n"
        let batch = Case(name: "").with("Content-Type", "application/x-ndjson")
        var full = batch
        full.body = String(repeating: line, count: IngestLimits.batchRecordCountMax)
        #expect(try admit(full).count == IngestLimits.batchRecordCountMax)
        full.body += line
        #expect(throws: Problem.self) { try admit(full) }
    }

    @Test func `names the bad lines of a batch and takes none of it`() throws {
        var door = try Self.door()
        var outputs = OutputBatch()
        let request = Case(
            name: "",
            body: "{\"token\":\"a\"}\n\n{x}\n{\"token\":\"b\"}\n{\"customer\":\"x\"}\n"
        ).with("Content-Type", "application/x-ndjson").request
        let problem = try #require(throws: Problem.self) {
            try door.admit(
                request,
                isBusy: nil,
                now: 0,
                receivedAt: Timestamp(milliseconds: 1),
                to: &outputs
            )
        }
        #expect(problem.status == 400)
        #expect(problem.code == "ingest.bad_lines")
        #expect(problem.lines.map(\.number) == [3, 5])
        #expect(problem.lines.map(\.code) == ["ingest.not_json", "ingest.missing_field"])
        #expect(outputs.arena.isEmpty && outputs.outputs.isEmpty)
    }

    @Test func `names no more bad lines than its limit`() throws {
        let request = Case(name: "", body: String(repeating: "x\n", count: 500))
            .with("Content-Type", "application/x-ndjson")
        let problem = try #require(throws: Problem.self) { try admit(request) }
        #expect(problem.lines.count == Problem.lineCountMax)
        #expect(problem.detail.hasPrefix("500 of 500"))
    }

    @Test func `keys an account token by its transaction, signed or named`() throws {
        let signed = signedText(payload: "{\"originalTransactionId\":\"42\"}")
        let named = try admit(
            Case(
                name: "",
                path: "/v1/account-tokens",
                body: "{\"appAccountToken\":\"\(Self.uuid)\",\"originalTransactionId\":\"42\","
                    + "\"bundleId\":\"com.example\",\"environment\":\"sandbox\"}"
            )
        )
        let proven = try admit(
            Case(
                name: "",
                path: "/v1/account-tokens",
                body: "{\"appAccountToken\":\"\(Self.uuid)\",\"signedTransaction\":\"\(signed)\"}"
            )
        )
        #expect(named[0].key == "42")
        #expect(proven[0].key == "42")
        #expect(
            try readAccountToken(named[0].value).subject
                == .original(transactionID: "42", bundleID: "com.example", environment: .sandbox)
        )
        #expect(
            try readAccountToken(proven[0].value).subject
                == .signedTransaction(signed)
        )
    }

    @Test(arguments: [key, otherKey])
    func `takes either of two live keys`(key: String) throws {
        for scheme in ["Bearer ", "bearer ", "BEARER  "] {
            #expect(
                try admit(Case(name: "").with("Authorization", scheme + key)).count == 1
            )
        }
    }

    @Test(arguments: [
        ("127.0.0.1:8080", true), ("localhost", true), ("[::1]:8080", true), ("door:80", true),
        (nil, true), ("rebound.example:8080", false), ("localhost.example", false),
    ])
    func `answers to addresses and its own names where no key is asked for`(
        host: String?,
        isAnswered: Bool
    ) throws {
        let door = Door(
            hosts: HostRule(names: ["door"]),
            keys: nil,
            pseudonyms: nil,
            notifications: nil
        )
        let request = Case(name: "").with("Authorization", nil).with("Host", host).request
        guard isAnswered else {
            let problem = try #require(throws: Problem.self) {
                try door.judge(request, isBusy: nil)
            }
            #expect(problem == .misdirected)
            #expect(problem.title == "Misdirected Request")
            return
        }
        #expect(try door.judge(request, isBusy: nil) == .tokens)
    }

    @Test func `asks for no key where none is set`() throws {
        var door = try Self.door(isOpen: true)
        var outputs = OutputBatch()
        let admission = try door.admit(
            Case(name: "").with("Authorization", nil).request,
            isBusy: nil,
            now: 0,
            receivedAt: Timestamp(milliseconds: 1),
            to: &outputs
        )
        #expect(admission?.recordCount == 1)
    }

    @Test func `names a request anew where its own name could not stand in a log`() throws {
        for own in ["a b", "", String(repeating: "a", count: 65), "a\"b"] {
            let records = try admit(Case(name: "").with("X-Request-Id", own))
            let requestID = try readToken(records[0].value).requestID
            #expect(requestID.count == 36, "\(own)")
        }
    }
}
