package import TokenDomain

extension NotificationReceived {
    /// Reads a value of `notifications.received.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var signedPayload: String?
        var receivedAt: Timestamp?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "signedPayload": try scanner.fill(&signedPayload)
            case "receivedAt": try scanner.fill(&receivedAt)
            default: try scanner.skip()
            }
        }
        self.init(
            signedPayload: try JSONScanner.require(signedPayload, "signedPayload"),
            receivedAt: try JSONScanner.require(receivedAt, "receivedAt")
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("signedPayload", signedPayload)
            writer.field("receivedAt", receivedAt.milliseconds)
            writer.endObject()
        }
    }
}

extension NotificationVerified {
    /// Reads a value of `notifications.verified.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var fields = TokenFields()
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
                guard try fields.take(key, from: &scanner) else {
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

extension NotificationOther {
    /// Reads a value of `notifications.other.v1`.
    ///
    /// `payload` is an object, kept byte for byte.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var notificationType: String?
        var subtype: String?
        var notificationUUID: String?
        var signedDate: Timestamp?
        var payload: String?
        var receivedAt: Timestamp?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "notificationType": try scanner.fill(&notificationType, atMost: .identifier)
            case "subtype": try scanner.fill(&subtype, atMost: .identifier)
            case "notificationUUID": try scanner.fill(&notificationUUID, atMost: .identifier)
            case "signedDate": try scanner.fill(&signedDate)
            case "payload": try scanner.fillObject(&payload)
            case "receivedAt": try scanner.fill(&receivedAt)
            default: try scanner.skip()
            }
        }
        self.init(
            notificationType: try JSONScanner.require(notificationType, "notificationType"),
            subtype: subtype,
            notificationUUID: notificationUUID,
            signedDate: signedDate,
            payload: try JSONScanner.require(payload, "payload"),
            receivedAt: try JSONScanner.require(receivedAt, "receivedAt")
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("notificationType", notificationType)
            writer.field("subtype", subtype)
            writer.field("notificationUUID", notificationUUID)
            writer.field("signedDate", signedDate?.milliseconds)
            writer.field("payload", raw: payload.utf8.span)
            writer.field("receivedAt", receivedAt.milliseconds)
            writer.endObject()
        }
    }
}
