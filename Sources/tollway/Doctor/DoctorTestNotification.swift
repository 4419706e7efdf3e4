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
    /// An answer that is older says nothing about the end.
    private static let silenceMillisecondsMax: Int64 = 10_000
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
        /// A question about it is under way.
        var isAsked = false
        /// When Apple answered the last, in monotonic milliseconds.
        var answeredAt: Int64?

        var isTried: Bool { status?.sendAttemptResult != nil }
    }

    private let queue: AppleRequestQueue<Question>
    private let browser: LogBrowser
    private let apps: [AppsFile.App]
    private let waitMilliseconds: Int64
    /// Lanes that were asked for a test, without result so far.
    private var unanswered: [Lane] = []
    private var tests: [Test] = []
    /// What came in since the beginning.
    private var arrived: Set<UInt64> = []
    private var findings: [DoctorFinding] = []

    /// - Throws: where there is no key to ask Apple with, or no Kafka to see it arrive in.
    init(
        _ configuration: Configuration,
        waitMilliseconds: Int64 = 45_000
    ) throws(CommandFailure) {
        self.waitMilliseconds = waitMilliseconds
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
    ///
    /// - Returns: one for each app and world.
    func run() -> [DoctorFinding] {
        unanswered = apps.flatMap { app in
            AppleEnvironment.allCases.map { Lane(appAppleID: app.appAppleID, environment: $0) }
        }
        for lane in unanswered {
            queue.add(.request, in: lane)
        }
        let until = WallClock.monotonicMilliseconds() + waitMilliseconds
        while WallClock.monotonicMilliseconds() < until, queue.isBusy || !isDone {
            queue.turn().forEach(take)
            read()
            // Lane by lane: one that Apple limits keeps no other waiting.
            for index in tests.indices where !tests[index].isTried && !tests[index].isAsked {
                tests[index].isAsked = true
                queue.add(.status(tests[index].token), in: tests[index].lane)
            }
        }
        let now = WallClock.monotonicMilliseconds()
        return findings + tests.map { finding($0, now: now) }
            + unanswered.map { noAnswer("no test for \(Self.name($0))") }
    }

    private static func name(_ lane: Lane) -> String {
        "app \(lane.appAppleID) (\(lane.environment.rawValue))"
    }

    private func noAnswer(_ what: String) -> DoctorFinding {
        .skipped(
            .notifications,
            "\(what): Apple gave no answer within \(waitMilliseconds / 1_000) s"
        )
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
        let name = Self.name(result.lane)
        unanswered.removeAll { $0 == result.lane }
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
            guard let index = tests.firstIndex(where: { $0.token == token }) else {
                return
            }
            tests[index].isAsked = false
            tests[index].answeredAt = WallClock.monotonicMilliseconds()
            // Not found: Apple does not know it yet.
            if answer.status == 200 {
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

    private func finding(_ test: Test, now: Int64) -> DoctorFinding {
        let name = Self.name(test.lane)
        guard let result = test.status?.sendAttemptResult else {
            guard let answeredAt = test.answeredAt,
                now - answeredAt <= Self.silenceMillisecondsMax
            else {
                return noAnswer("whether Apple sent the test for \(name) is unknown")
            }
            return .warning(
                .notifications,
                "Apple did not send the test for \(name) within \(waitMilliseconds / 1_000) s",
                "ask again; Apple may take longer"
            )
        }
        guard result == Self.success else {
            return .failed(
                .notifications,
                "Apple could not deliver the test for \(name): \(result)",
                "is the URL right, does ingest run behind it with"
                    + " \(Setting.appleRootsFile.fullName), is 17.0.0.0/8 let in with TLS 1.2?"
            )
        }
        guard hasArrived(test) else {
            return .failed(
                .notifications,
                "Apple delivered the test for \(name), and it is not in this Kafka",
                "the URL in App Store Connect leads to another door than this pipeline's"
            )
        }
        return .ok(.notifications, "Apple's test for \(name) came in")
    }
}
