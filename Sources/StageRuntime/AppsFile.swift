/// The apps we speak for, and their keys for Apple: the content of `TOLLWAY_APPS_FILE`.
///
///     {"apps":[{"appAppleId":1234567890,"bundleId":"com.example.app","issuerId":"…","keyId":"…",
///               "privateKeyFile":"app.p8","reportsPerSecond":5}]}
package struct AppsFile: Equatable, Sendable {
    package static let byteCountMax = 1 << 20
    package static let appCountMax = 1_000
    package static let reportsPerSecondDefault = 5
    package static let reportsPerSecondMax = 1_000

    package struct App: Equatable, Sendable {
        package var appAppleID: Int64
        package var bundleID: String
        /// Only `report` needs the keys: the file of another worker may leave them out.
        package var key: Key?
        package var reportsPerSecond: Int
    }

    /// How reports of an app are signed. The key itself stays in its file until `report` reads it.
    package struct Key: Equatable, Sendable {
        package var issuerID: String
        package var keyID: String
        /// Relative paths count from the folder of the apps file.
        package var privateKeyFile: String
    }

    package var apps: [App]

    package init(apps: [App]) {
        self.apps = apps
    }

    package func app(appAppleID: Int64) -> App? {
        apps.first { $0.appAppleID == appAppleID }
    }

    package func app(bundleID: String) -> App? {
        apps.first { $0.bundleID == bundleID }
    }

    /// - Parameter needsKeys: every app must name its issuer, key and key file (`report`).
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
        _ = bytes
        throw .unreadableFile(
            setting: Setting.appsFile.fullName,
            path: path,
            because: "it cannot be read yet"
        )
    }
}
