import Crypto
import Testing

@Suite struct `Keys on P-256` {
    /// RFC 7515, A.3.
    enum Example {
        static let publicKey = """
            -----BEGIN PUBLIC KEY-----
            MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7
            6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==
            -----END PUBLIC KEY-----

            """
        static let message = Array(
            ("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFt"
                + "cGxlLmNvbS9pc19yb290Ijp0cnVlfQ").utf8
        )
        static let signature = bytes(
            base64URL: "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJ"
                + "qPP3-Kg6NU1Q"
        )
    }

    @Test func `verify the example of RFC 7515`() throws {
        let key = try P256PublicKey(pem: Array(Example.publicKey.utf8))
        #expect(key.verify(signature: Example.signature, message: Example.message))
        #expect(key.pem == Array(Example.publicKey.utf8))
    }

    @Test(arguments: 0..<64)
    func `refuse a signature with one bit changed`(byteIndex: Int) throws {
        let key = try P256PublicKey(pem: Array(Example.publicKey.utf8))
        var signature = Example.signature
        signature[byteIndex] ^= 0x10
        #expect(!key.verify(signature: signature, message: Example.message))
    }

    @Test(arguments: [0, 1, 32, 63, 65, 70, 128])
    func `refuse a signature of another length`(count: Int) throws {
        let key = try P256PublicKey(pem: Array(Example.publicKey.utf8))
        let signature = Array((Example.signature + Example.signature).prefix(count))
        #expect(!key.verify(signature: signature, message: Example.message))
    }

    @Test func `refuse r and s out of range`() throws {
        let key = try P256PublicKey(pem: Array(Example.publicKey.utf8))
        let zero = [UInt8](repeating: 0, count: 32)
        let large = [UInt8](repeating: 0xff, count: 32)
        for signature in [zero + zero, zero + large, large + zero, large + large] {
            #expect(!key.verify(signature: signature, message: Example.message))
        }
    }

    @Test func `sign so that their other half verifies`() throws {
        let key = try P256PrivateKey.generate()
        let message = Array("a message".utf8)
        // r or s begins with a zero byte once in 128 times: each must still be 32 bytes long.
        for _ in 0..<512 {
            let signature = key.sign(message)
            #expect(signature.count == 64)
            #expect(key.publicKey.verify(signature: signature, message: message))
        }
        #expect(!key.publicKey.verify(signature: key.sign(message), message: [1]))
        let other = try P256PrivateKey.generate()
        #expect(!other.publicKey.verify(signature: key.sign(message), message: message))
    }

    @Test func `survive their way through a file`() throws {
        let key = try P256PrivateKey.generate()
        let again = try P256PrivateKey(pem: key.pem)
        #expect(String(decoding: key.pem, as: UTF8.self).hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        #expect(again.publicKeyPEM == key.publicKeyPEM)
        let publicKey = try P256PublicKey(pem: key.publicKeyPEM)
        #expect(publicKey.verify(signature: again.sign([7]), message: [7]))
        #expect(publicKey.pem == key.publicKeyPEM)
    }

    @Test func `are read from what other tools write`() throws {
        let pkcs8 = try P256PrivateKey(pem: Array(KeyFiles.p256.utf8))
        let windows = KeyFiles.p256.replacing("\n", with: "\r\n")
        #expect(try P256PrivateKey(pem: Array(windows.utf8)).publicKeyPEM == pkcs8.publicKeyPEM)
        #expect(pkcs8.publicKeyPEM == Array(KeyFiles.p256Public.utf8))
    }

    @Test(arguments: [
        (KeyFiles.encrypted, CryptoFault.encrypted),
        (KeyFiles.p384, .wrongCurve),
        (KeyFiles.ed25519, .wrongCurve),
        (KeyFiles.p256Public, .malformed),
        ("", .malformed),
        ("no key at all", .malformed),
        (String(KeyFiles.p256.prefix(120)), .malformed),
        (KeyFiles.p256.replacing("b0aU", with: "b0aV"), .malformed),
    ])
    func `refuse a file that is no such key`(text: String, fault: CryptoFault) {
        #expect(throws: fault) { try P256PrivateKey(pem: Array(text.utf8)) }
    }

    /// The last one is a point that is not on the curve.
    @Test(arguments: [
        KeyFiles.p256,
        "",
        "no key at all",
        String(Example.publicKey.prefix(120)),
        Example.publicKey.replacing("hYjlrQ==", with: "hYjlrA=="),
    ])
    func `refuse a file that is no such public key`(text: String) {
        #expect(throws: CryptoFault.malformed) { try P256PublicKey(pem: Array(text.utf8)) }
    }
}
