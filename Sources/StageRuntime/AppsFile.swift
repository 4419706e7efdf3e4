internal import TokenDomain

/// The apps we report for, and their keys for Apple: the content of `TOLLWAY_APPS_FILE`.
///
///     {"apps":[{"appAppleId":1234567890,"bundleId":"com.example.app","issuerId":"…","keyId":"…",
///               "privateKeyFile":"app.p8","reportsPerSecond":5}]}
///
/// An app whose key is about to be replaced names two, and the first that Apple accepts signs:
///
///     {"appAppleId":1234567890,"bundleId":"com.example.app",
///      "keys":[{"issuerId":"…","keyId":"NEW","privateKeyFile":"new.p8"},
///              {"issuerId":"…","keyId":"OLD","privateKeyFile":"old.p8"}]}
package struct AppsFile: Equatable, Sendable {
    package static let byteCountMax = 1 << 20
    package static let appCountMax = 1_000
    /// The one in use and the one that follows it.
    package static let keyCountMax = 2
    package static let reportsPerSecondDefault = 5.0
    package static let reportsPerSecondMax = 1_000.0
    /// One in 17 minutes; far below it a limiter's times have no room in 64 bits.
    package static let reportsPerSecondMin = 0.001

    package struct App: Equatable, Sendable {
        package var appAppleID: Int64
        package var bundleID: String
        /// In the order in which they are tried.
        ///
        /// Only `report` needs them: the file of another worker may leave them out.
        package var keys: [Key]
        /// Above zero; for each of Apple's two worlds.
        package var reportsPerSecond: Double
        /// The sandbox's own rate.
        package var sandboxReportsPerSecond: Double

        package init(
            appAppleID: Int64,
            bundleID: String,
            keys: [Key] = [],
            reportsPerSecond: Double = AppsFile.reportsPerSecondDefault,
            sandboxReportsPerSecond: Double? = nil
        ) {
            self.appAppleID = appAppleID
            self.bundleID = bundleID
            self.keys = keys
            self.reportsPerSecond = reportsPerSecond
            self.sandboxReportsPerSecond = sandboxReportsPerSecond ?? reportsPerSecond
        }
    }

    /// How reports of an app are signed.
    ///
    /// The key itself stays in its file until `report` reads it.
    package struct Key: Equatable, Sendable {
        package var issuerID: String
        package var keyID: String
        /// Where the key is; a relative path in the file counts from the file's own folder.
        package var privateKeyFile: String

        package init(issuerID: String, keyID: String, privateKeyFile: String) {
            self.issuerID = issuerID
            self.keyID = keyID
            self.privateKeyFile = privateKeyFile
        }
    }

    package var apps: [App]

    package init(apps: [App]) {
        self.apps = apps
    }

    package func app(appAppleID: Int64) -> App? {
        apps.first { $0.appAppleID == appAppleID }
    }

    package func app(bundleID: String) -> App? {
        apps.first { BundleID($0.bundleID) == BundleID(bundleID) }
    }

    /// Reads the file and everything it says; the key files themselves are left to `report`.
    ///
    /// - Parameters:
    ///   - path: the file, at most 1 MiB.
    ///   - needsKeys: every app must name at least one key (`report`).
    /// - Returns: at least one app; ids and bundle ids occur once.
    /// - Throws: which file, and what in it, is wrong.
    package static func load(
        _ path: String,
        needsKeys: Bool = false
    ) throws(ConfigurationFault) -> AppsFile {
        let bytes = try BoundedFile.read(
            path: path,
            setting: Setting.appsFile.fullName,
            byteCountMax: byteCountMax
        )
        do throws(AppsFileFault) {
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
            return try AppsFile(reading: bytes.span, folder: folder, needsKeys: needsKeys)
        } catch {
            throw .unreadableFile(
                setting: Setting.appsFile.fullName,
                path: path,
                because: error.sentence
            )
        }
    }
}
