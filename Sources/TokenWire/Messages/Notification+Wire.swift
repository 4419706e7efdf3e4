package import TokenDomain

extension NotificationReceived: WireMessage {
    package static let blank = NotificationReceived(
        signedPayload: "",
        receivedAt: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("signedPayload", &signedPayload)
        coder.member("receivedAt", &receivedAt)
    }

    /// Reads a value of `notifications.received.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}

extension NotificationVerified {
    /// Reads a value of `notifications.verified.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var fields = TokenFields<String>()
        var notificationUUID: String?
        var subtype: String?
        var signedDate: Timestamp?
        var receivedAt: Timestamp?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "notificationUUID": try scanner.fill(&notificationUUID, atMost: .identifier)
            case "subtype": try scanner.fill(&subtype, atMost: .identifier)
            case "signedDate": try scanner.fill(&signedDate)
            case "receivedAt": try scanner.fill(&receivedAt)
            default:
                let isTaken = try scanner.takeMember { fields.members(&$0) }
                guard isTaken else {
                    return try scanner.skip()
                }
            }
        }
        self.init(
            notificationUUID: try JSONScanner.require(notificationUUID, "notificationUUID"),
            subtype: subtype,
            signedDate: try JSONScanner.require(signedDate, "signedDate"),
            token: try fields.token(),
            receivedAt: try JSONScanner.require(receivedAt, "receivedAt")
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("notificationUUID", notificationUUID)
            writer.field("subtype", subtype)
            writer.field("signedDate", signedDate.milliseconds)
            writer.fields(of: token)
            writer.field("receivedAt", receivedAt.milliseconds)
            writer.endObject()
        }
    }
}

/// `payload` is an object, kept byte for byte.
extension NotificationOther: WireMessage {
    package static let blank = NotificationOther(
        notificationType: "",
        subtype: nil,
        notificationUUID: nil,
        signedDate: nil,
        payload: "",
        receivedAt: .blank
    )

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("notificationType", &notificationType, atMost: .identifier)
        coder.member("subtype", &subtype, atMost: .identifier)
        coder.member("notificationUUID", &notificationUUID, atMost: .identifier)
        coder.member("signedDate", &signedDate)
        coder.member("payload", raw: .object, &payload)
        coder.member("receivedAt", &receivedAt)
    }

    /// Reads a value of `notifications.other.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
    }

    package func write(to arena: inout [UInt8]) { append(to: &arena) }
}
