internal import Foundation
internal import Kafka
internal import StageRuntime
internal import Telemetry

/// `tollway doctor`: what would keep the pipeline from working here, and how it is mended.
enum DoctorCommand {
    static let verb = Verb(
        words: ["doctor"],
        summary: "look at settings, keys, disk, clock, Kafka and Apple, with a repair for each",
        options: [
            .flag("--no-apple", "do not ask Apple; the clock is not compared then"),
            .flag("--no-kafka", "do not ask Kafka"),
            .flag(
                "--test-notification",
                "have Apple send a test for each app and environment, and wait until it is in Kafka"
            ),
            .value(
                "--for",
                "ROLE",
                "whose settings and rights to look at: a worker or operator; default: all"
            ),
        ],
        details: """
            Reads TOLLWAY_* as the workers would and changes nothing: no group is joined. Each
            key of each app signs one question to Apple's production and one to its sandbox,
            for a report that does not exist; no other request of the app's rate is used. Whether
            records may be written is asked with one that Kafka must refuse (it wants two
            acknowledgements), and transactions under names of doctor's own, ending in -doctor.
            A key that everybody can read is refused. Run it where a worker runs, with that
            worker's environment and --for that worker: what the others would lack there is
            nothing then. Apple is asked for report, and for an operator that has keys.
            --test-notification is the one thing that changes something: Apple sends a
            notification of type TEST, which goes to notifications.other; it waits up to 45 s,
            and it is a failure where no test has a result.
            Exit 0 if nothing failed (warnings are no failures), 6 if Kafka does not answer, 7 if
            all that failed is that Apple does not, else 1.
            """,
        run: run
    )

    private static func run(_ invocation: Invocation) throws(CommandFailure) -> ExitCode {
        let environment = ProcessInfo.processInfo.environment
        let role = try DoctorRights.Role(invocation)
        let files = DoctorFiles(environment: environment, role: role)
        var report = Report(output: invocation.output)
        report.add(files.configurations() + files.keys() + [files.state()])
        let configuration: Configuration
        do throws(ConfigurationFault) {
            configuration = try Configuration(environment: environment, program: .tollway)
        } catch {
            report.add([.skipped(.kafka, "not asked: \(error.sentence)")])
            return report.end()
        }
        if invocation.has("--no-kafka") {
            report.add([.skipped(.kafka, "not asked")])
        } else {
            report.isKafkaAway = addKafka(configuration, role, to: &report)
        }
        if invocation.has("--no-apple") {
            report.add([.skipped(.apple, "not asked"), .skipped(.clock, "not compared")])
        } else if !files.asksApple {
            report.add([
                .skipped(.apple, "not asked: no keys for Apple are wanted here"),
                .skipped(.clock, "not compared"),
            ])
        } else {
            let apple = DoctorApple(
                configuration: configuration,
                now: { WallClock.nowMilliseconds() },
                signers: files.signers()
            )
            report.add(apple.findings())
        }
        if invocation.has("--test-notification") {
            report.addTest(testNotification(configuration))
        }
        return report.end()
    }

    private static func testNotification(_ configuration: Configuration) -> [DoctorFinding] {
        do throws(CommandFailure) {
            return try DoctorTestNotification(configuration).run()
        } catch {
            return [.skipped(.notifications, "no test: \(error.message)")]
        }
    }

    /// - Returns: whether Kafka is away.
    private static func addKafka(
        _ configuration: Configuration,
        _ role: DoctorRights.Role?,
        to report: inout Report
    ) -> Bool {
        let kafka = DoctorKafka(
            configuration: configuration,
            role: role,
            now: WallClock.nowMilliseconds()
        )
        do throws(LogFault) {
            report.add(try kafka.findings())
            return false
        } catch {
            let servers = configuration.kafka.bootstrapServers
            report.add([
                .failed(
                    .kafka,
                    "no answer at \(servers): \(error.sentence)",
                    "is \(Setting.kafkaBootstrapServers) right, does it run, do TLS and SASL"
                        + " settings fit?"
                )
            ])
            return true
        }
    }

    /// What was found; a table grows as it is found, a document comes at the end.
    struct Report {
        let output: OutputFormat
        var isKafkaAway = false
        private(set) var findings: [DoctorFinding] = []

        init(output: OutputFormat) {
            self.output = output
        }

        mutating func add(_ more: [DoctorFinding]) {
            findings += more
            switch output {
            case .table: Console.write(more.map(\.text).joined())
            case .ndjson: Console.write(more.map { $0.json + "\n" }.joined())
            case .json: break
            }
        }

        /// Adds the findings of the test notifications.
        ///
        /// Where no test has a result, that is a failure, so that it does not end with 0; what failed
        /// before keeps its exit code.
        mutating func addTest(_ more: [DoctorFinding]) {
            add(more)
            guard exit == .ok, !more.contains(where: { $0.verdict == .ok }) else {
                return
            }
            add([
                .failed(
                    .notifications,
                    "no test notification has a result",
                    "mend what the lines above say, and ask again"
                )
            ])
        }

        func count(_ verdict: DoctorFinding.Verdict) -> Int {
            findings.count { $0.verdict == verdict }
        }

        var exit: ExitCode {
            let failed = findings.filter { $0.verdict == .failed }
            if isKafkaAway {
                return .noKafka
            }
            if failed.isEmpty {
                return .ok
            }
            return failed.allSatisfy { $0.area == .apple } ? .noApple : .failed
        }

        func end() -> ExitCode {
            if output == .json {
                let list = JSONLines.list(findings.map(\.json))
                Console.write(
                    JSONLines.object([
                        ("findings", list), ("failedCount", "\(count(.failed))"),
                        ("warningCount", "\(count(.warning))"),
                    ]) + "\n"
                )
            }
            Console.say("\(count(.failed)) failed, \(count(.warning)) warnings")
            return exit
        }
    }
}
