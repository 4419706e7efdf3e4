import Foundation
import Testing

@testable import tollway

@Suite struct `What the console runs` {
    private static let folder = URL(fileURLWithPath: "/nowhere")
    private static let mia = ConsoleGate.Person(name: "mia")

    // MARK: - Questions

    @Test func `is a command with the page's filter`() throws {
        let question = try ConsoleQuestion([
            "ask": "dead-letters",
            "filter": ["stage": ["decode"], "grep": "--yes", "since": "90m"],
            "limit": 7,
        ])
        #expect(
            question.arguments == [
                "dlq", "ls", "-o", "json", "--grep=--yes", "--since=90m", "--stage=decode",
                "--limit=7", "--newest", "--brief",
            ]
        )
    }

    @Test func `takes what a person typed for an operand and never for an option`() throws {
        let question = try ConsoleQuestion(["ask": "token", "id": "--help"])
        #expect(question.arguments == ["token", "trace", "-o", "json", "--", "--help"])
        // The page says so where the audit has as many.
        let audit = try ConsoleQuestion(["ask": "audit"]).arguments
        #expect(audit == ["audit", "ls", "-o", "json", "--limit=1000"])
        #expect(ConsoleScript.account.contains("const auditCountMax = 1000;"))
    }

    @Test(arguments: [
        "{}", #"{"ask":"dlq replay"}"#, #"{"ask":"replay"}"#, #"{"ask":["dlq"]}"#,
        #"{"ask":"dead-letters","filter":{"yes":""}}"#,
        #"{"ask":"dead-letters","filter":{"yes":"1"}}"#,
        #"{"ask":"dead-letters","filter":"--yes"}"#,
        #"{"ask":"dead-letters","filter":{"why":"x"}}"#,
        #"{"ask":"dead-letters","filter":{"stage":1}}"#,
        #"{"ask":"dead-letters","filter":{"stage":""}}"#,
        #"{"ask":"dead-letter"}"#, #"{"ask":"token","id":""}"#, #"{"ask":"token","id":"a\u0000b"}"#,
    ])
    func `is nothing that is no question`(json: String) throws {
        let body = try Self.object(json)
        #expect(throws: ConsoleFault.self) { try ConsoleQuestion(body) }
    }

    @Test func `is nothing that is too long`() {
        let id = String(repeating: "a", count: 8_193)
        #expect(throws: ConsoleFault.self) { try ConsoleQuestion(["ask": "token", "id": id]) }
        let stages = Array(repeating: "decode", count: 21)
        #expect(throws: ConsoleFault.self) {
            try ConsoleQuestion(["ask": "dead-letters", "filter": ["stage": stages]])
        }
    }

    private static func object(_ json: String) throws -> [String: Any] {
        let object = try JSONSerialization.jsonObject(with: Data(json.utf8))
        return try #require(object as? [String: Any])
    }

    @Test func `asks for nothing that no command answers`() {
        for (name, words) in ConsoleQuestion.verbs {
            #expect(TollwayCommand.verbs.contains { $0.words == words }, "\(name)")
        }
    }

    // MARK: - Plans and acts

    private func planned(
        _ acts: inout ConsoleActs,
        _ body: [String: Any],
        go: Int = 3
    ) throws -> ConsoleActs.Plan {
        let (draft, _) = try acts.draft(body, session: "s", now: 0)
        let kept = acts.keep(draft, Array("{\"go\":\(go)}".utf8))
        return try #require(kept)
    }

    private static var replay: [String: Any] {
        ["action": "replay", "filter": ["stage": "decode"], "canary": 2, "rate": 10]
    }

    @Test func `replays exactly what a plan wrote down`() throws {
        var acts = ConsoleActs(folder: Self.folder)
        let (draft, question) = try acts.draft(Self.replay, session: "s", now: 0)
        let file = try #require(draft.file)
        #expect(
            question == [
                "dlq", "plan", "-o", "json", "--stage=decode", "--rate=10", "--", file.path,
            ]
        )
        let kept = acts.keep(draft, Array("{\"go\":3}".utf8))
        let plan = try #require(kept)
        let (act, command) = try acts.confirm(
            ["plan": plan.id, "go": 3, "why": "--yes mended"],
            session: "s",
            by: Self.mia,
            now: 1
        )
        #expect(
            command == [
                "dlq", "replay", "--canary=2", "-o", "json", "--yes", "--why=--yes mended", "--",
                file.path,
            ]
        )
        #expect(act.by == "mia" && act.plan.goCount == 3)
    }

    @Test func `discards exactly what a plan wrote down, and nothing that came after`() throws {
        var acts = ConsoleActs(folder: Self.folder)
        let body: [String: Any] = [
            "action": "discard", "filter": ["since": "90m"], "max": 10, "canary": 3,
        ]
        let (draft, question) = try acts.draft(body, session: "s", now: 1_000)
        let file = try #require(draft.file)
        #expect(
            question == [
                "dlq", "plan", "--discard", "-o", "json", "--since=90m", "--max=10", "--",
                file.path,
            ]
        )
        let kept = acts.keep(draft, Array("{\"go\":1}".utf8))
        let plan = try #require(kept)
        let (_, command) = try acts.confirm(
            ["plan": plan.id, "go": 1, "why": "no token"],
            session: "s",
            by: Self.mia,
            now: 1_001
        )
        #expect(
            command == [
                "dlq", "discard", "-o", "json", "--yes", "--why=no token", "--", file.path,
            ]
        )
    }

    @Test(arguments: [
        #"{"action":"replay"}"#, #"{"action":"replay","filter":{}}"#,
        #"{"action":"purge","filter":{"stage":"decode"}}"#,
        #"{"action":"replay","filter":{"stage":"decode"},"max":0}"#,
        #"{"action":"replay","filter":{"stage":"decode"},"canary":-1}"#,
        #"{"action":"replay","filter":{"stage":"decode"},"rate":"all"}"#,
    ])
    func `plans nothing that is too wide or makes no sense`(json: String) throws {
        let acts = ConsoleActs(folder: Self.folder)
        let body = try Self.object(json)
        #expect(throws: ConsoleFault.self) {
            _ = try acts.draft(body, session: "s", now: 0)
        }
    }

    @Test(arguments: [
        (#"{"go":2,"why":"w"}"#, "s", 1), (#"{"go":3,"why":""}"#, "s", 1),
        (#"{"go":3,"why":"  "}"#, "s", 1), (#"{"go":3}"#, "s", 1), (#"{"why":"w"}"#, "s", 1),
        (#"{"go":3,"why":"w","plan":"another"}"#, "s", 1),
        (#"{"go":3,"why":"w"}"#, "other", 1),
        (#"{"go":3,"why":"w"}"#, "s", ConsoleActs.planMilliseconds),
    ])
    func `does nothing that is not confirmed`(
        json: String,
        session: String,
        now: Int64
    ) throws {
        let body = try Self.object(json)
        var acts = ConsoleActs(folder: Self.folder)
        let plan = try planned(&acts, Self.replay)
        let whole = ["plan": plan.id].merging(body) { $1 }
        #expect(throws: ConsoleFault.self) {
            _ = try acts.confirm(whole, session: session, by: Self.mia, now: now)
        }
        // Refused once, it can be confirmed still.
        _ = try acts.confirm(
            ["plan": plan.id, "go": 3, "why": "w"],
            session: "s",
            by: Self.mia,
            now: 1
        )
    }

    @Test func `carries a plan out once, and one at a time`() throws {
        var acts = ConsoleActs(folder: Self.folder)
        let plan = try planned(&acts, Self.replay)
        let other = try planned(&acts, Self.replay)
        let body: [String: Any] = ["plan": plan.id, "go": 3, "why": "w"]
        let (act, _) = try acts.confirm(body, session: "s", by: Self.mia, now: 1)
        acts.begin(act, job: 1)
        #expect(acts.changeCount == 1)
        #expect(throws: ConsoleFault.self) {
            _ = try acts.confirm(body, session: "s", by: Self.mia, now: 2)
        }
        let next: [String: Any] = ["plan": other.id, "go": 3, "why": "w"]
        #expect(throws: ConsoleFault.self) {
            _ = try acts.confirm(next, session: "s", by: Self.mia, now: 2)
        }
        acts.end(act.number, ConsoleJobs.Result(exit: 0, data: [], talk: ""))
        #expect(acts.changeCount == 2)
        _ = try acts.confirm(next, session: "s", by: Self.mia, now: 3)
    }

    @Test func `keeps a plan whose command found no place`() throws {
        var acts = ConsoleActs(folder: Self.folder)
        let plan = try planned(&acts, Self.replay)
        let body: [String: Any] = ["plan": plan.id, "go": 3, "why": "w"]
        _ = try acts.confirm(body, session: "s", by: Self.mia, now: 1)
        // Nothing began, so it is there still.
        let (act, _) = try acts.confirm(body, session: "s", by: Self.mia, now: 2)
        acts.begin(act, job: 1)
        acts.end(act.number, ConsoleJobs.Result(exit: 0, data: [], talk: ""))
        #expect(throws: ConsoleFault.self) {
            _ = try acts.confirm(body, session: "s", by: Self.mia, now: 3)
        }
    }

    @Test func `leaves no file of a plan that is done or forgotten`() throws {
        let folder = try TemporaryFolder()
        var acts = ConsoleActs(folder: folder.url)
        func files() throws -> [String] {
            try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        }
        func plan(_ data: String, now: Int64) throws -> ConsoleActs.Plan? {
            let (draft, _) = try acts.draft(Self.replay, session: "s", now: now)
            try Data().write(to: try #require(draft.file))
            return acts.keep(draft, Array(data.utf8))
        }
        let none = try plan("", now: 0)
        #expect(try none == nil && files().isEmpty)
        let kept = try plan(#"{"go":3}"#, now: 0)
        let done = try #require(kept)
        let body: [String: Any] = ["plan": done.id, "go": 3, "why": "w"]
        let (act, _) = try acts.confirm(body, session: "s", by: Self.mia, now: 1)
        acts.begin(act, job: 1)
        #expect(try files().count == 1, "its command reads it")
        acts.end(act.number, ConsoleJobs.Result(exit: 0, data: [], talk: ""))
        #expect(try files().isEmpty)
        for number in 0...ConsoleActs.planMilliseconds / 100_000 {
            _ = try plan(#"{"go":3}"#, now: number * 100_000)
        }
        let latest = try plan(#"{"go":3}"#, now: 3 * ConsoleActs.planMilliseconds)
        #expect(try files() == [latest?.file?.lastPathComponent])
    }

    @Test(arguments: [(0, true, true), (2, true, true), (3, false, true), (4, false, false)])
    func `has a place for acts beside slow questions`(
        count: Int,
        isForQuestion: Bool,
        isForAct: Bool
    ) {
        #expect(ConsoleJobs.hasPlace(besides: count, isUrgent: false) == isForQuestion)
        #expect(ConsoleJobs.hasPlace(besides: count, isUrgent: true) == isForAct)
    }

    @Test(arguments: ["pause", "resume", "reset"])
    func `orders for a lane what its dry run showed`(action: String) throws {
        var acts = ConsoleActs(folder: Self.folder, admin: ["10.0.0.1:9404"])
        let body: [String: Any] = ["action": action, "app": "7", "environment": "sandbox"]
        let (draft, question) = try acts.draft(body, session: "s", now: 0)
        let words = ["lanes", action, "--admin=10.0.0.1:9404", "7", "sandbox"]
        #expect(question == words + ["-o", "json"])
        let none = acts.keep(draft, Array(#"{"error":{"code":"lanes.paused"}}"#.utf8))
        #expect(none == nil)
        let kept = acts.keep(draft, Array(#"{"isWritten":false,"lanes":[]}"#.utf8))
        let plan = try #require(kept)
        #expect(plan.goCount == 1)
        #expect(throws: ConsoleFault.self) {
            _ = try acts.confirm(
                ["plan": plan.id, "go": 1],
                session: "s",
                by: Self.mia,
                now: 1
            )
        }
        let (act, command) = try acts.confirm(
            ["plan": plan.id, "go": 1, "why": "asked to"],
            session: "s",
            by: Self.mia,
            now: 1
        )
        #expect(command == words + ["-o", "json", "--yes", "--why=asked to"])
        #expect(act.plan.what == "the lane of app 7 (sandbox)")
    }

    @Test(arguments: [
        #"{"action":"pause"}"#, #"{"action":"pause","app":7,"environment":"sandbox"}"#,
        #"{"action":"pause","app":"--yes","environment":"sandbox"}"#,
        #"{"action":"pause","app":"7","environment":"--yes"}"#,
        #"{"action":"list","app":"7","environment":"sandbox"}"#,
    ])
    func `orders nothing for what is no lane`(json: String) throws {
        let acts = ConsoleActs(folder: Self.folder)
        let body = try Self.object(json)
        #expect(throws: ConsoleFault.self) {
            _ = try acts.draft(body, session: "s", now: 0)
        }
    }

    @Test(arguments: ["", "{}", "{\"error\":{}}", "no JSON", "{\"go\":\"3\"}"])
    func `keeps no plan without numbers`(data: String) throws {
        var acts = ConsoleActs(folder: Self.folder)
        let (draft, _) = try acts.draft(Self.replay, session: "s", now: 0)
        let plan = acts.keep(draft, Array(data.utf8))
        #expect(plan == nil)
    }
}
