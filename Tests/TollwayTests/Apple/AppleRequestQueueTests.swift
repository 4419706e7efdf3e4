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
}
