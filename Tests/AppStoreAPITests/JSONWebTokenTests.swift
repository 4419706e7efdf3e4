import AppStoreAPI
import Crypto
import Foundation
import Testing
import TokenDomain
import TokenWire

@Suite struct `A JSON Web Token` {
    @Test func `says who asks for which app, and is signed by the app's key`() throws {
        let key = try P256PrivateKey.generate()
        let token = JSONWebToken.make(
            key: key,
            issuerID: "57246542-96fe-1a63-e053-0824d011072a",
            keyID: "2X9R4HXF34",
            bundleID: #"com.example."quoted""#,
            now: Timestamp(milliseconds: 1_760_000_000_999)
        )
        let parts = token.split(separator: ".", omittingEmptySubsequences: false)
        try #require(parts.count == 3)
        #expect(
            try object(parts[0]) == ["alg": "ES256", "kid": "2X9R4HXF34", "typ": "JWT"]
        )
        #expect(
            try object(parts[1]) == [
                "iss": "57246542-96fe-1a63-e053-0824d011072a",
                "iat": 1_760_000_000,
                "exp": 1_760_000_300,
                "aud": "appstoreconnect-v1",
                "bid": #"com.example."quoted""#,
            ]
        )
        let signed = Array(token.utf8.prefix(parts[0].utf8.count + 1 + parts[1].utf8.count))
        #expect(key.publicKey.verify(signature: try decoded(parts[2]), message: signed))
    }

    private func decoded(_ part: Substring) throws -> [UInt8] {
        let bytes = Array(part.utf8)
        return try Base64URL.decodeStrict(bytes.span)
    }

    private func object(_ part: Substring) throws -> NSDictionary {
        let object = try JSONSerialization.jsonObject(with: Data(try decoded(part)))
        return try #require(object as? NSDictionary)
    }
}
