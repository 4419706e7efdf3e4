internal import Foundation
internal import Telemetry

/// What the page may ask, as the arguments of a command: nothing else is run.
struct ConsoleQuestion: Equatable {
    var arguments: [String]
    /// How long its answer may take.
    var milliseconds: Int64 = ConsoleJobs.readMilliseconds
    /// Whether one of its verb runs at a time.
    var isAlone = false

    /// Values of one option, and the length of one.
    private static let valueCountMax = 20
    private static let valueCharacterCountMax = 8_192
    private static let listCountMax = 500
    private static let listCountDefault = 50
    private static let auditCountMax = 1_000

    /// What a question may be, and the verb that answers it.
    static let verbs: [(name: String, words: [String])] = [
        ("groups", ["dlq", "groups"]), ("dead-letters", ["dlq", "ls"]),
        ("dead-letter", ["dlq", "show"]),
        ("token", ["token", "trace"]), ("doctor", ["doctor"]),
        ("purchase", ["purchase", "trace"]), ("account", ["account"]), ("audit", ["audit", "ls"]),
    ]

    /// Reads `{"ask":"dead-letters","filter":{…},…}`.
    ///
    /// - Throws: one sentence where it is none.
    init(_ body: [String: Any]) throws(ConsoleFault) {
        let asked = body["ask"] as? String
        guard let (name, words) = Self.verbs.first(where: { $0.name == asked }) else {
            throw ConsoleFault("there is no such question")
        }
        arguments = words + ["-o", "json"]
        switch name {
        case "groups", "dead-letters":
            arguments += try Self.filter(body["filter"])
            arguments += body["all"] as? Bool == true ? ["--all"] : []
            if name == "dead-letters" {
                let count = body["limit"] as? Int ?? Self.listCountDefault
                arguments += [
                    "--limit=\(min(max(count, 1), Self.listCountMax))", "--newest", "--brief",
                ]
            }
        case "dead-letter":
            arguments += body["reveal"] as? Bool == true ? ["--reveal"] : []
            arguments += try ["--", Self.text(body["id"])]
        case "token", "purchase":
            if let customer = body["customer"] {
                arguments.append("--customer=\(try Self.text(customer))")
            }
            arguments += try ["--", Self.text(body["id"])]
        case "doctor":
            arguments += ["--no-apple"]
        case "audit":
            // A replay has one record for each of its transactions.
            arguments += ["--limit=\(Self.auditCountMax)"]
        case "account":
            if let month = body["month"] {
                arguments.append("--month=\(try Self.text(month))")
            }
            // It reads every token topic, and its memory grows with them (SIZING.md).
            isAlone = true
            milliseconds = ConsoleActs.planMilliseconds
        default:
            break
        }
    }

    /// The filter of dead letters, as options.
    static func filter(_ value: Any?) throws(ConsoleFault) -> [String] {
        guard let value else {
            return []
        }
        guard let members = value as? [String: Any] else {
            throw ConsoleFault("a filter is an object of options")
        }
        var arguments: [String] = []
        for (name, value) in members.sorted(by: { $0.key < $1.key }) {
            guard DeadLetterFilter.options.contains(where: { $0.name == "--\(name)" }) else {
                throw ConsoleFault("dead letters have no filter \(name)")
            }
            let values = value as? [Any] ?? [value]
            guard values.count <= valueCountMax else {
                throw ConsoleFault("a filter has at most \(valueCountMax) values")
            }
            for value in values {
                arguments.append("--\(name)=\(try text(value))")
            }
        }
        return arguments
    }

    static func text(_ value: Any?) throws(ConsoleFault) -> String {
        guard let text = value as? String, !text.isEmpty, text.count <= valueCharacterCountMax,
            !text.unicodeScalars.contains(where: { $0.value == 0 })
        else {
            throw ConsoleFault("a text is missing, or too long")
        }
        return text
    }

    static func number(_ value: Any?, in range: ClosedRange<Int>) throws(ConsoleFault) -> Int? {
        guard let value, !(value is NSNull) else {
            return nil
        }
        guard let number = value as? Int, range.contains(number) else {
            throw ConsoleFault("a number must be from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}

/// What is wrong with a request; one sentence for the person at the page.
struct ConsoleFault: Error, Equatable {
    var sentence: String
    var status: Int

    init(_ sentence: String, status: Int = 400) {
        self.sentence = PlainText.printable(sentence, characterCountMax: 400)
        self.status = status
    }
}
