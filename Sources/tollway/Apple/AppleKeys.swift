internal import AppStoreAPI
internal import Crypto
internal import StageRuntime
internal import TokenDomain

/// The apps of `TOLLWAY_APPS_FILE` and their keys, for verbs that ask Apple.
struct AppleKeys {
    let apps: [AppsFile.App]
    private let signers: [Int64: [AppStoreClient.Signer]]

    /// Reads the file, and every key that it names and this user may read.
    ///
    /// - Throws: exit 2 where there is no file, or an app of it has no key to sign with.
    init(_ configuration: Configuration) throws(CommandFailure) {
        let setting = Setting.appsFile.fullName
        guard let path = configuration.appsFile else {
            throw .usage(
                "missing_apps_file",
                "\(setting) is not set: its keys sign what is asked of Apple"
            )
        }
        do throws(ConfigurationFault) {
            apps = try AppsFile.load(path, needsKeys: true).apps
            var signers: [Int64: [AppStoreClient.Signer]] = [:]
            for app in apps {
                let (good, faults) = app.signers()
                if good.isEmpty, let fault = faults.first {
                    throw fault
                }
                // Where one of two cannot be read, the other one may do: doctor reports it.
                signers[app.appAppleID] = good
            }
            self.signers = signers
        } catch {
            throw CommandFailure(.usage, code: error.code, error.sentence)
        }
    }

    var ring: KeyRing {
        let signers = signers
        return KeyRing(load: { signers[$0] ?? [] })
    }

    func app(_ appAppleID: Int64) -> AppsFile.App? { apps.first { $0.appAppleID == appAppleID } }

    /// How many requests a second report may send in a lane.
    func reportsPerSecond(of lane: Lane) -> Double {
        guard let app = app(lane.appAppleID) else {
            return AppsFile.reportsPerSecondDefault
        }
        return switch lane.environment {
        case .production: app.reportsPerSecond
        case .sandbox: app.sandboxReportsPerSecond
        }
    }

    /// The apps that `--app` names, by id or bundle; all where it is not given.
    ///
    /// - Throws: exit 2 for what names no app, 3 for one that the file does not have.
    func apps(_ invocation: Invocation) throws(CommandFailure) -> [AppsFile.App] {
        let names = try AppName.all(invocation)
        guard !names.isEmpty else {
            return apps
        }
        var found: [AppsFile.App] = []
        for name in names {
            guard let app = apps.first(where: name.names) else {
                throw name.unknown
            }
            if !found.contains(app) {
                found.append(app)
            }
        }
        return found
    }
}

extension AppsFile.App {
    /// What signs with each of its keys, and what is wrong with those that cannot be used.
    func signers() -> (good: [AppStoreClient.Signer], faults: [ConfigurationFault]) {
        let keys = privateKeys()
        let good = keys.good.map { number, name, key in
            AppStoreClient.Signer(
                bundleID: bundleID,
                issuerID: name.issuerID,
                keyID: name.keyID,
                key: key,
                number: number
            )
        }
        return (good, keys.faults)
    }
}
