internal import StageRuntime
internal import TokenDomain

/// What names an app on the command line, in every verb: Apple's number or the bundle id.
enum AppName: Equatable {
    case number(Int64)
    case bundle(BundleID)

    /// - Throws: exit 2 for a text that can be neither.
    static func read(_ text: String, of name: String) throws(CommandFailure) -> AppName {
        let isNumber = !text.isEmpty && text.utf8.allSatisfy { (0x30...0x39).contains($0) }
        if isNumber, let number = Int64(text), number > 0 {
            return .number(number)
        }
        // Of a dead letter it is what its sender wrote: only what can be none is refused.
        let isText = text.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7f }
        guard !isNumber, isText, !text.isEmpty, !text.hasPrefix("-") else {
            throw .usage(
                "bad_value",
                "\(name) is \"\(text)\": it must be an appAppleId or a bundle id"
            )
        }
        return .bundle(BundleID(text))
    }

    /// Those of `--app`, in their order.
    static func all(_ invocation: Invocation) throws(CommandFailure) -> [AppName] {
        var names: [AppName] = []
        for text in invocation.values("--app") {
            names.append(try read(text, of: "--app"))
        }
        return names
    }

    func names(appAppleID: Int64?, bundleID: String?) -> Bool {
        switch self {
        case .number(let number): appAppleID == number
        case .bundle(let bundle): bundleID.map { BundleID($0) == bundle } ?? false
        }
    }

    func names(_ app: AppsFile.App) -> Bool {
        names(appAppleID: app.appAppleID, bundleID: app.bundleID)
    }

    /// Apple's number; of a bundle id by `TOLLWAY_APPS_FILE`, which a number needs not.
    ///
    /// - Throws: exit 2 where a bundle id needs the file and it is not set or cannot be read, 3 where
    ///   the file does not have it.
    func number(_ configuration: Configuration) throws(CommandFailure) -> Int64 {
        switch self {
        case .number(let number):
            return number
        case .bundle(let bundle):
            guard let file = try Self.file(configuration) else {
                throw .usage(
                    "missing_apps_file",
                    "\(Setting.appsFile.fullName) is not set: it says which app \(bundle) is"
                )
            }
            guard let app = file.app(bundleID: bundle.text) else {
                throw unknown
            }
            return app.appAppleID
        }
    }

    /// Nil where none is set.
    static func file(_ configuration: Configuration) throws(CommandFailure) -> AppsFile? {
        do throws(ConfigurationFault) {
            return try configuration.appsFile.map { (path) throws(ConfigurationFault) in
                try AppsFile.load(path)
            }
        } catch {
            throw CommandFailure(.usage, code: error.code, error.sentence)
        }
    }

    var unknown: CommandFailure {
        CommandFailure(
            .nothingMatched,
            code: "apple.unknown_app",
            "app \(text) is not in \(Setting.appsFile.fullName)"
        )
    }

    var text: String {
        switch self {
        case .number(let number): "\(number)"
        case .bundle(let bundle): bundle.text
        }
    }
}
