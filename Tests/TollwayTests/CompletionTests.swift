import Foundation
import Testing

@testable import tollway

@Suite struct `Shell completion` {
    /// What bash offers after these words; the last one is still being typed.
    private func offered(after words: [String]) throws -> [String] {
        let script = try TollwayProcess.run(["completion", "bash"]).output
        let shell = Process()
        shell.executableURL = URL(fileURLWithPath: "/bin/bash")
        let array = words.map { "'\($0)'" }.joined(separator: " ")
        shell.arguments = [
            "--norc", "-c",
            """
            compopt() { echo FILES; }
            \(script)
            COMP_WORDS=(tollway \(array)); COMP_CWORD=\(words.count)
            _tollway
            printf '%s\\n' "${COMPREPLY[@]}"
            """,
        ]
        let output = Pipe()
        shell.standardOutput = output
        try shell.run()
        let bytes = try output.fileHandleForReading.readToEnd() ?? Data()
        shell.waitUntilExit()
        #expect(shell.terminationStatus == 0)
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    @Test func `offers the verbs of a group`() throws {
        #expect(try offered(after: ["dl"]) == ["dlq"])
        let verbs = TollwayCommand.verbs.filter { $0.words[0] == "dlq" }.map { $0.words[1] }
        #expect(try offered(after: ["dlq", ""]) == verbs)
        #expect(try offered(after: ["dlq", "rep"]) == ["replay"])
    }

    @Test func `offers a verb's own options, also after others`() throws {
        #expect(try offered(after: ["dlq", "replay", "--can"]) == ["--canary"])
        #expect(try offered(after: ["-o", "json", "config", "check", "--wor"]) == ["--worker"])
        #expect(try offered(after: ["lag", "-o", "nd"]) == ["ndjson"])
    }

    @Test func `leaves files to the shell`() throws {
        #expect(try offered(after: ["links", "check", "Info"]) == ["FILES"])
    }

    @Test(arguments: ["zsh", "fish"])
    func `knows every verb and option in`(shell: String) throws {
        let script = try TollwayProcess.run(["completion", shell]).output
        for verb in TollwayCommand.verbs {
            for word in verb.words + verb.options.map({ String($0.name.dropFirst(2)) }) {
                #expect(script.contains(word), "\(verb.name): \(word)")
            }
        }
    }

    @Test func `refuses a shell that it does not know`() throws {
        let run = try TollwayProcess.run(["completion", "tcsh"])
        #expect(run.exitCode == 2)
        #expect(run.talk.contains("bash, zsh or fish"))
    }
}
