internal import Glibc
internal import Telemetry
package import TokenDomain

/// What a worker answers to its command line: it takes settings from the environment, and no
/// arguments.
package struct WorkerArguments {
    /// 0 where it was asked for, on standard output; 2 on standard error.
    let exitCode: Int32
    let text: String

    /// Nil without arguments: the worker runs.
    init?(_ arguments: [String], of worker: Worker) {
        let name = "tollway-\(worker.rawValue)"
        let settings =
            "its settings are environment variables: \"tollway config print\" lists them, and"
            + " \"tollway config check\" tells whether it could start with them"
        switch arguments {
        case []:
            return nil
        case ["-h"], ["--help"]:
            exitCode = 0
            text = "Usage: \(name)\n\nIt takes no arguments; \(settings).\n"
        case ["--version"]:
            exitCode = 0
            text = "\(name) \(BuildInfo.version)\n"
        default:
            exitCode = 2
            text = "\(name): it takes no arguments, and was given \(arguments[0]); \(settings)\n"
        }
    }

    /// Answers the arguments of this process and exits, where it has any.
    package static func answer(for worker: Worker) {
        guard let answer = WorkerArguments(Array(CommandLine.arguments.dropFirst()), of: worker)
        else {
            return
        }
        if answer.exitCode == 0 {
            print(answer.text, terminator: "")
        } else {
            Log.writeToStandardError(answer.text)
        }
        exit(answer.exitCode)
    }
}
