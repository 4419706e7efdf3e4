/// One thing the command can do: its words, what it takes, and the code that does it.
struct Verb: Sendable {
    /// An option.
    ///
    /// All have long names; `-o` and `-h` belong to every verb.
    struct Option: Sendable {
        /// With its dashes, such as `--port`.
        var name: String
        /// What its value is called in the help, such as `N` or `FILE`; nil for a switch.
        var value: String?
        var summary: String
        var isRepeatable = false

        /// A switch.
        static func flag(_ name: String, _ summary: String) -> Option {
            Option(name: name, value: nil, summary: summary)
        }

        static func value(
            _ name: String,
            _ value: String,
            _ summary: String,
            isRepeatable: Bool = false
        ) -> Option {
            Option(name: name, value: value, summary: summary, isRepeatable: isRepeatable)
        }
    }

    /// One or two: `["demo"]`, `["token", "decode"]`.
    var words: [String]
    /// One line.
    var summary: String
    /// What follows the words, such as `[TOKEN | -]`; empty where it takes no operands.
    var operands = ""
    var operandCountMax = 0
    var options: [Option] = []
    /// Paragraphs for `--help`, lines of at most 80 characters.
    var details = ""
    /// Its form for a person is CSV: `-o csv` is another word for `table` then.
    var writesCSV = false
    /// What follows its words is for another program: no option of it is read here, but for a help
    /// that is asked for first.
    var passesArgumentsOn = false
    var run: @Sendable (Invocation) throws(CommandFailure) -> ExitCode

    var name: String { words.joined(separator: " ") }
}
