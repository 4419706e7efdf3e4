internal import Glibc
internal import Synchronization

/// Where the signal handler writes; -1 before there is a pipe.
private let signalPipe = Atomic<Int32>(-1)

/// SIGINT and SIGTERM as a descriptor to wait for, for verbs that run until they are told to stop.
///
/// A second signal ends the process at once.
struct StopSignal: Sendable {
    /// Readable once a signal came.
    let descriptor: Int32

    init() {
        var ends: [Int32] = [-1, -1]
        let status = unsafe pipe(&ends)
        precondition(status == 0, "the system gives a pipe for signals")
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        descriptor = ends[0]
        signalPipe.store(ends[1], ordering: .sequentiallyConsistent)
        for number in [SIGINT, SIGTERM] {
            Self.unblock(number)
            signal(number) { number in
                // Only what is allowed in a handler: one atomic load, write, signal.
                var byte = UInt8(truncatingIfNeeded: number)
                let written = unsafe write(
                    signalPipe.load(ordering: .relaxed),
                    &byte,
                    1
                )
                if written != 1 {
                    _exit(128 + number)
                }
                signal(SIGINT, SIG_DFL)
                signal(SIGTERM, SIG_DFL)
            }
        }
        unblock()
    }

    /// A parent with these signals blocked hands that down to us, and we could not be stopped.
    private func unblock() {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        for number in [SIGINT, SIGTERM] { unsafe sigaddset(&set, number) }
        let status = unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
        precondition(status == 0, "signals can be unblocked")
    }

    /// Whoever started us may have held it back: a mask is inherited.
    private static func unblock(_ number: Int32) {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        unsafe sigaddset(&set, number)
        let status = unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
        precondition(status == 0, "a signal can be let through")
    }

    /// Waits for a signal.
    ///
    /// - Parameter milliseconds: negative waits for ever.
    /// - Returns: how to exit: interrupted for SIGINT, ok for SIGTERM; nil where none came in time.
    func wait(milliseconds: Int32 = -1) -> ExitCode? {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        var status: Int32
        repeat {
            status = unsafe poll(&entry, 1, milliseconds)
        } while status < 0 && errno == EINTR
        var byte: UInt8 = 0
        guard status > 0, unsafe read(descriptor, &byte, 1) == 1 else {
            return nil
        }
        return Int32(byte) == SIGINT ? .interrupted : .ok
    }
}
