internal import Glibc
internal import StageRuntime

/// What stops a verb that runs without an end: Ctrl-C, SIGTERM, or a terminal that closed.
///
/// A second signal ends the process at once.
struct StopSignal: Sendable {
    private let signals = ProcessSignals()

    /// Readable once a signal came.
    var descriptor: Int32 { signals.descriptor }

    /// Whether a signal came; it stays for ``wait(milliseconds:)``.
    var isThere: Bool {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return unsafe poll(&entry, 1, 0) > 0
    }

    /// Waits for a signal.
    ///
    /// - Parameter milliseconds: negative waits for ever.
    /// - Returns: how to exit: interrupted for SIGINT, ok for the others; nil where none came in
    ///   time.
    func wait(milliseconds: Int32 = -1) -> ExitCode? {
        var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        var status: Int32
        repeat {
            status = unsafe poll(&entry, 1, milliseconds)
        } while status < 0 && errno == EINTR
        return signals.take().map { $0 == .interrupt ? .interrupted : .ok }
    }
}
