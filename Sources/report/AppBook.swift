internal import AppStoreAPI
internal import Crypto
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The apps we speak for and their keys, as the files say now: read at start, again on SIGHUP, and
/// before each probe of a lane that stopped.
final class AppBook {
    private let path: String
    private let rootsPath: String?
    private let log: Log
    private var file: AppsFile
    /// By app: the last key that could be read.
    private var signers: [Int64: AppStoreClient.Signer]
    /// Nil without roots: signed transactions are then refused.
    private(set) var verifier: SignedDataVerifier?

    /// - Throws: what is wrong with the files, or with a key that one names.
    init(path: String, rootsPath: String?, log: Log) throws(ConfigurationFault) {
        self.path = path
        self.rootsPath = rootsPath
        self.log = log
        (file, signers, verifier) = try Self.read(path: path, rootsPath: rootsPath)
    }

    private static func read(
        path: String,
        rootsPath: String?
    ) throws(ConfigurationFault) -> (AppsFile, [Int64: AppStoreClient.Signer], SignedDataVerifier?)
    {
        let file = try AppsFile.load(path, needsKeys: true)
        var signers: [Int64: AppStoreClient.Signer] = [:]
        for app in file.apps {
            signers[app.appAppleID] = try signer(of: app)
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

    /// The signer of an app, read anew: its key may have been replaced.
    ///
    /// What cannot be read leaves the old key in place. Nil where the app is not configured, which
    /// stops its lanes and not the worker.
    func signer(of appAppleID: Int64) -> AppStoreClient.Signer? {
        do throws(ConfigurationFault) {
            let read = try AppsFile.load(path, needsKeys: true)
            signers[appAppleID] = try read.app(appAppleID: appAppleID)
                .flatMap { (app) throws(ConfigurationFault) in try Self.signer(of: app) }
        } catch {
            log.limited(
                .error,
                "a key cannot be read again; what was read before stays in force",
                ("appAppleId", .integer(appAppleID)),
                ("because", .text(error.sentence))
            )
        }
        return signers[appAppleID]
    }

    /// Reads the files again: all of them are good, or nothing changes.
    func reload() {
        do throws(ConfigurationFault) {
            (file, signers, verifier) = try Self.read(path: path, rootsPath: rootsPath)
            log.info(
                "the settings files were read again",
                ("apps", .integer(Int64(file.apps.count)))
            )
        } catch {
            log.error(
                "a settings file cannot be read again; what was read before stays in force",
                ("because", .text(error.sentence))
            )
        }
    }

    private static func signer(
        of app: AppsFile.App
    ) throws(ConfigurationFault) -> AppStoreClient.Signer? {
        guard let key = app.key else {
            return nil
        }
        let setting = Setting.appsFile.fullName
        let pem = try SecretFile.read(path: key.privateKeyFile, setting: setting)
        do throws(CryptoFault) {
            return AppStoreClient.Signer(
                bundleID: app.bundleID,
                issuerID: key.issuerID,
                keyID: key.keyID,
                key: try P256PrivateKey(pem: pem)
            )
        } catch {
            throw .unreadableFile(
                setting: setting,
                path: key.privateKeyFile,
                because: "it holds no P-256 private key in PEM"
            )
        }
    }
}
