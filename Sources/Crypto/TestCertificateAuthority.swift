internal import CCrypto

/// What a certificate made here shall say; the defaults make a good leaf.
package struct CertificateTemplate: Sendable {
    package enum Authority: Sendable {
        case no
        /// With the most authorities that may follow below, where there is such a limit.
        case yes(pathLengthMax: Int?)
        /// Says nothing either way: basicConstraints is missing.
        case unsaid
    }

    package var commonName = "Leaf"
    /// UNIX seconds, both ends included.
    package var validSeconds: ClosedRange<Int64>
    package var authority = Authority.no
    /// As in OpenSSL's configuration files; nil leaves the extension out.
    package var keyUsage: String? = "critical,digitalSignature"
    /// As in OpenSSL's configuration files.
    package var nameConstraints: String?
    /// Extensions with the value NULL, dotted, not critical: how Apple marks its certificates.
    package var markerOIDs: [String] = []
    /// The same, critical.
    package var criticalOIDs: [String] = []
    package var hasKeyIdentifiers = true

    package init(validSeconds: ClosedRange<Int64>) {
        self.validSeconds = validSeconds
    }
}

/// A certificate and its private key.
package struct IssuedCertificate: Sendable {
    package enum Curve: Sendable {
        case p256, p384, secp256k1

        var number: Int32 {
            switch self {
            case .p256: Int32(CCRYPTO_P256)
            case .p384: Int32(CCRYPTO_P384)
            case .secp256k1: Int32(CCRYPTO_SECP256K1)
            }
        }
    }

    package let certificate: Certificate
    private let handle: KeyHandle

    /// Makes a key and a certificate for it, signed by the issuer, or by itself where there is none.
    package init(
        _ template: CertificateTemplate,
        curve: Curve = .p256,
        issuer: IssuedCertificate? = nil
    ) throws(CryptoFault) {
        let subject = try unsafe KeyHandle { unsafe ccrypto_key_generate(curve.number, $0) }
        handle = subject
        certificate = try unsafe Certificate { made in
            unsafe Self.issue(template, subject: subject, issuer: issuer, into: made)
        }
    }

    /// Signs with ECDSA and SHA-256: 64 bytes, 96 on P-384.
    package func sign(_ message: [UInt8]) -> [UInt8] {
        handle.sign(message.span)
    }

    private static func issue(
        _ template: CertificateTemplate,
        subject: KeyHandle,
        issuer: IssuedCertificate?,
        into made: UnsafeMutablePointer<OpaquePointer?>
    ) -> Int32 {
        let serial = RandomBytes.next(count: 7).reduce(UInt64(1)) { $0 << 8 | UInt64($1) }
        var form = unsafe ccrypto_template()
        unsafe form.not_before = template.validSeconds.lowerBound
        unsafe form.not_after = template.validSeconds.upperBound
        unsafe form.serial = serial
        unsafe form.has_key_identifiers = template.hasKeyIdentifiers ? 1 : 0
        unsafe (form.is_authority, form.path_length_max) =
            switch template.authority {
            case .no: (0, -1)
            case .unsaid: (-1, -1)
            case .yes(let pathLengthMax): (1, Int32(pathLengthMax ?? -1))
            }
        return unsafe withText(template.commonName) { name in
            unsafe withText(template.keyUsage) { usage in
                unsafe withText(template.nameConstraints) { constraints in
                    unsafe withText(template.markerOIDs.joined(separator: " ")) { markers in
                        unsafe withText(template.criticalOIDs.joined(separator: " ")) { critical in
                            unsafe form.common_name = name
                            unsafe form.key_usage = usage
                            unsafe form.name_constraints = constraints
                            unsafe form.marker_oids = markers
                            unsafe form.critical_oids = critical
                            return unsafe sign(&form, subject, issuer, into: made)
                        }
                    }
                }
            }
        }
    }

    private static func sign(
        _ form: inout ccrypto_template,
        _ subject: KeyHandle,
        _ issuer: IssuedCertificate?,
        into made: UnsafeMutablePointer<OpaquePointer?>
    ) -> Int32 {
        unsafe subject.withPointer { subject in
            guard let issuer else {
                return unsafe ccrypto_certificate_issue(&form, subject, nil, subject, made)
            }
            return unsafe issuer.certificate.withPointer { certificate in
                unsafe issuer.handle.withPointer { key in
                    unsafe ccrypto_certificate_issue(&form, subject, certificate, key, made)
                }
            }
        }
    }

    /// Lends a text to C; nil stays nil.
    private static func withText<Result>(
        _ text: String?,
        _ body: (UnsafePointer<CChar>?) -> Result
    ) -> Result {
        guard let text else {
            return body(nil)
        }
        return unsafe text.withCString { unsafe body($0) }
    }
}

/// A chain of the shape of Apple's: a root on P-384, an intermediate and a leaf with their marks.
///
/// For tests and for the simulator; nothing that it signs is genuine.
package struct TestCertificateAuthority: Sendable {
    /// Marks a leaf that signs for the App Store.
    package static let leafOID = "1.2.840.113635.100.6.11.1"
    /// Marks Apple's Worldwide Developer Relations intermediates.
    package static let intermediateOID = "1.2.840.113635.100.6.2.1"

    package let root: IssuedCertificate
    package let intermediate: IssuedCertificate
    package let leaf: IssuedCertificate

    /// Makes three certificates that are all valid in the UNIX seconds given.
    package init(
        validSeconds: ClosedRange<Int64>,
        rootCurve: IssuedCertificate.Curve = .p384
    ) throws(CryptoFault) {
        root = try IssuedCertificate(Self.rootTemplate(validSeconds), curve: rootCurve)
        intermediate = try IssuedCertificate(
            Self.intermediateTemplate(validSeconds),
            curve: rootCurve,
            issuer: root
        )
        leaf = try IssuedCertificate(Self.leafTemplate(validSeconds), issuer: intermediate)
    }

    package static func rootTemplate(_ validSeconds: ClosedRange<Int64>) -> CertificateTemplate {
        var template = CertificateTemplate(validSeconds: validSeconds)
        template.commonName = "Tollway Test Root CA"
        template.authority = .yes(pathLengthMax: nil)
        template.keyUsage = "critical,keyCertSign,cRLSign"
        return template
    }

    package static func intermediateTemplate(
        _ validSeconds: ClosedRange<Int64>
    ) -> CertificateTemplate {
        var template = CertificateTemplate(validSeconds: validSeconds)
        template.commonName = "Tollway Test Intermediate CA"
        template.authority = .yes(pathLengthMax: 0)
        template.keyUsage = "critical,keyCertSign,cRLSign"
        template.markerOIDs = [intermediateOID]
        return template
    }

    package static func leafTemplate(_ validSeconds: ClosedRange<Int64>) -> CertificateTemplate {
        var template = CertificateTemplate(validSeconds: validSeconds)
        template.commonName = "Tollway Test Leaf"
        template.markerOIDs = [leafOID]
        return template
    }

    /// The members of `x5c`, in DER: leaf, intermediate, root.
    package var chainDER: [[UInt8]] {
        [leaf.certificate.der, intermediate.certificate.der, root.certificate.der]
    }

    /// What goes into the file that `TOLLWAY_APPLE_ROOTS_FILE` names.
    package var rootPEM: [UInt8] { root.certificate.pem }
}
