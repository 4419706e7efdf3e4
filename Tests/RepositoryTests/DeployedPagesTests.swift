import Foundation
import Testing
import TokenDomain

@Suite struct `The pages of Deploy` {
    @Test(arguments: Worker.allCases.filter { $0.changelog != nil })
    func `size the state of each worker that has one`(worker: Worker) throws {
        let rows = try SourceTree.text(of: "Deploy/SIZING.md").split(separator: "\n")
        #expect(rows.contains { $0.hasPrefix("| state of \(worker.rawValue)") })
    }

    /// The id lies inside the token's base64 in a dead letter of decode, and in other names.
    @Test func `find dead letters by token, not by bytes`() throws {
        for page in ["RUNBOOK.md", "PURCHASES.md", "README.md"] {
            #expect(!(try SourceTree.text(of: "Deploy/\(page)")).contains("ls --grep"), "\(page)")
        }
    }

    /// `tollway doctor` asks each broker how long it keeps the positions of an idle group.
    @Test func `give the operator the right to see the settings of brokers`() throws {
        let lines = try SourceTree.text(of: "Deploy/acls.sh").split(separator: "\n")
        #expect(lines.contains("    add operator --operation DescribeConfigs --cluster"))
    }

    /// Asked by the operator's command alone: no worker ends by them.
    private static let filesOfTheCommand = ["HangingTransaction.swift", "WireConnection.swift"]

    /// By the longest part that never changes, or its beginning: a reader of the log looks for it.
    @Test func `name every sentence of a worker that asks for a restart`() throws {
        let runbook = try SourceTree.text(of: "Deploy/RUNBOOK.md")
        let sentence =
            /(?:\.unusable\(\s*message:|exitCode: 75,\s*sentence:)\s*"((?:[^"\\]|\\.)*)"/
        let value = /\\\((?:[^()]|\([^()]*\))*\)/
        var count = 0
        for file in try SourceTree.files(["Sources/Kafka", "Sources/StageRuntime"])
        where !Self.filesOfTheCommand.contains(file.name) {
            for match in file.text.matches(of: sentence) {
                let parts = match.1.split(separator: value)
                let longest = parts.max { $0.count < $1.count } ?? ""
                let words = longest.split(separator: " ").prefix(4).joined(separator: " ")
                    .trimmingCharacters(in: .punctuationCharacters)
                #expect(runbook.contains(words), "\(file.path): \(match.1)")
                count += 1
            }
        }
        #expect(count > 12)
    }

    /// A correction has no name of its own: sent again it undoes what came between.
    @Test func `promise no platform that a correction may be sent again`() throws {
        for page in ["Protocols/openapi.yaml", "Deploy/RUNBOOK.md"] {
            let text = try SourceTree.text(of: page)
            for part in text.matches(of: /[Rr]epeats are settled.{0,120}/.dotMatchesNewlines()) {
                #expect(part.output.contains("`retract`"), "\(page): \(part.output)")
            }
            #expect(!text.contains("The same event sent twice is settled once"), "\(page)")
        }
    }
}
