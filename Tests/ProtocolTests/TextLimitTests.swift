import Foundation
import MessageExamples
import Testing
import TokenDomain
import TokenWire

/// The limits that the schemas state, held against what the readers take.
@Suite struct `The limits of what records hold` {
    /// One topic: a value with everything in it, and its reader.
    struct Topic: Sendable, CustomTestStringConvertible {
        var name: String
        var value: [UInt8]
        var read: @Sendable (Span<UInt8>) throws(WireFault) -> Void

        var testDescription: String { name }
    }

    private static func bytes(_ write: (inout [UInt8]) -> Void) -> [UInt8] {
        var bytes: [UInt8] = []
        write(&bytes)
        return bytes
    }

    static let topics: [Topic] = [
        Topic(name: "tokens.received.v1", value: bytes(MessageExamples.received[0].write)) {
            (value) throws(WireFault) in _ = try TokenReceived(reading: value)
        },
        Topic(name: "tokens.decoded.v1", value: bytes(MessageExamples.decoded[0].write)) {
            (value) throws(WireFault) in _ = try TokenDecoded(reading: value)
        },
        Topic(name: "tokens.distinct.v1", value: bytes(MessageExamples.distinct[1].write)) {
            (value) throws(WireFault) in _ = try TokenDistinct(reading: value)
        },
        Topic(
            name: "notifications.verified.v1",
            value: bytes(MessageExamples.notificationsVerified[0].write)
        ) {
            (value) throws(WireFault) in _ = try NotificationVerified(reading: value)
        },
        Topic(
            name: "notifications.other.v1",
            value: bytes(MessageExamples.notificationsOther[0].write)
        ) {
            (value) throws(WireFault) in _ = try NotificationOther(reading: value)
        },
        Topic(
            name: "reports.requested.v1",
            value: bytes(MessageExamples.reportsRequested[0].write)
        ) {
            (value) throws(WireFault) in _ = try ReportRequested(reading: value)
        },
        Topic(
            name: "reports.outcomes.v1",
            value: bytes(MessageExamples.reportsOutcomes[1].write)
        ) {
            (value) throws(WireFault) in _ = try ReportOutcome(reading: value)
        },
        Topic(name: "tokens.refused.v1", value: bytes(MessageExamples.tokensRefused[0].write)) {
            (value) throws(WireFault) in _ = try TokenRefused(reading: value)
        },
        Topic(
            name: "purchases.answered.v1",
            value: bytes(MessageExamples.purchasesAnswered[1].write)
        ) {
            (value) throws(WireFault) in _ = try PurchaseAnswered(reading: value)
        },
        Topic(
            name: "purchases.outcomes.v1",
            value: bytes(MessageExamples.purchasesOutcomes[0].write)
        ) {
            (value) throws(WireFault) in _ = try PurchaseOutcome(reading: value)
        },
        Topic(
            name: "account-tokens.requested.v1",
            value: bytes(MessageExamples.accountTokensRequested[1].write)
        ) {
            (value) throws(WireFault) in _ = try AccountTokenRequested(reading: value)
        },
        Topic(
            name: "account-tokens.outcomes.v1",
            value: bytes(MessageExamples.accountTokensOutcomes[1].write)
        ) {
            (value) throws(WireFault) in _ = try AccountTokenOutcome(reading: value)
        },
        Topic(name: "lanes.control.v1", value: bytes(MessageExamples.laneOrders[0].write)) {
            (value) throws(WireFault) in _ = try LaneOrder(reading: value)
        },
    ]

    /// Judged by whoever decodes them, each with a limit and a fault of its own.
    private static let judgedLater = ["token", "signedTransaction"]

    @Test(arguments: topics)
    func `are those of the schemas, to the byte`(topic: Topic) throws {
        let properties = try #require(
            Self.object(Self.schema(topic.name)["properties"])
        )
        var stated: [String] = []
        for (name, property) in properties.sorted(by: { $0.key < $1.key }) {
            guard let limit = Self.object(property)?["maxLength"] as? Int,
                !Self.judgedLater.contains(name) || topic.name == "tokens.decoded.v1"
            else {
                continue
            }
            stated.append(name)
            let fault = WireFault.tooLong(field: name, byteCountMax: limit)
            #expect(throws: fault) { try self.read(topic, name, byteCount: limit + 1) }
            do throws(WireFault) {
                try read(topic, name, byteCount: limit)
            } catch .outOfRange {
                // As long as it may be, and none of the texts defined.
            } catch {
                Issue.record("\(name): \(error.message)")
            }
        }
        #expect(!stated.isEmpty)
    }

    /// A list or text without a limit could fill the state, which is one record of Kafka's.
    @Test(
        arguments: topics.map(\.name) + [
            "notifications.received.v1", "purchases.received.v1", "purchases.state.v1",
            "report.state.v1",
        ]
    )
    func `are stated for every text and every list`(name: String) throws {
        let unbounded = Self.unbounded(try Self.schema(name), at: "")
        let exempt =
            switch name {
            // A token's text is measured without the white space around it: by decode.
            case "tokens.received.v1": ["/properties/token"]
            // Report splits a long list into reports, and the record's size bounds it.
            case "reports.requested.v1": ["/properties/lineItems"]
            default: [String]()
            }
        #expect(unbounded == exempt)
    }

    private func read(_ topic: Topic, _ name: String, byteCount: Int) throws(WireFault) {
        let text = String(repeating: "a", count: byteCount)
        let value = String(decoding: topic.value, as: UTF8.self)
        var members = "\"\(name)\":\"\(text)\""
        do {
            let object = try #require(
                JSONSerialization.jsonObject(with: Data(value.utf8)) as? [String: Any]
            )
            // The environment follows from the id.
            let left = name == "externalPurchaseId" ? [name, "environment"] : [name]
            for (other, content) in object where !left.contains(other) {
                let json = try JSONSerialization.data(
                    withJSONObject: content,
                    options: .fragmentsAllowed
                )
                members += ",\"\(other)\":\(String(decoding: json, as: UTF8.self))"
            }
        } catch {
            Issue.record("\(topic.name): \(error)")
        }
        let changed = Array("{\(members)}".utf8)
        try topic.read(changed.span)
    }

    private static func schema(_ name: String) throws -> [String: Any] {
        let file = `The schemas of Protocols`.protocols.appending(path: "\(name).schema.json")
        return try #require(
            JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any]
        )
    }

    private static func object(_ value: Any?) -> [String: Any]? { value as? [String: Any] }

    /// Where in a schema a text has neither a limit nor a closed form, or a list no limit.
    private static func unbounded(_ value: Any, at path: String) -> [String] {
        if let list = value as? [Any] {
            return list.enumerated().flatMap { unbounded($1, at: "\(path)/\($0)") }
        }
        guard let schema = object(value) else {
            return []
        }
        var found: [String] = []
        let isText = schema["type"] as? String == "string"
        if isText, schema["maxLength"] == nil, schema["pattern"] == nil, schema["const"] == nil {
            found.append(path)
        }
        if schema["type"] as? String == "array", schema["maxItems"] == nil {
            found.append(path)
        }
        for (name, part) in schema.sorted(by: { $0.key < $1.key }) {
            found += unbounded(part, at: "\(path)/\(name)")
        }
        return found
    }
}
