internal import StageRuntime
internal import TokenDomain

/// How data is written to standard output.
enum OutputFormat: String, CaseIterable, Sendable {
    /// For a person.
    case table
    /// One document.
    case json
    /// One document a line.
    case ndjson
}

/// A verb as it was called: options checked against the verb's list, operands counted.
struct Invocation: Sendable {
    var verb: Verb
    var output: OutputFormat
    /// What is no option; `-` is one of them.
    var operands: [String]
    /// Values by option name; a switch that was given has one empty value.
    var values: [String: [String]]

    func has(_ option: String) -> Bool { values[option] != nil }

    func value(_ option: String) -> String? { values[option]?.last }

    func values(_ option: String) -> [String] { values[option] ?? [] }

    /// - Throws: exit 2 where the value is no whole number of the range.
    func integer(
        _ option: String,
        default defaultValue: Int,
        in range: ClosedRange<Int>
    ) throws(CommandFailure) -> Int {
        guard let text = value(option) else {
            return defaultValue
        }
        let digits = text.hasPrefix("-") ? text.dropFirst() : text[...]
        let isPlain = !digits.isEmpty && digits.utf8.allSatisfy { (0x30...0x39).contains($0) }
        guard isPlain, let number = Int(text), range.contains(number) else {
            throw .usage(
                "bad_value",
                "\(option) is \"\(text)\": it must be a whole number from \(range.lowerBound) "
                    + "to \(range.upperBound)"
            )
        }
        return number
    }

    /// - Throws: exit 2 where the value is no time such as `30s`.
    func duration(
        _ option: String,
        default defaultValue: Milliseconds
    ) throws(CommandFailure) -> Milliseconds {
        try durations(option).last ?? defaultValue
    }

    /// Of an option that may stand several times.
    ///
    /// - Throws: exit 2 where a value is no time such as `30s`.
    func durations(_ option: String) throws(CommandFailure) -> [Milliseconds] {
        var durations: [Milliseconds] = []
        for text in values(option) {
            guard let duration = DurationText.read(text) else {
                throw .usage(
                    "bad_value",
                    "\(option) is \"\(text)\": it must be \(DurationText.expected)"
                )
            }
            durations.append(duration)
        }
        return durations
    }

    /// - Throws: exit 2 where the value is no point in time.
    func instant(_ option: String, now: Timestamp) throws(CommandFailure) -> Timestamp? {
        guard let text = value(option) else {
            return nil
        }
        return try InstantText.read(text, of: option, now: now)
    }

    /// What `--environment` names; nil where it was not given.
    ///
    /// - Throws: exit 2 for a text that names none.
    func environment() throws(CommandFailure) -> AppleEnvironment? {
        guard let text = value("--environment") else {
            return nil
        }
        return try AppleEnvironment.read(text, of: "--environment")
    }

    /// The only operand.
    ///
    /// - Throws: exit 2 where it is missing.
    func onlyOperand(named name: String) throws(CommandFailure) -> String {
        guard let operand = operands.first else {
            throw .usage("missing_operand", "\(name) is missing; see tollway \(verb.name) --help")
        }
        return operand
    }
}
