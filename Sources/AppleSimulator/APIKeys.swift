internal import Crypto

/// Who asks: what a JWT that holds says.
package struct Caller: Equatable, Sendable {
    package var keyID: String
    package var bundleID: String
}

/// The API keys that App Store Connect has given out, and the check of JWTs made with them (S2).
struct APIKeys {
    /// JWTs found good, so that a client that keeps one for minutes costs one signature check.
    private static let rememberedCountMax = 4096

    struct Key {
        var issuerID: String
        /// Apps it may sign for; empty: any.
        var bundleIDs: Set<String>
        var publicKey: P256PublicKey
    }

    private struct Remembered {
        var caller: Caller
        /// Nil where the JWT does not say.
        var issuedAt: Int64?
        var expiresAt: Int64
    }

    private var keyByID: [String: Key] = [:]
    private var remembered: [String: Remembered] = [:]

    mutating func add(_ key: Key, keyID: String) {
        keyByID[keyID] = key
        remembered.removeAll()
    }

    /// The caller of an `Authorization` header.
    ///
    /// - Parameters:
    ///   - authorization: the header's value, nil where it is missing.
    ///   - seconds: real time since 1970.
    ///   - needsIssueTime: `iat` is documented as required, but Apple's own library for Python leaves
    ///     it out, and the App Store Server API, which it calls, lets it pass.
    /// - Returns: nil for whatever Apple answers with 401.
    mutating func caller(
        _ authorization: String?,
        at seconds: Int64,
        needsIssueTime: Bool
    ) -> Caller? {
        guard let authorization, authorization.hasPrefix("Bearer ") else { return nil }
        let token = String(authorization.dropFirst("Bearer ".count))
        if let known = remembered[token] {
            return Self.isCurrent(known, at: seconds, needsIssueTime) ? known.caller : nil
        }
        guard let fresh = verify(token), Self.isCurrent(fresh, at: seconds, needsIssueTime) else {
            return nil
        }
        if remembered.count >= Self.rememberedCountMax { remembered.removeAll() }
        remembered[token] = fresh
        return fresh.caller
    }

    /// At most an hour long, not over, and not from a future more than a minute away.
    private static func isCurrent(
        _ token: Remembered,
        at seconds: Int64,
        _ needsIssueTime: Bool
    ) -> Bool {
        guard let issuedAt = token.issuedAt ?? (needsIssueTime ? nil : seconds) else {
            return false
        }
        // A foreign number may be anything, so nothing here may overflow.
        return token.expiresAt > seconds && issuedAt <= seconds + 60
            && !token.expiresAt.subtractingReportingOverflow(issuedAt).overflow
            && token.expiresAt - issuedAt <= 3600
    }

    private func verify(_ token: String) -> Remembered? {
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.json(parts[0]), let claims = Self.json(parts[1]),
            let signature = Base64Text.decodeURL(parts[2]),
            header["alg"]?.text == "ES256", header["typ"]?.text ?? "JWT" == "JWT",
            let keyID = header["kid"]?.text, let key = keyByID[keyID],
            claims["iss"]?.text == key.issuerID, claims["aud"]?.text == "appstoreconnect-v1",
            claims["iat"] == nil || claims["iat"]?.integer != nil,
            let expiresAt = claims["exp"]?.integer,
            let bundleID = claims["bid"]?.text,
            key.bundleIDs.isEmpty || key.bundleIDs.contains(bundleID),
            key.publicKey.verify(
                signature: signature,
                message: Array("\(parts[0]).\(parts[1])".utf8)
            )
        else { return nil }
        return Remembered(
            caller: Caller(keyID: keyID, bundleID: bundleID),
            issuedAt: claims["iat"]?.integer,
            expiresAt: expiresAt
        )
    }

    private static func json(_ part: Substring) -> JSONValue? {
        guard let bytes = Base64Text.decodeURL(part) else { return nil }
        do { return try JSONValue(reading: bytes) } catch {
            // Whatever is wrong with a JWT is one and the same 401.
            return nil
        }
    }
}

/// Why an API key could not be registered.
package enum APIKeyFault: Error, Equatable, Sendable {
    case notAPublicKey
}

extension AppleWorld {
    /// Registers an API key, as App Store Connect would when it is made.
    ///
    /// - Parameters:
    ///   - keyID: the `kid` of its JWTs.
    ///   - issuerID: their `iss`.
    ///   - publicKeyPEM: P-256.
    ///   - bundleIDs: the apps it may sign for; empty: any.
    /// - Throws: ``APIKeyFault/notAPublicKey``.
    package func addKey(
        keyID: String,
        issuerID: String,
        publicKeyPEM: [UInt8],
        bundleIDs: [String]
    ) throws(APIKeyFault) {
        let publicKey: P256PublicKey
        do { publicKey = try P256PublicKey(pem: publicKeyPEM) } catch {
            throw .notAPublicKey
        }
        keys.add(
            APIKeys.Key(issuerID: issuerID, bundleIDs: Set(bundleIDs), publicKey: publicKey),
            keyID: keyID
        )
    }

    /// The caller of an `Authorization` header; nil for whatever Apple answers with 401.
    package func caller(_ authorization: String?, real: UnixMilliseconds) -> Caller? {
        keys.caller(authorization, at: real / 1000, needsIssueTime: true)
    }
}
