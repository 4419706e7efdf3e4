internal import Glibc

/// The files and connections that a process holds open at once, and how many it may.
///
/// The stores of one partition hold some thirty files, a door a thousand connections, and a service
/// manager allows 1,024 at first; what it allows at most is more.
package enum OpenFiles {
    /// Enough for every partition of a topic; beyond it some libraries walk through all numbers there are.
    package static let raisedLimitMax: UInt64 = 65_536

    /// Takes what the system allows, up to ``raisedLimitMax``; a limit that is higher already stays.
    package static func raiseLimit() {
        var limit = limit
        let allowed = min(limit.rlim_max, rlim_t(raisedLimitMax))
        guard limit.rlim_cur < allowed else {
            return
        }
        limit.rlim_cur = allowed
        let raised = unsafe setrlimit(resource, &limit)
        precondition(raised == 0, "a limit may be raised to what the system allows")
    }

    /// Opens what is closed of standard input, output and error, on a device that takes everything: the
    /// next file or socket would have its number, and log lines would go into that.
    package static func keepStandardOnes() {
        var descriptor: Int32
        repeat {
            descriptor = unsafe open("/dev/null", O_RDWR)
            precondition(descriptor >= 0, "/dev/null can be opened")
        } while descriptor <= STDERR_FILENO
        close(descriptor)
    }

    static var limit: rlimit {
        var limit = rlimit()
        let known = unsafe getrlimit(resource, &limit)
        precondition(known == 0, "the system tells a process its limits")
        return limit
    }

    /// The entries of `/proc/self/fd` without the one that reads them; nil where it cannot be read.
    ///
    /// At the limit it can be read no more, and that is the answer.
    static var count: Int? {
        guard let folder = unsafe opendir("/proc/self/fd") else {
            return errno == EMFILE ? Int(clamping: limit.rlim_cur) : nil
        }
        defer { unsafe closedir(folder) }
        var count = -1
        while let entry = unsafe readdir(folder) {
            count += unsafe entry.pointee.d_name.0 == CChar(bitPattern: UInt8(ascii: ".")) ? 0 : 1
        }
        return count
    }

    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
}
