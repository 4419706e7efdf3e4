internal import Crypto
internal import Glibc
internal import StageRuntime
internal import TokenDomain

/// What lies on this machine: settings, keys, the state directory.
struct DoctorFiles {
    /// Below this a store can fill its volume before somebody looks.
    private static let freeByteCountMin: UInt64 = 1 << 30

    let environment: [String: String]
    /// Whose they are; nil: any one's.
    var role: DoctorRights.Role?

    private var workers: [Worker] {
        switch role {
        case nil: Worker.allCases
        case .worker(let worker): [worker]
        case .theOperator: []
        }
    }

    /// Whether Apple is asked from here: by `report`, and by an operator that has the apps' keys.
    var asksApple: Bool {
        switch role {
        case nil, .worker(.report): return true
        case .worker: return false
        case .theOperator:
            do throws(ConfigurationFault) {
                let configuration = try Configuration(environment: environment, program: .tollway)
                return try Self.apps(configuration).flatMap(\.keys).contains { key in
                    unsafe access(key.privateKeyFile, F_OK) == 0
                }
            } catch {
                // The check of the settings reports why; without a key Apple says nothing of use.
                return false
            }
        }
    }

    /// Each program that these files and settings are for, as it would start with them.
    func configurations() -> [DoctorFinding] {
        let programs: [Program] =
            role == .theOperator ? [.tollway] : workers.map(Program.worker)
        return programs.flatMap { program -> [DoctorFinding] in
            do throws(ConfigurationFault) {
                let configuration = try Configuration(environment: environment, program: program)
                let shortfalls = try configuration.checkFiles()
                if program == .tollway {
                    _ = try Self.apps(configuration)
                }
                return Self.findings(of: program, shortfalls)
            } catch {
                return [
                    .failed(
                        .configuration,
                        program.name + (program == .tollway ? " cannot work" : " would not start")
                            + ": \(error.sentence)",
                        Self.repair(of: error)
                    )
                ]
            }
        }
    }

    /// None where no file names them.
    private static func apps(
        _ configuration: Configuration
    ) throws(ConfigurationFault) -> [AppsFile.App] {
        guard let path = configuration.appsFile else {
            return []
        }
        return try AppsFile.load(path).apps
    }

    private static func findings(
        of program: Program,
        _ shortfalls: Configuration.Shortfalls
    ) -> [DoctorFinding] {
        var findings: [DoctorFinding] = []
        if let fault = shortfalls.rates {
            findings.append(
                .failed(
                    .configuration,
                    "\(program.name) would start without rates: \(fault.sentence)",
                    repair(of: fault)
                )
            )
        } else {
            findings.append(
                .ok(.configuration, "\(program.name) could start with these settings")
            )
        }
        return findings
            + shortfalls.keys.map { fault in
                .warning(
                    .configuration,
                    "\(program.name) would start, and the app's other key signs:"
                        + " \(fault.sentence)",
                    repair(of: fault)
                )
            }
    }

    /// Whether the key files hold keys that can be used.
    func keys() -> [DoctorFinding] {
        guard asksApple else {
            return [.skipped(.keys, "not looked at: no keys for Apple are wanted here")]
        }
        let configuration: Configuration
        do throws(ConfigurationFault) {
            configuration = try Configuration(
                environment: environment,
                program: .worker(.report)
            )
        } catch {
            return [.skipped(.keys, "not looked at: the settings of report are wrong")]
        }
        var findings: [DoctorFinding] = []
        do throws(ConfigurationFault) {
            let path = try configuration.requiredFile(.appsFile)
            for app in try AppsFile.load(path, needsKeys: true).apps {
                findings += app.keys.map { key($0, of: app) }
            }
        } catch {
            findings.append(.failed(.keys, error.sentence, Self.repair(of: error)))
        }
        if let path = configuration.appleRootsFile {
            findings.append(roots(path))
        } else {
            findings.append(
                .warning(
                    .keys,
                    "\(Setting.appleRootsFile.fullName) is not set: ingest takes no notification, and no"
                        + " signed transaction can be verified",
                    "name a PEM file with Apple Root CA - G3 (www.apple.com/certificateauthority)"
                )
            )
        }
        return findings
    }

    /// The keys that are as they must be; ``keys()`` reports the others.
    func signers() -> [DoctorApple.SigningKey] {
        do {
            let configuration = try Configuration(
                environment: environment,
                program: .worker(.report)
            )
            let path = try configuration.requiredFile(.appsFile)
            return try AppsFile.load(path, needsKeys: true).apps.flatMap { app in
                app.signers().good.map {
                    DoctorApple.SigningKey(appAppleID: app.appAppleID, signer: $0)
                }
            }
        } catch {
            // The check of the files themselves reports it.
            return []
        }
    }

    private func key(_ key: AppsFile.Key, of app: AppsFile.App) -> DoctorFinding {
        let name = "the key \(key.keyID) of app \(app.appAppleID)"
        do {
            let pem = try SecretFile.read(
                path: key.privateKeyFile,
                setting: Setting.appsFile.fullName
            )
            _ = try P256PrivateKey(pem: pem)
            return .ok(.keys, "\(name) can sign (\(key.privateKeyFile))")
        } catch let fault as ConfigurationFault {
            return .failed(.keys, "\(name): \(fault.sentence)", Self.repair(of: fault))
        } catch {
            return .failed(
                .keys,
                "\(name), \(key.privateKeyFile), is no private key on P-256 (\(error))",
                "download the .p8 file from App Store Connect anew, or make a new key there"
            )
        }
    }

    private func roots(_ path: String) -> DoctorFinding {
        do throws(ConfigurationFault) {
            _ = try AppleRoots.load(path)
            return .ok(.keys, "the trusted roots can be read (\(path))")
        } catch {
            return .failed(.keys, error.sentence, "put Apple Root CA - G3 there, in PEM")
        }
    }

    /// Where workers with a changelog keep their state on this machine.
    func state() -> DoctorFinding {
        guard role == nil || workers.contains(where: { $0.changelog != nil }) else {
            return .skipped(.state, "not looked at: none is kept here")
        }
        let path: String
        // It is made at the first start, with all folders above it.
        let looked: String
        do throws(ConfigurationFault) {
            let configuration = try Configuration(environment: environment, program: .tollway)
            path = configuration.stateDirectory
            looked = configuration.nearestStateFolder
        } catch {
            return .skipped(.state, "not looked at: the settings are wrong")
        }
        guard Configuration.isWritableFolder(looked) else {
            return .failed(
                .state,
                "\(looked) may not be written",
                "give the worker's user that right, or set \(Setting.stateDirectory.fullName)"
            )
        }
        var volume = statvfs()
        guard unsafe statvfs(looked, &volume) == 0 else {
            return .warning(.state, "the volume of \(looked) tells nothing", "look with df")
        }
        let free = UInt64(volume.f_bavail) * UInt64(volume.f_frsize)
        guard free >= Self.freeByteCountMin else {
            return .warning(
                .state,
                "the volume of \(looked) has only \(free >> 20) MiB free",
                "make it larger: who keeps state there ends with exit 75 when it is full"
            )
        }
        return .ok(.state, "\(path) can be written, \(free >> 30) GiB free")
    }

    private static func repair(of fault: ConfigurationFault) -> String {
        switch fault.code {
        case "config.unreadable_file": "mend the file, or set \(fault.setting) to another"
        case "config.refused", "config.unknown_name":
            "take \(fault.setting) away, or do as the sentence says; see tollway config print"
        default: "set \(fault.setting); tollway config print shows what there is"
        }
    }
}
