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

/// A value of `notifications.verified.v1` while it is read or written: the token lies beside the rest.
struct VerifiedFields: WireMessage {
    static var blank: VerifiedFields {
        let notification = NotificationVerified(
            notificationUUID: "",
            subtype: nil,
            signedDate: .blank,
            token: .blank,
            receivedAt: .blank
        )
        return VerifiedFields(notification, token: TokenFields())
    }

    var notification: NotificationVerified
    var token: TokenFields<String>

    init(_ notification: NotificationVerified, token: TokenFields<String>) {
        self.notification = notification
        self.token = token
    }

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("notificationUUID", &notification.notificationUUID, atMost: .identifier)
        coder.member("subtype", &notification.subtype, atMost: .identifier)
        coder.member("signedDate", &notification.signedDate)
        token.members(&coder)
        coder.member("receivedAt", &notification.receivedAt)
    }
}

extension NotificationVerified {
    /// Reads a value of `notifications.verified.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        let fields = try VerifiedFields.read(value: value)
        self = fields.notification
        token = try fields.token.token()
    }

    package func write(to arena: inout [UInt8]) {
        VerifiedFields(self, token: TokenFields(token)).append(to: &arena)
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
