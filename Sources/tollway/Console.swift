internal import Glibc

/// Standard output for data, standard error for talk.
enum Console {
    static var errorIsTerminal: Bool { isatty(STDERR_FILENO) == 1 }
    static var outputIsTerminal: Bool { isatty(STDOUT_FILENO) == 1 }

    /// Writes data, whole and at once: nothing is buffered.
    static func write(_ text: String) {
        write(Array(text.utf8), to: STDOUT_FILENO)
    }

    static func write(_ bytes: [UInt8]) {
        write(bytes, to: STDOUT_FILENO)
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
                // Whoever reads has seen enough.
                exit(ExitCode.ok.rawValue)
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
