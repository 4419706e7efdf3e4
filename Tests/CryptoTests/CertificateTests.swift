import Crypto
import Foundation
import Testing

@Suite struct `A certificate` {
    let authority: TestCertificateAuthority

    init() throws {
        authority = try TestCertificateAuthority(validSeconds: 1_000...2_000)
    }

    @Test func `is read as it was written`() throws {
        let der = authority.leaf.certificate.der
        #expect(try Certificate(der: der).der == der)
        #expect(String(decoding: authority.rootPEM, as: UTF8.self).hasPrefix("-----BEGIN CERT"))
    }

    @Test func `has the marks it was given, and no other`() {
        let leaf = authority.leaf.certificate
        #expect(leaf.hasExtension("1.2.840.113635.100.6.11.1"))
        #expect(!leaf.hasExtension("1.2.840.113635.100.6.2.1"))
        #expect(authority.intermediate.certificate.hasExtension("1.2.840.113635.100.6.2.1"))
        #expect(!authority.root.certificate.hasExtension("1.2.840.113635.100.6.2.1"))
    }

    @Test func `gives its key, if that is on P-256`() throws {
        let key = try authority.leaf.certificate.publicKey()
        #expect(key.verify(signature: authority.leaf.sign([1, 2]), message: [1, 2]))
        #expect(throws: CryptoFault.wrongCurve) { try authority.root.certificate.publicKey() }
    }

    @Test func `is refused with one byte more or less`() {
        let der = authority.leaf.certificate.der
        let damaged = [der + [0], Array(der.dropLast()), [], Array(der.dropFirst()), [0x30, 0x80]]
        for bytes in damaged {
            #expect(throws: CryptoFault.malformed) { try Certificate(der: bytes) }
        }
        let large = der + [UInt8](repeating: 0, count: Certificate.byteCountMax)
        #expect(throws: CryptoFault.malformed) { try Certificate(der: large) }
    }

    /// The curve of P-256, and one over 3 * 2^534 + 1, for which OpenSSL works a tenth of a second when it
    /// reads the certificate.
    @Test(arguments: [spelledP256, expensive])
    func `is refused where it spells its curve out`(base64: String) throws {
        let der = try #require(Data(base64Encoded: base64))
        #expect(throws: CryptoFault.malformed) { try Certificate(der: Array(der)) }
    }

    /// P-224, for which OpenSSL works a millisecond where the point has one coordinate, and P-256
    /// and P-384 with one.
    @Test(arguments: [p224, compressedP224, compressedP256, compressedP384])
    func `is refused where its key is on another curve, or lacks a coordinate`(
        base64: String
    ) throws {
        let der = try #require(Data(base64Encoded: base64))
        #expect(throws: CryptoFault.malformed) { try Certificate(der: Array(der)) }
    }

    private static let p224 =
        "MIIBADCBrgIUWVvKhka6rsWJsT9NZtwarYCjdkkwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBeDAeFw0y"
        + "NjExMjgwMDM3MjlaFw0zNjExMjUwMDM3MjlaMAwxCjAIBgNVBAMMAXgwTjAQBgcqhkjOPQIBBgUrgQQA"
        + "IQM6AASI0DLahfvch3lXbuBmLqUikn5Jzuv8/5QD3yyONXhOX8uZKACEMWS8or+ElbY536NJYxsgeqO8"
        + "djAKBggqhkjOPQQDAgNBADA+Ah0ApHJwotNFioy3ITbJ2GYaBvaNcwRIAY/FTFK8bwIdANU0XN0dmcPN"
        + "7eG9v3PK9EZ/LJeeGgBKZQHjG5o="
    private static let compressedP224 =
        "MIHjMIGSAhR4qy66EiBdCnoN2tTI3nLki5hfUTAKBggqhkjOPQQDAjAMMQowCAYDVQQDDAF4MB4XDTI2"
        + "MTEyODAwMzcyOVoXDTM2MTEyNTAwMzcyOVowDDEKMAgGA1UEAwwBeDAyMBAGByqGSM49AgEGBSuBBAAh"
        + "Ax4AAxZSPH0+5b36vU6KEf1gjilfGlXzt7Tei0WXDskwCgYIKoZIzj0EAwIDQAAwPQIdAMGqs5y7s+LB"
        + "TtCyqZodYVmQsklxrNirAhkLnlsCHCn8NPVaAeNAIhwbHXqnM3CD7BM9meZVbUtnUWM="
    private static let compressedP256 =
        "MIHxMIGZAhRuvm76raKj4dacH+9VNW5jWLEfmjAKBggqhkjOPQQDAjAMMQowCAYDVQQDDAF4MB4XDTI2"
        + "MTEyODAwMzcyOVoXDTM2MTEyNTAwMzcyOVowDDEKMAgGA1UEAwwBeDA5MBMGByqGSM49AgEGCCqGSM49"
        + "AwEHAyIAA13N8DXOOmFYrA7eAqlh0/C21BCszMFxygOgVfVFKEz4MAoGCCqGSM49BAMCA0cAMEQCIDyg"
        + "scqaamRFYe1UAeYPzlP3Xjwmji0kvXMvvHLCaM4kAiB6qeZLcE6e0NC4XQAl/K2RxKCz4mruteCdaiyG"
        + "62lWfg=="
    private static let compressedP384 =
        "MIIBHzCBpgIUML71HjM8Vf/T7nSwJUqA6+ygX0YwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBeDAeFw0y"
        + "NjExMjgwMDM3MjlaFw0zNjExMjUwMDM3MjlaMAwxCjAIBgNVBAMMAXgwRjAQBgcqhkjOPQIBBgUrgQQA"
        + "IgMyAALsm9nv2IWk844Tn0DaO03FAPuZl35edLiw9Cnm+onIwHNALr6rAXU5C/1m+pzG8kgwCgYIKoZI"
        + "zj0EAwIDaAAwZQIxAKksoLHsE1LjH1w6fKrOtUE11Cvcxd08DqtPVwA5ofF4znwY9mKCWAKVXobws52U"
        + "sAIwOhY021UmTRAQcMxM18QBHTZKBcKYA59yPq6N8CHBgLlWo+t93Mh3xNG802z/+Jgi"
    private static let spelledP256 =
        "MIICYzCCAgmgAwIBAgIUcdSaihC+/JeH0IgZTlY/fHtAvjMwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwB"
        + "eDAgFw0yNjExMjcxNjQwMTRaGA8yMTI2MTEwMzE2NDAxNFowDDEKMAgGA1UEAwwBeDCCAUswggEDBgcq"
        + "hkjOPQIBMIH3AgEBMCwGByqGSM49AQECIQD/////AAAAAQAAAAAAAAAAAAAAAP///////////////zBb"
        + "BCD/////AAAAAQAAAAAAAAAAAAAAAP///////////////AQgWsY12Ko6k+ez671VdpiGvGUdBrDMU7D2"
        + "O848PifSYEsDFQDEnTYIhucEk2pmeOETnSa3gZ9+kARBBGsX0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPSh"
        + "OUXYmMKWT+NC4v4af5uO5+tKfA+eFivOM1drMV7Oy7ZAaDe/UfUCIQD/////AAAAAP//////////vOb6"
        + "racXnoTzucrC/GMlUQIBAQNCAARESWvGwMbVU5m1KS8mssRCmZ2OTA2+VeSVQcy58E5G1SD7QyX0fgQC"
        + "SOAaTeceukEtceqeQ7Xvxc+w0r1BHJaxo1MwUTAdBgNVHQ4EFgQUF2bgKDDgNcNGnlc7Y0B8vzqONyQw"
        + "HwYDVR0jBBgwFoAUF2bgKDDgNcNGnlc7Y0B8vzqONyQwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQD"
        + "AgNIADBFAiEAqtcEpPztgjBAiBxn0a24fakNq03IbaJn8Wj9W2j12o4CIE+vwiNOklWFJu+Uqhsyg0lb"
        + "FJehzUYmiXRI15h6DRgY"
    private static let expensive =
        "MIICNzCCAhygAwIBAgIBATAKBggqhkjOPQQDAjAMMQowCAYDVQQDDAF4MB4XDTI1MDEwMTAwMDAwMFoX"
        + "DTM1MDEwMTAwMDAwMFowDDEKMAgGA1UEAwwBeDCCAcgwggF9BgcqhkjOPQIBMIIBcAIBATBPBgcqhkjO"
        + "PQEBAkQAwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        + "AAAAAAAAAAAAAAAAATCBigRDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQRDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABwREAmwP1PgTDEI3cw7fr71n+WGWmc/hmIrZ"
        + "8GwUSgJbQT+KmgIepkin3QaDnrkFtubjB9S+3FFDEZPmw/M5GiuPH/H9QqICRAC/////////////////"
        + "//////////////////////////////////////4AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAADAgEBA0UA"
        + "Aki+q02pjx0wmf31q5klSukB41zUfTgNgfnB9mwPNFn3mxeu77qR/IA0aLa2EKn3+ScPTrizM6jlRG3U"
        + "VSuC9r4+3AowCgYIKoZIzj0EAwIDCQAwBgIBAQIBAQ=="

    @Test func `is refused, alone or in its chain, whatever byte of it changes`() throws {
        let der = authority.leaf.certificate.der
        let roots = try TrustedRoots(pem: authority.rootPEM)
        for index in der.indices {
            var damaged = der
            damaged[index] ^= 0x01
            #expect(throws: (any Error).self, "byte \(index)") {
                let leaf = try Certificate(der: damaged)
                return try verify(leaf, authority.intermediate.certificate, roots)
            }
        }
    }

    private func verify(
        _ leaf: Certificate,
        _ intermediate: Certificate,
        _ roots: TrustedRoots
    ) throws -> CertificateChain {
        try CertificateChain.verify(
            leaf: leaf,
            intermediate: intermediate,
            roots: roots,
            atSeconds: 1_500,
            requiringLeafOID: TestCertificateAuthority.leafOID,
            intermediateOID: TestCertificateAuthority.intermediateOID
        )
    }
}

@Suite struct `A bundle of roots` {
    let pem: [UInt8]
    let intermediate: [UInt8]

    init() throws {
        let authority = try TestCertificateAuthority(validSeconds: 0...1)
        pem = authority.rootPEM
        intermediate = authority.intermediate.certificate.pem
    }

    @Test func `holds one root at least, and intermediates beside it`() throws {
        #expect(throws: CryptoFault.noRoot) { try TrustedRoots(pem: intermediate) }
        #expect(throws: CryptoFault.noRoot) { try TrustedRoots(pem: intermediate + intermediate) }
        #expect(try TrustedRoots(pem: intermediate + pem).count == 2)
        #expect(try TrustedRoots(pem: pem + intermediate).count == 2)
    }

    @Test func `holds every certificate in it, with text between them`() throws {
        let text = Array("Root one\n".utf8) + pem + Array("\n\nRoot two\n".utf8) + pem
        #expect(try TrustedRoots(pem: text).count == 2)
    }

    @Test func `holds up to its limit`() throws {
        let full = Array(repeatElement(pem, count: TrustedRoots.countMax).joined())
        #expect(try TrustedRoots(pem: full).count == TrustedRoots.countMax)
        #expect(throws: CryptoFault.rootCount) { try TrustedRoots(pem: full + pem) }
    }

    @Test func `holds one at least`() {
        #expect(throws: CryptoFault.rootCount) { try TrustedRoots(pem: []) }
        #expect(throws: CryptoFault.rootCount) { try TrustedRoots(pem: Array("nothing\n".utf8)) }
    }

    @Test func `is refused if one of them is damaged`() {
        let damaged = Array(
            String(decoding: pem, as: UTF8.self).replacing("END CERT", with: "END KERT").utf8
        )
        #expect(throws: CryptoFault.malformed) { try TrustedRoots(pem: pem + damaged) }
        let cut = Array(pem.prefix(pem.count / 2))
        #expect(throws: CryptoFault.malformed) { try TrustedRoots(pem: pem + cut) }
    }
}
