import Foundation
import Testing

@testable import tollway

@Suite struct `The command line` {
    @Test func `prints its version, as data too`() throws {
        let plain = try TollwayProcess.run(["--version"])
        #expect(plain.exitCode == 0)
        #expect(plain.output.hasPrefix("tollway "))
        #expect(plain.talk.isEmpty)
        let json = try TollwayProcess.run(["--version", "-o", "json"])
        #expect(
            try json.object()["version"] as? String == "\(plain.output.dropFirst(8).dropLast())"
        )
    }

    @Test(arguments: [["--help"], ["-h"], ["help"], ["-o", "json", "--help"]])
    func `explains itself`(arguments: [String]) throws {
        let help = try TollwayProcess.run(arguments)
        #expect(help.exitCode == 0)
        #expect(help.output.contains("Usage: tollway VERB"))
        for verb in TollwayCommand.verbs {
            #expect(help.output.contains("  \(verb.name)  "), "\(verb.name) is missing")
        }
    }

    @Test(arguments: TollwayCommand.verbs.map(\.words))
    func `explains every verb, however the help is asked for`(words: [String]) throws {
        for arguments in [
            words + ["--help"], words + ["-h"], ["--help"] + words, ["help"] + words,
            words + ["--help", "--help"],
        ] {
            let help = try TollwayProcess.run(arguments)
            #expect(help.exitCode == 0, "\(arguments): \(help.talk)")
            #expect(help.output.hasPrefix("tollway \(words.joined(separator: " ")): "))
            #expect(help.output.contains("Usage: tollway \(words.joined(separator: " "))"))
        }
    }

    @Test(arguments: Set(TollwayCommand.verbs.filter { $0.words.count > 1 }.map { $0.words[0] }))
    func `explains every group, and asks which of its verbs is meant`(word: String) throws {
        let help = try TollwayProcess.run([word, "--help"])
        #expect(help.exitCode == 0)
        #expect(help.output.hasPrefix("Usage: tollway \(word) VERB"))
        let bare = try TollwayProcess.run([word])
        #expect(bare.exitCode == 2)
        #expect(bare.talk.contains("tollway \(word) does one of "))
    }

    /// One idea a sentence, in the field's terms.
    @Test func `speaks plainly in its help`() {
        let riddles = [
            "became of", "becomes of", "is told", "was told", "told of", "hears of", "errand",
            "bury",
            "buried", "witness", "a letter", "app and world", "app or world",
        ]
        for verb in TollwayCommand.verbs {
            let help = HelpText.verb(verb)
            for riddle in riddles {
                #expect(!help.contains(riddle), "\(verb.name): \(riddle)")
            }
        }
    }

    @Test(arguments: [
        (0, "0 reports", "0 were"), (1, "1 report", "1 was"), (2, "2 reports", "2 were"),
    ])
    func `counts one in the singular`(count: Int, noun: String, verb: String) {
        #expect(CountText.of(count, "report") == noun)
        #expect(CountText.of(count, "was", "were") == verb)
    }

    @Test func `keeps its help within eighty columns, one screen a verb`() {
        for verb in TollwayCommand.verbs {
            let lines = HelpText.verb(verb).split(separator: "\n", omittingEmptySubsequences: false)
            #expect(lines.count <= 60, "\(verb.name)")
            for line in lines {
                #expect(line.count <= 110, "\(verb.name): \(line)")
            }
        }
    }

    @Test(arguments: [
        ([], "usage.missing_verb"), (["xyzzy"], "usage.unknown_verb"),
        (["tokne"], "usage.unknown_verb"), (["token", "decoed"], "usage.unknown_verb"),
        (["token"], "usage.missing_verb"), (["--verison"], "usage.unknown_option"),
        (["token", "decode", "--ulr"], "usage.unknown_option"),
        (["token", "decode", "a", "b"], "usage.too_many_operands"),
        (["token", "decode", "--url", "--url"], "usage.repeated_option"),
        (["token", "decode", "--url=yes"], "usage.bad_value"),
        (["broker", "--partitions"], "usage.missing_value"),
        (["broker", "--partitions", "0"], "usage.bad_value"),
        (["broker", "--partitions", "12x"], "usage.bad_value"),
        (["broker", "--partitions", "99999999999999999999"], "usage.bad_value"),
        (["broker", "--partitions=1", "--partitions=2"], "usage.repeated_option"),
        (["broker", "--topics", "a:0"], "usage.bad_value"),
        (["broker", "--topics", "a,,b"], "usage.bad_value"),
        (["broker", "--topics", "ä"], "usage.bad_value"),
        (["config", "check", "--worker", "decoed"], "usage.bad_value"),
        (["help", "xyzzy"], "usage.unknown_verb"), (["-x"], "usage.unknown_option"),
    ])
    func `refuses what it does not understand`(arguments: [String], code: String) throws {
        let plain = try TollwayProcess.run(arguments)
        #expect(plain.exitCode == 2)
        #expect(plain.output.isEmpty)
        #expect(plain.talk.hasPrefix("tollway: ") && plain.talk.split(separator: "\n").count == 1)
        for json in [["-o", "json"] + arguments, ["--output=json"] + arguments] {
            let run = try TollwayProcess.run(json)
            #expect(run.exitCode == 2)
            #expect(run.talk.isEmpty)
            #expect(try run.errorCode() == code)
        }
    }

    @Test(arguments: [
        ["-o", "yaml", "token", "decode", "x"], ["token", "decode", "x", "-o"],
        ["token", "decode", "-oyaml", "x"], ["token", "decode", "-o="],
    ])
    func `knows three forms of output`(arguments: [String]) throws {
        #expect(try TollwayProcess.run(arguments).exitCode == 2)
    }

    @Test(arguments: [
        (["ledger", "export", "-o", "xml"], "csv, json or ndjson"),
        (["ledger", "export", "-oxml"], "csv, json or ndjson"),
        (["lag", "-o", "xml"], "table, json or ndjson"),
        (["lag", "-o", "csv"], "table, json or ndjson"),
    ])
    func `names the forms of output that a verb has`(arguments: [String], forms: String) throws {
        let run = try TollwayProcess.run(arguments)
        #expect(run.exitCode == 2)
        #expect(run.talk.contains("it must be \(forms)"), "\(run.talk)")
    }

    @Test(arguments: [
        ("tokne", "did you mean token?"), ("brokr", "did you mean broker?"),
        ("cofnig", "did you mean config?"),
    ])
    func `names the verb that was probably meant`(word: String, hint: String) throws {
        #expect(try TollwayProcess.run([word]).talk.contains(hint))
    }

    /// `tollway … | head -1` in a script: its answer must not be yes because nobody reads on.
    @Test func `ends with its own exit code where nobody reads what it writes`() throws {
        let folder = try TemporaryFolder()
        let sale = try folder.file("sale", Data(#"{"lineItemId":"l"}"#.utf8))
        let process = try Self.runWithoutReader(["purchase", "check", sale.path])
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == 1)
    }

    private static func runWithoutReader(_ arguments: [String]) throws -> Process {
        let output = Pipe()
        let process = try TollwayProcess.make(arguments)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        try output.fileHandleForReading.close()
        try process.run()
        process.waitUntilExit()
        return process
    }

    /// The next file that is opened would be taken for the standard output.
    @Test(arguments: [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
    func `writes nothing into a file of its own where a standard one is closed`(
        closed: String
    ) throws {
        let folder = try TemporaryFolder()
        let sale = try folder.file("sale", Data(#"{"lineItemId":"l"}"#.utf8))
        let command = try TollwayProcess.folder.appendingPathComponent("tollway")
        let run = try TollwayProcess.run(
            ["-c", "exec \"$0\" purchase check \"$1\" \(closed)", command.path, sale.path],
            command: URL(fileURLWithPath: "/bin/sh")
        )
        #expect(run.exitCode == 1)
        #expect(run.talk.isEmpty)
    }

    @Test func `takes what follows two dashes as it is`() throws {
        let run = try TollwayProcess.run(["-o", "json", "token", "decode", "--", "--help"])
        #expect(run.exitCode == 1)
        #expect(try run.errorCode() == "decode.not_json")
        let late = try TollwayProcess.run(["token", "decode", "--", "-o", "json"])
        #expect(late.exitCode == 2)
        #expect(late.output.isEmpty)
    }

    @Test func `survives arguments of every kind`() throws {
        for argument in [
            "", "-", "\u{1b}[2J", "%s%n", "💥", String(repeating: "a", count: 100_000), "--=", "-o=",
        ] {
            let run = try TollwayProcess.run([argument])
            #expect(run.exitCode == 2, "\(argument.prefix(20))")
            #expect(run.talk.utf8.count < 1_000)
            #expect(!run.talk.contains("\u{1b}"))
        }
    }

    @Test func `ends quietly when its reader goes away`() throws {
        let process = try Self.runWithoutReader(["--help"])
        #expect(process.terminationReason == .exit)
        #expect(process.terminationStatus == 0)
    }

    @Test func `says so when its output cannot be written`() throws {
        let folder = try TemporaryFolder()
        let talk = try folder.file("err")
        let process = try TollwayProcess.make(["--help"])
        process.standardOutput = FileHandle(forWritingAtPath: "/dev/full")
        process.standardError = try FileHandle(forWritingTo: talk)
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 1)
        let sentence = String(decoding: try Data(contentsOf: talk), as: UTF8.self)
        #expect(sentence.contains("standard output"))
    }
}
