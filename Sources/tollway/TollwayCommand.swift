internal import Telemetry

/// The operator's command, from its arguments to its exit code.
enum TollwayCommand {
    static func run(_ arguments: [String]) -> ExitCode {
        let wantsJSON = ArgumentReader.wantsJSON(arguments)
        do throws(CommandFailure) {
            switch try ArgumentReader.read(arguments, verbs: verbs) {
            case .version:
                Console.write(
                    wantsJSON
                        ? "{\"version\":\(JSONText.quoted(BuildInfo.version))}\n"
                        : "tollway \(BuildInfo.version)\n"
                )
                return .ok
            case .help(let text):
                Console.write(text)
                return .ok
            case .invocation(let invocation):
                return try invocation.verb.run(invocation)
            }
        } catch {
            report(error, asJSON: wantsJSON)
            return error.exit
        }
    }

    /// Where the one document of a verb is written already, the error is the other stream's: two
    /// would be no JSON.
    private static func report(_ failure: CommandFailure, asJSON: Bool) {
        guard asJSON else {
            Console.say("tollway: \(failure.message)")
            return
        }
        let document =
            "{\"error\":{\"code\":\(JSONText.quoted(failure.code)),"
            + "\"message\":\(JSONText.quoted(failure.message))}}"
        if Console.hasWritten {
            Console.say(document)
        } else {
            Console.write(document + "\n")
        }
    }
}
