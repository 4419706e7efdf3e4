internal import Foundation
internal import Glibc
internal import LocalKafka
internal import Telemetry

/// The newest snapshot of the pipeline, from a `tollway top` of its own: whatever hangs or grows
/// there, the page answers.
final class ConsoleFeed {
    private static let intervalText = "2s"
    private static let restartMilliseconds: Int64 = 2_000
    private static let readByteCount = 64 << 10

    private let programs: ConsolePrograms
    private let arguments: [String]
    private let lineByteCountMax: Int
    private var process: Process?
    private var output: FileHandle?
    private var partial: [UInt8] = []
    /// Whether what comes belongs to a line that was too long, up to its end.
    private var isSkipping = false
    private var startedAt: Int64 = 0
    /// JSON; empty before the first.
    private(set) var newest: [UInt8] = []
    /// Counts snapshots.
    private(set) var sequence = 0
    /// Of the newest, by the clock that never goes back.
    private(set) var takenAt: Int64 = 0

    init(programs: ConsolePrograms, admin: [String], lineByteCountMax: Int = 8 << 20) {
        self.programs = programs
        self.lineByteCountMax = lineByteCountMax
        arguments =
            ["top", "-o", "ndjson", "--interval", Self.intervalText, "--count", "1000000"]
            + admin.flatMap { ["--admin", $0] }
    }

    /// Readable when there is something to take; -1 where the feed's process does not run.
    var descriptor: Int32 { output?.fileDescriptor ?? -1 }

    /// Starts it where it does not run, and takes what it said.
    ///
    /// - Returns: whether there is a new snapshot.
    func turn(now: Int64) -> Bool {
        guard let process, process.isRunning || output != nil else {
            if now - startedAt >= Self.restartMilliseconds || startedAt == 0 {
                start(now: now)
            }
            return false
        }
        return read(now: now)
    }

    private func start(now: Int64) {
        startedAt = now
        partial = []
        isSkipping = false
        let pipe = Pipe()
        guard let started = programs.start(arguments, output: pipe) else {
            return
        }
        process = started
        let descriptor = pipe.fileHandleForReading.fileDescriptor
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        output = pipe.fileHandleForReading
    }

    private func read(now: Int64) -> Bool {
        var isNew = false
        var bytes = [UInt8](repeating: 0, count: Self.readByteCount)
        while let descriptor = output?.fileDescriptor {
            let count = unsafe Glibc.read(descriptor, &bytes, bytes.count)
            guard count > 0 else {
                if count == 0 {
                    output = nil
                    process = nil
                }
                break
            }
            isNew = take(bytes[..<count], now: now) || isNew
        }
        return isNew
    }

    /// Takes what the process wrote; at the end of a line that is a snapshot.
    func take(_ bytes: ArraySlice<UInt8>, now: Int64) -> Bool {
        var bytes = bytes
        if isSkipping {
            guard let end = bytes.firstIndex(of: UInt8(ascii: "\n")) else {
                return false
            }
            bytes = bytes[(end + 1)...]
            isSkipping = false
        }
        partial += bytes
        guard let end = partial.lastIndex(of: UInt8(ascii: "\n")) else {
            if partial.count > lineByteCountMax {
                // No line of ours is so long.
                partial = []
                isSkipping = true
            }
            return false
        }
        let line = partial[..<end].split(separator: UInt8(ascii: "\n")).last
        partial = Array(partial[(end + 1)...])
        guard let line else {
            return false
        }
        newest = Array(line)
        sequence += 1
        takenAt = now
        return true
    }

    func stop() {
        if let process, process.isRunning {
            process.terminate()
            process.waitUntilExit()
        }
        process = nil
        output = nil
    }
}

/// How the console runs its own command.
struct ConsolePrograms {
    private let executable: URL
    private let environment: [String: String]

    init(
        executable: URL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath(),
        environment: [String: String] = ProcessInfo.processInfo.environment
    ) {
        self.executable = executable
        self.environment = environment
    }

    /// Runs a command; nil where the system gives no process.
    ///
    /// The name is that of who asked, for the audit; `output` is a pipe or a file.
    func start(
        _ arguments: [String],
        as name: String? = nil,
        output: Any,
        talk: FileHandle? = nil
    ) -> Process? {
        let process = Process()
        process.executableURL = executable
        process.arguments = arguments
        var environment = environment
        if let name {
            environment["SUDO_USER"] = nil
            environment["LOGNAME"] = nil
            environment["USER"] = "\(name) by the console"
        }
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = talk ?? FileHandle.nullDevice
        process.terminationHandler = { ChildKeeper.drop($0.processIdentifier) }
        do {
            try process.run()
        } catch {
            // The caller reports it to the browser.
            return nil
        }
        ChildKeeper.keep(process.processIdentifier)
        if !process.isRunning {
            ChildKeeper.drop(process.processIdentifier)
        }
        return process
    }
}
