import Foundation
import Kafka
import LocalKafka
import Testing

@testable import tollway

/// What `demo` and `bench` start ends with them, also where they get no chance to end it.
@Suite struct `The programs of a demo` {
    private static let startSeconds = 60.0
    private static let endSeconds = 20.0

    @Test(arguments: LocalCluster.homeFromEnvironment.map { ["", $0] } ?? [""])
    func `end with it, when it is killed`(kafkaHome: String) throws {
        let folder = try TemporaryFolder()
        let demo = try TollwayProcess.make(
            ["demo", "--tokens", "200000"],
            environment: kafkaHome.isEmpty
                ? ["TMPDIR": folder.url.path]
                : ["TMPDIR": folder.url.path, "KAFKA_HOME": kafkaHome].merging(Self.java) { $1 }
        )
        let talk = try folder.file("talk")
        demo.standardInput = FileHandle.nullDevice
        demo.standardOutput = FileHandle.nullDevice
        demo.standardError = try FileHandle(forWritingTo: talk)
        try demo.run()
        try wait(Self.startSeconds) {
            try String(contentsOf: talk, encoding: .utf8).contains("six workers")
        }
        let children = try Self.children(of: demo.processIdentifier)
        // Broker or Java, simulator, six workers, and the shell that keeps them.
        #expect(children.count == 9, "\(children)")
        defer {
            for child in children where kill(child, 0) == 0 {
                kill(child, SIGKILL)
            }
        }
        kill(demo.processIdentifier, SIGKILL)
        demo.waitUntilExit()
        try wait(Self.endSeconds) { !children.contains { kill($0, 0) == 0 } }
    }

    private static var java: [String: String] {
        ProcessInfo.processInfo.environment.filter { $0.key == "JAVA_HOME" || $0.key == "PATH" }
    }

    private func wait(_ seconds: Double, until isSo: () throws -> Bool) throws {
        let end = Date().addingTimeInterval(seconds)
        while try !isSo() {
            try #require(Date() < end, "not within \(seconds) s")
            _ = poll(nil, 0, 50)
        }
    }

    private static func children(of parent: Int32) throws -> [Int32] {
        try FileManager.default.contentsOfDirectory(atPath: "/proc").compactMap { Int32($0) }
            .filter { child in
                // One that has ended meanwhile is no child any more.
                let status = FileManager.default.contents(atPath: "/proc/\(child)/status")
                return String(decoding: status ?? Data(), as: UTF8.self)
                    .contains("PPid:\t\(parent)\n")
            }
    }
}
