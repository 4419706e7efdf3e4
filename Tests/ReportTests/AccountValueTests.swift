import MessageExamples
import Testing
import TokenDomain
import TokenWire

@testable import report

@Suite struct `The value of an account` {
    static let time = ReportBench.start

    @Test func `comes back as it went`() throws {
        for account in MessageExamples.accounts {
            var value: [UInt8] = []
            account.write(to: &value)
            #expect(try TokenAccount(reading: value.span) == account)
        }
    }

    @Test func `of a report that waits comes back as it went`() throws {
        for intent in MessageExamples.waitingReports {
            var value: [UInt8] = []
            WaitingReport.write(intent, to: &value)
            #expect(try WaitingReport.read(value.span) == intent)
        }
    }

    /// As accounts were written before each report in line had a record of its own.
    @Test func `has its line within it where an older version wrote it`() throws {
        let intent = MessageExamples.waitingReports[0]
        var queued: [UInt8] = []
        WaitingReport.write(intent, to: &queued)
        let text = String(decoding: queued, as: UTF8.self)
        let value = Array(
            #"{"externalPurchaseId":"a","touchedAt":1,"queued":[\#(text),\#(text)]}"#.utf8
        )
        var account = try TokenAccount(reading: value.span)
        #expect(account.line.count == 2)
        #expect(account.line.takeChanges() == [0: intent, 1: intent])
        #expect(account.line.takeNext() == intent && account.line.takeNext() == intent)
        #expect(account.line.isEmpty && account.line.takeChanges() == [0: nil, 1: nil])
    }

    @Test func `of a transaction comes back as it went`() throws {
        for debt in MessageExamples.accountTokenDebts {
            var value: [UInt8] = []
            debt.write(to: &value)
            #expect(try AccountTokenDebt(reading: value.span) == debt)
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

@Suite struct `The keys of reports that wait` {
    @Test func `lie in the order of their places, one token's beside one another`() {
        let places = [0, 1, 255, 256, 70_000, .max]
        let keys = places.map { WaitingReport.key(of: TokenID("a"), place: $0) }
        for (left, right) in zip(keys, keys.dropFirst()) {
            #expect(left.lexicographicallyPrecedes(right))
        }
        for key in keys {
            #expect(WaitingReport.isKey(key))
            let isOurs = ["a", "b", "ab"].map { WaitingReport.isKey(key.span, of: TokenID($0)) }
            #expect(isOurs == [true, false, false])
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
        let prefix = DueKey.start(.ready, SendQueue.reports(of: lane))
        let next = DueKey.after(prefix)
        #expect(prefix.lexicographicallyPrecedes(next))
        #expect(!(prefix + [0xff, 0xff]).lexicographicallyPrecedes(prefix))
        #expect((prefix + [0xff, 0xff]).lexicographicallyPrecedes(next))
        #expect(DueKey.after([1, 0xff]) == [2])
    }
}
