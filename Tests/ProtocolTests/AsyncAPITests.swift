import Foundation
import Testing
import TokenDomain

/// The topics in `asyncapi.yaml` are those of `Pipeline.swift`, and its references lead somewhere.
@Suite struct `The description of the topics` {
    private static func text() throws -> String {
        try String(
            contentsOf: `The schemas of Protocols`.protocols.appending(path: "asyncapi.yaml"),
            encoding: .utf8
        )
    }

    /// A worker's own state is nobody else's business.
    private static let inner: Set<Topic> = [.dedupeState, .reportState, .purchasesState]

    @Test func `names every topic that others may read`() throws {
        let addresses = try Self.text().split(separator: "\n").compactMap { line in
            line.hasPrefix("    address: ") ? String(line.dropFirst(14).dropLast()) : nil
        }
        let topics = Topic.all.filter { !Self.inner.contains($0) }.map {
            $0.name(prefix: "{prefix}")
        }
        #expect(addresses.sorted() == topics.sorted())
    }

    @Test func `tells who reads and writes what`() throws {
        let text = try Self.text()
        for worker in Worker.allCases {
            let targets = worker.targets.count + (worker.deadLetters == nil ? 0 : 1)
            #expect(count(of: "  \(worker.rawValue)Reads", in: text) == worker.sources.count)
            #expect(count(of: "  \(worker.rawValue)Follows", in: text) == worker.follows.count)
            #expect(
                count(of: "  \(worker.rawValue)Writes", in: text)
                    + count(of: "  \(worker.rawValue)Buries", in: text) == targets
            )
        }
    }

    @Test func `refers to schemas that are there`() throws {
        let files = try Self.text().split(separator: "\"").filter { $0.hasPrefix("./") }
        #expect(files.count == 20)
        for file in files {
            let path = `The schemas of Protocols`.protocols.appending(path: String(file)).path()
            #expect(FileManager.default.fileExists(atPath: path), "\(file)")
        }
    }

    private func count(of start: String, in text: String) -> Int {
        text.split(separator: "\n").count { $0.hasPrefix(start) }
    }
}
