internal import Glibc
internal import Synchronization

/// Standard output for data, standard error for talk.
enum Console {
    static var errorIsTerminal: Bool { isatty(STDERR_FILENO) == 1 }
    static var outputIsTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Whether the reader of standard output has gone away (`tollway … | head`).
    private static let hasNoReader = Atomic(false)
    private static let hasWrittenData = Atomic(false)
    /// Whether standard output has something already.
    static var hasWritten: Bool { hasWrittenData.load(ordering: .relaxed) }

    /// Writes data, whole and at once: nothing is buffered.
    ///
    /// Where nobody reads it any more, it is dropped and the verb goes on: what it was to change is
    /// changed, and its exit code is the true one.
    static func write(_ text: String) {
        write(Array(text.utf8))
    }

    static func write(_ bytes: [UInt8]) {
        hasWrittenData.store(true, ordering: .relaxed)
        write(bytes, to: STDOUT_FILENO)
    }

    /// Writes a part of what may be long or without an end, and does nothing but be read: where nobody
    /// reads it any more, the process ends, for its reader has seen enough.
    static func stream(_ text: String) {
        stream(Array(text.utf8))
    }

    static func stream(_ bytes: [UInt8]) {
        write(bytes)
        if hasNoReader.load(ordering: .relaxed) {
            exit(ExitCode.ok.rawValue)
        }
    }

    /// One sentence of talk.
    static func say(_ sentence: String) {
        write(Array((sentence + "\n").utf8), to: STDERR_FILENO)
    }

    /// Talk as it is, for what draws over itself.
    static func sayRaw(_ text: String) {
        write(Array(text.utf8), to: STDERR_FILENO)
    }

    private static func write(_ bytes: [UInt8], to descriptor: Int32) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { buffer in
                unsafe Glibc.write(descriptor, buffer.baseAddress, buffer.count)
            }
            if count > 0 {
                rest = rest.dropFirst(count)
                continue
            }
            switch errno {
            case EINTR:
                continue
            case EAGAIN:
                var wait = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                _ = unsafe poll(&wait, 1, 1_000)
            case EPIPE where descriptor == STDOUT_FILENO:
                hasNoReader.store(true, ordering: .relaxed)
                return
            case _ where descriptor == STDOUT_FILENO:
                say("tollway: standard output cannot be written (error \(errno) of the system)")
                exit(ExitCode.failed.rawValue)
            default:
                // Nobody listens, and there is no other place to say so.
                return
            }
        }
    }
}
