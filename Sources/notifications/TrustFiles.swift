internal import Crypto
internal import StageRuntime

/// What the worker trusts: the roots that Apple signs under, and the apps that are ours.
struct TrustFiles {
    var apps: AppsFile
    var roots: TrustedRoots

    init(apps: AppsFile, roots: TrustedRoots) {
        self.apps = apps
        self.roots = roots
    }

    /// Reads both files.
    ///
    /// - Throws: which setting names a file that cannot be used, and why.
    init(_ configuration: Configuration) throws(ConfigurationFault) {
        apps = try AppsFile.load(try configuration.requiredFile(.appsFile))
        roots = try AppleRoots.load(try configuration.requiredFile(.appleRootsFile))
    }
}
