internal import AppStoreAPI
internal import Crypto
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The apps we speak for and their keys, as the files say now: read at start, again on SIGHUP, and
/// before each probe of a lane that stopped.
final class AppBook {
    static let rootsByteCountMax = 1 << 20

    private let path: String
    private let rootsPath: String?
    private let log: Log
    private var file: AppsFile
    /// Nil without roots: signed transactions are then refused.
    private(set) var verifier: SignedDataVerifier?

    /// - Throws: what is wrong with the files, or with a key that one names.
    init(path: String, rootsPath: String?, log: Log) throws(ConfigurationFault) {
        self.path = path
        self.rootsPath = rootsPath
        self.log = log
        file = try AppsFile.load(path, needsKeys: true)
        verifier = try rootsPath.map { (path) throws(ConfigurationFault) in
            try Self.verifier(path: path)
        }
        for app in file.apps {
            _ = try Self.signer(of: app)
        }
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

    /// The signer of an app; nil where it is not configured or its key cannot be read, which stops
    /// its lanes and not the worker.
    func signer(of appAppleID: Int64) -> AppStoreClient.Signer? {
        guard let app = file.app(appAppleID: appAppleID) else {
            return nil
        }
        do throws(ConfigurationFault) {
            return try Self.signer(of: app)
        } catch {
            log.limited(.error, "a key cannot be read", ("because", .text(error.sentence)))
            return nil
        }
    }

    /// Reads the files again.
    ///
    /// One that is wrong changes nothing.
    func reload() {
        do throws(ConfigurationFault) {
            let read = try AppsFile.load(path, needsKeys: true)
            verifier = try rootsPath.map { (path) throws(ConfigurationFault) in
                try Self.verifier(path: path)
            }
            file = read
            log.info("the apps were read again", ("apps", .integer(Int64(file.apps.count))))
        } catch {
            log.error(
                "the apps cannot be read again; the old ones stay",
                ("because", .text(error.sentence))
            )
        }
    }

    private static func verifier(path: String) throws(ConfigurationFault) -> SignedDataVerifier {
        let setting = Setting.appleRootsFile.fullName
        let pem = try BoundedFile.read(
            path: path,
            setting: setting,
            byteCountMax: rootsByteCountMax
        )
        do throws(CryptoFault) {
            return SignedDataVerifier(roots: try TrustedRoots(pem: pem))
        } catch {
            throw .unreadableFile(setting: setting, path: path, because: error.explanation)
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
