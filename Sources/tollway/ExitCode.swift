/// The exit status of the command.
///
/// The numbers are a contract.
enum ExitCode: Int32, Sendable {
    case ok = 0
    /// The answer is no.
    case failed = 1
    /// The question cannot be asked: bad options, an unreadable file.
    case usage = 2
    case nothingMatched = 3
    case partlyDone = 4
    case refusedBySafetyRule = 5
    case noKafka = 6
    case noApple = 7
    case tryAgain = 75
    case interrupted = 130
}
