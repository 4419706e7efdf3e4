import Testing
import TokenDomain

@testable import tollway

@Suite struct `The file of a plan` {
    private static let rest =
        #""made":"2026-03-01T12:00:00.500Z","clusterId":"c","prefix":"t.","filter":"--reason a","records":{"decode/0":"0-9"}"#

    private func plan(_ members: String) throws -> ReplayPlanFile {
        try ReplayPlanFile(reading: Array("{\(members)}".utf8), path: "plan.json")
    }

    @Test(
        arguments: [
            (#""tollwayReplayPlan":1"#, .replay),
            (#""tollwayReplayPlan":2,"action":"replay","patch":"{}""#, .replay),
            (#""tollwayReplayPlan":2,"action":"discard","patch":null"#, .discard),
        ] as [(String, DeadLetterAction)]
    )
    func `says what it is for`(members: String, action: DeadLetterAction) throws {
        let plan = try plan("\(members),\(Self.rest)")
        #expect(plan.action == action && plan.records.count == 10)
    }

    @Test(arguments: [
        #""rate":0"#, #""rate":-1"#, #""rate":1000001"#, #""rate":"10""#, #""rate":1.5"#,
        #""replaysMax":0"#, #""replaysMax":101"#, #""records":{}"#,
    ])
    func `is none with a number that no option takes, or without dead letters`(member: String) {
        let members =
            member == #""records":{}"#
            ? Self.rest.replacing(#""decode/0":"0-9""#, with: "") : "\(Self.rest),\(member)"
        let failure = #expect(throws: CommandFailure.self) {
            try plan(#""tollwayReplayPlan":1,\#(members)"#)
        }
        #expect(failure?.code == "usage.bad_plan")
    }

    @Test func `knows when it was made, and is none without`() throws {
        let head = #""tollwayReplayPlan":2,"action":"discard","#
        #expect(try plan(head + Self.rest).madeAt == 1_772_366_400_500)
        for other in ["\"yesterday\"", "1772366400500", "null"] {
            let rest = Self.rest.replacing("\"2026-03-01T12:00:00.500Z\"", with: other)
            let failure = #expect(throws: CommandFailure.self) { try plan(head + rest) }
            #expect(failure?.code == "usage.bad_plan")
        }
    }

    @Test func `may leave numbers out`() throws {
        let plan = try plan(#""tollwayReplayPlan":1,"rate":null,"replaysMax":100,\#(Self.rest)"#)
        #expect(plan.rate == nil && plan.replayCountMax == 100)
    }

    @Test(arguments: [
        #""tollwayReplayPlan":0"#, #""tollwayReplayPlan":3,"action":"replay""#,
        #""tollwayReplayPlan":2"#, #""tollwayReplayPlan":2,"action":"purge""#,
        #""tollwayReplayPlan":2,"action":"discard","patch":"{}""#,
    ])
    func `is none of another version or for anything else`(members: String) {
        #expect(throws: CommandFailure.self) { try plan("\(members),\(Self.rest)") }
    }
}
