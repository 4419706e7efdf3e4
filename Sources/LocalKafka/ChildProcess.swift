internal import Glibc

/// A process that we started: in a session of its own, so that Ctrl-C on our terminal does not end
/// it before we do, its output in a file.
///
/// It ends with us, however we end (``ChildKeeper``).
final class ChildProcess {
    /// `POSIX_SPAWN_SETSID`, which the C library shows only to those who ask for its extensions.
    private static let ownSession: Int16 = 0x80
    /// Every descriptor that a process has by default; one that is not open is skipped.
    private static let descriptorCountMax: Int32 = 1_024
    /// Of a log: more than a Java exception with its causes.
    private static let lastByteCountMax = 16_384
    private static let lastLineCharacterCountMax = 180

    private let identifier: pid_t
    private let isKept: Bool
    /// The exit status once it was collected; until then the identifier is surely ours.
    private var status: Int32?

    /// Without `input` it reads an empty one.
    init(
        arguments: [String],
        log: String,
        input: Int32? = nil,
        isKept: Bool = true
    ) throws(LocalCluster.Fault) {
        let output = unsafe open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard output >= 0 else {
            throw LocalCluster.Fault.failed(message: "\(log) cannot be written")
        }
        defer { Glibc.close(output) }
        var actions = unsafe posix_spawn_file_actions_t()
        var attributes = posix_spawnattr_t()
        unsafe posix_spawn_file_actions_init(&actions)
        unsafe posix_spawnattr_init(&attributes)
        defer {
            unsafe posix_spawn_file_actions_destroy(&actions)
            unsafe posix_spawnattr_destroy(&attributes)
        }
        if let input {
            unsafe posix_spawn_file_actions_adddup2(&actions, input, 0)
        } else {
            unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        }
        unsafe posix_spawn_file_actions_adddup2(&actions, output, 1)
        unsafe posix_spawn_file_actions_adddup2(&actions, output, 2)
        // What others in this process opened is not the child's to keep open: Foundation knows the
        // end of a process by the closing of a descriptor, and waits for ever on one that lives on.
        for descriptor in 3..<Self.descriptorCountMax {
            unsafe posix_spawn_file_actions_addclose(&actions, descriptor)
        }
        // A worker blocks signals to take them by descriptor; the child must receive them.
        var none = sigset_t()
        unsafe sigemptyset(&none)
        unsafe posix_spawnattr_setsigmask(&attributes, &none)
        unsafe posix_spawnattr_setflags(
            &attributes,
            Self.ownSession | Int16(POSIX_SPAWN_SETSIGMASK)
        )
        var texts: [UnsafeMutablePointer<CChar>?] = unsafe arguments.map { unsafe strdup($0) }
        unsafe texts.append(nil)
        defer {
            // The formatter would join the name to `unsafe`.
            // swift-format-ignore
            for unsafe text in unsafe texts {
                unsafe free(text)
            }
        }
        var identifier: pid_t = 0
        let result = unsafe posix_spawn(
            &identifier,
            arguments[0],
            &actions,
            &attributes,
            texts,
            environ
        )
        guard result == 0 else {
            throw LocalCluster.Fault.failed(
                message:
                    "\(arguments[0]) does not start: \(unsafe String(cString: strerror(result)))"
            )
        }
        self.identifier = identifier
        self.isKept = isKept
        if isKept {
            ChildKeeper.keep(identifier)
        }
    }

    var isRunning: Bool {
        collect()
        return status == nil
    }

    func send(_ signal: Int32) throws(LocalCluster.Fault) {
        guard isRunning, kill(identifier, signal) == 0 else {
            throw LocalCluster.Fault.failed(message: "process \(identifier) is gone")
        }
    }

    /// SIGSTOP, and waits until all threads have stopped: a program of a hundred goes on answering for
    /// milliseconds.
    func pause() throws(LocalCluster.Fault) {
        try send(SIGSTOP)
        var state = unsafe siginfo_t()
        // An end is news as well, and stays for who asks for it.
        let news = WSTOPPED | WEXITED | WNOWAIT
        while unsafe waitid(P_PID, id_t(identifier), &state, news) < 0, errno == EINTR {}
        guard isRunning else {
            throw LocalCluster.Fault.failed(message: "process \(identifier) is gone")
        }
    }

    func end(signal: Int32, secondsMax: Int) throws(LocalCluster.Fault) {
        try send(signal)
        awaitEnd(secondsMax: secondsMax)
    }

    /// Waits for its end, and makes one after the time given, or once `isInterrupted` says yes.
    ///
    /// - Returns: its exit status as `waitpid` returns it.
    @discardableResult
    func awaitEnd(secondsMax: Int, unless isInterrupted: () -> Bool = { false }) -> Int32 {
        let start = ContinuousClock.now
        while isRunning, !isInterrupted(), ContinuousClock.now - start < .seconds(secondsMax) {
            Self.pause(milliseconds: 20)
        }
        if isRunning {
            kill(identifier, SIGKILL)
            var ended: Int32 = 0
            while unsafe waitpid(identifier, &ended, 0) < 0, errno == EINTR {}
            hasEnded(ended)
        }
        return status ?? -1
    }

    private func collect() {
        var ended: Int32 = 0
        if status == nil, unsafe waitpid(identifier, &ended, WNOHANG) == identifier {
            hasEnded(ended)
        }
    }

    private func hasEnded(_ ended: Int32) {
        status = ended
        if isKept {
            ChildKeeper.drop(identifier)
        }
    }
}

// MARK: What else the launcher asks of the system

extension ChildProcess {
    static func environment(_ name: String) -> String? {
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }

    /// The Java to run, from `JAVA_HOME` or `PATH`.
    static var java: String? {
        var folders = (environment("PATH") ?? "").split(separator: ":").map(String.init)
        if let home = environment("JAVA_HOME"), !home.isEmpty {
            folders.insert("\(home)/bin", at: 0)
        }
        return folders.map { "\($0)/java" }.first { unsafe access($0, X_OK) == 0 }
    }

    static func isFolder(_ path: String) -> Bool {
        var facts = stat()
        return unsafe stat(path, &facts) == 0 && facts.st_mode & S_IFMT == S_IFDIR
    }

    static func makeFolder(_ path: String) throws(LocalCluster.Fault) {
        guard unsafe isFolder(path) || mkdir(path, 0o755) == 0 else {
            throw LocalCluster.Fault.failed(message: "\(path) cannot be made")
        }
    }

    /// Removes a folder and all in it; links are not followed.
    ///
    /// What cannot be removed is left.
    static func removeFolder(_ path: String) {
        guard let folder = unsafe opendir(path) else {
            return
        }
        var names: [String] = []
        while let entry = unsafe readdir(folder) {
            let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
                unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if name != "." && name != ".." {
                names.append(name)
            }
        }
        unsafe closedir(folder)
        for name in names {
            let inner = "\(path)/\(name)"
            var facts = stat()
            guard unsafe lstat(inner, &facts) == 0 else {
                continue
            }
            if facts.st_mode & S_IFMT == S_IFDIR {
                removeFolder(inner)
            } else {
                unsafe unlink(inner)
            }
        }
        unsafe rmdir(path)
    }

    static func write(_ text: String, to path: String) throws(LocalCluster.Fault) {
        guard let file = unsafe fopen(path, "we") else {
            throw LocalCluster.Fault.failed(message: "\(path) cannot be written")
        }
        let isWritten = unsafe fputs(text, file) >= 0
        guard unsafe fclose(file) == 0, isWritten else {
            throw LocalCluster.Fault.failed(message: "\(path) cannot be written")
        }
    }

    /// The first line of a small file; nil where there is none.
    static func read(_ path: String) -> String? {
        guard let file = unsafe fopen(path, "re") else {
            return nil
        }
        defer { _ = unsafe fclose(file) }
        var line = [CChar](repeating: 0, count: 256)
        guard unsafe fgets(&line, Int32(line.count), file) != nil else {
            return nil
        }
        return String(
            decoding: line.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) },
            as: UTF8.self
        )
    }

    /// The last lines of a log that somebody may still write.
    ///
    /// Without the frames of a Java stack: the exception stands before them.
    ///
    /// At most `countMax`, each cut to 180 characters; none where there is no such file.
    static func lastLines(_ path: String, countMax: Int) -> [String] {
        guard let file = unsafe fopen(path, "re") else {
            return []
        }
        defer { _ = unsafe fclose(file) }
        unsafe fseek(file, 0, SEEK_END)
        let byteCount = unsafe ftell(file)
        unsafe fseek(file, max(0, byteCount - lastByteCountMax), SEEK_SET)
        var bytes = [UInt8](repeating: 0, count: lastByteCountMax)
        let count = unsafe fread(&bytes, 1, bytes.count, file)
        return bytes.prefix(count).split(separator: UInt8(ascii: "\n"))
            .filter { $0.first != UInt8(ascii: "\t") && $0.first != UInt8(ascii: " ") }
            .suffix(countMax)
            .map { String(String(decoding: $0, as: UTF8.self).prefix(lastLineCharacterCountMax)) }
    }

    static func pause(milliseconds: Int) {
        usleep(UInt32(milliseconds) * 1000)
    }
}
