internal import AppStoreAPI
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

    /// More keys than that are not asked for: one request each for production and sandbox.
    static let signerCountMax = 50

    /// A key of an app that can be read.
    struct SigningKey {
        var appAppleID: Int64
        var signer: AppStoreClient.Signer

        var name: String { "the key \(signer.keyID) of app \(appAppleID)" }
    }

    let configuration: Configuration
    /// UNIX milliseconds.
    let now: () -> Int64
    var signers: [SigningKey] = []

    /// What one host answered; nil headers where it did not.
    private struct Answer {
        var environment: AppleEnvironment
        var url: String
        var outcome: HTTPClientResponse.Outcome
        var answeredAt: Int64
        /// Of the key that signed; nil: it was asked without a signature, and says 401 to that.
        var signer: Int?

        var httpStatus: Int? {
            guard case .answered(let response) = outcome else {
                return nil
            }
            return response.status
        }
    }

    /// Asks both hosts without a signature, and with each key of each app for a report that nobody
    /// has: that is one request of the app's rate in each world.
    func findings() -> [DoctorFinding] {
        let answers: [Answer]
        do throws(HTTPClientFault) {
            answers = try ask()
        } catch {
            return [.skipped(.apple, "not asked: no HTTP client (\(error))")]
        }
        var findings = answers.filter { $0.signer == nil }.map(Self.host)
        for (index, key) in signers.prefix(Self.signerCountMax).enumerated() {
            let own = answers.filter { $0.signer == index }
            let statuses = own.map { ($0.environment, $0.httpStatus) }
            findings += Self.key(key.name, Dictionary(uniqueKeysWithValues: statuses))
        }
        if let finding = Self.unasked(keyCount: signers.count) {
            findings.append(finding)
        }
        findings.append(clock(answers))
        return findings
    }

    /// Nil where every key is asked for.
    static func unasked(keyCount: Int) -> DoctorFinding? {
        guard keyCount > signerCountMax else {
            return nil
        }
        return .warning(
            .keys,
            "Apple was asked about the first \(signerCountMax) of \(keyCount) keys, and not about"
                + " the other \(keyCount - signerCountMax)",
            "run doctor again with a \(Setting.appsFile.fullName) of the other apps alone"
        )
    }

    private static func host(_ answer: Answer) -> DoctorFinding {
        let name = "\(answer.environment.rawValue), \(answer.url)"
        switch answer.outcome {
        case .answered(let response):
            return host(
                name,
                answer.environment,
                httpStatus: response.status,
                isPage: AppleBody.isPage(response.body)
            )
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

    /// What its answer to the unsigned question says of a host.
    static func host(
        _ name: String,
        _ environment: AppleEnvironment,
        httpStatus: Int,
        isPage: Bool = false
    ) -> DoctorFinding {
        isSomebodyElses(httpStatus, isPage: isPage)
            ? .failed(
                .apple,
                "somebody else than Apple's report service answers at \(name) (HTTP \(httpStatus))",
                somebodyElse(environment)
            )
            : .ok(.apple, "\(name) answers (HTTP \(httpStatus))")
    }

    /// Whether the answer shows a wrong address or a proxy: by the same status `report` stops a lane,
    /// or takes a 200 for an outage.
    ///
    /// Apple documents none of them for this GET (apple-api 2.1): there is no report to show, and
    /// Apple says so with 400. A 403 is taken to be about the key.
    private static func isSomebodyElses(_ httpStatus: Int, isPage: Bool = false) -> Bool {
        switch httpStatus {
        case 200...299:
            return true
        case 403:
            return false
        default:
            let meaning = ReportAnswer(
                AppleReply(transport: .answered(status: httpStatus), isPage: isPage),
                to: .retrieve,
                identifier: nobodysReport,
                newestDate: nil,
                now: Timestamp(milliseconds: 0)
            )
            return meaning == .lane(.misdirected, until: nil)
        }
    }

    private static func somebodyElse(_ environment: AppleEnvironment) -> String {
        let setting: Setting =
            switch environment {
            case .production: .appleProductionURL
            case .sandbox: .appleSandboxURL
            }
        return "mend \(setting.fullName), or have the host left out of the proxy between"
    }

    /// What Apple's answers to a signed question for nobody's report say of the key, in each world.
    static func key(
        _ name: String,
        _ statuses: [AppleEnvironment: Int?]
    ) -> [DoctorFinding] {
        let isGood = statuses.values.contains { $0.map(accepts) == true }
        return AppleEnvironment.allCases.map { environment in
            guard let status = statuses[environment] ?? nil else {
                return .skipped(.keys, "\(environment.rawValue) was not asked about \(name)")
            }
            return key(name, environment, httpStatus: status, isGoodElsewhere: isGood)
        }
    }

    /// That there is no such report, Apple says with 400, and with nothing else (apple-api 2.1): to
    /// whom it does not know, 401.
    private static func accepts(_ httpStatus: Int) -> Bool {
        httpStatus == 400
    }

    private static func key(
        _ name: String,
        _ environment: AppleEnvironment,
        httpStatus: Int,
        isGoodElsewhere: Bool
    ) -> DoctorFinding {
        let place = "Apple's \(environment.rawValue)"
        switch httpStatus {
        case _ where accepts(httpStatus):
            return .ok(.keys, "\(place) accepts \(name)")
        case 401 where isGoodElsewhere && environment == .production:
            return .warning(
                .keys,
                "\(place) does not accept \(name) (HTTP 401), and the sandbox does",
                "so is an app answered that has no release in production yet; else ask Apple"
            )
        case 401:
            return .failed(
                .keys,
                "\(place) does not accept what is signed with \(name) (HTTP 401)",
                "do issuerId, keyId, bundleId and the .p8 file belong together, was the key revoked"
                    + " in App Store Connect, is the clock right?"
            )
        case 403:
            return .failed(
                .keys,
                "\(place) lets \(name) report nothing (HTTP 403)",
                "it must be an In-App Purchase key, and the app must have the entitlement"
            )
        case _ where isSomebodyElses(httpStatus):
            return .failed(
                .apple,
                "somebody else than \(place) answers what \(name) signs (HTTP \(httpStatus))",
                somebodyElse(environment)
            )
        default:
            return .skipped(
                .keys,
                "the answer of \(place) says nothing of \(name) (HTTP \(httpStatus))"
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
        let hosts = configuration.appleHosts
        for (tag, environment) in AppleEnvironment.allCases.enumerated() {
            let url = "\(hosts[environment])/externalPurchase/v1/reports/\(Self.nobodysReport)"
            _ = http.submit(HTTPClientRequest(method: "GET", url: url, tag: UInt64(tag)))
        }
        let environments = AppleEnvironment.allCases
        let requests = AppStoreRequests(hosts: hosts)
        let asked = signers.prefix(Self.signerCountMax)
        for (index, key) in asked.enumerated() {
            for (number, environment) in environments.enumerated() {
                let request = requests.retrieveReport(
                    requestIdentifier: Self.nobodysReport,
                    environment: environment,
                    webToken: JSONWebToken.make(
                        key: key.signer.key,
                        issuerID: key.signer.issuerID,
                        keyID: key.signer.keyID,
                        bundleID: key.signer.bundleID,
                        now: Timestamp(milliseconds: now())
                    ),
                    tag: UInt64((index + 1) * environments.count + number)
                )
                _ = http.submit(request)
            }
        }
        var answers: [Answer] = []
        http.awaitAll { response in
            let (key, number) = Int(response.tag)
                .quotientAndRemainder(dividingBy: environments.count)
            answers.append(
                Answer(
                    environment: environments[number],
                    url: hosts[environments[number]],
                    outcome: response.outcome,
                    answeredAt: now(),
                    signer: key == 0 ? nil : key - 1
                )
            )
        }
        return answers.sorted { $0.environment.rawValue < $1.environment.rawValue }
    }

    private func clock(_ answers: [Answer]) -> DoctorFinding {
        let skews = answers.compactMap { answer -> Int64? in
            guard case .answered(let response) = answer.outcome,
                let date = response.header("date").flatMap({ HTTPDate.read(Array($0.utf8)) })
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
