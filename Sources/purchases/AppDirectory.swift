internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The apps file, read at start and again on SIGHUP.
final class AppDirectory: PurchaseApps {
    private let path: String
    private let log: Log
    private var file: AppsFile

    /// - Throws: what is wrong with the file.
    init(path: String, log: Log) throws(ConfigurationFault) {
        self.path = path
        self.log = log
        file = try AppsFile.load(path)
    }

    var appAppleIDs: [Int64] { file.apps.map(\.appAppleID) }

    func appAppleID(_ appAppleID: Int64?, bundleID: String?) -> Int64? {
        let byID = appAppleID.flatMap { file.app(appAppleID: $0) }
        let byBundle = bundleID.flatMap { file.app(bundleID: $0) }
        switch (appAppleID, bundleID) {
        case (nil, nil): return nil
        case (nil, _?): return byBundle?.appAppleID
        case (_?, nil): return byID?.appAppleID
        case (_?, _?):
            return byID?.appAppleID == byBundle?.appAppleID ? byID?.appAppleID : nil
        }
    }

    func bundleID(of appAppleID: Int64) -> String? {
        file.app(appAppleID: appAppleID)?.bundleID
    }

    @discardableResult
    func reload() -> ConfigurationFault? {
        do throws(ConfigurationFault) {
            file = try AppsFile.load(path)
            log.settingsWereReadAgain(file)
            return nil
        } catch {
            log.settingsCannotBeReadAgain(error)
            return error
        }
    }
}
