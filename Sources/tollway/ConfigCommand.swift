internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// `tollway config`: what the environment makes of each program.
enum ConfigCommand {
    private static let program = Verb.Option.value(
        "--worker",
        "NAME",
        "one of ingest, decode, dedupe, report, notifications, purchases; default: all of them"
    )

    static let check = Verb(
        words: ["config", "check"],
        summary: "whether each worker could start with this environment",
        options: [program],
        details: """
            Reads TOLLWAY_* as the workers would, and the files that it names, and starts the
            client library with its settings, asking Kafka nothing. Prints a line for each
            worker; exit 1 if one of them would refuse to start, or would start without the
            exchange rates that are named. A key that cannot be read beside one that can is
            told, and is no failure.
            """,
        run: runCheck
    )

    static let print = Verb(
        words: ["config", "print"],
        summary: "every setting, its value, and where that came from",
        options: [program],
        details: "Settings:\n" + settingLines(),
        run: runPrint
    )

    private static func settingLines() -> String {
        let rows =
            Setting.allCases.map { ($0.fullName, $0.summary) }
            + [
                (Setting.kafkaBootstrapServers, "where Kafka is"),
                (
                    "TOLLWAY_KAFKA_<UPPER_SNAKE>",
                    "a setting of librdkafka; refused where a promise rests on it"
                ),
                ("TOLLWAY_KAFKA_<SECRET>_FILE", "the file of one that is a secret"),
            ]
        return HelpText.table(rows)
    }

    // MARK: - Check

    private static func runCheck(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let environment = ProcessInfo.processInfo.environment
        let results = try workers(invocation).map { Check($0, environment) }
        switch invocation.output {
        case .table:
            Console.write(results.map(\.text).joined())
        case .json, .ndjson:
            Console.write(
                JSONLines.text(results.map(\.json), list: "workers", format: invocation.output)
            )
        }
        return results.allSatisfy { $0.fault == nil } ? .ok : .failed
    }

    /// What the settings and files make of one worker.
    private struct Check {
        let worker: Worker
        /// What fails the check.
        private(set) var fault: ConfigurationFault?
        private var starts = true
        private var warnings: [ConfigurationFault] = []

        init(_ worker: Worker, _ environment: [String: String]) {
            self.worker = worker
            do throws(ConfigurationFault) {
                let configuration = try Configuration(
                    environment: environment,
                    program: .worker(worker)
                )
                let shortfalls = try configuration.checkFiles()
                warnings = shortfalls.keys
                fault = shortfalls.rates
                try Self.checkKafka(configuration)
            } catch {
                fault = error
                starts = false
            }
        }

        /// The client library finds only at its start which of its settings do not go together, and what is
        /// wrong with a certificate; Kafka itself is not asked.
        private static func checkKafka(
            _ configuration: Configuration
        ) throws(ConfigurationFault) {
            do throws(LogFault) {
                try KafkaAdmin(settings: configuration.kafka).close()
            } catch {
                throw .refused(setting: Setting.kafkaPrefix + "*", because: error.sentence)
            }
        }

        var text: String {
            let words = fault.map { (starts ? "would start without rates: " : "") + $0.sentence }
            let first = "\(worker.rawValue): \(words ?? "ok")\n"
            return first
                + warnings.map {
                    "\(worker.rawValue): warning, the app's other key signs: \($0.sentence)\n"
                }.joined()
        }

        var json: String {
            var members = [
                ("worker", JSONText.quoted(worker.rawValue)), ("ok", "\(fault == nil)"),
                ("starts", "\(starts)"),
            ]
            members += fault.map(Self.members) ?? []
            let list = warnings.map { JSONLines.object(Self.members(of: $0)) }
            members.append(("warnings", JSONLines.list(list)))
            return JSONLines.object(members)
        }

        private static func members(of fault: ConfigurationFault) -> [(String, String)] {
            [
                ("code", JSONText.quoted(fault.code)),
                ("setting", JSONText.quoted(fault.setting)),
                ("message", JSONText.quoted(fault.sentence)),
            ]
        }
    }

    // MARK: - Print

    private static func runPrint(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let program: Program
        if invocation.has("--worker") {
            program = .worker(try workers(invocation)[0])
        } else {
            program = .tollway
        }
        let entries: [Configuration.Entry]
        do throws(ConfigurationFault) {
            entries = try Configuration.entries(
                environment: ProcessInfo.processInfo.environment,
                program: program
            )
        } catch {
            throw CommandFailure(.usage, code: error.code, error.sentence)
        }
        switch invocation.output {
        case .table:
            let rows = entries.map { ($0.name, "\(shown($0) ?? "-")  (\($0.source.rawValue))") }
            Console.write(HelpText.table(rows, indent: "") + "\n")
        case .json, .ndjson:
            let objects = entries.map { entry in
                JSONLines.object([
                    ("name", JSONText.quoted(entry.name)),
                    ("value", shown(entry).map(JSONText.quoted) ?? "null"),
                    ("source", JSONText.quoted(entry.source.rawValue)),
                ])
            }
            Console.write(JSONLines.text(objects, list: "settings", format: invocation.output))
        }
        return .ok
    }

    /// The value, masked where its name says that it might be a secret after all.
    private static func shown(_ entry: Configuration.Entry) -> String? {
        let mayBeSecret = ["PASSWORD", "SECRET", "TOKEN", "OAUTHBEARER_CONFIG", "_PEM"]
            .contains { entry.name.contains($0) }
        guard mayBeSecret, entry.name.hasPrefix(Setting.kafkaPrefix),
            !entry.name.hasSuffix("_FILE"), entry.value != nil
        else {
            return entry.value
        }
        return "********"
    }

    private static func workers(_ invocation: Invocation) throws(CommandFailure) -> [Worker] {
        guard let name = invocation.value("--worker") else {
            return Worker.allCases
        }
        return [try Worker.read(name, of: "--worker", among: Worker.allCases)]
    }
}
