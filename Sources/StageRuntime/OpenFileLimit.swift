internal import Glibc

/// How many files and connections a process may hold open at once.
///
/// The stores of one partition hold some thirty files, a door a thousand connections, and a service
/// manager allows 1,024 at first; what it allows at most is more.
package enum OpenFileLimit {
    /// Enough for every partition of a topic; beyond it some libraries walk through all numbers there are.
    package static let countMax: UInt64 = 65_536

    /// Takes what the system allows, up to ``countMax``; a limit that is higher already stays.
    package static func raise() {
        var limit = rlimit()
        let known = unsafe getrlimit(resource, &limit)
        precondition(known == 0, "the system tells a process its limits")
        let allowed = min(limit.rlim_max, rlim_t(countMax))
        guard limit.rlim_cur < allowed else {
            return
        }
        limit.rlim_cur = allowed
        let raised = unsafe setrlimit(resource, &limit)
        precondition(raised == 0, "a limit may be raised to what the system allows")
    }

    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
}
