internal import AppStoreAPI
internal import Glibc
internal import HTTPClient
internal import StageRuntime
internal import TokenDomain

/// Whether Apple can be reached, and what its clock says of ours.
struct DoctorApple {
    /// Apple takes a signature that is a few minutes off; this much leaves room.
    private static let skewSecondsMax: Int64 = 30
    /// Beyond this Apple refuses what is signed.
    private static let skewSecondsRefused: Int64 = 300
    private static let deadlineMilliseconds = 10_000
    /// No report has it.
    private static let nobodysReport = "00000000-0000-4000-8000-000000000000"

    let configuration: Configuration
    /// UNIX milliseconds.
    let now: () -> Int64

    /// What one host answered; nil headers where it did not.
    private struct Answer {
        var environment: AppleEnvironment
        var url: String
        var outcome: HTTPClientResponse.Outcome
        var answeredAt: Int64
    }

    /// Without a signature, so that nothing is counted against an app's rate: Apple answers 401.
    func findings() -> [DoctorFinding] {
        let answers: [Answer]
        do throws(HTTPClientFault) {
            answers = try ask()
        } catch {
            return [.skipped(.apple, "not asked: no HTTP client (\(error))")]
        }
        var findings = answers.map { answer -> DoctorFinding in
            let name = "\(answer.environment.rawValue), \(answer.url)"
            switch answer.outcome {
            case .answered(let heard):
                return .ok(.apple, "\(name) answers (HTTP \(heard.status))")
            case .failed(let failure):
                return .failed(
                    .apple,
                    "\(name) does not answer: \(failure.message) (\(failure.code))",
                    "let this machine out to it by HTTPS, DNS and proxies included; reports wait"
                )
            }
        }
        findings.append(clock(answers))
        return findings
    }

    private func ask() throws(HTTPClientFault) -> [Answer] {
        let http = try HTTPClient(
            limits: HTTPClient.Limits(
                concurrency: 2,
                responseByteCountMax: 64 << 10,
                totalTimeoutMilliseconds: Self.deadlineMilliseconds
            ),
            userAgent: "tollway-doctor"
        )
        defer { http.close() }
        let hosts = AppStoreHosts(
            production: configuration.appleProductionURL,
            sandbox: configuration.appleSandboxURL
        )
        for (tag, environment) in AppleEnvironment.allCases.enumerated() {
            let url = "\(hosts[environment])/externalPurchase/v1/reports/\(Self.nobodysReport)"
            _ = http.submit(HTTPClientRequest(method: "GET", url: url, tag: UInt64(tag)))
        }
        var answers: [Answer] = []
        while answers.count < AppleEnvironment.allCases.count {
            http.run()
            for response in http.takeResponses() {
                let environment = AppleEnvironment.allCases[Int(response.tag)]
                answers.append(
                    Answer(
                        environment: environment,
                        url: hosts[environment],
                        outcome: response.outcome,
                        answeredAt: now()
                    )
                )
            }
            var entry = pollfd(fd: http.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            let wait = http.millisecondsUntilTimeout ?? Self.deadlineMilliseconds
            _ = unsafe poll(&entry, 1, Int32(clamping: wait))
        }
        return answers.sorted { $0.environment.rawValue < $1.environment.rawValue }
    }

    private func clock(_ answers: [Answer]) -> DoctorFinding {
        let skews = answers.compactMap { answer -> Int64? in
            guard case .answered(let heard) = answer.outcome,
                let date = heard.header("date").flatMap({ HTTPDate.read(Array($0.utf8)) })
            else {
                return nil
            }
            return (answer.answeredAt - date.milliseconds) / 1_000
        }
        guard let skew = skews.min(by: { abs($0) < abs($1) }) else {
            return .skipped(.clock, "not compared: Apple's answers tell no time")
        }
        return Self.clock(skewSeconds: skew)
    }

    static func clock(skewSeconds skew: Int64) -> DoctorFinding {
        let words = "\(abs(skew)) s \(skew < 0 ? "behind" : "ahead of") Apple's"
        guard abs(skew) > skewSecondsMax else {
            return .ok(.clock, "this machine's clock agrees with Apple's, to \(abs(skew)) s")
        }
        let repair = "run NTP (chrony, systemd-timesyncd) on this machine"
        return abs(skew) >= skewSecondsRefused
            ? .failed(.clock, "the clock is \(words): Apple refuses what is signed", repair)
            : .warning(.clock, "the clock is \(words)", repair)
    }
}
