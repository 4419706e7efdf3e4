import Foundation
import HTTPClient
import Kafka
import MessageExamples
import Testing
import TokenDomain

@testable import ingest

/// `Protocols/openapi.yaml`, checked by the validator of the Python Package Index.
private enum OpenAPIValidator {
    static let missing: Comment =
        "needs python3 with openapi-spec-validator 0.6 or later (PyPI; Debian 12 has none)"

    static let isThere: Bool = {
        do {
            let modules = "import openapi_spec_validator, jsonschema, yaml"
            return try run(["-c", modules], input: "").status == 0
        } catch {
            // Not even /usr/bin/env could be started.
            return false
        }
    }()

    static func run(_ arguments: [String], input: String) throws -> (status: Int32, text: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3"] + arguments
        let incoming = Pipe()
        let outgoing = Pipe()
        process.standardInput = incoming
        process.standardOutput = outgoing
        process.standardError = outgoing
        try process.run()
        incoming.fileHandleForWriting.write(Data(input.utf8))
        try incoming.fileHandleForWriting.close()
        let output = try outgoing.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }

    /// Validates the document and each value against a schema of it.
    static func check(_ entries: [(schema: String, json: String)]) throws {
        let script = try #require(
            Bundle.module.url(forResource: "Fixtures/check_openapi", withExtension: "py")
        )
        let document = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Protocols/openapi.yaml")
        let lines = entries.map { entry in
            "{\"schema\":\"\(entry.schema)\",\"value\":\(entry.json.filter { $0 != "\n" })}\n"
        }
        let result = try run([script.path, document.path], input: lines.joined())
        #expect(result.status == 0, "\(result.text)")
        #expect(result.text == "\(entries.count)\n")
    }
}

@Suite(.enabled(if: OpenAPIValidator.isThere, OpenAPIValidator.missing))
struct `The OpenAPI document` {
    @Test func `is valid`() throws {
        try OpenAPIValidator.check([])
    }

    @Test func `describes every refusal of the door`() throws {
        var entries: [(schema: String, json: String)] = []
        for refused in `The door of ingest`.refusals {
            var door = try `The door of ingest`.door()
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
            entries.append(("Problem", String(decoding: problem.body, as: UTF8.self)))
        }
        // Every rule of a sale that the door can say.
        for rule in PurchaseRule.allCases.prefix(while: { $0 != .unknownApp }) {
            let faults = PurchaseFaults([PurchaseFault(rule, .type, repair: "x")])
            entries.append(("Problem", String(decoding: Problem(faults).body, as: UTF8.self)))
        }
        for problem in [
            Problem.queueFull, .brokerAway, .nothingStored, .notStored, .stopping, .recordRefused,
            .recordRefusedOfMany, .tooManyRequests, .misdirected,
            Problem(
                status: 400,
                code: "ingest.bad_lines",
                detail: "x",
                lines: [Problem.Line(number: 1, code: "ingest.not_json", detail: "y")]
            ),
        ] {
            entries.append(("Problem", String(decoding: problem.body, as: UTF8.self)))
        }
        try OpenAPIValidator.check(entries)
    }

    @Test func `describes what is asked and answered`() throws {
        let uuid = `The door of ingest`.uuid
        let bench = try IngestBench()
        let notification = #"{"notificationType":"TEST","signedDate":1700000000000}"#
        let asked = [
            ("Token", "/v1/tokens", "{\"token\":\"abc\"}"),
            (
                "Token", "/v1/tokens",
                "{\"url\":\"https://a.example/?externalPurchaseToken=b\",\"x\":1}"
            ),
            (
                "Purchase", "/v1/purchases",
                "{\"externalPurchaseId\":\"a\",\(`The door of sales`.sale)}"
            ),
            (
                "Purchase", "/v1/purchases",
                "{\"type\":\"retract\",\"lineItemId\":\"a\",\"externalPurchaseId\":\"t\","
                    + "\"bundleId\":\"b\"}"
            ),
            (
                "Notification", "/v1/notifications",
                "{\"signedPayload\":\"\(bench.apple.sign(notification))\"}"
            ),
            (
                "AccountToken", "/v1/account-tokens",
                "{\"appAccountToken\":\"\(uuid)\",\"signedTransaction\":\"\(signedText())\"}"
            ),
            (
                "AccountToken", "/v1/account-tokens",
                "{\"appAccountToken\":\"\(uuid)\",\"originalTransactionId\":\"1\","
                    + "\"bundleId\":\"b\",\"environment\":\"sandbox\"}"
            ),
        ]
        var entries: [(schema: String, json: String)] = []
        for (schema, path, body) in asked {
            let answer = try bench.answer(path, body)
            #expect(answer.status < 300)
            entries.append((schema, body))
            entries.append(("Accepted", String(decoding: answer.body, as: UTF8.self)))
        }
        let large = String(repeating: "a", count: (1 << 20) + 1)
        for path in ["/v1/tokens", "/v1/tokens?\(large.prefix(20_000))"] {
            let answer = try bench.answer(path, path.count > 100 ? "" : large)
            #expect([413, 431].contains(answer.status))
            entries.append(("Problem", String(decoding: answer.body, as: UTF8.self)))
        }
        try OpenAPIValidator.check(entries)
    }
}
