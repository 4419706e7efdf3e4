internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// A dead letter as it is shown: tokens, payloads, customers and keys masked unless revealed.
struct DeadLetterText {
    /// Members of our messages that say more than a person on call needs.
    private static let maskedMembers: Set<String> = [
        "token", "customer", "purchaseKey", "signedPayload", "signedTransaction",
        "appAccountToken",
    ]
    private static let customerForm = "c1."
    private static let shownCountMax = customerForm.count + 6

    let isRevealed: Bool
    /// Without key, value and headers, which may be as large as Kafka takes.
    var isBrief = false

    /// The value as text: JSON with some members masked, or how large it is.
    func value(_ bytes: ArraySlice<UInt8>) -> String {
        guard !isRevealed else {
            return String(decoding: bytes, as: UTF8.self)
        }
        do throws(WireFault) {
            return String(decoding: try masked(Array(bytes)), as: UTF8.self)
        } catch {
            // In no form of ours: what in it is a secret is unknown.
            return "(\(bytes.count) bytes that are no JSON object; --reveal shows them)"
        }
    }

    /// Keys are customers or ids, according to the topic: only ids are shown.
    func key(_ bytes: ArraySlice<UInt8>, of stage: Worker) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        let isID = stage == .report && !text.hasPrefix(Self.customerForm)
        return isRevealed || isID ? text : Self.masked(text)
    }

    private func masked(_ bytes: [UInt8]) throws(WireFault) -> [UInt8] {
        var writer = JSONWriter()
        try JSONScanner.scan(bytes.span) { (scanner) throws(WireFault) in
            try Self.copy(&scanner, to: &writer)
        }
        return writer.bytes
    }

    private static func copy(
        _ scanner: inout JSONScanner,
        to writer: inout JSONWriter
    ) throws(WireFault) {
        try scanner.beginObject()
        writer.beginObject()
        while let name = try scanner.nextName() {
            writer.name(text: name)
            let kind = try scanner.peekKind()
            guard maskedMembers.contains(name), kind != .null else {
                writer.raw(try scanner.raw())
                continue
            }
            if kind == .string {
                writer.string(masked(try scanner.string()))
            } else {
                try scanner.skip()
                writer.string("…")
            }
        }
        writer.endObject()
    }

    /// The beginning of a customer's pseudonym, which identifies nobody; of anything else its size.
    static func masked(_ text: String) -> String {
        let bytes = Array(text.utf8)
        let shown = CustomerID.isWellFormed(bytes.span) ? text.prefix(shownCountMax) : ""
        return "\(shown)… (\(bytes.count) bytes)"
    }

    /// The value in base64 where it is shown and is no UTF-8: as text it would not be the same.
    private func exactValue(_ record: RecordBatch.Record, in arena: [UInt8]) -> String? {
        let bytes = arena[record.value.indices]
        guard isRevealed, String(validating: bytes, as: UTF8.self) == nil else {
            return nil
        }
        return Data(bytes).base64EncodedString()
    }

    // MARK: - A whole dead letter

    /// One JSON object: where it lies, why, what it is about, and its parts.
    func object(
        _ deadLetter: DeadLetterRecord,
        in batch: RecordBatch,
        subject: DeadLetterSubject,
        deadlineDays: Int
    ) -> String {
        let arena = batch.arena
        func header(_ field: DeadLetterHeaders.Field) -> String {
            deadLetter.headers[field].isAbsent
                ? "null" : JSONText.quoted(deadLetter.headers.text(field, of: arena))
        }
        func text(_ value: String?) -> String { value.map(JSONText.quoted) ?? "null" }
        let record = deadLetter.record
        let business = HeaderList.entries(in: record.headers, of: arena)
            .filter { header in
                !DeadLetter.diagnosticPrefixes.contains { header.name.hasPrefix($0) }
            }
            .map { name, value in
                (
                    name: name,
                    json: value.isAbsent
                        ? "null"
                        : JSONText.quoted(String(decoding: arena[value.indices], as: UTF8.self))
                )
            }
        let outline: [(name: String, json: String)] = [
            ("position", JSONText.quoted(deadLetter.position.description)),
            ("state", JSONText.quoted(deadLetter.settled?.text ?? "open")),
            ("stage", JSONText.quoted(deadLetter.stage.rawValue)),
            ("reason", header(.reason)), ("code", header(.code)),
            ("fingerprint", header(.fingerprint)), ("message", header(.message)),
            ("failedAt", "\(deadLetter.failedAt)"),
            (
                "firstFailedAt",
                "\(deadLetter.headers.time(.firstFailedAt, in: arena.span) ?? deadLetter.failedAt)"
            ),
            ("attempts", "\(deadLetter.headers.number(.attempts, in: arena.span))"),
            ("replayCount", "\(deadLetter.headers.number(.replayCount, in: arena.span))"),
            ("replayId", header(.replayID)),
            (
                "source",
                JSONLines.object([
                    ("topic", header(.topic)), ("partition", header(.partition)),
                    ("offset", header(.offset)),
                ])
            ),
            ("appAppleId", subject.appAppleID.map { "\($0)" } ?? "null"),
            ("bundleId", text(subject.bundleID)),
            ("environment", text(subject.environment?.rawValue)),
            ("externalPurchaseId", text(subject.externalPurchaseID)),
            ("status", text(subject.status?.rawValue)),
            ("requestIdentifier", text(subject.requestIdentifier)),
            (
                "deadline",
                subject.deadline(days: deadlineDays).map { "\($0.milliseconds)" } ?? "null"
            ),
        ]
        guard !isBrief else {
            return JSONLines.object(outline)
        }
        let parts: [(name: String, json: String)] = [
            (
                "key",
                text(
                    record.key.isAbsent ? nil : key(arena[record.key.indices], of: deadLetter.stage)
                )
            ),
            ("value", text(record.value.isAbsent ? nil : value(arena[record.value.indices]))),
            ("valueBase64", text(exactValue(record, in: arena))),
            ("headers", JSONLines.object(business)),
            ("masked", "\(!isRevealed)"),
        ]
        return JSONLines.object(outline + parts)
    }
}
