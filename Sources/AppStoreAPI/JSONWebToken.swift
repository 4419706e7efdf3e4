package import Crypto
package import TokenDomain
internal import TokenWire

/// What authorizes a request to Apple: a JSON Web Token, signed with the app's key.
///
/// Every request gets a fresh one, as Apple asks: what is in no cache is never stale after a key was
/// replaced. OpenSSL signs in some 20 µs.
///
/// Source: Generating JSON Web Tokens for API requests
package enum JSONWebToken {
    /// From issue to expiry; Apple refuses more than an hour; its own library uses five minutes.
    package static let lifetimeSeconds: Int64 = 300
    package static let audience = "appstoreconnect-v1"

    /// Makes a token: header, claims and signature, for `Authorization: Bearer`.
    ///
    /// - Parameters:
    ///   - key: the app's own.
    ///   - issuerID: from App Store Connect, a UUID.
    ///   - keyID: of an In-App Purchase key.
    ///   - bundleID: each app has tokens of its own.
    ///   - now: becomes `iat`, cut to seconds.
    /// - Returns: three parts in base64url with dots between.
    package static func make(
        key: P256PrivateKey,
        issuerID: String,
        keyID: String,
        bundleID: String,
        now: Timestamp
    ) -> String {
        signed(
            unsigned(issuerID: issuerID, keyID: keyID, bundleID: bundleID, issuedAt: second(now)),
            by: key
        )
    }

    /// What `iat` is at a time.
    static func second(_ now: Timestamp) -> Int64 { now.milliseconds / 1_000 }

    /// Header and claims: what is signed.
    static func unsigned(
        issuerID: String,
        keyID: String,
        bundleID: String,
        issuedAt: Int64
    ) -> [UInt8] {
        var header = JSONWriter()
        header.beginObject()
        header.field("alg", "ES256")
        header.field("kid", keyID)
        header.field("typ", "JWT")
        header.endObject()
        var claims = JSONWriter()
        claims.beginObject()
        claims.field("iss", issuerID)
        claims.field("iat", issuedAt)
        claims.field("exp", issuedAt + lifetimeSeconds)
        claims.field("aud", audience)
        claims.field("bid", bundleID)
        claims.endObject()
        var unsigned: [UInt8] = []
        Base64URL.encode(header.bytes.span, to: &unsigned)
        unsigned.append(UInt8(ascii: "."))
        Base64URL.encode(claims.bytes.span, to: &unsigned)
        return unsigned
    }

    static func signed(_ unsigned: [UInt8], by key: P256PrivateKey) -> String {
        let signature = key.sign(unsigned)
        var token: [UInt8] = []
        token.reserveCapacity(unsigned.count + 2 * signature.count)
        token += unsigned
        token.append(UInt8(ascii: "."))
        Base64URL.encode(signature.span, to: &token)
        return String(decoding: token, as: UTF8.self)
    }
}
