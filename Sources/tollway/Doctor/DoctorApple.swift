internal import AppStoreAPI
internal import Glibc
internal import HTTPClient
internal import StageRuntime
internal import TokenDomain

/// Whether Apple can be reached, what its clock says of ours, and what it says to our keys.
struct DoctorApple {
    /// Apple takes a signature that is a few minutes off; this much leaves room.
    private static let skewSecondsMax: Int64 = 30
    /// Beyond this Apple refuses what is signed.
    private static let skewSecondsRefused: Int64 = 300
    private static let deadlineMilliseconds = 10_000
    /// No report has it.
    private static let nobodysReport = "00000000-0000-4000-8000-000000000000"

    /// More apps than that are not asked for: one request each.
    static let signerCountMax = 50

    let configuration: Configuration
    /// UNIX milliseconds.
    let now: () -> Int64
    /// Of apps whose key can be read, by Apple's id.
    var signers: [(appAppleID: Int64, signer: AppStoreClient.Signer)] = []

    /// What one host answered; nil headers where it did not.
    private struct Answer {
        var environment: AppleEnvironment
        var url: String
        var outcome: HTTPClientResponse.Outcome
        var answeredAt: Int64
        /// Nil: it was asked without a signature, and says 401 to that.
        var appAppleID: Int64?
    }

    /// Asks both hosts without a signature, and the production one with each app's key for a report
    /// that nobody has: that is one request of the app's rate.
    func findings() -> [DoctorFinding] {
        let answers: [Answer]
        do throws(HTTPClientFault) {
            answers = try ask()
        } catch {
            return [.skipped(.apple, "not asked: no HTTP client (\(error))")]
        }
        var findings = answers.map { answer -> DoctorFinding in
            if let app = answer.appAppleID {
                guard case .answered(let heard) = answer.outcome else {
                    return .skipped(.keys, "Apple was not asked about the key of app \(app)")
                }
                return Self.key(of: app, httpStatus: heard.status)
            }
            let name = "\(answer.environment.rawValue), \(answer.url)"
            switch answer.outcome {
            case .answered(let heard):
                return .ok(.apple, "\(name) answers (HTTP \(heard.status))")
            case .failed(let failure):
                return .failed(
                    .apple,
                    "\(name) does not answer: \(failure.message) (\(failure.code))",
                    failure.code == "http.tls_untrusted"
                        ? "somebody answers in Apple's place, or this machine's roots are old: see the"
                            + " runbook, Apple's certificate does not verify"
                        : "let this machine out to it by HTTPS, DNS and proxies included; reports wait"
                )
            }
        }
        findings.append(clock(answers))
        return findings
    }

    /// What Apple's answer to a signed question for nobody's report says of the key.
    static func key(of app: Int64, httpStatus: Int) -> DoctorFinding {
        switch httpStatus {
        case 200, 400, 404:
            // That there is no such report, it says with 400: to whom it does not know, 401.
            return .ok(.keys, "Apple accepts the key of app \(app)")
        case 401:
            return .failed(
                .keys,
                "Apple does not accept what is signed with the key of app \(app) (HTTP 401)",
                "do issuerId, keyId, bundleId and the .p8 file belong together, was the key revoked"
                    + " in App Store Connect, is the clock right?"
            )
        case 403:
            return .failed(
                .keys,
                "Apple lets the key of app \(app) report nothing (HTTP 403)",
                "it must be an In-App Purchase key, and the app must have the entitlement"
            )
        default:
            return .skipped(
                .keys,
                "Apple's answer says nothing of the key of app \(app) (HTTP \(httpStatus))"
            )
        }
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
        let hostCount = AppleEnvironment.allCases.count
        let requests = AppStoreRequests(hosts: hosts)
        for (index, (_, signer)) in signers.prefix(Self.signerCountMax).enumerated() {
            let request = requests.retrieveReport(
                requestIdentifier: Self.nobodysReport,
                environment: .production,
                webToken: JSONWebToken.make(
                    key: signer.key,
                    issuerID: signer.issuerID,
                    keyID: signer.keyID,
                    bundleID: signer.bundleID,
                    now: Timestamp(milliseconds: now())
                ),
                tag: UInt64(hostCount + index)
            )
            _ = http.submit(request)
        }
        var answers: [Answer] = []
        while answers.count < hostCount + min(signers.count, Self.signerCountMax) {
            http.run()
            for response in http.takeResponses() {
                let tag = Int(response.tag)
                let environment =
                    tag < hostCount ? AppleEnvironment.allCases[tag] : .production
                answers.append(
                    Answer(
                        environment: environment,
                        url: hosts[environment],
                        outcome: response.outcome,
                        answeredAt: now(),
                        appAppleID: tag < hostCount ? nil : signers[tag - hostCount].appAppleID
                    )
                )
            }
            var entry = pollfd(fd: http.wakeDescriptor, events: Int16(POLLIN), revents: 0)
            let wait = http.millisecondsUntilTimeout ?? Self.deadlineMilliseconds
            _ = unsafe poll(&entry, 1, Int32(clamping: wait))
        }
        return answers.sorted {
            ($0.appAppleID ?? 0, $0.environment.rawValue)
                < ($1.appAppleID ?? 0, $1.environment.rawValue)
        }
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
