/// What `--help` prints, made of the verbs table, so that it cannot go stale.
enum HelpText {
    static func top(_ verbs: [Verb]) -> String {
        """
        tollway: reports every external purchase token to Apple, once, in time, with proof.

        Usage: tollway VERB [OPTIONS] [OPERANDS]

        \(table(verbs.map { ($0.name, $0.summary) }))

        Everywhere:
        \(table(common() + [("--version", "print the version")]))

        Data goes to standard output, talk to standard error. Exit codes: 0 ok, 1 failed,
        2 usage, 3 nothing matched, 4 partly done, 5 refused by a safety rule, 6 no Kafka,
        7 no Apple, 75 try again, 130 interrupted cleanly.
        See tollway VERB --help for each verb.

        """
    }

    /// For a first word that has several verbs below it.
    static func group(_ word: String, _ verbs: [Verb]) -> String {
        let members = verbs.filter { $0.words[0] == word }
        return """
            Usage: tollway \(word) VERB [OPTIONS] [OPERANDS]

            \(table(members.map { ($0.name, $0.summary) }))

            See tollway \(word) VERB --help for each verb.

            """
    }

    static func verb(_ verb: Verb) -> String {
        let usage = ["tollway", verb.name, "[OPTIONS]", verb.operands]
            .filter { !$0.isEmpty }
            .joined(separator: " ")
        let options = verb.options.map { option in
            (
                ([option.name] + (option.value.map { [$0] } ?? [])).joined(separator: " "),
                option.summary
            )
        }
        let details = verb.details.isEmpty ? "" : "\n\(verb.details)\n"
        return """
            tollway \(verb.name): \(verb.summary)

            Usage: \(usage)
            \(details)
            Options:
            \(table(options + common(verb.writesCSV)))

            """
    }

    private static func common(_ writesCSV: Bool = false) -> [(String, String)] {
        [
            (
                "-o \(writesCSV ? "csv" : "table")|json|ndjson",
                "how data is written; may stand anywhere"
            ),
            ("-h, --help", "print this"),
        ]
    }

    /// Two columns, the first as wide as its widest entry.
    static func table(_ rows: [(String, String)], indent: String = "  ") -> String {
        let width = rows.map(\.0.count).max() ?? 0
        return rows.map { row in
            indent + row.0 + String(repeating: " ", count: width - row.0.count + 2) + row.1
        }
        .joined(separator: "\n")
    }
}
