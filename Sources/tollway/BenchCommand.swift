internal import Foundation
internal import Glibc

/// `tollway bench`: runs the program `tollway-bench` that lies beside this one, in its place.
enum BenchCommand {
    private static let program = "tollway-bench"

    static let verb = Verb(
        words: ["bench"],
        summary: "how fast each worker is on this machine, by the program tollway-bench",
        operands: "[--] [ARGUMENTS OF tollway-bench]",
        details: """
            Every argument goes to tollway-bench as it is; it must lie beside this program, where
            swift build -c release puts it. Its options: tollway bench -- --help; those of fill,
            which fills topics to measure commands against: tollway bench fill --help. What it
            measured, and on what: Deploy/MEASUREMENTS.md. Exit 2 where it is not there, else as
            tollway-bench ends.
            """,
        passesArgumentsOn: true,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let folder = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
            .deletingLastPathComponent()
        // One before the verb is tollway's own; bench fill has none.
        let isMeasure = invocation.operands.first?.hasPrefix("-") ?? true
        let format = invocation.output == .table || !isMeasure ? [] : ["-o", "json"]
        throw replaceProcess(
            with: folder.appendingPathComponent(program).path,
            invocation.operands + format
        )
    }

    /// Returns only where that is not possible.
    static func replaceProcess(with path: String, _ arguments: [String]) -> CommandFailure {
        // This program ignores it, and what is ignored stays so in the next one.
        _ = signal(SIGPIPE, SIG_DFL)
        var pointers = unsafe ([path] + arguments).map { unsafe strdup($0) }
        unsafe pointers.append(nil)
        _ = unsafe execv(path, pointers)
        let code = errno
        unsafe pointers.forEach { unsafe free($0) }
        return CommandFailure(
            .usage,
            code: "bench.missing",
            code == ENOENT
                ? "\(program) is not there (\(path)): build it with swift build -c release"
                    + " --product \(program)"
                : "\(path) cannot be run (error \(code) of the system)"
        )
    }
}
