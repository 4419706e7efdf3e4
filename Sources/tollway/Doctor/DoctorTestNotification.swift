internal import AppStoreAPI
internal import HTTPClient
internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Whether what Apple sends comes in: asks it for a test notification of each app and world, and
/// waits until it is in Kafka.
final class DoctorTestNotification {
    /// Apple takes one such request a second.
    private static let requestsPerSecond = 1.0
    private static let waitMilliseconds: Int64 = 45_000
    private static let readCountMax = 1_000
    /// No URL is set for the environment in App Store Connect.
    private static let noURLCode: Int64 = 4_040_007

    private enum Question {
        case request
        case status(String)
    }

    /// One test under way.
    private struct Test {
        var lane: Lane
        var token: String
        var status: TestNotificationStatus?

        var name: String { "app \(lane.appAppleID) (\(lane.environment.rawValue))" }
        var isTried: Bool { status?.sendAttemptResult != nil }
    }

    private let queue: AppleRequestQueue<Question>
    private let browser: LogBrowser
    private let apps: [AppsFile.App]
    private var tests: [Test] = []
    /// What came in since the beginning.
    private var arrived: Set<UInt64> = []
    private var findings: [DoctorFinding] = []

    /// - Throws: where there is no key to ask Apple with, or no Kafka to see it arrive in.
    init(_ configuration: Configuration) throws(CommandFailure) {
        let keys = try AppleKeys(configuration)
        apps = keys.apps
        let requests = AppStoreRequests(hosts: configuration.appleHosts)
        queue = try AppleRequestQueue(keys: keys, rate: { _ in Self.requestsPerSecond }) {
            question,
            environment,
            webToken,
            tag in
            switch question {
            case .request:
                requests.requestTestNotification(
                    environment: environment,
                    webToken: webToken,
                    tag: tag
                )
            case .status(let token):
                requests.testNotificationStatus(
                    token,
                    environment: environment,
                    webToken: webToken,
                    tag: tag
                )
            }
        }
        let topic = Topic.notificationsReceived.name(prefix: configuration.topicPrefix)
        let ends = try KafkaQuestion.ask(configuration) { admin throws(LogFault) -> [Int64] in
            try admin.endOffsets(ofTopic: topic)
        }
        do throws(LogFault) {
            browser = try LogBrowser(settings: configuration.kafka, topics: [topic])
            try browser.start(
                at: ends.enumerated().reduce(into: [:]) {
                    $0[TopicPartition(topic: topic, partition: Int32($1.offset))] =
                        .offset($1.element)
                }
            )
        } catch {
            throw KafkaQuestion.failure(error, configuration)
        }
    }

    deinit {
        browser.close()
    }

    /// Asks, and waits up to 45 s.
    func run() -> [DoctorFinding] {
        for app in apps {
            for environment in AppleEnvironment.allCases {
                queue.add(
                    .request,
                    in: Lane(appAppleID: app.appAppleID, environment: environment)
                )
            }
        }
        let until = WallClock.monotonicMilliseconds() + Self.waitMilliseconds
        while WallClock.monotonicMilliseconds() < until, queue.isBusy || !isDone {
            queue.turn().forEach(take)
            read()
            if !queue.isBusy {
                for test in tests where !test.isTried {
                    queue.add(.status(test.token), in: test.lane)
                }
            }
        }
        return findings + tests.map(finding)
    }

    private var isDone: Bool {
        tests.allSatisfy { test in
            test.isTried
                && (test.status?.sendAttemptResult != Self.success || hasArrived(test))
        }
    }

    private static let success = "SUCCESS"

    private func hasArrived(_ test: Test) -> Bool {
        test.status.map { arrived.contains(TextDigest.of($0.signedPayload)) } ?? false
    }

    private func take(_ result: AppleRequestQueue<Question>.Result) {
        let name = "app \(result.lane.appAppleID) (\(result.lane.environment.rawValue))"
        switch (result.subject, result.outcome) {
        case (_, .failure(let trouble)):
            tests.removeAll { $0.lane == result.lane }
            findings.append(
                .skipped(.notifications, "no test for \(name): \(trouble.failure.message)")
            )
        case (.request, .success(let answer)):
            if answer.status == 200, let token = TestNotificationStatus.token(in: answer.body) {
                tests.append(Test(lane: result.lane, token: token))
            } else {
                findings.append(refusal(answer, name))
            }
        case (.status(let token), .success(let answer)):
            // Not found: Apple does not know it yet.
            if answer.status == 200, let index = tests.firstIndex(where: { $0.token == token }) {
                tests[index].status = TestNotificationStatus(answer.body)
            }
        }
    }

    private func refusal(_ answer: HTTPClientResponse.Answer, _ name: String) -> DoctorFinding {
        let codes = AppleBody(answer.body).errors?.map(\.code) ?? []
        guard codes.contains(Self.noURLCode) else {
            let code = codes.first.map { ", error \($0)" } ?? ""
            return .skipped(
                .notifications,
                "Apple sends no test for \(name): HTTP \(answer.status)\(code)"
            )
        }
        return .failed(
            .notifications,
            "Apple knows no URL for the notifications of \(name)",
            "set it in App Store Connect, for version 2: https://HOST/v1/notifications"
        )
    }

    private func read() {
        var batch = RecordBatch()
        do throws(LogFault) {
            _ = try browser.read(
                into: &batch,
                recordCountMax: Self.readCountMax,
                waitMilliseconds: 100
            )
        } catch {
            // What does not show within the time is reported as not arrived.
            return
        }
        for record in batch.records where !record.value.isAbsent {
            do throws(WireFault) {
                let value = batch.arena.span.extracting(record.value.indices)
                let payload = try NotificationReceived(reading: value).signedPayload
                arrived.insert(TextDigest.of(payload))
            } catch {
                // Not ours, and no test.
                continue
            }
        }
    }

    private func finding(_ test: Test) -> DoctorFinding {
        guard let result = test.status?.sendAttemptResult else {
            return .warning(
                .notifications,
                "Apple did not send the test for \(test.name) within"
                    + " \(Self.waitMilliseconds / 1_000) s",
                "ask again; Apple may take longer"
            )
        }
        guard result == Self.success else {
            return .failed(
                .notifications,
                "Apple could not deliver the test for \(test.name): \(result)",
                "is the URL right, does ingest run behind it with"
                    + " \(Setting.appleRootsFile.fullName), is 17.0.0.0/8 let in with TLS 1.2?"
            )
        }
        guard hasArrived(test) else {
            return .failed(
                .notifications,
                "Apple delivered the test for \(test.name), and it is not in this Kafka",
                "the URL in App Store Connect leads to another door than this pipeline's"
            )
        }
        return .ok(.notifications, "Apple's test for \(test.name) came in")
    }
}
