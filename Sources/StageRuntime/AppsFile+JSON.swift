internal import TokenDomain
internal import TokenWire

/// What in the apps file is wrong, in one sentence.
struct AppsFileFault: Error, Equatable {
    var sentence: String

    init(_ sentence: String) {
        self.sentence = sentence
    }
}

extension AppsFile {
    private static let members = [
        "appAppleId", "bundleId", "issuerId", "keyId", "privateKeyFile", "keys",
        "reportsPerSecond", "sandboxReportsPerSecond",
    ]

    /// One entry of the list, as it stands.
    private struct Entry {
        var appAppleID: Int64?
        var bundleID: String?
        /// Of an app that has one key and no list of them.
        var key = KeyEntry()
        var keys: [KeyEntry]?
        var reportsPerSecond: [UInt8]?
        var sandboxReportsPerSecond: [UInt8]?
    }

    private struct KeyEntry {
        var issuerID: String?
        var keyID: String?
        var privateKeyFile: String?

        var isEmpty: Bool { issuerID == nil && keyID == nil && privateKeyFile == nil }

        /// - Returns: whether it takes members of this name.
        mutating func read(
            _ name: JSONKey,
            _ scanner: inout JSONScanner
        ) throws(WireFault) -> Bool {
            switch name {
            case "issuerId": try scanner.fill(&issuerID)
            case "keyId": try scanner.fill(&keyID)
            case "privateKeyFile": try scanner.fill(&privateKeyFile)
            default: return false
            }
            return true
        }
    }

    init(reading text: Span<UInt8>, folder: String, needsKeys: Bool) throws(AppsFileFault) {
        let entries = try Self.entries(text)
        var apps: [App] = []
        for (index, entry) in entries.enumerated() {
            let app = try Self.app(entry, number: index + 1, folder: folder)
            guard !needsKeys || !app.keys.isEmpty else {
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
            case "keys" where entry.keys == nil:
                let (keys, foreign) = try Self.keys(&scanner)
                entry.keys = keys
                unknown = unknown ?? foreign
            case "reportsPerSecond": entry.reportsPerSecond = try scanner.raw()
            case "sandboxReportsPerSecond": entry.sandboxReportsPerSecond = try scanner.raw()
            default:
                guard try !entry.key.read(key, &scanner) else {
                    continue
                }
                unknown = unknown ?? key.text
                try scanner.skip()
            }
        }
        return (entry, unknown)
    }

    private static func keys(
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> ([KeyEntry], unknown: String?) {
        var keys: [KeyEntry] = []
        var unknown: String?
        try scanner.beginArray()
        while try scanner.nextElement() {
            var key = KeyEntry()
            try scanner.beginObject()
            while let name = try scanner.nextKey() {
                guard try !key.read(name, &scanner) else {
                    continue
                }
                unknown = unknown ?? name.text
                try scanner.skip()
            }
            keys.append(key)
        }
        return (keys, unknown)
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
        app.keys = try keys(of: entry, appAppleID: appAppleID, folder: folder)
        return app
    }

    private static func keys(
        of entry: Entry,
        appAppleID: Int64,
        folder: String
    ) throws(AppsFileFault) -> [Key] {
        guard let listed = entry.keys else {
            return entry.key.isEmpty
                ? [] : [try key(entry.key, of: "app \(appAppleID)", folder: folder)]
        }
        guard entry.key.isEmpty else {
            throw AppsFileFault(
                "app \(appAppleID) has \"keys\" and a key beside them: put all of them into the list"
            )
        }
        guard (1...keyCountMax).contains(listed.count) else {
            throw AppsFileFault("app \(appAppleID) must have 1 to \(keyCountMax) \"keys\"")
        }
        var keys: [Key] = []
        for (index, entry) in listed.enumerated() {
            let name = "key \(index + 1) of app \(appAppleID)"
            keys.append(try key(entry, of: name, folder: folder))
        }
        if let twice = firstRepeated(keys.map(\.keyID)) {
            throw AppsFileFault("app \(appAppleID) names the key \(twice) twice")
        }
        return keys
    }

    private static func key(
        _ entry: KeyEntry,
        of name: String,
        folder: String
    ) throws(AppsFileFault) -> Key {
        guard let issuerID = entry.issuerID, let keyID = entry.keyID,
            let file = entry.privateKeyFile, ![issuerID, keyID, file].contains("")
        else {
            throw AppsFileFault("\(name) lacks issuerId, keyId or privateKeyFile")
        }
        return Key(
            issuerID: issuerID,
            keyID: keyID,
            privateKeyFile: file.hasPrefix("/") ? file : folder + file
        )
    }

    private static func rate(
        _ json: [UInt8]?,
        of appAppleID: Int64
    ) throws(AppsFileFault) -> Double? {
        guard let json else {
            return nil
        }
        let rate = Double(String(decoding: json, as: UTF8.self))
        guard let rate, rate >= reportsPerSecondMin, rate <= reportsPerSecondMax else {
            throw AppsFileFault(
                "app \(appAppleID) has a rate that is no number from \(reportsPerSecondMin) to "
                    + "\(Int(reportsPerSecondMax))"
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
