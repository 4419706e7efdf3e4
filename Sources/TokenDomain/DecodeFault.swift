/// Why a record of `tokens.received.v1` is no token of ours.
package enum DecodeFault: Error, Equatable, Sendable {
    /// The longest token text, outer white space trimmed and padding counted.
    ///
    /// Apple documents no maximum; its samples have 204 to 284 characters.
    package static let textByteCountMax = 4_096

    case tooLong(byteCount: Int, byteCountMax: Int)
    case empty
    /// The first foreign byte of the trimmed text, or its end where a character is missing.
    case notBase64URL(byteIndex: Int)
    /// Where reading of the decoded bytes stopped.
    case notJSON(byteIndex: Int)
    case missing(field: String)
    case wrongType(field: String)
    case outOfRange(field: String)
    case unknownApp(appAppleID: Int64)
    /// The token names another app than the configuration or the link it came by.
    case bundleMismatch
    case badCustomer
    case badEnvelope(reason: String)

    /// Stable; dashboards count it.
    package var code: String {
        switch self {
        case .tooLong: "decode.too_long"
        case .empty: "decode.empty"
        case .notBase64URL: "decode.not_base64url"
        case .notJSON: "decode.not_json"
        case .missing: "decode.missing_field"
        case .wrongType: "decode.wrong_type"
        case .outOfRange: "decode.out_of_range"
        case .unknownApp: "decode.unknown_app"
        case .bundleMismatch: "decode.bundle_mismatch"
        case .badCustomer: "decode.bad_customer"
        case .badEnvelope: "decode.bad_envelope"
        }
    }

    /// One sentence for a person, without anything of the token but the app it names.
    package var message: String {
        switch self {
        case .tooLong(let byteCount, let byteCountMax):
            "The token has \(byteCount) bytes; at most \(byteCountMax) are read."
        case .empty:
            "There is no token in it."
        case .notBase64URL(let byteIndex):
            "The token is not base64url at byte \(byteIndex)."
        case .notJSON(let byteIndex):
            "The decoded token is not a JSON object that can be read, from byte \(byteIndex) on."
        case .missing(let field):
            "The token has no \(field)."
        case .wrongType(let field):
            "The token's \(field) has the wrong JSON type."
        case .outOfRange(let field):
            "The token's \(field) is out of range."
        case .unknownApp(let appAppleID):
            "The token is for app \(appAppleID), which is not in the apps file."
        case .bundleMismatch:
            "The token's bundle id is not that of its app, or not that of the link it came by."
        case .badCustomer:
            "The customer is not of the form c1. and 43 characters of base64url."
        case .badEnvelope(let reason):
            "The record is no value of tokens.received: \(reason)."
        }
    }

    /// The fault of a dead letter.
    package var fault: Fault { fault(externalPurchaseID: nil) }

    /// The fault of a dead letter, with the token's id where it could still be read.
    package func fault(externalPurchaseID: TokenID?) -> Fault {
        Fault(code: code, message: message, externalPurchaseID: externalPurchaseID)
    }
}
