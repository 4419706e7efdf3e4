import Foundation
import Kafka
import MessageExamples
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import decode
@testable import dedupe
@testable import tollway

/// What the programs write, held against `Protocols/` by the jsonschema package of Python.
@Suite struct `The schemas of Protocols` {
    static let root = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()
    static var protocols: URL { root.appending(path: "Protocols") }

    struct Case {
        var name: String
        var schema: String
        var isValid: Bool
        /// JSON, on one line.
        var document: String

        var line: String {
            #"{"name":"\#(name)","schema":"\#(schema)","isValid":\#(isValid),"document":\#(document)}"#
        }
    }

    @Test func `accept what the writers write, and refuse what is wrong`() throws {
        let cases =
            Self.written() + Self.deadLetters() + Self.decodedByTheStage() + Self.wrong
            + (try Self.changedByHand())
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        let script = Self.root.appending(path: "Tests/ProtocolTests/validate.py")
        process.arguments = ["python3", script.path(), Self.protocols.path()]
        let input = FileManager.default.temporaryDirectory
            .appending(path: "protocol-cases-\(UUID().uuidString)")
        try Data((cases.map(\.line).joined(separator: "\n") + "\n").utf8).write(to: input)
        defer { unsafe unlink(input.path()) }
        process.standardInput = try FileHandle(forReadingFrom: input)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "\(String(decoding: text, as: UTF8.self))")
    }

    private static func written() -> [Case] {
        cases("tokens.received.v1", MessageExamples.received) { $0.write(to: &$1) }
            + cases("tokens.decoded.v1", MessageExamples.decoded) { $0.write(to: &$1) }
            + cases("tokens.distinct.v1", MessageExamples.distinct) { $0.write(to: &$1) }
            + cases("notifications.received.v1", MessageExamples.notificationsReceived) {
                $0.write(to: &$1)
            }
            + cases("notifications.verified.v1", MessageExamples.notificationsVerified) {
                $0.write(to: &$1)
            }
            + cases("notifications.other.v1", MessageExamples.notificationsOther) {
                $0.write(to: &$1)
            }
            + cases("reports.requested.v1", MessageExamples.reportsRequested) { $0.write(to: &$1) }
            + cases("reports.outcomes.v1", MessageExamples.reportsOutcomes) { $0.write(to: &$1) }
            + cases("tokens.refused.v1", MessageExamples.tokensRefused) { $0.write(to: &$1) }
            + cases("purchases.received.v1", MessageExamples.purchasesReceived) {
                $0.write(to: &$1)
            }
            + cases("purchases.answered.v1", MessageExamples.purchasesAnswered) {
                $0.write(to: &$1)
            }
            + cases("purchases.outcomes.v1", MessageExamples.purchasesOutcomes) {
                $0.write(to: &$1)
            }
            + cases("account-tokens.requested.v1", MessageExamples.accountTokensRequested) {
                $0.write(to: &$1)
            }
            + cases("account-tokens.outcomes.v1", MessageExamples.accountTokensOutcomes) {
                $0.write(to: &$1)
            }
            + cases("lanes.control.v1", MessageExamples.laneOrders) { $0.write(to: &$1) }
            + cases("dedupe.state.v1", dedupeRecords) { $1 = $0.changelogValue() }
            + cases("report.state.v1", MessageExamples.accounts) { $0.write(to: &$1) }
            + cases("report.state.v1", MessageExamples.accountTokenDebts) { $0.write(to: &$1) }
            + cases("report.state.v1", MessageExamples.waitingReports) {
                WaitingReport.write($0, to: &$1)
            }
    }

    private static var dedupeRecords: [DedupeRecord] {
        let key = DedupeKey(high: 1, low: 2)
        func record(_ place: UInt32?, _ head: PeriodHead? = nil) -> DedupeRecord {
            DedupeRecord(
                identity: key,
                place: place.map { PeriodPlace(period: key, index: $0) },
                externalPurchaseID: Array("SANDBOX_1".utf8),
                keysExpire: Timestamp(milliseconds: .max),
                head: head
            )
        }
        var unheard = record(nil)
        unheard.isUnheard = true
        let primary = PeriodHead.Primary(index: 0, id: Array("SANDBOX_0".utf8))
        var duplicate = record(1, PeriodHead(count: 2, primary: primary))
        duplicate.token = Array(#"{"externalPurchaseId":"SANDBOX_1","receivedAt":1"#.utf8)
        let refused = record(2, PeriodHead(count: 3, primary: nil))
        var (kept, known) = (duplicate, duplicate)
        kept.tokenStanding = .refused
        known.tokenStanding = .known
        return [record(nil), record(0), unheard, duplicate, refused, kept, known]
    }

    private static func cases<Message>(
        _ schema: String,
        _ messages: [Message],
        write: (Message, inout [UInt8]) -> Void
    ) -> [Case] {
        messages.enumerated().map { index, message in
            var arena: [UInt8] = []
            write(message, &arena)
            return Case(
                name: "written \(index)",
                schema: schema,
                isValid: true,
                document: String(decoding: arena, as: UTF8.self)
            )
        }
    }

    private static func deadLetters() -> [Case] {
        var replayed = DeadLetter.History.none
        replayed.firstFailedAt = "2026-01-01T00:00:00.000Z"
        replayed.attempts = 3
        replayed.replayCount = 2
        replayed.replayID = "r-1"
        let histories = [DeadLetter.History.none, replayed]
        return histories.enumerated().map { index, history in
            let deadLetter = DeadLetter(
                fault: DecodeFault.notBase64URL(byteIndex: 7).fault,
                worker: .decode,
                origin: DeadLetter.Origin(
                    topic: "tollway.tokens.received.v1",
                    partition: 0,
                    offset: 12,
                    group: "tollway.decode"
                ),
                failedAt: MessageExamples.time,
                history: history
            )
            var arena: [UInt8] = []
            deadLetter.appendHeaders(to: &arena)
            let headers = HeaderList.entries(
                in: ByteRange(start: 0, count: arena.count),
                of: arena
            )
            var writer = JSONWriter()
            writer.beginObject()
            for (name, value) in headers {
                writer.name(text: name)
                writer.string(String(decoding: arena[value.indices], as: UTF8.self))
            }
            writer.endObject()
            return Case(
                name: "dead letter \(index)",
                schema: "dead-letter.headers",
                isValid: true,
                document: String(decoding: writer.bytes, as: UTF8.self)
            )
        }
    }

    /// The stage's own writer, which is not the message's: a token that is forwarded, one seen.
    private static func decodedByTheStage() -> [Case] {
        var batch = RecordBatch()
        for customer in [MessageExamples.customer.text, "somebody"] {
            let token =
                #"{"appAppleId":1,"bundleId":"b","tokenCreationDate":1,"externalPurchaseId":"i"}"#
            let start = batch.arena.count
            TokenReceived(
                token: Base64URL.encode(Array(token.utf8).span),
                customer: CustomerID(customer),
                receivedAt: MessageExamples.time,
                source: .app,
                bundleID: nil,
                requestID: "r"
            ).write(to: &batch.arena)
            batch.records.append(
                RecordBatch.Record(
                    topic: 0,
                    partition: 0,
                    offset: 0,
                    timestampMilliseconds: MessageExamples.time.milliseconds,
                    key: .absent,
                    value: ByteRange(start: start, count: batch.arena.count - start),
                    headers: ByteRange(start: 0, count: 0)
                )
            )
        }
        var plan = BatchPlan(
            outputs: OutputBatch(),
            state: StagedState(),
            now: MessageExamples.time
        )
        let stage = DecodeStage(apps: AppsFile(apps: [.init(appAppleID: 1, bundleID: "b")]))
        stage.judge(batch, into: &plan)
        return plan.outputs.outputs.map { output in
            Case(
                name: "judged into topic \(output.topic)",
                schema: output.topic == 0 ? "tokens.decoded.v1" : "tokens.distinct.v1",
                isValid: true,
                document: String(
                    decoding: plan.outputs.arena[output.value.indices],
                    as: UTF8.self
                )
            )
        }
    }
}
