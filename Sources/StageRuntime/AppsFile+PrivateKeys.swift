package import Crypto

extension AppsFile.Key {
    /// The private key in its file, read anew.
    ///
    /// - Throws: ``ConfigurationFault/unreadableFile(setting:path:because:)``, also where the file
    ///   holds no private key on P-256 in PEM.
    package func privateKey() throws(ConfigurationFault) -> P256PrivateKey {
        let setting = Setting.appsFile.fullName
        let pem = try SecretFile.read(path: privateKeyFile, setting: setting)
        do throws(CryptoFault) {
            return try P256PrivateKey(pem: pem)
        } catch {
            throw .unreadableFile(
                setting: setting,
                path: privateKeyFile,
                because: "it holds no P-256 private key in PEM"
            )
        }
    }
}

extension AppsFile.App {
    /// Its keys that can be read, each with its number in the list, and what is wrong with the others.
    package func privateKeys() -> (
        good: [(number: Int, name: AppsFile.Key, key: P256PrivateKey)],
        faults: [ConfigurationFault]
    ) {
        var good: [(number: Int, name: AppsFile.Key, key: P256PrivateKey)] = []
        var faults: [ConfigurationFault] = []
        for (index, name) in keys.enumerated() {
            do throws(ConfigurationFault) {
                good.append((index + 1, name, try name.privateKey()))
            } catch {
                faults.append(error)
            }
        }
        return (good, faults)
    }
}
