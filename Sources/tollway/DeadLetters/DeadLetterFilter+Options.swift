internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The filter as it is typed.
extension DeadLetterFilter {
    /// More alternatives than this in one option are a mistake.
    private static let alternativeCountMax = 1_000

    static let options: [Verb.Option] = [
        .value(
            "--stage",
            "NAME",
            "where it failed: decode, dedupe, report, notifications, purchases",
            isRepeatable: true
        ),
        .value("--reason", "TEXT", "why, as groups shows it: unknown_app", isRepeatable: true),
        .value("--code", "TEXT", "stage and reason: decode.unknown_app", isRepeatable: true),
        .value(
            "--fingerprint",
            "HEX",
            "faults of one kind; the first 4 digits are enough",
            isRepeatable: true
        ),
        .value(
            "--app",
            "ID",
            "appAppleId or bundle id; by either with TOLLWAY_APPS_FILE",
            isRepeatable: true
        ),
        .value("--environment", "NAME", "production or sandbox", isRepeatable: true),
        .value("--token", "ID", "externalPurchaseId, or the token's text", isRepeatable: true),
        .value("--since", "TIME", "failed then or later: 2026-03-01T12:00:00Z, 90m, 7d (ago)"),
        .value("--until", "TIME", "failed before then"),
        .value("--partition", "N", "of the dead-letter topic: 3, 0-5", isRepeatable: true),
        .value("--offset", "N", "in its partition: 12, 100-199, 500-", isRepeatable: true),
        .value("--key", "TEXT", "the record's key, whole", isRepeatable: true),
        .value("--attempts", "N", "how often it failed: 1, 2-, 1-3", isRepeatable: true),
        .value("--grep", "TEXT", "in value, key or message, byte for byte", isRepeatable: true),
    ]

    /// The filter, with the names that the apps file has for an app.
    ///
    /// - Throws: exit 2 for a value that can match nothing, or an apps file that cannot be read.
    init(
        _ invocation: Invocation,
        _ configuration: Configuration,
        now: Timestamp
    ) throws(CommandFailure) {
        try self.init(invocation, now: now)
        if !apps.isEmpty {
            nameApps(by: try AppName.file(configuration))
        }
    }

    /// - Throws: exit 2 for a value that can match nothing.
    init(_ invocation: Invocation, now: Timestamp) throws(CommandFailure) {
        for option in Self.options where invocation.has(option.name) {
            let values = invocation.values(option.name)
            guard values.count <= Self.alternativeCountMax else {
                throw .usage("too_many", "\(option.name) was given \(values.count) times")
            }
            for value in values {
                try take(option.name, value, now: now)
            }
        }
        if let since, let until, since >= until {
            throw .usage("bad_value", "--since is not before --until: nothing could match")
        }
    }

    private mutating func take(
        _ option: String,
        _ value: String,
        now: Timestamp
    ) throws(CommandFailure) {
        guard !value.isEmpty else {
            throw .usage("bad_value", "\(option) is empty")
        }
        var shown = value
        switch option {
        case "--stage": try takeStage(value)
        case "--reason": reasons.append(Array(value.utf8))
        case "--code": codes.append(Array(value.utf8))
        case "--fingerprint": fingerprints.append(try Self.fingerprint(value))
        case "--key": keys.append(Array(value.utf8))
        case "--grep": texts.append(Array(value.utf8))
        case "--app": apps.append(try AppName.read(value, of: option))
        case "--token":
            let id = try TokenOperand.id(value).text
            tokens.append(id)
            // Whoever reads a plan or the audit needs no token for it.
            shown = id
        case "--environment":
            environments.append(try AppleEnvironment.read(value, of: option))
        case "--since", "--until":
            let time = try InstantText.read(value, of: option, now: now).milliseconds
            shown = WallClock.rfc3339(milliseconds: time)
            if option == "--since" { since = time } else { until = time }
        case "--partition": partitions += try PositionSet.ranges(option, value)
        case "--offset": offsets += try PositionSet.ranges(option, value)
        case "--attempts": attempts += try PositionSet.ranges(option, value)
        default: preconditionFailure("\(option) is an option of every filter")
        }
        words += [option, shown.contains(" ") ? "\"\(shown)\"" : shown]
    }

    private mutating func takeStage(_ name: String) throws(CommandFailure) {
        let stage = try Worker.read(name, of: "--stage", among: DeadLetters.stages)
        // The first one narrows; a second one adds.
        stages = (words.contains("--stage") ? stages : []) + [stage]
    }

    private static func fingerprint(_ text: String) throws(CommandFailure) -> [UInt8] {
        let bytes = Array(text.lowercased().utf8)
        let isHexadecimal = bytes.allSatisfy {
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
        }
        guard isHexadecimal, (4...16).contains(bytes.count) else {
            throw .usage(
                "bad_value",
                "--fingerprint is \"\(text)\": it must be 4 to 16 hexadecimal digits"
            )
        }
        return bytes
    }
}
