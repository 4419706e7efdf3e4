import Crypto
import Foundation
import HTTPClient
import HTTPServer
import StageRuntime
import Testing
import TokenDomain

@testable import tollway

@Suite struct `A queue of requests to Apple` {
    private let lane = Lane(appAppleID: 1, environment: .production)

    private func queue(_ url: String, _ folder: TemporaryFolder) throws -> AppleRequestQueue<Int> {
        let key = try folder.file("k.p8", Data(P256PrivateKey.generate().pem))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: key.path)
        let apps = """
            {"apps":[{"appAppleId":1,"bundleId":"com.example","issuerId":"i","keyId":"K",
            "privateKeyFile":"\(key.path)"}]}
            """
        let file = try folder.file("apps.json", Data(apps.utf8))
        let configuration = try Configuration(
            environment: ["TOLLWAY_APPS_FILE": file.path],
            program: .tollway
        )
        return try AppleRequestQueue(keys: AppleKeys(configuration), rate: { _ in 10_000 }) {
            _,
            _,
            _,
            tag in
            HTTPClientRequest(method: "GET", url: url, tag: tag)
        }
    }

    @Test(arguments: [8, 32])
    func `takes one loss of all that is under way for one failure`(count: Int) throws {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        let folder = try TemporaryFolder()
        let queue = try queue("http://127.0.0.1:\(server.port)/", folder)
        for subject in 0..<count {
            queue.add(subject, in: lane)
        }
        var lost: [HTTPRequest.ID] = []
        var answers: [Int] = []
        let end = ContinuousClock.now + .seconds(10)
        while queue.isBusy, ContinuousClock.now < end {
            for result in queue.turn() {
                if case .success = result.outcome {
                    answers.append(result.subject)
                }
            }
            server.run()
            for request in server.takeRequests() {
                guard lost.count < count else {
                    server.respond(to: request.id, status: 200)
                    continue
                }
                lost.append(request.id)
                if lost.count == count {
                    lost.forEach { server.reset($0) }
                }
            }
            server.run()
        }
        #expect(answers.sorted() == Array(0..<count))
    }

    /// By our clock, which may be ahead of Apple's; and by an end that is no time at all.
    @Test(arguments: ["1700000000000", "1700000000", "0", "soon"])
    func `waits longer each time where the end of a limit is over already`(end: String) throws {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        let folder = try TemporaryFolder()
        let queue = try queue("http://127.0.0.1:\(server.port)/", folder)
        queue.add(0, in: lane)
        let start = ContinuousClock.now
        var requestCount = 0
        var answerCount = 0
        while queue.isBusy, ContinuousClock.now - start < .seconds(20) {
            answerCount += queue.turn().count
            server.run()
            for request in server.takeRequests() {
                requestCount += 1
                if requestCount <= 2 {
                    server.respond(to: request.id, status: 429, headers: [("Retry-After", end)])
                } else {
                    server.respond(to: request.id, status: 200)
                }
            }
            server.run()
        }
        #expect(answerCount == 1 && requestCount == 3)
        // Half a second and one, by a clock of whole milliseconds.
        #expect(ContinuousClock.now - start >= .milliseconds(1_490))
    }

    /// The refusals of what was under way together are one: else the lane waits for 16 s.
    @Test func `takes one refusal of all that is under way for one`() throws {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        let folder = try TemporaryFolder()
        let queue = try queue("http://127.0.0.1:\(server.port)/", folder)
        for subject in 0..<8 {
            queue.add(subject, in: lane)
        }
        var held: [HTTPRequest.ID] = []
        var answerCount = 0
        let start = ContinuousClock.now
        while queue.isBusy, ContinuousClock.now - start < .seconds(8) {
            answerCount += queue.turn().count
            server.run()
            for request in server.takeRequests() {
                guard held.count < 8 else {
                    server.respond(to: request.id, status: 200)
                    continue
                }
                held.append(request.id)
                if held.count == 8 {
                    held.forEach { server.respond(to: $0, status: 429) }
                }
            }
            server.run()
        }
        #expect(answerCount == 8)
    }

    /// Apple may refuse a signature for a moment: it is asked once more with a new one, and no more.
    @Test(arguments: [(1, 2, true), (9, 2, false)])
    func `signs anew once where Apple refuses the only key`(
        refusalCount: Int,
        requestCountMax: Int,
        isAnswered: Bool
    ) throws {
        let server = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        let folder = try TemporaryFolder()
        let queue = try queue("http://127.0.0.1:\(server.port)/", folder)
        queue.add(1, in: lane)
        var requestCount = 0
        var outcomes: [Bool] = []
        let start = ContinuousClock.now
        while queue.isBusy, ContinuousClock.now - start < .seconds(8) {
            for result in queue.turn() {
                if case .success = result.outcome { outcomes.append(true) }
                if case .failure = result.outcome { outcomes.append(false) }
            }
            server.run()
            for request in server.takeRequests() {
                requestCount += 1
                let isRefused = requestCount <= refusalCount
                server.respond(to: request.id, status: isRefused ? 401 : 200)
            }
            server.run()
        }
        #expect(outcomes == [isAnswered] && requestCount == requestCountMax)
    }
}
