import Foundation
import Testing
import TokenDomain

@testable import TokenWire

/// What the messages declare, held against the schemas: a member is in both or in neither.
@Suite struct `The members that messages declare` {
    /// A coder that neither reads nor writes, and notes what is declared.
    struct Declared: ValueCoder {
        var types: [String: String] = [:]
        var limits: [String: Int] = [:]
        var required: [String] = []

        mutating func text(_ name: StaticString, _ slot: inout String?, atMost limit: TextLimit?) {
            note(name, "string", limit)
        }

        mutating func integer(_ name: StaticString, _ slot: inout Int64?) {
            note(name, "integer")
        }

        mutating func environment(of id: String?) {
            note("environment", "string")
            required.append("environment")
        }

        mutating func environment(statedFor id: TokenID) {
            environment(of: id.text)
        }

        mutating func environment(_ slot: inout AppleEnvironment, orOf id: TokenID?) {
            note("environment", "string")
        }

        mutating func role(_ slot: inout TokenRole?, atMost limit: TextLimit?) {
            note("role", "string")
            note("primaryExternalPurchaseId", "string", limit)
        }

        mutating func lane(_ slot: inout Lane?) {
            note("appAppleId", "integer")
            note("environment", "string")
        }

        mutating func member<Value: WireValue>(
            _ name: StaticString,
            _ slot: inout Value,
            atMost limit: TextLimit?
        ) {
            note(name, Self.type(of: Value.self), limit)
            required.append("\(name)")
        }

        mutating func member<Value: WireValue>(
            _ name: StaticString,
            _ slot: inout Value?,
            atMost limit: TextLimit?
        ) {
            note(name, Self.type(of: Value.self), limit)
        }

        mutating func member<Value: WireValue & Equatable>(
            _ name: StaticString,
            _ slot: inout Value,
            default: Value,
            isAlwaysWritten: Bool,
            atMost limit: TextLimit?
        ) {
            note(name, Self.type(of: Value.self), limit)
            if isAlwaysWritten {
                required.append("\(name)")
            }
        }

        mutating func member(
            _ name: StaticString,
            raw kind: JSONScanner.Kind,
            _ slot: inout String?
        ) {
            note(name, kind == .object ? "object" : "array")
        }

        mutating func member(
            _ name: StaticString,
            raw kind: JSONScanner.Kind,
            _ slot: inout String
        ) {
            note(name, kind == .object ? "object" : "array")
            required.append("\(name)")
        }

        private mutating func note(_ name: StaticString, _ type: String, _ limit: TextLimit? = nil)
        {
            types["\(name)"] = type
            limits["\(name)"] = type == "string" ? limit?.byteCountMax : nil
        }

        private static func type<Value>(of value: Value.Type) -> String {
            switch value {
            case is Int.Type, is Int64.Type, is Timestamp.Type, is Milliunits.Type: "integer"
            case is ExchangeRate.Type: "number"
            case is [String].Type, is [AppleError].Type, is [ReportExchange].Type: "array"
            default: "string"
            }
        }
    }

    /// The declaration of one topic's value.
    struct Topic: Sendable, CustomTestStringConvertible {
        var name: String
        /// Whether the slots say what is required; otherwise whoever reads the message does.
        var saysWhatIsRequired = true
        var declare: @Sendable (inout Declared) -> Void

        var testDescription: String { name }

        static func message<Message: WireMessage & SendableMetatype>(
            _ name: String,
            _ type: Message.Type
        ) -> Topic {
            Topic(name: name) { declared in
                var message = Message.blank
                message.members(&declared)
            }
        }
    }

    static let topics: [Topic] = [
        Topic(name: "tokens.received.v1", saysWhatIsRequired: false) { declared in
            var fields = ReceivedFields<String>()
            fields.members(&declared)
        },
        Topic(name: "tokens.decoded.v1", saysWhatIsRequired: false) { declared in
            var fields = DecodedFields<String>()
            fields.members(&declared)
        },
        Topic(name: "tokens.distinct.v1", saysWhatIsRequired: false) { declared in
            var fields = DistinctFields()
            fields.members(&declared)
        },
        .message("tokens.refused.v1", TokenRefused.self),
        .message("notifications.received.v1", NotificationReceived.self),
        Topic(name: "notifications.verified.v1", saysWhatIsRequired: false) { declared in
            var fields = VerifiedFields.blank
            fields.members(&declared)
        },
        .message("notifications.other.v1", NotificationOther.self),
        .message("reports.requested.v1", ReportRequested.self),
        .message("reports.outcomes.v1", ReportOutcome.self),
        Topic(name: "purchases.received.v1", saysWhatIsRequired: false) { declared in
            var event = PurchaseEvent.blank
            event.members(&declared)
        },
        .message("purchases.answered.v1", PurchaseAnswered.self),
        .message("purchases.outcomes.v1", PurchaseOutcome.self),
        .message("account-tokens.requested.v1", AccountTokenFields.self),
        .message("account-tokens.outcomes.v1", AccountTokenOutcome.self),
        .message("lanes.control.v1", LaneOrder.self),
    ]

    /// What report keeps, each under its name in the schema of the state.
    static let kept: [Topic] = [
        .message("account", TokenAccount.self), .message("intent", ReportIntent.self),
        .message("transaction", AccountTokenDebt.self),
        .message("request", AccountTokenDebt.Request.self),
    ]

    @Test(arguments: kept)
    func `of what report keeps are those of its schema`(value: Topic) throws {
        let schema = try Self.schema("report.state.v1")
        let definitions = try #require(schema["$defs"] as? [String: [String: Any]])
        let properties = try #require(definitions[value.name]?["properties"] as? [String: Any])
        var declared = Declared()
        value.declare(&declared)
        #expect(declared.types.keys.sorted() == properties.keys.sorted())
    }

    private static func schema(_ name: String) throws -> [String: Any] {
        let file = `The schemas of Protocols`.protocols.appending(path: "\(name).schema.json")
        return try #require(
            JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any]
        )
    }

    @Test(arguments: topics)
    func `are those of the schemas`(topic: Topic) throws {
        let schema = try Self.schema(topic.name)
        let properties = try #require(schema["properties"] as? [String: [String: Any]])
        var declared = Declared()
        topic.declare(&declared)
        #expect(declared.types.keys.sorted() == properties.keys.sorted())
        #expect(declared.types.count <= JSONScanner.Members.countMax)
        for (name, property) in properties {
            if let type = property["type"] as? String {
                #expect(declared.types[name] == type, "\(name)")
            }
            if let limit = declared.limits[name], property["pattern"] == nil {
                #expect(property["maxLength"] as? Int == limit, "\(name)")
            }
        }
        if topic.saysWhatIsRequired {
            #expect(declared.required.sorted() == (schema["required"] as? [String])?.sorted())
        }
    }
}
