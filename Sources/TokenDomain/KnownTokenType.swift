/// Apple's data: the token types, and which of them have duplicates.
///
/// A type is added here and nowhere else, and the compiler then asks for the decision. A type that
/// is not here passes as a token, is reported like a plain one, and is never anybody's duplicate.
///
/// Source: developer.apple.com/documentation/appstoreservernotifications/tokentype, and for the
/// rule of duplicates developer.apple.com/documentation/externalpurchaseserverapi/status
package enum KnownTokenType: String, Hashable, Sendable, CaseIterable {
    /// When Apple's pages were last compared with this list.
    package static let version = "2026-06"

    case acquisition = "ACQUISITION"
    case services = "SERVICES"
    case inApp = "IN_APP"
    case linkOut = "LINK_OUT"
    case coreTechnology = "CORE_TECHNOLOGY"

    private static let all = allCases

    /// What stands for a type in the period keys of dedupe's state; nil where Apple takes no
    /// DUPLICATE_TOKEN for it.
    ///
    /// Kept for as long as the state: a byte never changes, and is never given to another type, or
    /// tokens of two types and the same dates would be each other's duplicates.
    package var duplicateByte: UInt8? {
        switch self {
        case .acquisition: 0
        case .services: 1
        case .inApp, .linkOut, .coreTechnology: nil
        }
    }

    /// Those that have duplicates, for sentences.
    package static var namesWithDuplicates: String {
        all.filter { $0.duplicateByte != nil }.map(\.rawValue).joined(separator: " and ")
    }

    /// The type of this name, in UTF-8; takes no memory.
    package init?(utf8 text: Span<UInt8>) {
        for type in Self.all where type.isNamed(text) {
            self = type
            return
        }
        return nil
    }

    private func isNamed(_ text: Span<UInt8>) -> Bool {
        let name = rawValue
        let bytes = name.utf8.span
        guard bytes.count == text.count else {
            return false
        }
        for index in text.indices where bytes[index] != text[index] {
            return false
        }
        return true
    }
}
