import Foundation
import Testing

@testable import tollway

/// `demo` on a Kafka of its own that does not start: a `java` of the test's stands for it.
@Suite struct `A Kafka home` {
    private static let secondsMax = 60.0

    /// What `java` does when it is to format the data, and when it is to run Kafka.
    private func home(
        _ folder: TemporaryFolder,
        format: String = ":",
        start: String = ":"
    ) throws -> [String: String] {
        for name in ["libs", "bin"] {
            try FileManager.default.createDirectory(
                at: folder.url.appendingPathComponent(name),
                withIntermediateDirectories: false
            )
        }
        let script = """
            #!/bin/sh
            case "$*" in
                *StorageTool*) \(format) ;;
                *) \(start) ;;
            esac

            """
        let java = try folder.file("bin/java", Data(script.utf8))
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: java.path)
        return [
            "KAFKA_HOME": folder.url.path, "TMPDIR": folder.url.path,
            "PATH": "\(folder.url.path)/bin:/usr/bin:/bin",
        ]
    }

    private func demo(_ environment: [String: String]) throws -> TollwayProcess {
        try TollwayProcess.run(["demo", "--tokens", "10", "-o", "json"], environment: environment)
    }

    private func expectUnusable(_ environment: [String: String], _ reason: String) throws {
        let run = try demo(environment)
        #expect(run.exitCode == ExitCode.usage.rawValue)
        #expect(try run.errorCode() == "usage.kafka_home")
        #expect(run.output.contains(reason))
    }

    @Test func `that holds no Kafka is said, and no other broker is taken`() throws {
        let folder = try TemporaryFolder()
        var environment = try home(folder)
        environment["KAFKA_HOME"] = folder.url.appendingPathComponent("bin").path
        try expectUnusable(environment, "there is no libs folder")
    }

    @Test func `without Java is said, and no other broker is taken`() throws {
        let folder = try TemporaryFolder()
        var environment = try home(folder)
        environment["PATH"] = folder.url.appendingPathComponent("libs").path
        try expectUnusable(environment, "there is no Java")
    }

    @Test(arguments: [true, false])
    func `that does not start says why: its log is removed`(isFormat: Bool) throws {
        let folder = try TemporaryFolder()
        let fails = #"printf 'ERROR the disk is full\n\tat kafka.Kafka.main\n'; exit 1"#
        let run = try demo(
            isFormat ? try home(folder, format: fails) : try home(folder, start: fails)
        )
        #expect(run.exitCode == ExitCode.noKafka.rawValue)
        #expect(run.output.contains("ERROR the disk is full"))
        #expect(!run.output.contains("kafka.Kafka.main"))
        let left = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        #expect(!left.contains { $0.hasPrefix("tollway-demo-") })
    }

    @Test(arguments: [true, false])
    func `whose Kafka takes its time is given up at the first signal`(isFormat: Bool) throws {
        let folder = try TemporaryFolder()
        let marker = folder.url.appendingPathComponent("begun").path
        let hangs = ": >'\(marker)'; exec /bin/sleep 600"
        let demo = try TollwayProcess.make(
            ["demo", "--tokens", "10"],
            environment: isFormat ? try home(folder, format: hangs) : try home(folder, start: hangs)
        )
        demo.standardInput = FileHandle.nullDevice
        demo.standardOutput = FileHandle.nullDevice
        demo.standardError = FileHandle.nullDevice
        try demo.run()
        defer {
            if demo.isRunning {
                kill(demo.processIdentifier, SIGKILL)
                demo.waitUntilExit()
            }
        }
        try wait("it waits for Kafka") { FileManager.default.fileExists(atPath: marker) }
        demo.interrupt()
        try wait("it ends") { !demo.isRunning }
        #expect(demo.terminationStatus == ExitCode.interrupted.rawValue)
    }

    private func wait(_ what: String, until isSo: () -> Bool) throws {
        let end = Date().addingTimeInterval(Self.secondsMax)
        while !isSo() {
            try #require(Date() < end, "not within \(Self.secondsMax) s: \(what)")
            _ = poll(nil, 0, 50)
        }
    }
}
