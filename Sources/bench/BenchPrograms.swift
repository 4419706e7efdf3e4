internal import Foundation
internal import Glibc
internal import LocalKafka

/// The programs of a bench, each a process with its log in the bench's folder; they end with it, however
/// it ends.
final class BenchPrograms {
    /// A worker that gets a signal to stop ends within 10 s.
    private static let stopSeconds = 12.0

    private let folder: URL
    private let programs: URL
    private var running: [String: Process] = [:]

    /// `folder` is for logs and settings; the programs lie beside this one.
    init(folder: URL) {
        self.folder = folder
        programs = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent()
    }

    deinit {
        stopAll()
    }

    /// Starts a program that lies beside this one, or in another build's folder.
    ///
    /// - Returns: what it prints on its standard output.
    @discardableResult
    func start(
        _ program: String,
        _ arguments: [String] = [],
        name: String,
        environment: [String: String],
        otherPrograms: URL? = nil
    ) throws(BenchFailure) -> FileHandle {
        precondition(running[name] == nil, "a process is known by its name: \(name) has one")
        let executable = (otherPrograms ?? programs).appendingPathComponent(program)
        guard unsafe access(executable.path, X_OK) == 0 else {
            throw .usage("missing_program", "there is no \(executable.path): build it first")
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
            let log = URL(fileURLWithPath: try write([], as: "\(name).log", keeping: true))
            let handle = try FileHandle(forWritingTo: log)
            try handle.seekToEnd()
            process.standardError = handle
            try process.run()
        } catch let failure as BenchFailure {
            throw failure
        } catch {
            throw BenchFailure(code: "bench.start", "\(program) cannot start: \(error)")
        }
        ChildKeeper.keep(process.processIdentifier)
        if !process.isRunning {
            // The handler may have been there before.
            ChildKeeper.drop(process.processIdentifier)
        }
        running[name] = process
        return output.fileHandleForReading
    }

    /// What a process says first on its standard output; empty where it ends without a word.
    static func firstLine(of output: FileHandle) -> String {
        var bytes = Data()
        while !bytes.contains(UInt8(ascii: "\n")) {
            let more = output.availableData
            guard !more.isEmpty else {
                break
            }
            bytes.append(more)
        }
        return String(decoding: bytes, as: UTF8.self)
            .split(separator: "\n").first.map { String($0) } ?? ""
    }

    /// Writes a file into the folder, for the eyes of this user only.
    ///
    /// - Returns: its path.
    func write(
        _ bytes: [UInt8],
        as name: String,
        keeping: Bool = false
    ) throws(BenchFailure) -> String {
        let path = folder.appendingPathComponent(name).path
        let isMade =
            keeping && FileManager.default.fileExists(atPath: path)
            || FileManager.default.createFile(
                atPath: path,
                contents: Data(bytes),
                attributes: [.posixPermissions: 0o600]
            )
        guard isMade else {
            throw BenchFailure(code: "bench.file", "\(path) cannot be written")
        }
        return path
    }

    /// - Throws: `bench.ended`, with the first process that ended although nobody asked it to, and the
    ///   end of its log.
    func refuseEnded() throws(BenchFailure) {
        guard let (name, process) = running.first(where: { !$0.value.isRunning }) else {
            return
        }
        throw BenchFailure(
            code: "bench.ended",
            "\(name) ended with exit code \(process.terminationStatus): \(tail(name))"
        )
    }

    func process(_ name: String) -> Process? { running[name] }

    /// The caller ends it, and is responsible for its end.
    func letGo(_ name: String) -> Process? { running.removeValue(forKey: name) }

    func tail(_ name: String) -> String {
        let path = folder.appendingPathComponent("\(name).log").path
        // The log says why; without it the exit code has to do.
        let text = String(
            decoding: FileManager.default.contents(atPath: path) ?? Data(),
            as: UTF8.self
        )
        return text.split(separator: "\n").suffix(5).joined(separator: "\n")
    }

    /// Largest resident size a process has had, bytes; zero where it is gone.
    func peakResidentByteCount(_ name: String) -> Int {
        guard let pid = running[name]?.processIdentifier,
            let status = FileManager.default.contents(atPath: "/proc/\(pid)/status")
        else {
            return 0
        }
        let line = String(decoding: status, as: UTF8.self).split(separator: "\n")
            .first { $0.hasPrefix("VmHWM:") }
        let kilobytes = line?.split(whereSeparator: \.isWhitespace).dropFirst().first
        return (kilobytes.flatMap { Int($0) } ?? 0) * 1_024
    }

    /// SIGKILL for what does not go in time.
    func stopAll() {
        for process in running.values where process.isRunning {
            process.terminate()
        }
        let deadline = Date().addingTimeInterval(Self.stopSeconds)
        for process in running.values {
            while process.isRunning, Date() < deadline {
                usleep(10_000)
            }
            if process.isRunning {
                kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            }
        }
        running = [:]
    }
}
