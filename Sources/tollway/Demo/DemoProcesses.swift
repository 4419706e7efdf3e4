internal import Foundation
internal import Glibc
internal import Kafka
internal import LocalKafka

/// The programs of a pipeline on this machine, as separate processes beside this one, each with its
/// log in the run's folder.
///
/// They end with it, however it ends.
final class DemoProcesses {
    /// A worker that gets a signal to stop ends within 10 s.
    static let stopSeconds = 12.0

    private struct Running {
        var name: String
        var process: Process
    }

    private let folder: URL
    private let programs: URL
    private var running: [Running] = []
    /// Somebody else sees to what ends: it is asked for by name, and no fault of the run.
    var isSupervised = false

    /// - Parameters:
    ///   - folder: for logs and settings.
    ///   - programs: where the programs lie; nil: beside this one.
    init(folder: URL, programs: URL? = nil) {
        self.folder = folder
        self.programs =
            programs
            ?? URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent()
    }

    /// No process outlives its owner, also where the owner gave up half-way.
    deinit {
        _ = stopAll()
    }

    /// Starts `tollway` itself or one of the workers.
    ///
    /// - Returns: what it prints on its standard output.
    @discardableResult
    func start(
        _ program: String,
        _ arguments: [String] = [],
        name: String,
        environment: [String: String]
    ) throws(CommandFailure) -> FileHandle {
        precondition(process(name) == nil, "a process is known by its name: \(name) has one")
        let executable = programs.appendingPathComponent(program)
        guard unsafe access(executable.path, X_OK) == 0 else {
            throw CommandFailure(
                .usage,
                code: "usage.missing_program",
                "\(program) is not beside tollway in \(programs.path): build all products first"
            )
        }
        let process = Process()
        let output = Pipe()
        process.executableURL = executable
        process.arguments = arguments
        process.environment = environment
        process.standardOutput = output
        process.standardInput = FileHandle.nullDevice
        process.terminationHandler = { ChildKeeper.drop($0.processIdentifier) }
        do {
            process.standardError = try logFile(name)
            try process.run()
            ChildKeeper.keep(process.processIdentifier)
            if !process.isRunning {
                // The handler may have been there before.
                ChildKeeper.drop(process.processIdentifier)
            }
        } catch {
            throw CommandFailure(.failed, code: "demo.start", "\(program) cannot start: \(error)")
        }
        running.append(Running(name: name, process: process))
        return output.fileHandleForReading
    }

    private func logFile(_ name: String) throws -> FileHandle {
        let file = folder.appendingPathComponent("\(name).log")
        let isThere = FileManager.default.fileExists(atPath: file.path)
        guard isThere || FileManager.default.createFile(atPath: file.path, contents: nil) else {
            throw CocoaError(.fileWriteUnknown)
        }
        // One that is started again goes on in its log.
        let handle = try FileHandle(forWritingTo: file)
        try handle.seekToEnd()
        return handle
    }

    /// - Throws: `code`, with the first process that ended although nobody asked it to, and the end
    ///   of its log.
    func refuseEnded(code: String) throws(CommandFailure) {
        guard !isSupervised,
            let ended = running.first(where: { !$0.process.isRunning })
        else {
            return
        }
        throw CommandFailure(
            .failed,
            code: code,
            "\(ended.name) ended with exit code \(ended.process.terminationStatus):"
                + " \(tail(ended.name))"
        )
    }

    /// Those that ended although nobody asked them to, and how; each is returned once.
    func takeEnded() -> [(name: String, how: String)] {
        let ended = running.filter { !$0.process.isRunning }
        running.removeAll { one in ended.contains { $0.name == one.name } }
        return ended.map { one in
            let status = one.process.terminationStatus
            let isSignal = one.process.terminationReason == .uncaughtSignal
            return (
                one.name,
                isSignal ? "was killed by signal \(status)" : "ended with exit code \(status)"
            )
        }
    }

    /// The path of a file in the folder; nil where there is none of that name.
    func file(_ name: String) -> String? {
        let path = folder.appendingPathComponent(name).path
        return FileManager.default.isReadableFile(atPath: path) ? path : nil
    }

    /// Writes a file into the folder, for the eyes of this user only.
    ///
    /// - Returns: its path.
    /// - Throws: `command.file` where that is not possible.
    func write(_ bytes: [UInt8], as name: String, command: String) throws -> String {
        let path = folder.appendingPathComponent(name).path
        let isMade = FileManager.default.createFile(
            atPath: path,
            contents: Data(bytes),
            attributes: [.posixPermissions: 0o600]
        )
        guard isMade else {
            throw CommandFailure(
                .failed,
                code: "\(command).file",
                "\(path) cannot be written"
            )
        }
        return path
    }

    /// Waits until a program's probe says that it is ready.
    ///
    /// - Throws: `command.start` where it is not so many seconds after `start`, `command.ended`
    ///   where one of the programs ended meanwhile.
    func awaitReady(
        _ name: String,
        probe url: String,
        http: DemoHTTP,
        since start: Date,
        secondsMax: Double,
        command: String
    ) throws {
        while try http.call("GET", url)?.status != 200 {
            try refuseEnded(code: "\(command).ended")
            guard Date() < start.addingTimeInterval(secondsMax) else {
                throw CommandFailure(
                    .failed,
                    code: "\(command).start",
                    "\(name) is not ready after \(Int(secondsMax)) s"
                )
            }
            try http.pause(milliseconds: 50)
        }
    }

    /// A process that runs or ended by itself; nil where it is no longer watched.
    func process(_ name: String) -> Process? {
        running.first { $0.name == name }?.process
    }

    /// Sends a signal to a process that runs; one that has ended needs none.
    func signal(_ name: String, _ signal: Int32) {
        if let process = process(name), process.isRunning {
            kill(process.processIdentifier, signal)
        }
    }

    /// The caller ends it, and is responsible for its end.
    func letGo(_ name: String) {
        running.removeAll { $0.name == name }
    }

    func tail(_ name: String) -> String {
        let path = folder.appendingPathComponent("\(name).log").path
        // The log says why; without it the exit code has to do.
        let text = String(
            decoding: FileManager.default.contents(atPath: path) ?? Data(),
            as: UTF8.self
        )
        return text.split(separator: "\n").suffix(5).joined(separator: "\n")
    }

    /// Largest resident size a process has had, bytes; nil where it is gone.
    func peakResidentByteCount(_ name: String) -> Int? {
        guard let pid = running.first(where: { $0.name == name })?.process.processIdentifier,
            let status = FileManager.default.contents(atPath: "/proc/\(pid)/status")
        else {
            return nil
        }
        let line = String(decoding: status, as: UTF8.self).split(separator: "\n")
            .first { $0.hasPrefix("VmHWM:") }
        return line?.split(whereSeparator: \.isWhitespace).dropFirst().first
            .flatMap { Int($0) }.map { $0 * 1_024 }
    }

    /// Workers first, what they stand on last; SIGKILL for what does not go in time.
    ///
    /// - Returns: names of those that had to be killed.
    func stopAll() -> [String] {
        var killed: [String] = []
        let workers = running.filter { $0.name != "broker" && $0.name != "sim" }
        let others = running.filter { $0.name == "broker" || $0.name == "sim" }
        for group in [workers, others] {
            for one in group where one.process.isRunning {
                one.process.terminate()
            }
            let deadline = Date().addingTimeInterval(Self.stopSeconds)
            for one in group {
                while one.process.isRunning, Date() < deadline {
                    usleep(10_000)
                }
                if one.process.isRunning {
                    kill(one.process.processIdentifier, SIGKILL)
                    one.process.waitUntilExit()
                    killed.append(one.name)
                }
            }
        }
        running = []
        return killed
    }
}
