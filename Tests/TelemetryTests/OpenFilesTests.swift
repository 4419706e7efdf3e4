import Glibc
import Testing

@testable import Telemetry

struct `The limit of open files` {
    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)

    private func read() throws -> rlimit {
        var limit = rlimit()
        try #require(unsafe getrlimit(Self.resource, &limit) == 0)
        return limit
    }

    @Test func `is raised to what the system allows, and never lowered`() throws {
        let before = try read()
        let allowed = min(before.rlim_max, rlim_t(OpenFiles.raisedLimitMax))
        // One below: enough for the tests that run beside this one.
        var lower = before
        lower.rlim_cur = allowed - 1
        try #require(unsafe setrlimit(Self.resource, &lower) == 0)
        OpenFiles.raiseLimit()
        #expect(try read().rlim_cur == allowed)

        guard before.rlim_max > allowed else {
            return
        }
        lower.rlim_cur = allowed + 1
        try #require(unsafe setrlimit(Self.resource, &lower) == 0)
        OpenFiles.raiseLimit()
        #expect(try read().rlim_cur == allowed + 1)
    }
}

struct `The standard descriptors` {
    @Test func `are taken where they are closed, so that no log line goes elsewhere`() async {
        await #expect(processExitsWith: .exitCode(7)) {
            close(STDIN_FILENO)
            close(STDERR_FILENO)
            OpenFiles.keepStandardOnes()
            let isTaken = [STDIN_FILENO, STDERR_FILENO].allSatisfy { fcntl($0, F_GETFD) >= 0 }
            _exit(isTaken ? 7 : 1)
        }
    }
}
