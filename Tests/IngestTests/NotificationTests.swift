import Crypto
import HTTPClient
import HTTPServer
import Kafka
import MessageExamples
import StageRuntime
import Testing
import TokenDomain
import TokenWire

@testable import ingest

/// The door with roots, as far as notifications go; the test sets its clock.
private struct NotificationDoor {
    static let receivedAt = Timestamp(milliseconds: SignedPayloads.signedSeconds * 1_000)

    let apple: SignedPayloads
    var door: Door
    var outputs = OutputBatch()
    var now: Int64 = 0
    private var requestNumber: UInt64 = 0

    init(sources: AddressRanges? = nil) throws {
        apple = try SignedPayloads()
        door = Door(
            keys: nil,
            pseudonyms: nil,
            notifications: NotificationGate(roots: apple.roots, sources: sources, now: 0)
        )
    }

    /// A payload of about so many bytes.
    static func payload(_ more: String = "", byteCount: Int = 0) -> String {
        let filling = String(repeating: "x", count: byteCount)
        let type = #""notificationType":"TEST","signedDate":1700000000000"#
        return #"{\#(type),"filling":"\#(filling)"\#(more)}"#
    }

    /// A notification of an app, of some 43 kB unless said otherwise; each number makes another.
    func signed(app: String, _ number: Int, byteCount: Int = 30_000) -> String {
        let more = ",\"number\":\(number),\"data\":{\"bundleId\":\"\(app)\"}"
        return apple.sign(Self.payload(more, byteCount: byteCount))
    }

    /// The status and code of a refusal; 200 where it is admitted, 0 where it waits.
    mutating func send(signed: String, from address: String = "17.0.0.1") -> (Int, String) {
        send(body: "{\"signedPayload\":\"\(signed)\"}", from: address)
    }

    mutating func send(body: String, from address: String = "17.0.0.1") -> (Int, String) {
        requestNumber += 1
        let request = HTTPRequest(
            id: HTTPRequest.ID(number: requestNumber),
            method: "POST",
            path: "/v1/notifications",
            query: "",
            body: Array(body.utf8),
            remoteAddress: address,
            headerBytes: Array("Content-Type\0application/json\0".utf8)
        )
        return admit(request)
    }

    /// Moves the clock in steps of 10 ms and runs the loop, until nobody waits or the time is over.
    ///
    /// - Returns: the answers by request, with the time of each.
    mutating func turns(milliseconds: Int64) -> [(HTTPRequest.ID, Int, Int64)] {
        var answers: [(HTTPRequest.ID, Int, Int64)] = []
        let end = now + milliseconds
        while now <= end, door.notifications?.line.millisecondsUntilTurn(now: now) != nil {
            while let request = door.notifications?.line.takeTurn(now: now) {
                answers.append((request.id, admit(request, isTurn: true).0, now))
            }
            now += 10
        }
        return answers
    }

    private mutating func admit(_ request: HTTPRequest, isTurn: Bool = false) -> (Int, String) {
        do {
            let admission = try door.admit(
                request,
                isBusy: nil,
                isTurn: isTurn,
                now: now,
                receivedAt: Self.receivedAt,
                to: &outputs
            )
            return (admission == nil ? 0 : 200, "")
        } catch {
            return (error.status, error.code)
        }
    }

    /// Makes the first chain known.
    mutating func meetApple() throws {
        let status = send(signed: apple.sign(Self.payload())).0
        try #require(status == 0)
        try #require(turns(milliseconds: 0).map(\.1) == [200])
    }
}

@Suite struct `Notifications at the door` {
    @Test func `are stored as they came when they are genuine, in any order of members`() throws {
        var door = try NotificationDoor()
        try door.meetApple()
        let signed = door.apple.sign(NotificationDoor.payload())
        let answer = door.send(body: "{\"x\":[1],\"signedPayload\":\"\(signed)\"}")
        #expect(answer == (200, ""))
        #expect(door.outputs.outputs.count == 2)
        let output = door.outputs.outputs[1]
        #expect(output.topic == Route.notifications.topic)
        let value = Array(door.outputs.arena[output.value.indices])
        #expect(
            try NotificationReceived(reading: value.span)
                == NotificationReceived(
                    signedPayload: signed,
                    receivedAt: NotificationDoor.receivedAt
                )
        )
    }

    /// What a forger sends once the true chain is known, and the code of the answer.
    static let forgeries: [(String, String, @Sendable (String) -> String)] = [
        ("two parts", "jws.malformed", { String($0[..<($0.lastIndex(of: ".") ?? $0.endIndex)]) }),
        ("another signature", "jws.signature", { String($0.dropLast(86)) + signature("A") }),
        (
            "another payload", "jws.signature",
            { text in
                var parts = text.split(separator: ".").map(String.init)
                parts[1] = Base64URL.encode(Array("{\"signedDate\":1700000000001}".utf8).span)
                return parts.joined(separator: ".")
            }
        ),
        (
            "alg none", "jws.alg",
            { text in
                let header = Base64URL.encode(Array("{\"alg\":\"none\"}".utf8).span)
                return header + text.drop { $0 != "." }
            }
        ),
        ("certificates that are none", "jws.certificate", { _ in signedText() }),
    ]

    /// Apple signs under the same certificates for every buyer's device.
    @Test(arguments: [true, false])
    func `are refused where Apple signed something else`(isChainKnown: Bool) throws {
        var door = try NotificationDoor()
        if isChainKnown {
            try door.meetApple()
        }
        let sale = #"{"transactionId":"1","bundleId":"com.example","signedDate":1700000000000}"#
        var answer = door.send(signed: door.apple.sign(sale))
        if !isChainKnown {
            #expect(answer == (0, ""))
            answer = (door.turns(milliseconds: 0).first?.1 ?? 0, "jws.malformed")
        }
        #expect(answer == (400, "jws.malformed"))
        #expect(door.outputs.outputs.count == (isChainKnown ? 1 : 0))
    }

    private static func signature(_ character: Character) -> String {
        String(repeating: character, count: 86)
    }

    @Test(arguments: forgeries.indices)
    func `are refused at once when they are not, and nothing is stored`(row: Int) throws {
        let (name, code, change) = Self.forgeries[row]
        var door = try NotificationDoor()
        try door.meetApple()
        let forged = change(door.apple.sign(NotificationDoor.payload()))
        #expect(door.send(signed: forged) == (400, code), "\(name)")
        #expect(door.outputs.outputs.count == 1)
    }

    @Test func `are refused under another's roots, and under roots taken back`() throws {
        var door = try NotificationDoor()
        try door.meetApple()
        let signed = door.apple.sign(NotificationDoor.payload())
        door.door.notifications?.trust(try SignedPayloads().roots)
        #expect(door.send(signed: signed) == (0, ""))
        #expect(door.turns(milliseconds: 0).map(\.1) == [400])
        door.door.notifications?.trust(door.apple.roots)
        #expect(door.send(signed: signed) == (0, ""))
        #expect(door.turns(milliseconds: 0).map(\.1) == [200])
    }

    @Test func `stay known where the same roots are read again`() throws {
        var door = try NotificationDoor()
        try door.meetApple()
        door.door.notifications?.trust(try TrustedRoots(pem: door.apple.authority.rootPEM))
        #expect(door.send(signed: door.apple.sign(NotificationDoor.payload())) == (200, ""))
    }

    @Test func `find the door open although another sends nonsense without end`() throws {
        var door = try NotificationDoor()
        try door.meetApple()
        let signed = door.apple.sign(NotificationDoor.payload())
        for _ in 0..<20 {
            for _ in 0..<1_000 {
                #expect(door.send(body: "{}") == (400, "ingest.missing_field"))
            }
            #expect(door.send(signed: signed) == (200, ""))
        }
    }

    @Test func `under a known chain are judged at once while forged chains wait in line`() throws {
        var door = try NotificationDoor()
        try door.meetApple()
        let forged = try door.apple.forge(NotificationDoor.payload())
        let signed = door.apple.sign(NotificationDoor.payload())
        for _ in 0..<250 {
            #expect(door.send(signed: forged) == (0, ""))
        }
        for _ in 0..<100 {
            #expect(door.send(signed: signed) == (200, ""))
        }
        #expect(door.outputs.outputs.count == 101)
    }

    @Test func `under a new chain get their turn within three seconds, whatever is before them`()
        throws
    {
        var door = try NotificationDoor()
        try door.meetApple()
        let forged = try door.apple.forge(NotificationDoor.payload())
        let large = try door.apple.forge(NotificationDoor.payload(byteCount: 40_000))
        // As many as wait at most, nearly; large ones between.
        for number in 0..<230 {
            #expect(door.send(signed: number % 8 == 0 ? large : forged) == (0, ""))
        }
        let new = try door.apple.signUnderNewChain(NotificationDoor.payload())
        #expect(door.send(signed: new) == (0, ""))
        let answers = door.turns(milliseconds: 3_000)
        #expect(answers.dropLast().allSatisfy { $0.1 == 400 })
        #expect(answers.last?.1 == 200)
        // From then on its chain is known.
        #expect(door.send(signed: new) == (200, ""))
    }

    @Test func `that are larger give way where the line is full`() throws {
        var door = try NotificationDoor()
        let large = try door.apple.forge(NotificationDoor.payload(byteCount: 40_000))
        var waitingCount = 0
        while door.send(signed: large) == (0, "") {
            waitingCount += 1
            try #require(waitingCount < 1_000)
        }
        // A newcomer as large as all the others is the one that goes.
        #expect(door.send(signed: large) == (429, "ingest.too_many_requests"))
        #expect(door.door.notifications?.line.takeDisplaced().isEmpty == true)
        let signed = door.apple.sign(NotificationDoor.payload())
        for _ in 0..<100 {
            #expect(door.send(signed: signed) == (0, ""))
        }
        let displaced = door.door.notifications?.line.takeDisplaced() ?? []
        #expect((1...100).contains(displaced.count))
        #expect(Set(displaced).count == displaced.count)
    }

    @Test func `are not sent away for a peer that fills the line and hangs up`() throws {
        var door = try NotificationDoor()
        let forged = try door.apple.forge(NotificationDoor.payload())
        for _ in 0..<5_000 {
            _ = door.send(signed: forged, from: "203.0.113.1")
        }
        #expect(door.send(signed: forged, from: "203.0.113.1").0 == 429)
        let signed = door.apple.sign(NotificationDoor.payload())
        #expect(door.send(signed: signed, from: "17.0.0.1") == (0, ""))
        for _ in 0..<5_000 {
            _ = door.send(signed: forged, from: "203.0.113.1")
        }
        #expect(door.turns(milliseconds: 3_000).map(\.1).filter { $0 == 200 } == [200])
    }

    @Test func `are not sent away for one who has all addresses of a network`() throws {
        var door = try NotificationDoor()
        let forged = try door.apple.forge(NotificationDoor.payload())
        for host in 0..<5_000 {
            _ = door.send(signed: forged, from: "2001:db8:0:1::\(String(host, radix: 16))")
        }
        let signed = door.apple.sign(NotificationDoor.payload())
        #expect(door.send(signed: signed, from: "2001:db8:0:2::1") == (0, ""))
        #expect(door.turns(milliseconds: 3_000).map(\.1).filter { $0 == 200 } == [200])
    }

    @Test func `that are genuine fill the topic at a bounded rate`() throws {
        var door = try NotificationDoor()
        try door.meetApple()
        var (byteCount, number) = (0, 0)
        var signed = ""
        repeat {
            byteCount += signed.utf8.count
            try #require(byteCount <= NotificationGate.storedBytesBurst)
            door.outputs.removeAll()
            number += 1
            let app = "app\(number % AppRateLimits.appCountMax)"
            signed = door.signed(app: app, number, byteCount: 5_000)
        } while door.send(signed: signed) == (200, "")
        #expect(door.send(signed: signed) == (429, "ingest.too_many_requests"))
        #expect(byteCount > NotificationGate.storedBytesBurst / 10 * 9)
        door.now += 1_000
        #expect(door.send(signed: signed) == (200, ""))
    }

    @Test func `that are sent over and over leave room for those that are sent once`() throws {
        var door = try NotificationDoor()
        try door.meetApple()
        let held = door.apple.sign(NotificationDoor.payload(byteCount: 30_000))
        // The first is no repeat.
        var byteCount = -held.utf8.count
        while door.send(signed: held) == (200, "") {
            byteCount += held.utf8.count
            try #require(byteCount <= NotificationGate.repeatedBytesBurst)
            door.outputs.removeAll()
        }
        #expect(byteCount > NotificationGate.repeatedBytesBurst / 10 * 9)
        for number in 0..<10 {
            #expect(door.send(signed: held) == (429, "ingest.too_many_requests"))
            let once = NotificationDoor.payload(",\"number\":\(number)", byteCount: 30_000)
            #expect(door.send(signed: door.apple.sign(once)) == (200, ""))
        }
        door.now += 100
        #expect(door.send(signed: held) == (200, ""))
        // Apple sends again, at the earliest after an hour, what it could not deliver.
        door.now += 2 * RecentNotifications.milliseconds
        var count = 0
        while count < 50, door.send(signed: held) == (200, "") {
            count += 1
            door.outputs.removeAll()
        }
        #expect(count * held.utf8.count > NotificationGate.repeatedBytesBurst)
    }

    /// Another developer has as many of his own app as he likes, so that none of them is a repeat.
    @Test(arguments: [1, AppRateLimits.appCountMax - 1])
    func `of other apps leave each app its share`(appCount: Int) throws {
        var door = try NotificationDoor()
        try door.meetApple()
        let byteCountMax =
            NotificationGate.storedBytesBurst / 2 + appCount * AppRateLimits.bytesBurst
        var (byteCount, number, refusedCount) = (0, 0, 0)
        var foreign = ""
        while refusedCount < appCount {
            foreign = door.signed(app: "foreign\(number % appCount)", number)
            number += 1
            guard door.send(signed: foreign) == (200, "") else {
                refusedCount += 1
                continue
            }
            refusedCount = 0
            byteCount += foreign.utf8.count
            try #require(byteCount <= byteCountMax)
            door.outputs.removeAll()
        }
        // Alone it may have more than its share.
        #expect(byteCount > NotificationGate.storedBytesBurst / 20 * 9)
        // Nearly as large as one may be.
        for number in 0..<2 {
            #expect(door.send(signed: foreign) == (429, "ingest.too_many_requests"))
            let ours = door.signed(app: "ours", number, byteCount: 44_000)
            #expect(door.send(signed: ours) == (200, ""))
        }
        door.now += 1_000
        #expect(door.send(signed: foreign) == (200, ""))
    }

    /// Who has more apps than have a share can leave no room for any.
    @Test func `that find no room take nothing from the share of their app`() throws {
        var door = try NotificationDoor()
        try door.meetApple()
        var number = 0
        while door.send(signed: door.signed(app: "foreign\(number)", number)) == (200, "") {
            number += 1
            try #require(number < 1_000)
            door.outputs.removeAll()
        }
        for number in 0..<10 {
            let ours = door.signed(app: "ours", number, byteCount: 40_000)
            #expect(door.send(signed: ours) == (429, "ingest.too_many_requests"))
        }
        // In a share that was charged there would not be room for one yet.
        door.now += 10
        let ours = door.signed(app: "ours", 10, byteCount: 40_000)
        #expect(door.send(signed: ours) == (200, ""))
    }

    @Test func `are limited by app for the 64 of which one came last, taken or not`() {
        var limits = AppRateLimits()
        func take(_ byteCount: Int, of number: Int) -> Bool {
            limits.take(byteCount, of: [BundleID("app\(number)")], now: 0)
        }
        for number in 0..<AppRateLimits.appCountMax {
            #expect(take(AppRateLimits.bytesBurst, of: number))
        }
        #expect(!take(1, of: 0))
        // App 1 makes room for it.
        #expect(take(1, of: AppRateLimits.appCountMax))
        #expect(!take(1, of: 0))
        #expect(take(1, of: 1))
    }

    @Test func `that were taken lately are known for ten minutes, and not for ever`() {
        var recent = RecentNotifications(now: 0)
        func knows(_ identity: UInt64, at now: Int64) -> Bool {
            recent.copies(of: identity, now: now) != nil
        }
        for number: UInt64 in 0..<UInt64(RecentNotifications.countMax) {
            recent.insert(number, now: 1_000)
        }
        #expect(knows(0, at: 1_000 + RecentNotifications.milliseconds - 1))
        // One more than a generation has room for: the older one stays, until there are twice as many.
        for number: UInt64 in 0..<UInt64(RecentNotifications.countMax) {
            recent.insert(1 << 32 | number, now: 2_000)
        }
        #expect(knows(0, at: 2_000))
        recent.insert(1 << 33, now: 2_000)
        #expect(!knows(0, at: 2_000))
        #expect(recent.copies(of: 1 << 32, now: 2_000) == .taken)
        // Whichever generation it is in; what is forgotten stays so.
        for identity: UInt64 in [0, 1 << 32, 1 << 33] {
            recent.noteStored(identity)
        }
        #expect(!knows(0, at: 2_000))
        #expect(recent.copies(of: 1 << 32, now: 2_000) == .stored)
        #expect(recent.copies(of: 1 << 33, now: 2_000) == .stored)
        #expect(!knows(1 << 33, at: 2_000 + 2 * RecentNotifications.milliseconds))
    }

    @Test(arguments: [
        ("17.0.0.1", 0), ("17.255.255.255", 0), ("::ffff:17.1.2.3", 0), ("18.0.0.1", 403),
        ("127.0.0.1", 403), ("::1", 403), ("", 403), ("2620:149:a:b::1", 0),
    ])
    func `are taken in from the addresses named, and from no other`(
        address: String,
        status: Int
    ) throws {
        var door = try NotificationDoor(sources: AddressRanges("17.0.0.0/8,2620:149::/32"))
        let signed = door.apple.sign(NotificationDoor.payload())
        let answer = door.send(signed: signed, from: address)
        #expect(answer == (status, status == 403 ? "ingest.foreign_source" : ""))
    }

    @Test func `have no address where there are no roots to verify them by`() throws {
        var door = try NotificationDoor()
        let signed = door.apple.sign(NotificationDoor.payload())
        door.door.notifications = nil
        #expect(door.send(signed: signed) == (404, "ingest.not_found"))
    }
}

@Suite struct `Notifications in the loop of ingest` {
    @Test func `are answered when the broker has them, and counted by code when they are forged`()
        throws
    {
        let bench = try IngestBench()
        let payload = NotificationDoor.payload()
        let genuine = "{\"signedPayload\":\"\(bench.apple.sign(payload))\"}"
        let forged = "{\"signedPayload\":\"\(try bench.apple.forge(payload))\"}"
        bench.sink.storesAtOnce = false
        bench.post("/v1/notifications", genuine)
        #expect(bench.turn { bench.sink.records.count == 1 })
        #expect(bench.server.heldRequestCount == 1)
        bench.sink.settle(0..<1)
        #expect(bench.turn { bench.answers[0] != nil })
        #expect(bench.answers[0]?.status == 200)
        #expect(String(decoding: bench.answers[0]?.body ?? [], as: UTF8.self) == "{\"accepted\":1}")
        #expect(try bench.answer("/v1/notifications", forged).status == 400)
        #expect(try bench.answer("/v1/notifications", "{}").status == 400)
        #expect(bench.sink.records.count == 1)
        for (code, count) in [("jws.chain", 1), ("ingest.missing_field", 1)] {
            let series = "tollway_ingest_notifications_refused_total{code=\"\(code)\"} \(count)"
            #expect(bench.rendered.contains(series), "\(bench.rendered)")
        }
    }

    /// Goal: a repeat costs no room in Kafka, and no 200 is given for what may be lost.
    @Test func `are not stored again once the broker has them`() throws {
        let bench = try IngestBench()
        let path = "/v1/notifications"
        let body = "{\"signedPayload\":\"\(bench.apple.sign(NotificationDoor.payload()))\"}"
        bench.sink.storesAtOnce = false
        bench.post(path, body, tag: 1)
        #expect(bench.turn { bench.sink.records.count == 1 })
        bench.post(path, body, tag: 2)
        #expect(bench.turn { bench.sink.records.count == 2 })
        bench.sink.settle(0..<2, failure: "_MSG_TIMED_OUT")
        #expect(bench.turn { bench.answers.count == 2 })
        #expect(bench.answers.values.allSatisfy { $0.status == 503 })
        bench.post(path, body, tag: 3)
        #expect(bench.turn { bench.sink.records.count == 3 })
        bench.sink.settle(2..<3)
        #expect(bench.turn { bench.answers[3]?.status == 200 })
        for _ in 0..<3 {
            let answer = try bench.answer(path, body)
            #expect(answer.status == 200)
            #expect(String(decoding: answer.body, as: UTF8.self) == "{\"accepted\":1}")
            #expect(answer.header("x-request-id")?.count == 36)
        }
        #expect(bench.sink.records.count == 3)
        bench.advance(milliseconds: 2 * RecentNotifications.milliseconds)
        bench.post(path, body, tag: 4)
        #expect(bench.turn { bench.sink.records.count == 4 })
    }

    @Test func `that wait in line are answered when the door closes`() throws {
        let bench = try IngestBench()
        let forged = try bench.apple.forge(#"{"signedDate":1700000000000}"#)
        for tag in 0..<300 {
            bench.post("/v1/notifications", "{\"signedPayload\":\"\(forged)\"}", tag: UInt64(tag))
        }
        // The test's clock stands still, so the rate limiter allows no more than its burst.
        #expect(bench.turn { bench.answers.count >= 100 && bench.server.heldRequestCount > 0 })
        bench.loop.end()
        let codes = bench.rendered.split(separator: "\n").filter {
            $0.hasPrefix("tollway_ingest_notifications_refused_total")
        }
        #expect(codes.contains { $0.contains("ingest.stopping") }, "\(codes)")
    }
}
