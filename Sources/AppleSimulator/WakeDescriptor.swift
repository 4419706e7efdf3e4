internal import Glibc

/// Becomes readable when another thread wants the loop's attention, and stays so.
struct WakeDescriptor: ~Copyable, Sendable {
    let descriptor: Int32
    private let writeEnd: Int32

    init() throws(SimulatorFault) {
        var ends: [Int32] = [-1, -1]
        guard unsafe pipe(&ends) == 0 else {
            throw .system(message: "no pipe: error \(errno)")
        }
        for end in ends {
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
        }
        (descriptor, writeEnd) = (ends[0], ends[1])
    }

    deinit {
        _ = Glibc.close(descriptor)
        _ = Glibc.close(writeEnd)
    }

    func signal() {
        var byte: UInt8 = 1
        // Fails only when the pipe is full, and then it is readable anyway.
        _ = unsafe write(writeEnd, &byte, 1)
    }
}

/// Waits for descriptors; those below zero are skipped.
struct DescriptorWait {
    private var entries: [pollfd]

    init(_ descriptors: [Int32]) {
        entries = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    }

    /// - Parameter milliseconds: nil waits for ever.
    /// - Returns: whether each is readable, or broken, in the order given.
    mutating func wait(milliseconds: Int?) -> [Bool] {
        let timeout = milliseconds.map { Int32(clamping: max(0, $0)) } ?? -1
        let count = unsafe poll(&entries, nfds_t(entries.count), timeout)
        // An interrupted wait found nothing; the loop waits again.
        return entries.map { count > 0 && $0.revents != 0 }
    }
}

/// Real time, from the system.
enum SystemClock {
    static func now() -> UnixMilliseconds {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return UnixMilliseconds(time.tv_sec) * 1000 + UnixMilliseconds(time.tv_nsec) / 1_000_000
    }
}
