/// Apple's `externalPurchaseId`: opaque text, never empty; the only value Apple's report API needs.
package struct TokenID: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package var description: String { text }

    /// Apple's documented test: the seven letters `SANDBOX` at the start, compared as bytes.
    package var environment: AppleEnvironment {
        AppleEnvironment(ofExternalPurchaseID: text.utf8.span)
    }
}

/// An app's bundle id, compared as bytes.
///
/// Two texts of Swift are equal where Unicode says that they look alike: `K` and U+212A, the Kelvin
/// sign. Two apps are not.
package struct BundleID: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package var description: String { text }

    package static func == (one: BundleID, other: BundleID) -> Bool {
        one.text.utf8.elementsEqual(other.text.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        for byte in text.utf8 {
            hasher.combine(byte)
        }
    }
}

/// A customer of the platform as the pipeline knows them: `c1.` + base64url(HMAC-SHA-256), 46 bytes.
package struct CustomerID: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package var description: String { text }
}

/// Whose a sale is: the customer, else the token that was given for it.
///
/// The key of every topic that `purchases` reads, so that all of a customer is in one partition.
package struct PurchaseKey: Hashable, Sendable, CustomStringConvertible {
    package let text: String

    package init(_ text: String) {
        self.text = text
    }

    package init(customer: CustomerID?, externalPurchaseID: TokenID) {
        text = customer?.text ?? externalPurchaseID.text
    }

    package var description: String { text }
}

/// One of Apple's two worlds.
///
/// Their tokens, hosts and reports never mix.
package enum AppleEnvironment: String, Hashable, Sendable, CaseIterable {
    case production
    case sandbox

    /// Of Apple's published rate limits, which count requests by the hour (apple-api 5.3).
    package var limitShare: Double {
        switch self {
        case .production: 1
        case .sandbox: 0.1
        }
    }

    private static let sandboxPrefix: StaticString = "SANDBOX"

    /// The world of a token, by the UTF-8 of its id: ``TokenID/environment`` without a `TokenID`.
    package init(ofExternalPurchaseID id: Span<UInt8>) {
        let prefix = Self.sandboxPrefix
        self = .production
        guard id.count >= prefix.utf8CodeUnitCount else {
            return
        }
        for index in 0..<prefix.utf8CodeUnitCount {
            guard unsafe id[index] == prefix.utf8Start[index] else {
                return
            }
        }
        self = .sandbox
    }
}

/// Which app, in which of Apple's worlds: the unit of rate limits, keys and held lanes.
package struct Lane: Hashable, Sendable {
    package var appAppleID: Int64
    package var environment: AppleEnvironment

    package init(appAppleID: Int64, environment: AppleEnvironment) {
        self.appAppleID = appAppleID
        self.environment = environment
    }
}

/// `tokenType` of a token; a type nobody knows yet is kept and reported like a plain token.
///
/// Source: developer.apple.com/documentation/appstoreservernotifications/tokentype
package struct TokenType: Hashable, Sendable {
    package static let acquisition = TokenType(.acquisition)
    package static let services = TokenType(.services)

    package let text: String

    package init(text: String) {
        self.text = text
    }

    package init(_ known: KnownTokenType) {
        text = known.rawValue
    }

    /// Nil for one that is not in our list.
    package var known: KnownTokenType? { KnownTokenType(rawValue: text) }

    /// Whether Apple takes DUPLICATE_TOKEN for it.
    package var hasDuplicates: Bool { known?.duplicateByte != nil }
}
