internal import StageRuntime

/// What the arguments ask for.
enum Request {
    case version
    /// The text to print.
    case help(String)
    case invocation(Invocation)
}

/// Makes a request of the arguments.
///
/// `-o` may stand anywhere, `--` ends the options.
struct ArgumentReader {
    private let verbs: [Verb]
    private var rest: ArraySlice<String>
    private var optionsEnded = false
    private var output: OutputFormat = .table
    /// `-o csv` was given: whether the verb knows it shows later.
    private var asksForCSV = false
    private var asksForHelp = false
    private var asksForVersion = false

    static func read(_ arguments: [String], verbs: [Verb]) throws(CommandFailure) -> Request {
        var reader = ArgumentReader(verbs: verbs, arguments: arguments)
        return try reader.request()
    }

    /// Whether errors are wanted as JSON, known even where the rest cannot be understood.
    static func wantsJSON(_ arguments: [String]) -> Bool {
        let options = arguments.prefix { $0 != "--" }
        let pairs = zip(options, options.dropFirst())
        return pairs.contains { ["-o", "--output"].contains($0) && $1 == "json" }
            || options.contains { ["-ojson", "-o=json", "--output=json"].contains($0) }
    }

    private init(verbs: [Verb], arguments: [String]) {
        self.verbs = verbs
        rest = arguments[...]
    }

    private mutating func request() throws(CommandFailure) -> Request {
        var words: [String] = []
        while let word = try nextOperand(options: []) {
            words.append(word)
            if words == ["help"] {
                return .help(try help(about: Array(rest.prefix { !$0.hasPrefix("-") })))
            }
            if let verb = verbs.first(where: { $0.words == words }) {
                return try request(verb)
            }
            guard verbs.contains(where: { $0.words.starts(with: words) }) else {
                throw unknownVerb(words)
            }
        }
        if asksForHelp {
            return .help(try help(about: words))
        }
        if asksForVersion {
            return .version
        }
        guard !words.isEmpty else {
            throw .usage("missing_verb", "say what to do; see tollway --help")
        }
        throw .usage(
            "missing_verb",
            "tollway \(words[0]) does one of \(subverbs(of: words).joined(separator: ", ")); "
                + "see tollway \(words[0]) --help"
        )
    }

    private mutating func request(_ verb: Verb) throws(CommandFailure) -> Request {
        if verb.passesArgumentsOn, !asksForHelp, !["--help", "-h"].contains(rest.first) {
            let arguments = rest.first == "--" ? rest.dropFirst() : rest
            return .invocation(
                Invocation(verb: verb, output: output, operands: Array(arguments), values: [:])
            )
        }
        var operands: [String] = []
        var values: [String: [String]] = [:]
        while let operand = try nextOperand(options: verb.options, verb: verb, values: &values) {
            operands.append(operand)
        }
        if asksForHelp {
            return .help(HelpText.verb(verb))
        }
        guard verb.writesCSV || !asksForCSV else {
            throw unknownFormat("csv", of: verb)
        }
        guard operands.count <= verb.operandCountMax else {
            throw .usage(
                "too_many_operands",
                "\"\(operands[verb.operandCountMax])\" is one operand too many; "
                    + "see tollway \(verb.name) --help"
            )
        }
        return .invocation(
            Invocation(verb: verb, output: output, operands: operands, values: values)
        )
    }

    private mutating func nextOperand(options: [Verb.Option]) throws(CommandFailure) -> String? {
        var none: [String: [String]] = [:]
        return try nextOperand(options: options, verb: nil, values: &none)
    }

    /// Takes options until an operand comes; nil at the end.
    private mutating func nextOperand(
        options: [Verb.Option],
        verb: Verb?,
        values: inout [String: [String]]
    ) throws(CommandFailure) -> String? {
        while let argument = rest.popFirst() {
            guard !optionsEnded, argument.hasPrefix("-"), argument != "-" else {
                return argument
            }
            switch argument {
            case "--": optionsEnded = true
            case "--help", "-h": asksForHelp = true
            case "--version" where verb == nil: asksForVersion = true
            default: try takeOption(argument, options, verb, &values)
            }
        }
        return nil
    }

    private mutating func takeOption(
        _ argument: String,
        _ options: [Verb.Option],
        _ verb: Verb?,
        _ values: inout [String: [String]]
    ) throws(CommandFailure) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let name = String(parts[0])
        let attached = parts.count == 2 ? String(parts[1]) : nil
        if name == "-o" || name == "--output" {
            output = try format(try value(of: name, attached: attached), of: verb)
            return
        }
        if argument.hasPrefix("-o"), !argument.hasPrefix("--") {
            output = try format(String(argument.dropFirst(2)), of: verb)
            return
        }
        guard let option = options.first(where: { $0.name == name }) else {
            throw unknownOption(name, options, verb)
        }
        guard values[name] == nil || option.isRepeatable else {
            throw .usage("repeated_option", "\(name) was given twice")
        }
        guard option.value != nil else {
            guard attached == nil else {
                throw .usage("bad_value", "\(name) takes no value")
            }
            values[name] = [""]
            return
        }
        values[name, default: []].append(try value(of: name, attached: attached))
    }

    private mutating func value(
        of option: String,
        attached: String?
    ) throws(CommandFailure) -> String {
        if let attached {
            return attached
        }
        guard let value = rest.first, !value.hasPrefix("--") else {
            throw .usage("missing_value", "\(option) needs a value")
        }
        rest.removeFirst()
        return value
    }

    private mutating func format(
        _ text: String,
        of verb: Verb?
    ) throws(CommandFailure) -> OutputFormat {
        asksForCSV = text == "csv"
        guard !asksForCSV else {
            return .table
        }
        guard let format = OutputFormat(rawValue: text) else {
            throw unknownFormat(text, of: verb)
        }
        return format
    }

    /// `verb` is nil where it stands behind the option: then it is not known yet.
    private func unknownFormat(_ text: String, of verb: Verb?) -> CommandFailure {
        let table = verb?.writesCSV == true ? "csv" : "table"
        return .usage("bad_value", "-o is \"\(text)\": it must be \(table), json or ndjson")
    }

    // MARK: - What was probably meant

    private func help(about words: [String]) throws(CommandFailure) -> String {
        guard !words.isEmpty else {
            return HelpText.top(verbs)
        }
        if let verb = verbs.first(where: { $0.words == words }) {
            return HelpText.verb(verb)
        }
        guard words.count == 1, verbs.contains(where: { $0.words.starts(with: words) }) else {
            throw unknownVerb(words)
        }
        return HelpText.group(words[0], verbs)
    }

    private func subverbs(of words: [String]) -> [String] {
        verbs.filter { $0.words.starts(with: words) && $0.words.count > words.count }
            .map { $0.words[words.count] }
    }

    private func unknownVerb(_ words: [String]) -> CommandFailure {
        let parent = Array(words.dropLast())
        let known = Set(
            verbs.filter { $0.words.starts(with: parent) && $0.words.count > parent.count }
                .map { $0.words[parent.count] }
        )
        let nearest = Spelling.nearest(to: words.last ?? "", among: known.sorted())
        let place = (["tollway"] + parent).joined(separator: " ")
        return .usage(
            "unknown_verb",
            "\(place) knows no \"\(words.last ?? "")\""
                + (nearest.map { "; did you mean \($0)?" } ?? "; see \(place) --help")
        )
    }

    private func unknownOption(
        _ name: String,
        _ options: [Verb.Option],
        _ verb: Verb?
    ) -> CommandFailure {
        let known = options.map(\.name) + ["--help", "--output", "--version"]
        let nearest = Spelling.nearest(to: name, among: known)
        let place = verb.map { "tollway \($0.name)" } ?? "tollway"
        return .usage(
            "unknown_option",
            "\(place) knows no option \(name)"
                + (nearest.map { "; did you mean \($0)?" } ?? "; see \(place) --help")
        )
    }
}
