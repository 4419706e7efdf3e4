import Foundation
import Testing
import TokenDomain

@Suite struct `The codes of faults` {
    /// Codes in answers, logs and dead letters; the prefix names the part of the program.
    private static var literal: Regex<(Substring, Substring)> {
        /"((?:decode|dedupe|report|notifications|purchases|jws|ingest|http|admin|config)\.[a-z0-9_]+)"/
    }

    /// Codes of the client side of HTTP: they name a failed request to Apple in a log line only.
    private static let requestFolder = "Sources/HTTPClient"

    private static func written() throws -> Set<String> {
        let files = try SourceTree.files(["Sources"]).filter { file in
            (file.name.hasSuffix(".swift") || file.name.hasSuffix(".c"))
                && !file.path.hasPrefix("Sources/AppleSimulator")
        }
        return codes(in: files.filter { !$0.path.hasPrefix(requestFolder) })
            .subtracting(codes(in: files.filter { $0.path.hasPrefix(requestFolder) }))
    }

    private static func codes(in files: [SourceTree.File]) -> Set<String> {
        Set(files.flatMap { $0.text.matches(of: literal).map { String($0.1) } })
    }

    @Test func `of dead letters are declared`() throws {
        let declared = Set(Worker.allCases.flatMap(\.deadLetterCodes))
        let workers = Set(Worker.allCases.map(\.rawValue) + ["jws"]).subtracting(["ingest"])
        let undeclared = try Self.written().filter { code in
            workers.contains(String(code.prefix { $0 != "." })) && !declared.contains(code)
        }
        #expect(undeclared.isEmpty, "Worker.deadLetterCodes lacks \(undeclared.sorted())")
    }

    @Test func `have a row in the runbook, each`() throws {
        let runbook = try SourceTree.text(of: "Deploy/RUNBOOK.md")
        let codes = try Self.written().union(Worker.allCases.flatMap(\.deadLetterCodes))
        let missing = codes.filter { !runbook.contains("`\($0)`") }
        #expect(missing.isEmpty, "RUNBOOK.md has no row for \(missing.sorted())")
    }

    /// Of what is born with its first count Prometheus sees no increase.
    @Test func `are not all: outcomes that an alert counts begin at zero, each`() throws {
        let counted = try SourceTree.text(of: "Deploy/prometheus/alerts.yaml")
            .matches(of: /records_completed_total\{stage="report", outcome=~?"([a-z_|]+)"/)
            .flatMap { $0.1.split(separator: "|") }
        #expect(Set(counted) == ["notice_for_seen", "parked", "unknown_subtype"])
        #expect(Set(Worker.report.countedOutcomes) == Set(counted.map(String.init) + ["forwarded"]))
    }

    @Test(arguments: Worker.allCases)
    func `are declared once`(worker: Worker) {
        let codes = worker.deadLetterCodes
        #expect(codes.count == Set(codes).count)
        #expect(worker.deadLetters == nil ? codes.isEmpty : !codes.isEmpty)
    }
}
