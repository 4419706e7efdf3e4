package import TokenDomain

/// Why a genuine notification about a token cannot be used.
package enum NotificationFault: Error, Equatable, Sendable {
    case missing(field: String)
    case wrongType(field: String)
    case outOfRange(field: String)
}

/// An App Store Server Notification, version 2, that Apple signed.
///
/// Source: responseBodyV2DecodedPayload
package struct SignedNotification: Sendable {
    package static let externalPurchaseTokenType = "EXTERNAL_PURCHASE_TOKEN"

    package let payload: JSONValue
    private let bytes: [UInt8]

    /// - Parameter payload: verified.
    package init(_ payload: SignedPayload) {
        self.payload = payload.value
        bytes = payload.bytes
    }

    /// Empty where there is none: then it is no notification.
    package var type: String { payload["notificationType"]?.text ?? "" }
    package var subtype: String? { payload["subtype"]?.text }
    package var identity: SignedIdentity { SignedIdentity(payload) }

    /// What the notification says about a token.
    ///
    /// - Parameter receivedAt: when it came in; stands for a `signedDate` that is no integer.
    /// - Returns: the value of `notifications.verified.v1`.
    /// - Throws: the first field that is not as documented. A `subtype` may be absent or unknown.
    package func verified(
        receivedAt: Timestamp
    ) throws(NotificationFault) -> NotificationVerified {
        guard let token = payload["externalPurchaseToken"] else {
            throw .missing(field: "externalPurchaseToken")
        }
        guard token.members != nil else {
            throw .wrongType(field: "externalPurchaseToken")
        }
        let subtype = payload["subtype"]
        guard subtype == nil || subtype?.text != nil else {
            throw .wrongType(field: "subtype")
        }
        guard subtype?.text.map(TextLimit.identifier.holds) ?? true else {
            throw .outOfRange(field: "subtype")
        }
        return NotificationVerified(
            notificationUUID: try Self.text(payload, "notificationUUID", .identifier),
            subtype: subtype?.text,
            signedDate: payload["signedDate"]?.integer.map { Timestamp(milliseconds: $0) }
                ?? receivedAt,
            token: try Self.token(token),
            receivedAt: receivedAt
        )
    }

    /// What the notification is, where it is about no token.
    ///
    /// - Parameter receivedAt: when it came in.
    /// - Returns: the value of `notifications.other.v1`.
    /// - Throws: for a type, subtype or UUID longer than any of Apple's.
    package func other(receivedAt: Timestamp) throws(NotificationFault) -> NotificationOther {
        for name in ["notificationType", "subtype", "notificationUUID"] {
            guard payload[name]?.text.map(TextLimit.identifier.holds) ?? true else {
                throw .outOfRange(field: name)
            }
        }
        return NotificationOther(
            notificationType: type,
            subtype: subtype,
            notificationUUID: payload["notificationUUID"]?.text,
            signedDate: payload["signedDate"]?.integer.map { Timestamp(milliseconds: $0) },
            payload: String(decoding: bytes, as: UTF8.self),
            receivedAt: receivedAt
        )
    }

    private static func token(_ value: JSONValue) throws(NotificationFault) -> ExternalPurchaseToken
    {
        let type = value["tokenType"]
        guard type == nil || type?.text != nil else {
            throw .wrongType(field: "tokenType")
        }
        guard type?.text.map(TextLimit.tokenField.holds) ?? true else {
            throw .outOfRange(field: "tokenType")
        }
        let expiration = value["tokenExpirationDate"]
        return ExternalPurchaseToken(
            externalPurchaseID: TokenID(try text(value, "externalPurchaseId", .tokenField)),
            appAppleID: try integer(value, "appAppleId"),
            bundleID: try text(value, "bundleId", .tokenField),
            tokenType: type?.text.map { TokenType(text: $0) },
            tokenCreationDate: try time(value, "tokenCreationDate"),
            tokenExpirationDate: expiration == nil ? nil : try time(value, "tokenExpirationDate")
        )
    }

    private static func text(
        _ value: JSONValue,
        _ name: String,
        _ limit: TextLimit
    ) throws(NotificationFault) -> String {
        guard let field = value[name] else {
            throw .missing(field: name)
        }
        guard let text = field.text else {
            throw .wrongType(field: name)
        }
        guard !text.isEmpty, limit.holds(text) else {
            throw .outOfRange(field: name)
        }
        return text
    }

    private static func integer(
        _ value: JSONValue,
        _ name: String
    ) throws(NotificationFault) -> Int64 {
        guard let field = value[name] else {
            throw .missing(field: name)
        }
        guard let integer = field.integer else {
            throw .wrongType(field: name)
        }
        guard integer > 0 else {
            throw .outOfRange(field: name)
        }
        return integer
    }

    private static func time(
        _ value: JSONValue,
        _ name: String
    ) throws(NotificationFault) -> Timestamp {
        Timestamp(milliseconds: try integer(value, name))
    }
}
