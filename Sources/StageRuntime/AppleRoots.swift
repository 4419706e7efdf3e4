package import Crypto

extension Configuration {
    /// Reads the roots that Apple signs under.
    ///
    /// - Returns: nil where no file is named.
    /// - Throws: what is wrong with the file.
    package func appleRoots() throws(ConfigurationFault) -> TrustedRoots? {
        try appleRootsFile.map { (path) throws(ConfigurationFault) in
            try AppleRoots.load(path)
        }
    }
}

/// The file that `TOLLWAY_APPLE_ROOTS_FILE` names.
package enum AppleRoots {
    /// Some hundreds of certificates.
    private static let byteCountMax = 1 << 20

    package static func load(_ path: String) throws(ConfigurationFault) -> TrustedRoots {
        let setting = Setting.appleRootsFile.fullName
        let pem = try BoundedFile.read(path: path, setting: setting, byteCountMax: byteCountMax)
        do throws(CryptoFault) {
            return try TrustedRoots(pem: pem)
        } catch {
            throw .unreadableFile(
                setting: setting,
                path: path,
                because: error.explanation + hint(pem, error)
            )
        }
    }

    /// What to do about a file that was refused; empty where its fault says it.
    ///
    /// Apple hands its roots out in DER, and its intermediates on the same page.
    package static func hint(_ bytes: [UInt8], _ fault: CryptoFault) -> String {
        if fault == .noRoot {
            return "; put Apple Root CA - G3 there (www.apple.com/certificateauthority)"
        }
        return bytes.first == 0x30 ? "; openssl x509 -inform der turns DER into PEM" : ""
    }
}
