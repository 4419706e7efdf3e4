import Crypto
import Testing

@testable import AppleSimulator

@Suite struct `S17: notifications` {
    private static let now = SimulatedApp.start
    private static let day = SimulatedApp.day

    private func token(type: String? = nil, expiresAt: UnixMilliseconds? = nil) -> IssuedToken {
        IssuedToken(
            externalPurchaseID: "t",
            appAppleID: 1_234_567_890,
            bundleID: "com.example.app",
            tokenType: type,
            tokenCreationDate: Self.now,
            tokenExpirationDate: expiresAt
        )
    }

    private func world() throws -> SimulatedApp {
        let app = try SimulatedApp()
        app.world.setNotificationURL("http://127.0.0.1:1/", for: .production)
        return app
    }

    /// Takes and delivers everything until a time; what was sent and when, in days.
    private func play(_ app: SimulatedApp, untilDay: Int64) -> [String] {
        var sent: [String] = []
        while let due = app.world.nextNotificationDue, due <= Self.now + untilDay * Self.day {
            for delivery in app.world.takeDeliveries(at: due, limit: 10) {
                let index = delivery.notificationIndex
                app.world.noteAttempt(.success, notificationIndex: index, now: due)
                let subtype = app.world.notifications.stored[index].subtype ?? ""
                sent.append("\(subtype) \((due - Self.now) / Self.day)")
            }
        }
        return sent
    }

    @Test func `custom link tokens: CREATED, a reminder a month, UNREPORTED after the end`() throws
    {
        let app = try world()
        app.world.issue(token(type: "SERVICES", expiresAt: Self.now + 70 * Self.day), now: Self.now)
        #expect(
            play(app, untilDay: 400) == [
                "CREATED 0", "ACTIVE_TOKEN_REMINDER 30", "ACTIVE_TOKEN_REMINDER 60",
                "UNREPORTED 70",
            ]
        )
    }

    @Test func `reminders begin with the last one due, however old the token is`() throws {
        let app = try world()
        var old = token(type: "SERVICES", expiresAt: Self.now + 40 * Self.day)
        old.tokenCreationDate = 0
        app.world.issue(old, now: Self.now)
        let last = Self.now / Self.day / 30 * 30 * Self.day
        #expect((Self.now - 30 * Self.day..<Self.now).contains(last))
        let next = (last + 30 * Self.day - Self.now) / Self.day
        #expect(
            play(app, untilDay: 39) == [
                "ACTIVE_TOKEN_REMINDER \((last - Self.now) / Self.day)", "CREATED 0",
                "ACTIVE_TOKEN_REMINDER \(next)",
            ]
        )
    }

    @Test func `a turn takes only so many of the events that are due`() throws {
        let app = try world()
        for number in 0..<600 {
            var one = token()
            one.externalPurchaseID = "t\(number)"
            app.world.issue(one, now: Self.now)
        }
        let due = Self.now + 10 * Self.day
        var madeCounts: [Int] = []
        var sentCount = 0
        while sentCount < 600, madeCounts.count < 10 {
            sentCount += app.world.takeDeliveries(at: due, limit: 1_000).count
            madeCounts.append(app.world.notifications.stored.count)
        }
        #expect(madeCounts == [256, 512, 600, 600, 600])
    }

    @Test func `plain tokens: UNREPORTED after ten days`() throws {
        let app = try world()
        app.world.issue(token(), now: Self.now)
        #expect(play(app, untilDay: 400) == ["UNREPORTED 10"])
    }

    @Test func `a report ends UNREPORTED, not the reminders; a duplicate ends these too`() throws {
        for (status, expected) in [
            ("NO_LINE_ITEM", ["CREATED 0", "ACTIVE_TOKEN_REMINDER 30"]),
            ("DUPLICATE_TOKEN", ["CREATED 0"]),
        ] {
            let app = try world()
            let end = Self.now + 40 * Self.day
            app.world.issue(token(type: "SERVICES", expiresAt: end), now: Self.now)
            #expect(app.put(report(1, "t", status)).status == 200)
            #expect(play(app, untilDay: 400) == expected)
        }
    }

    @Test func `nothing is sent where no URL is known`() throws {
        let app = try SimulatedApp()
        app.world.issue(token(type: "SERVICES"), now: Self.now)
        #expect(app.world.nextNotificationDue == nil)
        #expect(app.world.notifications.stored.isEmpty)
    }

    @Test func `carry the token's fields and nothing of the customer`() throws {
        let app = try SimulatedApp()
        let jws = app.world.signedNotification(
            token(type: "SERVICES", expiresAt: 7),
            subtype: .reminder,
            now: 99
        )
        let payload = try #require(JWSText(jws)).payload
        #expect(payload["notificationType"]?.text == "EXTERNAL_PURCHASE_TOKEN")
        #expect(payload["subtype"]?.text == "ACTIVE_TOKEN_REMINDER")
        #expect(payload["signedDate"]?.integer == 99)
        #expect(payload["version"]?.text == "2.0")
        #expect(payload["notificationUUID"]?.text.flatMap(UUIDKey.init) != nil)
        #expect(
            payload["externalPurchaseToken"]
                == .object(token(type: "SERVICES", expiresAt: 7).claims)
        )
    }
}

/// A JWS taken apart.
private struct JWSText {
    let header: JSONValue
    let payload: JSONValue
    let input: [UInt8]
    let signature: [UInt8]

    init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Base64Text.decodeURL(parts[0]),
            let payload = Base64Text.decodeURL(parts[1]),
            let signature = Base64Text.decodeURL(parts[2])
        else { return nil }
        do {
            self.header = try JSONValue(reading: header)
            self.payload = try JSONValue(reading: payload)
        } catch { return nil }
        self.signature = signature
        input = Array("\(parts[0]).\(parts[1])".utf8)
    }
}

@Suite struct `S18: delivery and forgery` {
    private static let now = SimulatedApp.start
    private static let hour: Int64 = 3_600_000

    private func send(
        in environment: StoreEnvironment,
        results: [SendAttemptResult]
    ) throws -> (hours: [Int64], bodies: Set<[UInt8]>) {
        let app = try SimulatedApp()
        let id = app.issue((environment == .sandbox ? "SANDBOX_" : "") + "t")
        app.world.setNotificationURL("http://127.0.0.1:1/", for: environment)
        app.world.notify(try #require(app.world.token(id)), subtype: .unreported, now: Self.now)
        var hours: [Int64] = []
        var bodies: Set<[UInt8]> = []
        while let due = app.world.nextNotificationDue {
            for delivery in app.world.takeDeliveries(at: due, limit: 10) {
                app.world.noteAttempt(
                    results[min(hours.count, results.count - 1)],
                    notificationIndex: delivery.notificationIndex,
                    now: due
                )
                hours.append((due - Self.now) / Self.hour)
                bodies.insert(delivery.body)
            }
        }
        return (hours, bodies)
    }

    @Test func `production tries six times with the same payload`() throws {
        let sent = try send(in: .production, results: [.unsuccessfulStatus])
        #expect(sent.hours == [0, 1, 13, 37, 85, 157])
        #expect(sent.bodies.count == 1)
    }

    @Test func `the first success ends it`() throws {
        let sent = try send(in: .production, results: [.timedOut, .noResponse, .success])
        #expect(sent.hours == [0, 1, 13])
    }

    @Test func `the sandbox tries once`() throws {
        #expect(try send(in: .sandbox, results: [.socketIssue]).hours == [0])
    }

    @Test(arguments: [nil] + NotificationForgery.allCases.map { Optional($0) })
    func `each forgery is wrong in its own way`(forgery: NotificationForgery?) throws {
        let app = try SimulatedApp()
        app.issue("t")
        let text = app.world.signedNotification(
            try #require(app.world.token("t")),
            subtype: .unreported,
            now: Self.now,
            forgery: forgery
        )
        let jws = try #require(JWSText(text))
        let elements = try #require(jws.header["x5c"]?.elements)
        let chain = elements.compactMap(\.text)
        #expect(chain.count == (forgery == .twoCertificates ? 2 : 3))
        #expect(jws.header["alg"]?.text == (forgery == .algorithmNone ? "none" : "ES256"))
        #expect(jws.signature.isEmpty == (forgery == .algorithmNone))
        let der = try chain.map { try #require(Base64Text.decodeURL($0.inURLAlphabet)) }
        let leaf = try Certificate(der: der[0])
        let isSigned = try leaf.publicKey().verify(signature: jws.signature, message: jws.input)
        #expect(isSigned == (forgery != .tamperedPayload && forgery != .algorithmNone))
        let isOurs = jws.payload["externalPurchaseToken"]?["bundleId"]?.text == app.bundleID
        #expect(isOurs == (forgery != .wrongBundle))

        let intermediate = try Certificate(der: der[1])
        let roots = try TrustedRoots(pem: app.world.rootPEM)
        var fault: CertificateChainFault?
        do throws(CertificateChainFault) {
            _ = try CertificateChain.verify(
                leaf: leaf,
                intermediate: intermediate,
                roots: roots,
                atSeconds: Self.now / 1000,
                requiringLeafOID: TestCertificateAuthority.leafOID,
                intermediateOID: TestCertificateAuthority.intermediateOID
            )
        } catch { fault = error }
        switch (forgery, fault) {
        case (.wrongRoot, .untrusted), (.missingLeafOID, .leafWithoutExtension),
            (.missingIntermediateOID, .intermediateWithoutExtension):
            break
        default: #expect(fault == nil)
        }
    }
}

extension String {
    fileprivate var inURLAlphabet: String {
        replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }
}
