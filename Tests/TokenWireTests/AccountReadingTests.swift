import Testing
import TokenDomain
import TokenWire

/// Values of `report.state.v1` that no writer of ours wrote.
@Suite struct `An account's value` {
    private static let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    @Test func `has no trace where nothing is owed, and comes back equal`() throws {
        let text = #"{"externalPurchaseId":"a","touchedAt":1,"traceparent":"\#(Self.trace)"}"#
        let account = try TokenAccount(reading: Array(text.utf8).span)
        #expect(account.trace == nil)
        #expect(try TokenAccount(reading: bytes(account.write).span) == account)
    }

    @Test func `keeps its trace as long as something is owed`() throws {
        let text = """
            {"externalPurchaseId":"a","touchedAt":1,"traceparent":"\(Self.trace)",
            "waitingNotice":{"receivedAt":1,"origin":[0,1,2]}}
            """
        let account = try TokenAccount(reading: Array(text.utf8).span)
        #expect(account.trace?.text == Self.trace)
        #expect(try TokenAccount(reading: bytes(account.write).span) == account)
    }

    @Test(arguments: [
        // What follows an array that is too short or too long was read as part of it.
        (#""lastRequestOffset":1,"debt":{"dueAt":1,"reason":"hold","origin":[0]1]2]}"#, "origin"),
        (#""debt":{"dueAt":1,"reason":"hold","origin":[0,1]}"#, "origin"),
        (#""debt":{"dueAt":1,"reason":"hold","origin":[0,1,2,3]}"#, "origin"),
        (#""debt":{"dueAt":1,"reason":"hold","origin":[0,1,2,,"x":3}"#, "origin"),
        (#""notices":[[1]]"#, "notices"),
        (#""notices":[[1,"a",2]]"#, "notices"),
        (#""notices":[[1]"a"]]"#, "notices"),
    ])
    func `has arrays of their own length`(members: String, field: String) {
        let text = #"{"externalPurchaseId":"a","touchedAt":1,\#(members)}"#
        #expect(throws: WireFault.wrongType(field: field)) {
            try TokenAccount(reading: Array(text.utf8).span)
        }
    }

    @Test(arguments: ["intentCount", "ownerConflictCount"])
    func `counts nothing below zero`(field: String) {
        let text = #"{"externalPurchaseId":"a","touchedAt":1,"\#(field)":-1}"#
        #expect(throws: WireFault.outOfRange(field: field)) {
            try TokenAccount(reading: Array(text.utf8).span)
        }
    }

    private func bytes(_ write: (inout [UInt8]) -> Void) -> [UInt8] {
        var bytes: [UInt8] = []
        write(&bytes)
        return bytes
    }
}
