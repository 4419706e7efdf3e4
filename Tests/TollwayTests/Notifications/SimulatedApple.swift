import AppStoreAPI
import Crypto
import Foundation
import Glibc
import HTTPClient
import Testing
import TokenDomain

/// `tollway sim` as a process, and an apps file with a key for each app, which it knows.
final class SimulatedApple {
    /// appAppleId and bundle id.
    static let apps: [(Int64, String)] = [(1_234_567_890, "com.example.a"), (2, "com.example.b")]

    let environment: [String: String]
    private let process: Process
    private let folder: TemporaryFolder
    private let ports: [String: Int]
    private let client: HTTPClient

    // unknownKeys: app by app, as many keys before its good one as Apple does not know.
    init(unknownKeys: Int = 0, arguments: [String] = []) throws {
        let folder = try TemporaryFolder()
        self.folder = folder
        func key(_ name: String) throws -> [String: Any] {
            let file = try folder.file("\(name).p8", Data(P256PrivateKey.generate().pem))
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o600],
                ofItemAtPath: file.path
            )
            return ["issuerId": "issuer", "keyId": name, "privateKeyFile": file.path]
        }
        var known: [[String: Any]] = []
        var own: [[String: Any]] = []
        for (number, (id, bundle)) in Self.apps.enumerated() {
            let good = try key("GOOD\(number)")
            let bad = try (0..<unknownKeys).map { try key("BAD\(number)-\($0)") }
            let app: [String: Any] = [
                "appAppleId": id, "bundleId": bundle, "reportsPerSecond": 1_000,
            ]
            known.append(app.merging(["keys": [good]]) { $1 })
            own.append(app.merging(["keys": bad + [good]]) { $1 })
        }
        func apps(_ name: String, _ list: [[String: Any]]) throws -> String {
            try folder.file(name, JSONSerialization.data(withJSONObject: ["apps": list])).path
        }
        process = try TollwayProcess.make(
            ["sim", "--port", "0", "-o", "json", "--apps", try apps("known.json", known)]
                + arguments
        )
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let line = output.fileHandleForReading.availableData
        ports = try #require(JSONSerialization.jsonObject(with: line) as? [String: Int])
        environment = [
            "TOLLWAY_APPS_FILE": try apps("apps.json", own),
            "TOLLWAY_APPLE_PRODUCTION_URL": "http://127.0.0.1:\(ports["production"] ?? 0)",
            "TOLLWAY_APPLE_SANDBOX_URL": "http://127.0.0.1:\(ports["sandbox"] ?? 0)",
        ]
        client = try HTTPClient(userAgent: "test")
    }

    deinit {
        kill(process.processIdentifier, SIGKILL)
        process.waitUntilExit()
    }

    /// A call of the admin port.
    @discardableResult
    func call(_ method: String, _ path: String, _ body: String = "") throws -> [String: Any] {
        let answer = try send(
            HTTPClientRequest(
                method: method,
                url: "http://127.0.0.1:\(ports["admin"] ?? 0)\(path)",
                headers: [("Content-Type", "application/json")],
                body: Array(body.utf8)
            )
        )
        #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
        let object = try JSONSerialization.jsonObject(with: Data(answer.body))
        return try #require(object as? [String: Any])
    }

    private func send(_ request: HTTPClientRequest) throws -> HTTPClientResponse.Answer {
        _ = client.submit(request)
        while true {
            client.run()
            guard let response = client.takeResponses().first else {
                var entry = pollfd(fd: client.wakeDescriptor, events: Int16(POLLIN), revents: 0)
                _ = unsafe poll(&entry, 1, 1_000)
                continue
            }
            guard case .answered(let answer) = response.outcome else {
                throw CocoaError(.fileReadUnknown)
            }
            return answer
        }
    }

    /// Tokens of one app, registered.
    func register(_ ids: [String], app: Int = 0) throws {
        let now = Int64(Date().timeIntervalSince1970 * 1_000)
        let tokens = ids.map { id in
            #"{"externalPurchaseId":"\#(id)","appAppleId":\#(Self.apps[app].0),"bundleId":"#
                + #""\#(Self.apps[app].1)","tokenCreationDate":\#(now - 86_400_000)}"#
        }
        try call("POST", "/tokens", #"{"register":[\#(tokens.joined(separator: ","))]}"#)
    }

    /// A report that Apple was sent, of the first app.
    func report(_ identifier: String, token: String, status: String) throws {
        let url = environment["TOLLWAY_APPLE_PRODUCTION_URL"] ?? ""
        let body =
            #"{"requestIdentifier":"\#(identifier)","externalPurchaseId":"\#(token)","status":"#
            + #""\#(status)"}"#
        let key = try P256PrivateKey(
            pem: Array(Data(contentsOf: folder.url.appendingPathComponent("GOOD0.p8")))
        )
        let webToken = JSONWebToken.make(
            key: key,
            issuerID: "issuer",
            keyID: "GOOD0",
            bundleID: Self.apps[0].1,
            now: Timestamp(milliseconds: Int64(Date().timeIntervalSince1970 * 1_000))
        )
        let answer = try send(
            HTTPClientRequest(
                method: "PUT",
                url: url + "/externalPurchase/v1/reports",
                headers: [
                    ("Authorization", "Bearer \(webToken)"), ("Content-Type", "application/json"),
                ],
                body: Array(body.utf8)
            )
        )
        #expect(answer.status == 200, "\(String(decoding: answer.body, as: UTF8.self))")
    }

    /// Notifications about registered tokens, which Apple tries to deliver to nobody.
    func notify(_ ids: [String]) throws {
        let list = ids.map { #""\#($0)""# }.joined(separator: ",")
        try call(
            "POST",
            "/notifications",
            #"{"subtype":"UNREPORTED","externalPurchaseIds":[\#(list)],"url":"http://127.0.0.1:1/"}"#
        )
        // Only what was tried stands in Apple's history.
        while true {
            let all = try call("GET", "/notifications?limit=10000")
            let made = all["notifications"] as? [[String: Any]] ?? []
            if made.allSatisfy({ ($0["sendAttempts"] as? [Any])?.isEmpty == false }) {
                return
            }
        }
    }
}
