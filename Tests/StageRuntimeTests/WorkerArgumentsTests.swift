import Testing
import TokenDomain

@testable import StageRuntime

@Suite struct `What a worker answers to its command line` {
    @Test func `nothing where nothing is given: it runs`() {
        #expect(WorkerArguments([], of: .dedupe) == nil)
    }

    @Test(arguments: ["--help", "-h"])
    func `tells where its settings are`(argument: String) throws {
        let answer = try #require(WorkerArguments([argument], of: .dedupe))
        #expect(answer.exitCode == 0)
        #expect(answer.text.hasPrefix("Usage: tollway-dedupe\n"))
        #expect(answer.text.contains("\"tollway config print\""))
    }

    @Test func `tells its version`() throws {
        let answer = try #require(WorkerArguments(["--version"], of: .ingest))
        #expect(answer.exitCode == 0)
        #expect(answer.text.hasPrefix("tollway-ingest 0."))
    }

    /// Also what it would answer alone: a worker that started all the same would be taken for one that
    /// heeds what it was given.
    @Test(arguments: [["--instance", "a"], ["start"], [""], ["--help", "x"], ["x", "--version"]])
    func `refuses anything else, and names it`(arguments: [String]) throws {
        let answer = try #require(WorkerArguments(arguments, of: .report))
        #expect(answer.exitCode == 2)
        #expect(
            answer.text.hasPrefix(
                "tollway-report: it takes no arguments, and was given \(arguments[0]); "
            )
        )
    }
}
