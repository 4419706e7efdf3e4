import Foundation
import Testing

/// The project's files, as they lie beside this test.
enum SourceTree {
    struct File: Sendable, CustomTestStringConvertible {
        /// From the top of the project.
        var path: String
        var text: String

        var name: String { path.split(separator: "/").last.map(String.init) ?? path }
        var lineCount: Int {
            text.split(separator: "\n", omittingEmptySubsequences: false).count - 1
        }
        var testDescription: String { path }
    }

    static let root = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    /// Names in a folder, without those that begin with a dot.
    static func names(in folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(
            atPath: root.appendingPathComponent(folder).path
        )
        .filter { !$0.hasPrefix(".") }
        .sorted()
    }

    static func text(of path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// Every text file below some folders; what is not UTF-8 is data.
    static func files(_ folders: [String], withEnding ending: String = "") throws -> [File] {
        var files: [File] = []
        for folder in folders {
            let base = root.appendingPathComponent(folder).path
            let paths = FileManager.default.enumerator(atPath: base)?.compactMap { $0 as? String }
            for path in try #require(paths, "\(folder) is there").sorted()
            where path.hasSuffix(ending) {
                let data = FileManager.default.contents(atPath: "\(base)/\(path)")
                guard let data, let text = String(data: data, encoding: .utf8) else {
                    continue
                }
                files.append(File(path: "\(folder)/\(path)", text: text))
            }
        }
        return files
    }
}
