import Testing
import TokenDomain
import TokenWire

@testable import report

@Suite struct `The value of an account` {
    static let time = ReportBench.start

    private func full() -> TokenAccount {
        var account = TokenAccount(
            externalPurchaseID: TokenID("SANDBOX_\u{7}é\"1"),
            touchedAt: Self.time
        )
        let origin = RecordOrigin(topic: 2, partition: 11, offset: .max)
        var intent = ReportIntent(
            number: 3,
            identifier: "5b0c1a52-4f0e-4a55-9f1e-7f6a0c1d2e3f",
            status: .lineItem,
            lineItems: #"[ {"lineItemId": "ä\u0001"} ]"#,
            reason: .request,
            origin: origin,
            deadline: Timestamp(milliseconds: -5),
            phase: .doubtful,
            takenSince: Self.time,
            attempts: 4,
            inquiries: 2,
            firstSentAt: Self.time,
            nextAttemptAt: Self.time + .seconds(1),
            refusal: [AppleError(code: 3, fieldName: "externalPurchaseId", lineItemID: "x")]
        )
        for number in 0..<ReportIntent.exchangeCountMax + 2 {
            intent.note(
                ReportExchange(
                    request: number % 2 == 0 ? .send : .retrieve,
                    sentAt: Self.time + .seconds(Int64(number)),
                    answeredAt: Self.time + .seconds(Int64(number) + 1),
                    httpStatus: number,
                    errorCode: number == 0 ? 1 : nil
                )
            )
        }
        // The first one and the newest.
        #expect(intent.exchanges.map(\.httpStatus) == [0] + Array(3...13))
        account.trace = TraceParent(ofTopic: "in", partition: 1, offset: 2)
        account.appAppleID = 1
        account.bundleID = "com.example"
        account.tokenType = .other("IN_APP")
        account.tokenCreationDate = Self.time
        account.tokenExpirationDate = Self.time + .days(1)
        account.role = .duplicate(of: TokenID("first"))
        account.customer = CustomerID("c1.x")
        account.ownerConflictCount = 2
        account.lastAccepted = .noLineItem
        account.lastAcceptedAt = Self.time
        account.intentCount = 5
        account.current = intent
        intent.lineItems = nil
        intent.phase = .planned
        account.queued = [intent, intent]
        account.parked = [intent]
        account.debt = .init(dueAt: Self.time, reason: .month, origin: origin)
        account.waitingNotice = .init(
            receivedAt: Self.time,
            guardedFrom: Self.time + .minutes(15),
            origin: origin
        )
        account.waitingReminder = account.waitingNotice
        account.notices = [
            .init(signedDate: Self.time, uuid: "a"), .init(signedDate: Self.time, uuid: "b"),
        ]
        account.foreignIdentifiers = ["x", "y"]
        account.lastRequestOffset = 0
        return account
    }

    @Test func `comes back as it went`() throws {
        let accounts = [
            full(),
            TokenAccount(externalPurchaseID: TokenID("a"), touchedAt: Timestamp(milliseconds: 0)),
        ]
        for account in accounts {
            var value: [UInt8] = []
            account.write(to: &value)
            #expect(try TokenAccount(reading: value.span) == account)
        }
    }

    @Test func `of a settled token is small`() {
        var account = TokenAccount(
            externalPurchaseID: TokenID("1c2d3e4f-0000-4000-8000-00000000a001"),
            touchedAt: Self.time
        )
        account.appAppleID = 1_234_567_890
        account.bundleID = "com.example.app"
        account.role = .primary
        account.tokenCreationDate = Self.time
        account.lastAccepted = .noLineItem
        account.lastAcceptedAt = Self.time
        account.intentCount = 1
        var value: [UInt8] = []
        account.write(to: &value)
        #expect(value.count < 300, "\(String(decoding: value, as: UTF8.self))")
    }

    @Test func `refuses what nobody wrote`() {
        for text in ["", "{}", "[]", #"{"externalPurchaseId":"a"}"#, #"{"touchedAt":1}"#] {
            #expect(throws: WireFault.self) {
                try TokenAccount(reading: Array(text.utf8).span)
            }
        }
    }
}

@Suite struct `The keys of the due table` {
    @Test func `lie in the order of time, negative times too`() {
        let times: [Int64] = [.min, -5, 0, 1, 255, 256, 1_768_003_200_000, .max]
        let keys = times.map {
            DueKey.bytes(.waiting(until: Timestamp(milliseconds: $0)), key: [7])
        }
        for (left, right) in zip(keys, keys.dropFirst()) {
            #expect(left.lexicographicallyPrecedes(right))
        }
    }

    @Test func `come back as they went`() throws {
        let time = Timestamp(milliseconds: -12)
        let waiting = try #require(DueKey.timed(DueKey.bytes(.waiting(until: time), key: [1, 2])))
        #expect(waiting.time == time && waiting.key == [1, 2])
        let lane = Lane(appAppleID: 77, environment: .sandbox)
        let ready = try #require(
            DueKey.ready(DueKey.bytes(.ready(lane: lane, deadline: time), key: [3]))
        )
        #expect(ready.queue == .reports(of: lane) && ready.deadline == time && ready.key == [3])
    }

    @Test func `end where the next lane begins`() {
        let lane = Lane(appAppleID: -1, environment: .production)
        let prefix = DueKey.start(SendQueue.reports(of: lane))
        let next = DueKey.after(prefix)
        #expect(prefix.lexicographicallyPrecedes(next))
        #expect(!(prefix + [0xff, 0xff]).lexicographicallyPrecedes(prefix))
        #expect((prefix + [0xff, 0xff]).lexicographicallyPrecedes(next))
        #expect(DueKey.after([1, 0xff]) == [2])
    }
}
