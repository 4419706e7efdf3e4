import Foundation
import Testing

/// What the fuzzer found worth keeping, and what once broke a rule, read once each.
@Suite struct `Every input of the corpora` {
    private static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().appendingPathComponent("Corpora")

    @Test(arguments: FuzzTarget.allCases)
    func `keeps the rules of its target`(target: FuzzTarget) throws {
        let folder = Self.folder.appendingPathComponent(target.rawValue)
        let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
        #expect(!names.isEmpty)
        for name in names {
            let input = try Data(contentsOf: folder.appendingPathComponent(name))
            #expect(target.rule(brokenBy: Array(input)) == nil, "\(target.rawValue)/\(name)")
        }
    }
}
