import Foundation
import Kafka
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import tollway

@Suite(
    .serialized,
    .enabled(if: DeadLetterWorld.isKafkaThere, DeadLetterWorld.skipped)
)
struct `Looking at dead letters` {
    @Test func `groups, counts, lists, shows and exports them`() throws {
        let world = try DeadLetterWorld()
        #expect(try world.dlq("groups").exitCode == 3, "there is nothing yet")
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 1)
        try maker.write([.unknownApp, .rejected], each: 40, to: world.settings)
        try maker.write([.notBase64URL], each: 5, to: world.settings)

        let groups = try world.dlq("groups", "-o", "ndjson")
        #expect(groups.exitCode == 0, "\(groups.talk)")
        let objects = try groups.objects()
        let counts = Dictionary(
            uniqueKeysWithValues: objects.map {
                ($0["code"] as? String ?? "-", $0["count"] as? Int ?? 0)
            }
        )
        #expect(
            counts == [
                "decode.unknown_app": 40, "report.rejected": 40, "decode.not_base64url": 5,
            ]
        )
        let unknown = try #require(objects.first { $0["reason"] as? String == "unknown_app" })
        #expect((unknown["apps"] as? [Any])?.count == DeadLetterMaker.apps.count)
        // Created with the first dead letter, due after ten days.
        #expect(unknown["nearestDeadline"] as? Int == 1_700_000_000_001 + 864_000_000)
        #expect(unknown["firstFailedAt"] as? Int == 1_700_000_000_001)

        #expect(try world.dlq("count").output == "85\n")
        #expect(try world.dlq("count", "--stage", "report").output == "40\n")
        #expect(try world.dlq("count", "--reason", "none").exitCode == 3)

        let list = try world.dlq("ls", "--limit", "3", "-o", "ndjson")
        let newest = try list.objects()
        #expect(newest.count == 3)
        #expect(newest.allSatisfy { $0["code"] as? String == "decode.not_base64url" })
        let position = try #require(newest.first?["position"] as? String)

        let outline = try #require(
            try world.dlq("ls", "--limit", "1", "--brief", "-o", "ndjson").objects().first
        )
        let parts = Set(try #require(newest.first).keys).subtracting(outline.keys)
        #expect(parts == ["key", "value", "valueBase64", "headers", "masked"])

        let sheet = try world.dlq("show", position)
        #expect(sheet.exitCode == 0, "\(sheet.talk)")
        #expect(sheet.output.contains("decode.not_base64url"))
        #expect(sheet.output.contains("traceparent: \(maker.traceParent(85))"))
        #expect(!sheet.output.contains("no token, but 85"), "it must be masked")
        #expect(try world.dlq("show", position, "--reveal").output.contains("no token, but 85"))
        #expect(try world.dlq("show", "decode/0/99999").exitCode == 3)
        #expect(try world.dlq("show", "decode/0").exitCode == 2)

        let export = try world.dlq("export", "--reason", "unknown_app").objects()
        #expect(export.count == 40)
        #expect(export.allSatisfy { ($0["value"] as? String)?.contains("…") == true })
        let revealed = try world.dlq("export", "--reason", "unknown_app", "--reveal").objects()
        let stored = try world.records(of: .deadLetters(.decode))
        #expect(
            Set(revealed.compactMap { $0["value"] as? String }).isSubset(
                of: Set(stored.compactMap(\.value))
            )
        )
        #expect(try world.dlq("export", "--max", "7").objects().count == 7)
    }

    /// In one partition others hide those that match, which are younger than all in the others.
    @Test func `reads from the newest on as far as a newer one may lie`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 12)
        let now = Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        maker.failedAt = now + -.days(21)
        try maker.write(.unknownApp, 30, to: 1..<4, world)
        maker.failedAt = now + -.seconds(600)
        try maker.write(.unknownApp, 100, to: 0..<1, world)
        maker.failedAt = now + -.seconds(60)
        try maker.write(.notBase64URL, 300, to: 0..<1, world)
        let filter = ["ls", "--reason", "unknown_app", "--limit", "20", "--brief", "-o", "ndjson"]
        func positions(_ more: [String]) throws -> [String] {
            let run = try TollwayProcess.run(
                ["dlq"] + filter + more,
                environment: world.environment
            )
            return try run.objects().compactMap { $0["position"] as? String }
        }
        let all = try positions([])
        #expect(all.count == 20 && all.allSatisfy { $0.hasPrefix("decode/0/") }, "\(all)")
        #expect(try positions(["--newest"]) == all)
    }

    @Test func `counts in top only what is open`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 5)
        try maker.write([.unknownApp], each: 3, to: world.settings)
        try maker.write([.notBase64URL], each: 2, to: world.settings)
        func open() throws -> [String: Int] {
            let top = try TollwayProcess.run(
                ["top", "--interval", "500ms", "-o", "json"],
                environment: world.environment
            )
            let object = try top.object()
            let deadLetters = try #require(object["deadLetters"] as? [[String: Any]])
            let counts = deadLetters.reduce(into: [:]) { counts, deadLetters in
                counts[deadLetters["code"] as? String ?? "-"] = deadLetters["count"] as? Int
            }
            #expect(object["deadLetterTotal"] as? Int == counts.values.reduce(0, +))
            #expect(object["areDeadLettersAll"] as? Bool == true)
            return counts
        }
        #expect(try open() == ["decode.unknown_app": 3, "decode.not_base64url": 2])
        #expect(try world.dlq("replay", "--reason", "unknown_app", "--yes").exitCode == 0)
        #expect(try open() == ["decode.not_base64url": 2])
        #expect(
            try world.dlq("discard", "--stage", "decode", "--why", "x", "--yes").exitCode == 0
        )
        #expect(try open().isEmpty)
    }

    @Test func `says of a refused report what is due, and when`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 6)
        try maker.write([.rejected], each: 1, to: world.settings)
        let group = try #require(try world.dlq("groups", "-o", "ndjson").objects().first)
        #expect(group["nearestDeadline"] as? Int64 == DeadLetterMaker.deadline.milliseconds)
        let deadLetter = try #require(try world.dlq("export").objects().first)
        #expect(deadLetter["deadline"] as? Int64 == DeadLetterMaker.deadline.milliseconds)
        #expect(deadLetter["status"] as? String == "NO_LINE_ITEM")
        let sheet = try world.dlq("show", try #require(deadLetter["position"] as? String)).output
        #expect(sheet.contains("NO_LINE_ITEM") && sheet.contains("due at Apple"))
        let id = try #require(deadLetter["externalPurchaseId"] as? String)
        let trace = try TollwayProcess.run(
            ["token", "trace", id, "-o", "json"],
            environment: world.environment
        )
        let now = try #require((try trace.object()["now"] as? [String])?.first)
        #expect(now.contains("NO_LINE_ITEM is to be reported; due at Apple 2030-"), "\(now)")
    }

    /// Every byte of every secret, wherever it could come out.
    @Test func `shows no token, customer or key unless told to`() throws {
        let world = try DeadLetterWorld()
        var maker = DeadLetterMaker(prefix: world.prefix, seed: 2)
        try maker.write([.unknownApp, .notBase64URL], each: 3, to: world.settings)
        var secrets: [String] = []
        for record in try world.records(of: .deadLetters(.decode)) {
            secrets.append(try #require(record.key))
            secrets.append(try #require(try record.json()["token"] as? String))
        }
        var shown = ""
        for arguments in [["groups"], ["ls"], ["export"], ["groups", "-o", "json"]] {
            let run = try TollwayProcess.run(["dlq"] + arguments, environment: world.environment)
            #expect(run.exitCode == 0)
            shown += run.output + run.talk
        }
        for secret in secrets {
            #expect(!shown.contains(secret))
        }
        let revealed = try world.dlq("export", "--reveal").output
        for secret in secrets {
            #expect(revealed.contains(secret))
        }
    }
}

@Suite struct `The text of a dead letter` {
    private static let customer = "c1.0123456789abcdefghijklmnopqrstuvwxyzABCDEFE"

    @Test func `masks the customer of a report that was asked for`() {
        var bytes: [UInt8] = []
        var request = ReportRequested(
            externalPurchaseID: TokenID("t-1"),
            appAppleID: 1,
            bundleID: "b",
            status: .noLineItem,
            requestIdentifier: nil,
            lineItems: nil
        )
        request.purchaseKey = PurchaseKey(Self.customer)
        request.write(to: &bytes)
        let text = DeadLetterText(isRevealed: false).value(bytes[...])
        #expect(text.contains(#""externalPurchaseId":"t-1""#), "\(text)")
        #expect(text.contains(#""purchaseKey":"c1.012345…"#), "\(text)")
        #expect(!text.contains(Self.customer))
        #expect(DeadLetterText(isRevealed: true).value(bytes[...]).contains(Self.customer))
    }

    @Test(arguments: [
        ("4915112345678", #""…""#), ("true", #""…""#), (#"["alice@example.com"]"#, #""…""#),
        (#"{"name":"alice"}"#, #""…""#), ("null", "null"),
        (#""alice@example.com""#, #""… (17 bytes)""#),
        (#""c1.alice@example.com""#, #""… (20 bytes)""#),
        (#""\#(customer)""#, #""c1.012345… (46 bytes)""#),
    ])
    func `masks a customer in whatever form it came`(value: String, shown: String) {
        let bytes = Array(#"{"token":1,"customer":\#(value),"bundleId":"b"}"#.utf8)
        let text = DeadLetterText(isRevealed: false).value(bytes[...])
        #expect(text == #"{"token":"…","customer":\#(shown),"bundleId":"b"}"#)
    }

    @Test(
        arguments: [
            (customer, Worker.report, "c1.012345… (46 bytes)"),
            (customer, .decode, "c1.012345… (46 bytes)"),
            ("alice@example.com", .decode, "… (17 bytes)"),
            ("t-1-long-enough-to-be-cut", .report, "t-1-long-enough-to-be-cut"),
        ] as [(String, Worker, String)]
    )
    func `masks a customer's key, whatever stage it failed in`(
        key: String,
        stage: Worker,
        shown: String
    ) {
        let bytes = Array(key.utf8)[...]
        #expect(DeadLetterText(isRevealed: false).key(bytes, of: stage) == shown)
        #expect(DeadLetterText(isRevealed: true).key(bytes, of: stage) == key)
    }
}

extension DeadLetterMaker {
    /// Writes dead letters whose keys lie in some partitions of their topic alone.
    mutating func write(
        _ kind: Kind,
        _ count: Int,
        to partitions: Range<Int32>,
        _ world: DeadLetterWorld
    ) throws {
        var outputs = OutputBatch()
        while outputs.outputs.count < count {
            append(kind, to: &outputs)
            let key = outputs.outputs.last?.key ?? .absent
            let partition = TopicReader.partition(
                ofKey: Array(outputs.arena[key.indices]),
                partitionCount: 4
            )
            if !partitions.contains(partition) {
                outputs.outputs.removeLast()
            }
        }
        let producer = try KafkaProducer(settings: world.settings, targets: topics)
        defer { producer.close(deadlineMilliseconds: 5_000) }
        try producer.produce(outputs, tags: outputs.outputs.map { _ in 0 })
        try #require(producer.flush(deadlineMilliseconds: 30_000))
    }
}
