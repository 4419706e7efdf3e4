internal import Kafka
internal import TokenDomain

/// Reads settings one by one, and keeps the list of what holds and where it came from.
struct SettingReader {
    private let environment: [String: String]
    private(set) var entries: [Configuration.Entry] = []

    init(environment: [String: String]) {
        self.environment = environment
    }

    mutating func optionalText(
        _ setting: Setting,
        default defaultText: String? = nil
    ) throws(ConfigurationFault) -> String? {
        let given = environment[setting.fullName]
        let value = given ?? defaultText ?? setting.defaultText
        entries.append(
            .init(
                name: setting.fullName,
                value: value,
                source: given == nil ? .default : .environment
            )
        )
        guard given.map(\.isEmpty) != true else {
            throw .invalid(
                setting: setting.fullName,
                value: "",
                expected: "a value; leave it out to have its default"
            )
        }
        return value
    }

    mutating func text(
        _ setting: Setting,
        default defaultText: String? = nil
    ) throws(ConfigurationFault) -> String {
        guard let value = try optionalText(setting, default: defaultText) else {
            preconditionFailure("\(setting) has no default")
        }
        return value
    }

    /// A part of Kafka's names: topics, groups and ids allow no other characters.
    mutating func name(
        _ setting: Setting,
        default defaultText: String? = nil,
        characterCountMax: Int
    ) throws(ConfigurationFault) -> String {
        let value = try text(setting, default: defaultText)
        let isFit = value.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "-"):
                true
            default: false
            }
        }
        guard isFit, !value.isEmpty, value.utf8.count <= characterCountMax else {
            throw invalid(
                setting,
                value,
                "letters, digits, dots, dashes and underscores, at most \(characterCountMax)"
            )
        }
        return value
    }

    mutating func delivery() throws(ConfigurationFault) -> KafkaDelivery {
        let value = try text(.delivery)
        guard let delivery = KafkaDelivery(rawValue: value) else {
            throw invalid(.delivery, value, "exactly-once or at-least-once")
        }
        return delivery
    }

    mutating func listen(
        _ setting: Setting,
        default defaultText: String? = nil
    ) throws(ConfigurationFault) -> ListenText {
        let value = try text(setting, default: defaultText)
        guard let listen = ListenText(value) else {
            throw invalid(
                setting,
                value,
                "an address and a port such as 127.0.0.1:8080 or [::]:8080"
            )
        }
        return listen
    }

    mutating func addressRanges(_ setting: Setting) throws(ConfigurationFault) -> AddressRanges? {
        guard let value = try optionalText(setting) else {
            return nil
        }
        guard let ranges = AddressRanges(value) else {
            throw invalid(
                setting,
                value,
                "addresses or ranges such as 17.0.0.0/8, separated by commas, without blanks"
            )
        }
        return ranges
    }

    /// Names by commas, none where it is not set.
    mutating func hostNames(_ setting: Setting) throws(ConfigurationFault) -> [String] {
        guard let value = try optionalText(setting) else {
            return []
        }
        let names = value.lowercased().split(separator: ",", omittingEmptySubsequences: false)
        let isFit = names.allSatisfy { name in
            (1...253).contains(name.utf8.count)
                && name.utf8.allSatisfy { byte in
                    switch byte {
                    case UInt8(ascii: "a")...UInt8(ascii: "z"),
                        UInt8(ascii: "0")...UInt8(ascii: "9"),
                        UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"):
                        true
                    default: false
                    }
                }
        }
        guard isFit else {
            throw invalid(setting, value, "host names without port, by commas, without blanks")
        }
        return names.map(String.init)
    }

    /// Scheme, host and port of a server; a slash at the end is dropped.
    ///
    /// In plain text only on this machine: whoever stands between could answer in the server's place,
    /// and reads what is signed.
    mutating func origin(_ setting: Setting) throws(ConfigurationFault) -> String {
        let value = try text(setting)
        var origin = value[...]
        if origin.hasSuffix("/") {
            origin = origin.dropLast()
        }
        let scheme = ["https://", "http://"].first { origin.lowercased().hasPrefix($0) }
        let rest = origin.dropFirst(scheme?.count ?? 0)
        let isFit = rest.utf8.allSatisfy { byte in
            (0x21...0x7e).contains(byte) && !"/?#@\\\"<>".utf8.contains(byte)
        }
        guard scheme != nil, !rest.isEmpty, isFit else {
            throw invalid(setting, value, "a URL of scheme, host and port, without a path")
        }
        guard scheme == "https://" || Self.isLoopback(authority: rest) else {
            throw .refused(
                setting: setting.fullName,
                because: "\(ConfigurationFault.shown(value)) is plain text and not on this machine:"
                    + " whoever stands between could answer in Apple's place; write https://"
            )
        }
        return String(origin)
    }

    private static func isLoopback(authority: Substring) -> Bool {
        let authority = authority.lowercased()
        // Either it has a port, or one makes it an address and a port.
        let listen = ListenText(authority) ?? ListenText(authority + ":0")
        return listen?.isLoopback == true
    }

    /// `withDays`: days may be said too.
    mutating func duration(
        _ setting: Setting,
        withDays: Bool = false
    ) throws(ConfigurationFault) -> Milliseconds {
        let value = try text(setting)
        guard let duration = DurationText.read(value, withDays: withDays) else {
            throw invalid(
                setting,
                value,
                withDays ? DurationText.expectedWithDays : DurationText.expected
            )
        }
        return duration
    }

    mutating func wholeNumber(
        _ setting: Setting,
        in range: ClosedRange<Int>
    ) throws(ConfigurationFault) -> Int {
        let value = try text(setting)
        let hasOnlyDigits = value.utf8.allSatisfy { (0x30...0x39).contains($0) }
        guard hasOnlyDigits, let number = Int(value), range.contains(number) else {
            throw invalid(
                setting,
                value,
                "a whole number from \(range.lowerBound) to \(range.upperBound)"
            )
        }
        return number
    }

    /// One of two words.
    mutating func oneOf(
        _ setting: Setting,
        yes: String,
        no: String
    ) throws(ConfigurationFault) -> Bool {
        let value = try text(setting)
        guard value == yes || value == no else {
            throw invalid(setting, value, "\(yes) or \(no)")
        }
        return value == yes
    }

    mutating func unknownReminders() throws(ConfigurationFault) -> UnknownReminders {
        let value = try text(.reportUnknownReminders)
        guard let choice = UnknownReminders(rawValue: value) else {
            throw invalid(.reportUnknownReminders, value, "report or note")
        }
        return choice
    }

    private func invalid(
        _ setting: Setting,
        _ value: String,
        _ expected: String
    ) -> ConfigurationFault {
        .invalid(setting: setting.fullName, value: value, expected: expected)
    }
}

// What is passed through to librdkafka.
extension SettingReader {
    private static let bootstrapServersDefault = "127.0.0.1:9092"
    /// What librdkafka takes as text and nobody should read in a list of processes: by file only.
    private static let secretNames = [
        "sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password",
        "sasl.oauthbearer.client.secret",
    ]

    mutating func kafka(clientID: String) throws(ConfigurationFault) -> KafkaSettings {
        var settings = KafkaSettings(
            bootstrapServers: try bootstrapServers(),
            clientID: clientID
        )
        let names = environment.keys
            .filter { $0.hasPrefix(Setting.kafkaPrefix) && $0 != Setting.kafkaBootstrapServers }
            .filter { $0 != Setting.kafkaSingleBroker.fullName }
        for name in names.sorted() {
            let given = environment[name] ?? ""
            let (key, value) = try kafkaSetting(name, given)
            if name.hasSuffix("_FILE") || key.hasPrefix("ssl.") && key.hasSuffix(".location") {
                settings.files[name] = given
            }
            if key == "client.id" {
                settings.clientID = value
            } else {
                settings.extra[key] = value
            }
        }
        return settings
    }

    private mutating func bootstrapServers() throws(ConfigurationFault) -> String {
        let name = Setting.kafkaBootstrapServers
        let given = environment[name]
        let value = given ?? Self.bootstrapServersDefault
        entries.append(
            .init(name: name, value: value, source: given == nil ? .default : .environment)
        )
        let servers = value.split(separator: ",", omittingEmptySubsequences: false)
        let areFit = servers.allSatisfy { server in
            !server.isEmpty && server.utf8.allSatisfy { (0x21...0x7e).contains($0) }
        }
        guard areFit else {
            throw .invalid(
                setting: name,
                value: value,
                expected: "host:port, several separated by commas, without blanks"
            )
        }
        return value
    }

    /// `TOLLWAY_KAFKA_SASL_USERNAME` is `sasl.username`; a secret's name ends in `_FILE`.
    private mutating func kafkaSetting(
        _ name: String,
        _ value: String
    ) throws(ConfigurationFault) -> (key: String, value: String) {
        let suffix = name.dropFirst(Setting.kafkaPrefix.count)
        let isName = suffix.utf8.allSatisfy { byte in
            (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x5f
        }
        guard isName, !suffix.isEmpty else {
            throw .unknownName(name, nearest: nil)
        }
        let key = suffix.lowercased().split(separator: "_", omittingEmptySubsequences: false)
            .joined(separator: ".")
        if Self.secretNames.contains(key) {
            throw .refused(
                setting: name,
                because: "a secret is read from a file only: set \(name)_FILE to its path"
            )
        }
        guard !KafkaSettings.reserved.contains(key) else {
            throw .refused(
                setting: name,
                because: "\(key) is Tollway's own: a promise rests on it; take it away"
            )
        }
        entries.append(.init(name: name, value: value, source: .environment))
        guard !value.isEmpty else {
            throw .invalid(
                setting: name,
                value: "",
                expected: "a value; leave it out to have the client library's default"
            )
        }
        if key.hasSuffix(".file"), Self.secretNames.contains(String(key.dropLast(5))) {
            let secret = try SecretFile.read(path: value, setting: name, byteCountMin: 1)
            return (String(key.dropLast(5)), String(decoding: secret, as: UTF8.self))
        }
        do throws(KafkaSettings.SettingFault) {
            try KafkaSettings.check(key, value)
        } catch {
            switch error {
            case .unknown:
                throw .unknownName(name, nearest: Self.nearestKafkaName(to: name))
            case .refused(let message):
                throw .refused(setting: name, because: message)
            }
        }
        return (key, value)
    }

    /// The setting of librdkafka that an unknown name comes closest to, as the environment has it.
    static func nearestKafkaName(to name: String) -> String? {
        let passedThrough = KafkaSettings.knownNames()
            // An underscore of the environment is a dot: a name with one of its own cannot be given.
            .filter { !KafkaSettings.reserved.contains($0) && !$0.contains("_") }
            .map { key in
                let suffix = secretNames.contains(key) ? "_FILE" : ""
                return Setting.kafkaPrefix
                    + String(key.map { $0 == "." ? "_" : $0 }).uppercased() + suffix
            }
        let own = [Setting.kafkaBootstrapServers, Setting.kafkaSingleBroker.fullName]
        return Spelling.nearest(to: name, among: passedThrough + own)
    }
}
