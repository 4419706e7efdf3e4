internal import TokenDomain
internal import TokenWire

/// The apps we speak for, and their keys for Apple: the content of `TOLLWAY_APPS_FILE`.
///
///     {"apps":[{"appAppleId":1234567890,"bundleId":"com.example.app","issuerId":"…","keyId":"…",
///               "privateKeyFile":"app.p8","reportsPerSecond":5}]}
package struct AppsFile: Equatable, Sendable {
    package static let byteCountMax = 1 << 20
    package static let appCountMax = 1_000
    package static let reportsPerSecondDefault = 5.0
    package static let reportsPerSecondMax = 1_000.0

    package struct App: Equatable, Sendable {
        package var appAppleID: Int64
        package var bundleID: String
        /// Only `report` needs the keys: the file of another worker may leave them out.
        package var key: Key?
        /// Above zero; for each of Apple's two worlds.
        package var reportsPerSecond: Double
        /// The sandbox's own rate.
        package var sandboxReportsPerSecond: Double

        package init(
            appAppleID: Int64,
            bundleID: String,
            key: Key? = nil,
            reportsPerSecond: Double = AppsFile.reportsPerSecondDefault,
            sandboxReportsPerSecond: Double? = nil
        ) {
            self.appAppleID = appAppleID
            self.bundleID = bundleID
            self.key = key
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
    ///   - needsKeys: every app must name its issuer, key and key file (`report`).
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

/// What in the apps file is wrong, in one sentence.
struct AppsFileFault: Error, Equatable {
    var sentence: String

    init(_ sentence: String) {
        self.sentence = sentence
    }
}

extension AppsFile {
    private static let members = [
        "appAppleId", "bundleId", "issuerId", "keyId", "privateKeyFile", "reportsPerSecond",
        "sandboxReportsPerSecond",
    ]

    /// One entry of the list, as it stands.
    private struct Entry {
        var appAppleID: Int64?
        var bundleID: String?
        var issuerID: String?
        var keyID: String?
        var privateKeyFile: String?
        var reportsPerSecond: [UInt8]?
        var sandboxReportsPerSecond: [UInt8]?
    }

    init(reading text: Span<UInt8>, folder: String, needsKeys: Bool) throws(AppsFileFault) {
        let entries = try Self.entries(text)
        var apps: [App] = []
        for (index, entry) in entries.enumerated() {
            let app = try Self.app(entry, number: index + 1, folder: folder)
            guard !needsKeys || app.key != nil else {
                throw AppsFileFault(
                    "app \(app.appAppleID) lacks issuerId, keyId or privateKeyFile"
                )
            }
            apps.append(app)
        }
        // Both ways: decode looks apps up by id, and notifications by bundle.
        if let twice = Self.firstRepeated(apps.map(\.appAppleID)) {
            throw AppsFileFault("app \(twice) is there twice")
        }
        if let twice = Self.firstRepeated(apps.map { BundleID($0.bundleID) }) {
            throw AppsFileFault("the bundle \(twice) is there twice")
        }
        self.init(apps: apps)
    }

    private static func entries(_ text: Span<UInt8>) throws(AppsFileFault) -> [Entry] {
        var entries: [Entry]?
        var unknown: String?
        do throws(WireFault) {
            try JSONScanner.scanObject(text) { (key, scanner) throws(WireFault) in
                guard key == "apps", entries == nil else {
                    unknown = unknown ?? key.text
                    return try scanner.skip()
                }
                entries = []
                try scanner.beginArray()
                while try scanner.nextElement() {
                    let (entry, foreign) = try Self.entry(&scanner)
                    entries?.append(entry)
                    unknown = unknown ?? foreign
                }
            }
        } catch {
            throw AppsFileFault("it is \(error.message), as an apps file must be")
        }
        if let unknown {
            let nearest = Spelling.nearest(to: unknown, among: ["apps"] + members)
            throw AppsFileFault(
                "it has an unknown or repeated member \"\(unknown)\""
                    + (nearest.map { "; did you mean \($0)?" } ?? "")
            )
        }
        guard let entries, (1...appCountMax).contains(entries.count) else {
            throw AppsFileFault("it must have \"apps\", a list of 1 to \(appCountMax)")
        }
        return entries
    }

    private static func entry(
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> (Entry, unknown: String?) {
        var entry = Entry()
        var unknown: String?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "appAppleId": try scanner.fill(&entry.appAppleID)
            case "bundleId": try scanner.fill(&entry.bundleID)
            case "issuerId": try scanner.fill(&entry.issuerID)
            case "keyId": try scanner.fill(&entry.keyID)
            case "privateKeyFile": try scanner.fill(&entry.privateKeyFile)
            case "reportsPerSecond": entry.reportsPerSecond = try scanner.raw()
            case "sandboxReportsPerSecond": entry.sandboxReportsPerSecond = try scanner.raw()
            default:
                unknown = unknown ?? key.text
                try scanner.skip()
            }
        }
        return (entry, unknown)
    }

    private static func app(
        _ entry: Entry,
        number: Int,
        folder: String
    ) throws(AppsFileFault) -> App {
        guard let appAppleID = entry.appAppleID, appAppleID > 0 else {
            throw AppsFileFault("entry \(number) needs an appAppleId above zero")
        }
        guard let bundleID = entry.bundleID, !bundleID.isEmpty else {
            throw AppsFileFault("app \(appAppleID) needs a bundleId")
        }
        let rate = try rate(entry.reportsPerSecond, of: appAppleID) ?? reportsPerSecondDefault
        var app = App(
            appAppleID: appAppleID,
            bundleID: bundleID,
            reportsPerSecond: rate,
            sandboxReportsPerSecond: try Self.rate(entry.sandboxReportsPerSecond, of: appAppleID)
        )
        let parts = [entry.issuerID, entry.keyID, entry.privateKeyFile]
        guard parts.contains(where: { $0 != nil }) else {
            return app
        }
        guard let issuerID = entry.issuerID, let keyID = entry.keyID,
            let file = entry.privateKeyFile, !parts.contains("")
        else {
            throw AppsFileFault("app \(appAppleID) lacks issuerId, keyId or privateKeyFile")
        }
        app.key = Key(
            issuerID: issuerID,
            keyID: keyID,
            privateKeyFile: file.hasPrefix("/") ? file : folder + file
        )
        return app
    }

    private static func rate(
        _ json: [UInt8]?,
        of appAppleID: Int64
    ) throws(AppsFileFault) -> Double? {
        guard let json else {
            return nil
        }
        let rate = Double(String(decoding: json, as: UTF8.self))
        guard let rate, rate > 0, rate <= reportsPerSecondMax else {
            throw AppsFileFault(
                "app \(appAppleID) has a rate that is no number above zero, "
                    + "at most \(Int(reportsPerSecondMax))"
            )
        }
        return rate
    }

    private static func firstRepeated<Value: Hashable>(_ values: [Value]) -> Value? {
        var seen: Set<Value> = []
        return values.first { !seen.insert($0).inserted }
    }
}

extension Configuration {
    /// Apps in the file of apps where this program needs one, else 0.
    func appCount() throws(ConfigurationFault) -> Int {
        switch program {
        case .worker(.decode), .worker(.report), .worker(.notifications), .worker(.purchases):
            try AppsFile.load(try requiredFile(.appsFile)).apps.count
        case .worker(.ingest), .worker(.dedupe), .tollway: 0
        }
    }
}
