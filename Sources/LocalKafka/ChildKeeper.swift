internal import Glibc
internal import Synchronization

/// Ends what this process has started when this process ends, however it ends: also by `kill -9`,
/// or by a second Ctrl-C while it cleans up.
///
/// One small shell for all of them, in a session of its own. It reads each child's id from a
/// socket, which the system closes with this process; then it kills the rest. `PR_SET_PDEATHSIG`
/// would do without, but it is tied to the life of the thread that starts the child, and
/// `posix_spawn` cannot set it.
package enum ChildKeeper {
    private static let script = """
        kept=
        while read -r order child; do
            rest=
            for one in $kept; do [ "$one" = "$child" ] || rest="$rest $one"; done
            [ "$order" = drop ] || rest="$rest $child"
            kept=$rest
        done
        [ -z "$kept" ] || kill -KILL $kept
        """

    private enum Keeper {
        case notStarted
        /// Our end of the socket.
        case runs(Int32, ChildProcess)
        /// No shell, or no descriptors left: children are ended by whoever started them, or not.
        case unavailable
    }

    private static let keeper = Mutex(Keeper.notStarted)

    /// From now on this child ends with us.
    package static func keep(_ child: Int32) {
        tell("keep", child)
    }

    /// The child has ended: its number may be another process's soon.
    package static func drop(_ child: Int32) {
        tell("drop", child)
    }

    private static func tell(_ order: String, _ child: Int32) {
        keeper.withLock { keeper in
            if case .notStarted = keeper {
                keeper = start()
            }
            guard case .runs(let socket, _) = keeper else {
                return
            }
            let line = Array("\(order) \(child)\n".utf8)
            let count = unsafe line.withUnsafeBytes {
                unsafe send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            if count != line.count {
                // Somebody ended the shell: what it kept goes on, and there is no other.
                keeper = .unavailable
            }
        }
    }

    private static func start() -> Keeper {
        var ends: [Int32] = [-1, -1]
        let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        guard unsafe socketpair(AF_UNIX, kind, 0, &ends) == 0 else {
            return .unavailable
        }
        defer { close(ends[1]) }
        do throws(LocalCluster.Fault) {
            let shell = try ChildProcess(
                arguments: ["/bin/sh", "-c", script],
                log: "/dev/null",
                input: ends[1],
                isKept: false
            )
            return .runs(ends[0], shell)
        } catch {
            close(ends[0])
            return .unavailable
        }
    }
}
