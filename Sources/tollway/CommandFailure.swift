internal import Telemetry

/// Why a verb ends without doing what was asked: one sentence for a person, one code for a program.
struct CommandFailure: Error, Equatable {
    var exit: ExitCode
    /// Stable and dotted, such as `usage.unknown_option` or `decode.not_base64url`.
    var code: String
    var message: String

    /// Characters of a sentence; what is quoted in it may be of any length.
    private static let messageCountMax = 600

    init(_ exit: ExitCode, code: String, _ message: String) {
        self.exit = exit
        self.code = code
        // It may quote what was typed.
        self.message = PlainText.printable(message, characterCountMax: Self.messageCountMax)
    }

    static func usage(_ code: String, _ message: String) -> CommandFailure {
        CommandFailure(.usage, code: "usage.\(code)", message)
    }
}
