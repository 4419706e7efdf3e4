/// Why a verb ends without doing what was asked: one sentence for a person, one code for a program.
struct CommandFailure: Error, Equatable {
    var exit: ExitCode
    /// Stable and dotted, such as `usage.unknown_option` or `decode.not_base64url`.
    var code: String
    var message: String

    init(_ exit: ExitCode, code: String, _ message: String) {
        self.exit = exit
        self.code = code
        self.message = message
    }

    static func usage(_ code: String, _ message: String) -> CommandFailure {
        CommandFailure(.usage, code: "usage.\(code)", message)
    }
}
