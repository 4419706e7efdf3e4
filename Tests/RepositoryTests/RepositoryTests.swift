import Foundation
import Testing

@Suite struct `The project` {
    @Test func `has a top level that can be read at a glance`() throws {
        let allowed = ["Deploy", "Package.swift", "Protocols", "README.md", "Sources", "Tests"]
        // What a run leaves behind and .gitignore names.
        let ignored = ["state"]
        let found = try SourceTree.names(in: "").filter { !ignored.contains($0) }
        #expect(found == allowed)
    }

    @Test func `has a README whose list is the tree`() throws {
        let readme = try SourceTree.text(of: "README.md")
        let list = try #require(readme.components(separatedBy: "```").dropFirst().first)
        var listed: [String] = []
        var folder = ""
        for line in list.split(separator: "\n") {
            let name = String(line.trimmingPrefix(while: \.isWhitespace).prefix { $0 != " " })
            let isIndented = line.hasPrefix("  ")
            if !isIndented {
                folder = name
            }
            listed.append(isIndented ? folder + name : name)
            let caption = line.drop { $0 == " " }.dropFirst(name.count)
            #expect(
                name == "Sources/" || caption.contains(where: \.isLetter),
                "\(name) has no caption"
            )
        }
        let folders = ["Package.swift", "Protocols/", "Deploy/", "Tests/", "Sources/"]
        let targets = try SourceTree.names(in: "Sources").map { "Sources/\($0)/" }
        #expect(Set(listed) == Set(folders + targets))
        #expect(listed.count == Set(listed).count)
    }

    @Test func `has every file in which a change begins`() throws {
        let page = try SourceTree.text(of: "Deploy/CHANGING.md")
        let named = page.split(separator: "`").filter { $0.contains("/") && !$0.contains(" ") }
        #expect(named.count > 20)
        for path in named {
            let file = SourceTree.root.appendingPathComponent(String(path)).path
            #expect(FileManager.default.fileExists(atPath: file), "\(path)")
        }
    }

    @Test func `names no file Utils and keeps files short enough to read`() throws {
        for file in try SourceTree.files(["Sources"]) {
            #expect(!file.name.lowercased().contains("util"), "\(file.path)")
            let lineCountMax = file.name.hasSuffix(".c") ? 400 : 450
            #expect(file.lineCount <= lineCountMax, "\(file.path) asks to be cut by topic")
        }
    }

    @Test func `leaves no decision hidden or undone`() throws {
        // Spelt in pieces, so that this file does not find itself.
        let inSources = [
            " try" + "? ", "(try" + "? ", "catch {" + "}", "nonisolated(" + "unsafe)",
            "public " + "func",
        ]
        let inTests = ["Thread." + "sleep(", "u" + "sleep(", "Task." + "sleep("]
        let anywhere = ["TO" + "DO", "FIX" + "ME", "not " + "implemented"]
        for file in try SourceTree.files(["Sources"]) {
            expectNone(of: inSources + anywhere, in: file)
        }
        for file in try SourceTree.files(["Tests"], withEnding: ".swift") {
            expectNone(of: inTests + anywhere, in: file)
        }
        for file in try SourceTree.files(["Deploy", "Protocols"]) {
            expectNone(of: anywhere, in: file)
        }
    }

    @Test func `knows nothing of the machine it was written on`() throws {
        let words = ["/wo" + "rk/", "/tmp/" + "tw", "/ro" + "ot/", "../sha" + "red"]
        for file in try SourceTree.files(["Sources", "Tests", "Deploy", "Protocols"]) {
            expectNone(of: words, in: file)
        }
        for path in ["README.md", "Package.swift"] {
            let file = SourceTree.File(path: path, text: try SourceTree.text(of: path))
            expectNone(of: words, in: file)
        }
    }

    @Test func `lets only one target speak to each of our C`() throws {
        let faces = [
            "CKafka": "Kafka", "CHTTPServer": "HTTPServer", "CHTTPClient": "HTTPClient",
            "CCrypto": "Crypto", "CStore": "StateStore", "CText": "TokenWire",
            "CLocalKafka": "LocalKafka", "CLibrdkafka": "Kafka",
        ]
        for file in try SourceTree.files(["Sources"], withEnding: ".swift") {
            let target = file.path.split(separator: "/")[1]
            for (module, face) in faces where target != face {
                #expect(!file.text.contains("import \(module)\n"), "\(file.path) imports \(module)")
            }
        }
    }

    @Test func `keeps the simulator a second opinion and the workers small`() throws {
        for file in try SourceTree.files(["Sources/AppleSimulator"], withEnding: ".swift") {
            for module in ["TokenDomain", "TokenWire", "AppStoreAPI"] {
                #expect(!file.text.contains("import \(module)\n"), "\(file.path) imports \(module)")
            }
        }
        let operators = ["Sources/tollway/", "Sources/bench/", "Sources/AppleSimulator/"]
        for file in try SourceTree.files(["Sources"], withEnding: ".swift")
        where !operators.contains(where: file.path.hasPrefix) {
            #expect(!file.text.contains("import Foundation\n"), "\(file.path) imports Foundation")
        }
        for file in try SourceTree.files(["Sources/TokenDomain"], withEnding: ".swift") {
            for module in ["Glibc", "FoundationEssentials", "Synchronization"] {
                #expect(!file.text.contains("import \(module)\n"), "\(file.path) is not pure")
            }
        }
    }

    @Test func `has scripts that can be run from anywhere`() throws {
        for path in ["Deploy/demo.sh", "Deploy/test.sh", ".ci/run"] {
            let file = SourceTree.root.appendingPathComponent(path).path
            #expect(FileManager.default.isExecutableFile(atPath: file), "\(path)")
            let text = try SourceTree.text(of: path)
            #expect(text.hasPrefix("#!/usr/bin/env bash\n"), "\(path)")
            #expect(text.contains("set -euo pipefail\n"), "\(path)")
        }
    }

    private func expectNone(of words: [String], in file: SourceTree.File) {
        for (index, line) in file.text.split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            for word in words where line.contains(word) {
                Issue.record("\(file.path):\(index + 1) has \"\(word)\"")
            }
        }
    }
}
