internal import Glibc
internal import StateStore
package import Kafka
package import TokenDomain

/// All that a program reads from its environment, parsed and checked before anything starts.
package struct Configuration: Sendable, Equatable {
    /// A setting as it holds, for `tollway config print`.
    ///
    /// Secrets are in files, so none stands here.
    package struct Entry: Sendable, Equatable {
        package enum Source: String, Sendable {
            case environment, `default`
        }

        package var name: String
        /// Nil where it is not set and has no default.
        package var value: String?
        package var source: Source
    }

    package var program: Program
    /// Where Kafka is, and every setting of librdkafka that was passed through.
    package var kafka: KafkaSettings
    package var topicPrefix: String
    package var delivery: KafkaDelivery
    package var instance: String
    package var stateDirectory: String
    package var adminListen: String
    /// In lower case; besides addresses and `localhost`.
    package var adminHosts: [String]
    package var ingestListen: String
    /// As ``adminHosts``; asked for where there are no keys, or some are given.
    package var ingestHosts: [String]
    /// Nil: `ingest` asks for no key, on loopback only.
    package var ingestKeysFile: String?
    /// Nil: `ingest` refuses a `customer`.
    package var ingestCustomerKeyFile: String?
    /// Nil: `ingest` takes notifications from any address.
    package var ingestNotificationSources: AddressRanges?
    /// Set for the workers that need it (decode, notifications, report, purchases).
    package var appsFile: String?
    /// Scheme, host and port, no slash at the end.
    package var appleProductionURL: String
    package var appleSandboxURL: String
    /// Set for `notifications`; without it `ingest` takes no notifications and `report` no signed
    /// transactions.
    package var appleRootsFile: String?
    package var reportHold: Milliseconds
    package var reportUnrecognizedGrace: Milliseconds
    package var reportDeadlineDays: Int
    package var reportMonthlyRepeat: Bool
    package var reportUnknownReminders: UnknownReminders
    /// How much older than a sale a token without expiry may be that carries it.
    package var purchasesTokenWindow: Milliseconds
    /// How long a sale waits for a token, from when it was received; then it is not owed.
    package var purchasesTokenWait: Milliseconds
    /// Nil: a sale in a currency that Apple takes no reports in waits unless it brings its rate.
    package var exchangeRatesFile: String?
    /// Whether less than the promise's brokers and replicas will do: a trial.
    package var kafkaSingleBroker: Bool
    /// Every setting in a fixed order, librdkafka's last.
    package var entries: [Entry]

    /// - Parameters:
    ///   - environment: all of it; only `TOLLWAY_` names are looked at.
    ///   - program: decides the default of `ADMIN_LISTEN` and what must be set.
    ///   - hostName: the default of `INSTANCE`.
    /// - Throws: the first setting that is wrong, in the order of ``Setting``.
    package init(
        environment: [String: String],
        program: Program,
        hostName: String = HostName.current
    ) throws(ConfigurationFault) {
        try Self.refuseUnknownNames(environment)
        var reader = SettingReader(environment: environment)
        self.program = program
        topicPrefix = try reader.name(.topicPrefix, characterCountMax: 100)
        delivery = try reader.delivery()
        instance = try reader.name(.instance, default: hostName, characterCountMax: 100)
        stateDirectory = try reader.text(.stateDirectory)
        adminListen = try reader.listen(.adminListen, default: Self.adminListen(of: program)).text
        adminHosts = try reader.hostNames(.adminHosts)
        let ingest = try reader.listen(.ingestListen)
        ingestListen = ingest.text
        ingestHosts = try reader.hostNames(.ingestHosts)
        ingestKeysFile = try reader.optionalText(.ingestKeysFile)
        ingestCustomerKeyFile = try reader.optionalText(.ingestCustomerKeyFile)
        ingestNotificationSources = try reader.addressRanges(.ingestNotificationSources)
        appsFile = try reader.optionalText(.appsFile)
        appleProductionURL = try reader.origin(.appleProductionURL)
        appleSandboxURL = try reader.origin(.appleSandboxURL)
        appleRootsFile = try reader.optionalText(.appleRootsFile)
        reportHold = try reader.duration(.reportHold)
        reportUnrecognizedGrace = try reader.duration(.reportUnrecognizedGrace)
        reportDeadlineDays = try reader.wholeNumber(.reportDeadlineDays, in: 1...365)
        reportMonthlyRepeat = try reader.oneOf(.reportMonthlyRepeat, yes: "on", no: "off")
        reportUnknownReminders = try reader.unknownReminders()
        purchasesTokenWindow = try reader.duration(.purchasesTokenWindow, withDays: true)
        purchasesTokenWait = try reader.duration(.purchasesTokenWait, withDays: true)
        exchangeRatesFile = try reader.optionalText(.exchangeRatesFile)
        kafkaSingleBroker = try reader.oneOf(.kafkaSingleBroker, yes: "yes", no: "no")
        kafka = try reader.kafka(clientID: "\(topicPrefix)\(program.name)-\(instance)")
        entries = reader.entries
        try refuseMissing(ingest)
    }

    /// What holds, also where the program could not start for want of a setting.
    package static func entries(
        environment: [String: String],
        program: Program
    ) throws(ConfigurationFault) -> [Entry] {
        // The operator's command needs nothing, so only what is wrong in itself is thrown.
        var entries = try Configuration(environment: environment, program: .tollway).entries
        guard let index = entries.firstIndex(where: { $0.name == Setting.adminListen.fullName }),
            entries[index].source == .default
        else {
            return entries
        }
        switch program {
        case .worker: entries[index].value = adminListen(of: program)
        case .tollway: entries[index].value = "127.0.0.1:9401 to 9406, by worker"
        }
        return entries
    }

    /// The path of what this program cannot do without, or the sentence that says so.
    package func requiredFile(_ setting: Setting) throws(ConfigurationFault) -> String {
        let path: String?
        switch setting {
        case .appsFile: path = appsFile
        case .appleRootsFile: path = appleRootsFile
        case .ingestKeysFile: path = ingestKeysFile
        case .ingestCustomerKeyFile: path = ingestCustomerKeyFile
        default: preconditionFailure("\(setting) is no file")
        }
        guard let path else {
            throw .missing(setting: setting.fullName, because: "\(program.name) needs it")
        }
        return path
    }

    /// What is wrong with the files of a worker that starts all the same.
    package struct Shortfalls: Sendable, Equatable {
        /// One of an app's keys, where its other key signs.
        package var keys: [ConfigurationFault] = []
        /// Sales that need a rate wait for it.
        package var rates: ConfigurationFault?
    }

    /// Reads the files that the program will read at its start, and forgets them: for a check.
    ///
    /// - Throws: why it would not start.
    package func checkFiles() throws(ConfigurationFault) -> Shortfalls {
        var shortfalls = Shortfalls()
        try checkStateFolder()
        // "probe" is librdkafka's word for the system's authorities.
        for (setting, path) in kafka.files.sorted(by: { $0.key < $1.key })
        where path != "probe" {
            guard unsafe access(path, R_OK) != 0 else {
                continue
            }
            throw .unreadableFile(setting: setting, path: path, because: "it cannot be read")
        }
        switch program {
        case .worker(.ingest):
            if let ingestKeysFile {
                _ = try SecretFile.readBearerKeys(path: ingestKeysFile)
            }
            if let ingestCustomerKeyFile {
                _ = try SecretFile.read(
                    path: ingestCustomerKeyFile,
                    setting: Setting.ingestCustomerKeyFile.fullName
                )
            }
            _ = try appleRoots()
        case .worker(.decode), .worker(.notifications), .worker(.report), .worker(.purchases):
            let needsKeys = program == .worker(.report)
            let apps = try AppsFile.load(try requiredFile(.appsFile), needsKeys: needsKeys).apps
            for keys in needsKeys ? apps.map({ $0.privateKeys() }) : [] {
                if keys.good.isEmpty, let fault = keys.faults.first {
                    throw fault
                }
                shortfalls.keys += keys.faults
            }
            if program == .worker(.notifications) || program == .worker(.report) {
                _ = try appleRoots()
            }
            if program == .worker(.purchases), let exchangeRatesFile {
                shortfalls.rates = Self.fault(ofRates: exchangeRatesFile)
            }
        case .worker(.dedupe), .tollway:
            break
        }
        return shortfalls
    }

    private static func fault(ofRates path: String) -> ConfigurationFault? {
        do throws(ConfigurationFault) {
            _ = try ExchangeRatesFile.load(path)
            return nil
        } catch {
            return error
        }
    }

    private func checkStateFolder() throws(ConfigurationFault) {
        guard case .worker(let worker) = program, worker.changelog != nil else {
            return
        }
        let folder = nearestStateFolder
        guard !Self.isWritableFolder(folder) else {
            return
        }
        throw .unreadableFile(
            setting: Setting.stateDirectory.fullName,
            path: stateDirectory,
            because: folder == stateDirectory
                ? "it cannot be written" : "\(ConfigurationFault.shown(folder)) cannot be written"
        )
    }

    /// The state directory, or the nearest folder above it that is there: a worker makes the rest.
    package var nearestStateFolder: String {
        var path = stateDirectory[...]
        while unsafe access(String(path), F_OK) != 0 {
            guard let slash = path.lastIndex(of: "/") else {
                return "."
            }
            path = slash == path.startIndex ? "/" : path[..<slash]
        }
        return String(path)
    }

    package static func isWritableFolder(_ path: String) -> Bool {
        do throws(StoreFault) {
            try StateDirectory.requireWritable(path)
            return true
        } catch {
            return false
        }
    }

    private func refuseMissing(_ ingest: ListenText) throws(ConfigurationFault) {
        switch program {
        case .worker(.decode), .worker(.report), .worker(.purchases):
            _ = try requiredFile(.appsFile)
        case .worker(.notifications):
            _ = try requiredFile(.appsFile)
            _ = try requiredFile(.appleRootsFile)
        case .worker(.ingest):
            // Whoever reaches the door could report tokens in our name.
            guard ingest.isLoopback || ingestKeysFile != nil else {
                throw .refused(
                    setting: Setting.ingestListen.fullName,
                    because: "\(ingest.text) can be reached from outside and "
                        + "\(Setting.ingestKeysFile.fullName) is not set"
                )
            }
        case .worker(.dedupe), .tollway:
            break
        }
    }

    private static func adminListen(of program: Program) -> String {
        switch program {
        case .worker(let worker): "127.0.0.1:\(worker.adminPort)"
        case .tollway: "127.0.0.1:0"
        }
    }

    private static func refuseUnknownNames(
        _ environment: [String: String]
    ) throws(ConfigurationFault) {
        let known = Setting.allCases.map(\.fullName)
        let unknown = environment.keys
            .filter { $0.hasPrefix(Setting.prefix) && !$0.hasPrefix(Setting.kafkaPrefix) }
            .filter { !known.contains($0) }
            .min()
        guard let unknown else {
            return
        }
        let nearest = Spelling.nearest(
            to: unknown,
            among: known + [Setting.kafkaBootstrapServers]
        )
        throw .unknownName(unknown, nearest: nearest)
    }
}
