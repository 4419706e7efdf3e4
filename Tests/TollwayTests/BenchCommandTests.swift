import Foundation
import Testing

@Suite struct `tollway bench` {
    /// A folder with this build's command, and beside it whatever stands for tollway-bench.
    private func run(_ script: String?, _ arguments: [String]) throws -> TollwayProcess {
        let folder = try TemporaryFolder()
        let command = folder.url.appendingPathComponent("tollway")
        try FileManager.default.copyItem(
            at: try TollwayProcess.folder.appendingPathComponent("tollway"),
            to: command
        )
        if let script {
            let file = try folder.file("tollway-bench", Data("#!/bin/sh\n\(script)\n".utf8))
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o700],
                ofItemAtPath: file.path
            )
        }
        return try TollwayProcess.run(arguments, command: command)
    }

    @Test(
        arguments: [
            (["bench"], ""), (["bench", "fill", "--help"], "fill|--help|"),
            (["bench", "-o", "json", "--tokens=5", "a b"], "-o|json|--tokens=5|a b|"),
            (["bench", "--", "--help"], "--help|"),
            (["-o", "json", "bench", "--runs", "1"], "--runs|1|-o|json|"),
            (["-o", "json", "bench", "fill", "days=1"], "fill|days=1|"),
        ] as [([String], String)]
    )
    func `runs the program beside it, with every argument as it is`(
        arguments: [String],
        passed: String
    ) throws {
        let run = try run(#"for a in "$@"; do printf '%s|' "$a"; done; exit 9"#, arguments)
        #expect(run.exitCode == 9 && run.output == passed, "\(run.talk)")
    }

    /// The program itself, beside this build.
    @Test func `tells what is wrong as an object where JSON is asked for`() throws {
        let run = try TollwayProcess.run(["bench", "--none", "x", "-o", "json"])
        #expect(run.exitCode == 2 && run.talk.isEmpty)
        #expect(try run.errorCode() == "usage.unknown_option")
    }

    @Test func `says where the program should lie`() throws {
        let run = try run(nil, ["bench", "--tokens", "5"])
        #expect(run.exitCode == 2 && run.output.isEmpty)
        #expect(run.talk.contains("tollway-bench is not there (") && run.talk.contains("build it"))
    }
}
