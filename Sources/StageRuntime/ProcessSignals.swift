internal import Glibc
internal import Synchronization

/// Where the signal handler writes; -1 before there is a pipe.
private let signalPipe = Atomic<Int32>(-1)

/// How long the process may go on after a stop signal, in seconds; 0 is as long as it likes.
private let stopSeconds = Atomic<UInt32>(0)

/// SIGTERM, SIGINT and SIGHUP as a descriptor in the loop's own wait, so that a signal never lands
/// in the middle of anything.
///
/// The first stop signal is obeyed; a second one ends the process at once.
package struct ProcessSignals: Sendable {
    package enum Event: Equatable {
        case terminate, interrupt, reload

        package var isStop: Bool { self != .reload }
    }

    /// A worker that gets a signal to stop ends within 10 s.
    package static let workerStopSeconds: UInt32 = 9

    /// Readable once a signal came.
    package let descriptor: Int32

    /// Ends with 0 whatever still hangs `stopSeconds` after the first stop signal.
    ///
    /// What a worker has not committed then is read again, as after a kill. Without, the process
    /// takes its time.
    package init(stopSeconds seconds: UInt32 = 0) {
        stopSeconds.store(seconds, ordering: .sequentiallyConsistent)
        var ends: [Int32] = [-1, -1]
        let status = unsafe pipe(&ends)
        precondition(status == 0, "the system gives a pipe for signals")
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        descriptor = ends[0]
        signalPipe.store(ends[1], ordering: .sequentiallyConsistent)
        // A peer that closed its end is an error of one call, never the end of the worker.
        signal(SIGPIPE, SIG_IGN)
        // The clock starts with the signal, and not when the loop sees it: the loop may be waiting
        // for a transaction.
        if seconds > 0 {
            signal(SIGALRM) { _ in _exit(0) }
            Self.unblock(SIGALRM)
        }
        for number in [SIGINT, SIGTERM, SIGHUP] {
            Self.unblock(number)
            signal(number) { number in
                // Only what is allowed in a handler: one atomic load, write, alarm, signal.
                var byte = UInt8(truncatingIfNeeded: number)
                let written = unsafe write(signalPipe.load(ordering: .relaxed), &byte, 1)
                guard number != SIGHUP else {
                    return
                }
                if written != 1 {
                    _exit(128 + number)
                }
                let seconds = stopSeconds.load(ordering: .relaxed)
                if seconds > 0 {
                    alarm(seconds)
                }
                // Not the default action, which the kernel spares process 1: in a container that is us.
                signal(SIGINT) { _exit(128 + $0) }
                signal(SIGTERM) { _exit(128 + $0) }
            }
        }
    }

    /// Whoever started us may have held it back: a mask is inherited.
    ///
    /// A child inherits the mask of the thread that started it; one that blocks a signal would
    /// leave us deaf to it.
    private static func unblock(_ number: Int32) {
        var set = sigset_t()
        unsafe sigemptyset(&set)
        unsafe sigaddset(&set, number)
        let status = unsafe pthread_sigmask(SIG_UNBLOCK, &set, nil)
        precondition(status == 0, "a signal can be let through")
    }

    /// What came since the last call; a stop before a reload.
    package func take() -> Event? {
        var event: Event?
        var byte: UInt8 = 0
        while unsafe read(descriptor, &byte, 1) == 1 {
            switch Int32(byte) {
            case SIGHUP: event = .reload
            case SIGINT: return .interrupt
            default: return .terminate
            }
        }
        return event
    }
}
