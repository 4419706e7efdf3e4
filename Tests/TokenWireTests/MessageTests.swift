import MessageExamples
import Testing
import TokenDomain
import TokenWire

@Suite struct `Messages` {
    @Test func `come back as they were written`() throws {
        for message in MessageExamples.received {
            #expect(try TokenReceived(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.decoded {
            #expect(try TokenDecoded(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.distinct {
            #expect(try TokenDistinct(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.notificationsReceived {
            #expect(try NotificationReceived(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.notificationsVerified {
            #expect(try NotificationVerified(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.reportsRequested {
            #expect(try ReportRequested(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.reportsOutcomes {
            #expect(try ReportOutcome(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.tokensRefused {
            #expect(try TokenRefused(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.purchasesAnswered {
            #expect(try PurchaseAnswered(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.purchasesOutcomes {
            #expect(try PurchaseOutcome(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.accountTokensRequested {
            #expect(try AccountTokenRequested(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.accountTokensOutcomes {
            #expect(try AccountTokenOutcome(reading: bytes(message.write).span) == message)
        }
        for message in MessageExamples.laneOrders {
            #expect(try LaneOrder(reading: bytes(message.write).span) == message)
        }
    }

    @Test func `are appended to what the arena holds`() throws {
        var arena = Array("before".utf8)
        MessageExamples.notificationsReceived[0].write(to: &arena)
        #expect(
            String(decoding: arena, as: UTF8.self)
                == #"before{"signedPayload":"e30.e30.AA","receivedAt":1760000000000}"#
        )
    }

    @Test(arguments: [
        ("", WireFault.notJSON(byteIndex: 0)),
        ("[]", .wrongType(field: "")),
        ("null", .wrongType(field: "")),
        ("{}", .missing(field: "signedPayload")),
        (#"{"signedPayload":null,"receivedAt":1}"#, .missing(field: "signedPayload")),
        (#"{"signedPayload":1,"receivedAt":1}"#, .wrongType(field: "signedPayload")),
        (#"{"signedPayload":"","receivedAt":1.5}"#, .wrongType(field: "receivedAt")),
        (#"{"receivedAt":9223372036854775808}"#, .outOfRange(field: "receivedAt")),
        (#"{"receivedAt":1,"receivedAt":1}"#, .repeated(field: "receivedAt")),
        (#"{"signedPayload":"","receivedAt":1} {}"#, .notJSON(byteIndex: 36)),
        (#"{"signedPayload":"","receivedAt":1,}"#, .notJSON(byteIndex: 35)),
    ])
    func `that are wrong say how`(text: String, fault: WireFault) {
        #expect(throws: fault) { try NotificationReceived(reading: Array(text.utf8).span) }
    }

    @Test func `may have fields that nobody knows`() throws {
        let text = #"{"x":[{"y":[1.5e3,true]}],"signedPayload":"a","receivedAt":1,"z":null}"#
        let message = try NotificationReceived(reading: Array(text.utf8).span)
        #expect(message.signedPayload == "a")
    }

    @Test func `of the first topic need nothing but a token`() throws {
        let message = try TokenReceived(reading: Array(#"{"token":"a","source":null}"#.utf8).span)
        #expect(
            message
                == TokenReceived(
                    token: "a",
                    customer: nil,
                    receivedAt: nil,
                    source: .kafka,
                    bundleID: nil,
                    requestID: ""
                )
        )
    }

    @Test func `of older versions lack what the ledger proves today`() throws {
        var arena: [UInt8] = []
        var old = MessageExamples.reportsOutcomes[0]
        old.details = ReportOutcome.Details()
        old.write(to: &arena)
        let text = String(decoding: arena, as: UTF8.self)
        for name in ["lineItems", "deadline", "lateBySeconds", "purchaseKey"] {
            #expect(!text.contains("\"\(name)\""))
        }
        #expect(try ReportOutcome(reading: arena.span) == old)
    }

    @Test(arguments: [
        (#"{"lineItemIds":"a"}"#, WireFault.wrongType(field: "lineItemIds")),
        (#"{"lineItemIds":["a"],"lineItemIds":[]}"#, .repeated(field: "lineItemIds")),
        (#"{"requestIdentifier":"r"}"#, .missing(field: "externalPurchaseId")),
        (#"{"outcome":"reported"}"#, .outOfRange(field: "outcome")),
    ])
    func `about an answered sale say how they are wrong`(text: String, fault: WireFault) {
        #expect(throws: fault) { try PurchaseAnswered(reading: Array(text.utf8).span) }
    }

    private func bytes(_ write: (inout [UInt8]) -> Void) -> [UInt8] {
        var arena: [UInt8] = []
        write(&arena)
        return arena
    }
}
