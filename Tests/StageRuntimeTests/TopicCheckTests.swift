import Kafka
import LocalKafka
import Synchronization
import Telemetry
import Testing
import TokenDomain

@testable import StageRuntime

@Suite struct `Topics looked for at a worker's start` {
    private static let names = (Worker.decode.sources + WorkerLoop.targets(of: .decode))
        .map { $0.name(prefix: "tollway.") }

    private func check(_ mock: MockBroker) throws -> TopicCheck {
        TopicCheck(
            worker: .decode,
            configuration: try Configuration(
                environment: [
                    "TOLLWAY_KAFKA_BOOTSTRAP_SERVERS": mock.bootstrapServers,
                    "TOLLWAY_DELIVERY": "at-least-once", "TOLLWAY_APPS_FILE": "apps.json",
                ],
                program: .worker(.decode)
            ),
            log: Log(worker: "decode", write: { _ in })
        )
    }

    /// A broker shows a new topic late; a stage that gave up at once would have to be started again
    /// by hand.
    @Test(arguments: [1, 20, TopicCheck.missingRetryCountMax])
    func `are found although they come late`(turn: Int) throws {
        let mock = try MockBroker(topics: [Self.names[0]: 1])
        defer { mock.close() }
        var turnCount = 0
        var waitedMilliseconds = 0
        let cluster = try check(mock).waitForTopics { milliseconds in
            turnCount += 1
            waitedMilliseconds += milliseconds
            if turnCount == turn {
                do {
                    for name in Self.names.dropFirst() {
                        try mock.createTopic(name, partitionCount: 1)
                    }
                } catch {
                    Issue.record("\(error)")
                }
            }
            return false
        }
        #expect(cluster != nil)
        #expect(turnCount == turn)
        #expect(waitedMilliseconds <= 20_000)
    }

    @Test func `are refused by name where they do not come`() throws {
        let mock = try MockBroker(topics: [Self.names[0]: 1])
        defer { mock.close() }
        var turnCount = 0
        let fault = #expect(throws: LogFault.self) {
            _ = try check(mock).waitForTopics { _ in
                turnCount += 1
                return false
            }
        }
        #expect(turnCount == TopicCheck.missingRetryCountMax)
        guard case .misconfigured(let message) = fault else {
            Issue.record("\(String(describing: fault))")
            return
        }
        for name in Self.names.dropFirst() {
            #expect(message.contains(name))
        }
        #expect(message.contains("tollway topics apply --yes"))
    }

    /// A pod that is killed while Kafka is away gets into back-off, and comes late when it is back.
    @Test(arguments: [true, false])
    func `are waited for by a worker that is alive, started and not ready`(isAway: Bool) throws {
        let mock = try MockBroker(topics: [Self.names[0]: 1])
        defer { mock.close() }
        mock.setAway(isAway)
        let clock = Clock()
        let health = Health(now: { clock.time.withLock { $0 } })
        let missing = Self.names.dropFirst().joined(separator: ", ")
        let waited = isAway ? "waiting for Kafka" : "Kafka shows no topic \(missing)"
        var turnCount = 0
        let cluster = try check(mock).waitForTopics(health) { _ in
            #expect(health.live.isGood && health.started.isGood && !health.ready.isGood)
            #expect(health.ready.lines == ["ready: \(waited)", "kafka: \(waited)"])
            clock.time.withLock { $0 += Health.stuckAfterMilliseconds }
            turnCount += 1
            return turnCount == 3
        }
        #expect(cluster == nil)
    }

    private final class Clock: Sendable {
        let time = Mutex<Int64>(0)
    }

    @Test func `are not waited for by a worker that is told to stop`() throws {
        let mock = try MockBroker()
        defer { mock.close() }
        let cluster = try check(mock).waitForTopics { _ in true }
        #expect(cluster == nil)
    }
}
