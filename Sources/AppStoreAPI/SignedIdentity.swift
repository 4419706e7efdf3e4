package import TokenDomain

/// What a signed payload is about: the app, and which of Apple's environments.
///
/// A notification says so in one of four sections, a transaction at its top. Where several places
/// say something, all of them must say the right thing.
package struct SignedIdentity: Equatable, Sendable {
    package enum World: Equatable, Sendable {
        case apple(AppleEnvironment)
        /// `Xcode`, `LocalTesting`, and what nobody knows yet.
        case other
    }

    package private(set) var bundleIDs: Set<BundleID> = []
    package private(set) var appAppleIDs: Set<Int64> = []
    package private(set) var worlds: [World] = []
    package let isNotification: Bool

    /// - Parameter payload: verified.
    package init(_ payload: JSONValue) {
        isNotification = payload["notificationType"] != nil
        add(payload)
        for name in ["data", "summary", "appData"] {
            if let section = payload[name] {
                add(section)
            }
        }
        if let token = payload["externalPurchaseToken"] {
            add(token)
            if let id = token["externalPurchaseId"]?.text {
                worlds.append(.apple(TokenID(id).environment))
            }
        }
    }

    private mutating func add(_ section: JSONValue) {
        if let bundleID = section["bundleId"]?.text {
            bundleIDs.insert(BundleID(bundleID))
        }
        if let appAppleID = section["appAppleId"]?.integer {
            appAppleIDs.insert(appAppleID)
        }
        // An app transaction calls its environment `receiptType`.
        if let environment = section["environment"]?.text ?? section["receiptType"]?.text {
            worlds.append(Self.world(environment))
        }
    }

    /// Apple writes `Production` and `Sandbox`.
    private static func world(_ text: String) -> World {
        AppleEnvironment(rawValue: text.lowercased()).map { .apple($0) } ?? .other
    }

    /// Checks what is asked for, and nothing else.
    ///
    /// - Parameters:
    ///   - bundleID: the payload must carry it, and no other.
    ///   - appAppleID: compared where the payload carries one; a production notification must.
    ///   - environment: the payload must carry it, and no other.
    /// - Throws: ``JWSFault/wrongApp(_:)`` or ``JWSFault/wrongEnvironment``.
    package func check(
        bundleID: String? = nil,
        appAppleID: Int64? = nil,
        environment: AppleEnvironment? = nil
    ) throws(JWSFault) {
        if let bundleID {
            guard bundleIDs == [BundleID(bundleID)] else {
                throw .wrongApp("its bundle id is another or none")
            }
        }
        if let appAppleID {
            guard appAppleIDs.isSubset(of: [appAppleID]) else {
                throw .wrongApp("its Apple id is another")
            }
            let mustCarry = isNotification && worlds.contains(.apple(.production))
            guard !(mustCarry && appAppleIDs.isEmpty) else {
                throw .wrongApp("it carries no Apple id")
            }
        }
        if let environment {
            guard !worlds.isEmpty, worlds.allSatisfy({ $0 == .apple(environment) }) else {
                throw .wrongEnvironment
            }
        }
    }
}
