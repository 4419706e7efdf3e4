internal import AppStoreAPI
internal import Crypto
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The apps we report for and their keys, as the files say now: read at start, again on SIGHUP, and
/// before each probe of a lane that stopped.
final class AppBook {
    private let path: String
    private let rootsPath: String?
    private let log: Log
    private var file: AppsFile
    /// By app, in the order of the file: the keys that could be read last.
    private var signers: [Int64: [AppStoreClient.Signer]]
    /// Nil without roots: signed transactions are then refused.
    private(set) var verifier: SignedDataVerifier?

    /// - Throws: what is wrong with the files, or with the keys of an app that has none to sign with.
    init(path: String, rootsPath: String?, log: Log) throws(ConfigurationFault) {
        self.path = path
        self.rootsPath = rootsPath
        self.log = log
        (file, signers, verifier) = try Self.read(path: path, rootsPath: rootsPath, log)
    }

    private static func read(
        path: String,
        rootsPath: String?,
        _ log: Log
    ) throws(ConfigurationFault) -> (
        AppsFile, [Int64: [AppStoreClient.Signer]], SignedDataVerifier?
    ) {
        let file = try AppsFile.load(path, needsKeys: true)
        var signers: [Int64: [AppStoreClient.Signer]] = [:]
        for app in file.apps {
            signers[app.appAppleID] = try Self.signers(of: app, log)
        }
        let verifier = try rootsPath.map { (path) throws(ConfigurationFault) in
            SignedDataVerifier(roots: try AppleRoots.load(path))
        }
        return (file, signers, verifier)
    }

    var appAppleIDs: [Int64] { file.apps.map(\.appAppleID) }

    func rate(of lane: Lane) -> Double? {
        file.app(appAppleID: lane.appAppleID).map { app in
            switch lane.environment {
            case .production: app.reportsPerSecond
            case .sandbox: app.sandboxReportsPerSecond
            }
        }
    }

    func appAppleID(ofBundle bundleID: String) -> Int64? {
        file.app(bundleID: bundleID)?.appAppleID
    }

    /// The keys of an app, read anew: they may have been replaced.
    ///
    /// If none can be read, the old ones stay in place. Empty where the app is not configured,
    /// which stops its lanes and not the worker.
    func signers(of appAppleID: Int64) -> [AppStoreClient.Signer] {
        do throws(ConfigurationFault) {
            let read = try AppsFile.load(path, needsKeys: true)
            signers[appAppleID] = try read.app(appAppleID: appAppleID)
                .map { (app) throws(ConfigurationFault) in try Self.signers(of: app, log) }
        } catch {
            log.limited(
                .error,
                "a key cannot be read again; what was read before stays in force",
                per: "\(appAppleID)",
                ("appAppleId", .integer(appAppleID)),
                ("because", .text(error.sentence))
            )
        }
        return signers[appAppleID] ?? []
    }

    /// Reads the files again: all of them are good, or nothing changes.
    ///
    /// - Returns: what is wrong with one of them.
    func reload() -> ConfigurationFault? {
        do throws(ConfigurationFault) {
            (file, signers, verifier) = try Self.read(path: path, rootsPath: rootsPath, log)
            log.settingsWereReadAgain(file)
            return nil
        } catch {
            log.settingsCannotBeReadAgain(error)
            return error
        }
    }

    /// Those of an app that can be read; the log has the others.
    ///
    /// - Throws: what is wrong with the first, where none can be read.
    private static func signers(
        of app: AppsFile.App,
        _ log: Log
    ) throws(ConfigurationFault) -> [AppStoreClient.Signer] {
        let keys = app.privateKeys()
        if keys.good.isEmpty, let fault = keys.faults.first {
            throw fault
        }
        for fault in keys.faults {
            log.limited(
                .error,
                "one of an app's keys cannot be read; the other one signs",
                per: fault.sentence,
                ("appAppleId", .integer(app.appAppleID)),
                ("because", .text(fault.sentence))
            )
        }
        return keys.good.map { number, name, key in
            AppStoreClient.Signer(
                bundleID: app.bundleID,
                issuerID: name.issuerID,
                keyID: name.keyID,
                key: key,
                number: number
            )
        }
    }
}
