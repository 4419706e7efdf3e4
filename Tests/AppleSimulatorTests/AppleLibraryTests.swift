import Crypto
import Foundation
import HTTPServer
import Testing

@testable import AppleSimulator

/// Apple's own server library for Python, where this machine has it.
///
/// `pip install app-store-server-library`, and `PYTHON` where it is not in `python3`.
private enum AppleLibrary {
    static let python = ProcessInfo.processInfo.environment["PYTHON"] ?? "python3"
    static let isPresent = run(["-c", "import appstoreserverlibrary"]).status == 0

    static func run(_ arguments: [String]) -> (status: Int32, output: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = [python] + arguments
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        do { try process.run() } catch { return (127, "\(error)") }
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: output, as: UTF8.self))
    }
}

@Suite struct `Apple's library for Python` {
    @Test(
        .enabled(
            if: AppleLibrary.isPresent,
            "PYTHON (or python3) has no app-store-server-library"
        )
    )
    func `S13, S17, S18, S19: talks to the simulator as to Apple`() throws {
        let app = try SimulatedApp()
        // Deliveries fail, which does not matter: history counts attempts.
        let sink = try HTTPServer(listen: ListenAddress(host: "127.0.0.1", port: 0))
        let url = "http://127.0.0.1:\(sink.port)/"
        sink.close()
        let simulator = try start(app, notificationURL: url)
        defer { simulator.stop() }
        let given = try simulator.withWorld { world in
            try arguments(app, world, url: simulator.baseURL(.production))
        }
        let script = try #require(
            Bundle.module.url(
                forResource: "apple_library",
                withExtension: "py",
                subdirectory: "Fixtures"
            )
        )
        let text = String(decoding: given.bytes, as: UTF8.self)
        let result = AppleLibrary.run([script.path, text])
        #expect(result.status == 0, "\(result.output)")
        #expect(
            result.output == """
                account token
                transaction
                test notification
                history
                forgeries

                """
        )
    }

    private func start(_ app: SimulatedApp, notificationURL: String) throws -> AppleSimulator {
        var options = AppleSimulator.Options()
        options.port = 0
        options.notificationURLs[.production] = notificationURL
        options.keys = [
            AppleSimulator.RegisteredKey(
                keyID: app.keyID,
                issuerID: app.issuerID,
                publicKeyPEM: app.key.publicKeyPEM,
                bundleIDs: [app.bundleID]
            )
        ]
        let simulator = try AppleSimulator(options: options)
        simulator.start()
        return simulator
    }

    /// A purchase, twenty-five notifications on their way, and one of each forgery.
    private func arguments(
        _ app: SimulatedApp,
        _ world: AppleWorld,
        url: String
    ) throws -> JSONValue {
        let now = SystemClock.now()
        let purchase = StoreTransaction(
            transactionID: "1",
            originalTransactionID: "1",
            environment: .production,
            bundleID: app.bundleID
        )
        var renewal = purchase
        renewal.transactionID = "2"
        world.register(purchase)
        world.register(renewal)
        var token = IssuedToken(
            externalPurchaseID: "",
            appAppleID: app.appAppleID,
            bundleID: app.bundleID,
            tokenCreationDate: now
        )
        for number in 0..<25 {
            token.externalPurchaseID = "t\(number)"
            world.register(token)
            world.notify(token, subtype: .unreported, now: now)
        }
        let forged = NotificationForgery.allCases.map { forgery in
            let payload = world.signedNotification(
                token,
                subtype: .unreported,
                now: now,
                forgery: forgery
            )
            return JSONMember(forgery.rawValue, .string(payload))
        }
        return .object([
            JSONMember("url", .string(url)),
            JSONMember("privateKey", .string(String(decoding: app.key.pem, as: UTF8.self))),
            JSONMember("keyId", .string(app.keyID)), JSONMember("issuerId", .string(app.issuerID)),
            JSONMember("bundleId", .string(app.bundleID)),
            JSONMember("appAppleId", .integer(app.appAppleID)),
            JSONMember("rootPEM", .string(String(decoding: world.rootPEM, as: UTF8.self))),
            JSONMember(
                "signedTransaction",
                .string(world.signedTransaction(purchase, now: now))
            ),
            JSONMember("forged", .object(forged)),
        ])
    }
}
