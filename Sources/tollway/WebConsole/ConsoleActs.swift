internal import Crypto
internal import Foundation
internal import Glibc
internal import Telemetry
internal import TokenDomain

/// Plans that were shown, and what was done by them.
///
/// Nothing is done without a plan: a replay and a discard do exactly what their plan file says, so
/// that a dead letter that nobody saw does not go. An order for a lane is planned by its dry run.
struct ConsoleActs {
    enum Action: String {
        case replay
        case discard
        // Of a lane.
        case pause
        case resume
        case reset

        var isOfLane: Bool {
            switch self {
            case .replay, .discard: false
            case .pause, .resume, .reset: true
            }
        }
    }

    /// What a command would do, as it was shown.
    struct Plan {
        var id: String
        var action: Action
        /// Of the session that asked for it: nobody else confirms it.
        var session: String
        /// How many dead letters would go, or lanes.
        var goCount: Int
        /// What they are, in words.
        var what: String
        var plannedAt: Int64
        /// Of the command that does it, without `--yes` and the reason.
        var arguments: [String]
        /// Where its positions are written down; nil for an order for a lane.
        var file: URL?
    }

    /// An act that was started.
    struct Act {
        var number: Int
        /// By which it is done.
        var plan: Plan
        /// Of the process; nil once it has ended.
        var job: Int?
        var by: String
        var why: String
        var startedAt: Int64
        var result: ConsoleJobs.Result?

        var json: String {
            JSONLines.object(
                [
                    ("act", "\(number)"), ("action", JSONText.quoted(plan.action.rawValue)),
                    ("go", "\(plan.goCount)"), ("what", JSONText.quoted(plan.what)),
                    ("by", JSONText.quoted(by)),
                    ("why", JSONText.quoted(why)), ("startedAt", "\(startedAt)"),
                ]
                    + (result.map(ConsoleActs.members) ?? [])
            )
        }
    }

    static let planMilliseconds: Int64 = 15 * 60_000
    private static let planCountMax = 32
    private static let actCountMax = 50
    private static let deadLetterCountMax = 100_000_000
    private static let canaryCountMax = 100_000

    private let folder: URL
    /// Admin ports, which tell of lanes.
    private let admin: [String]
    private var plans: [String: Plan] = [:]
    private(set) var acts: [Act] = []
    /// Grows with each act that begins or ends: a page that knows another number reads them anew.
    private(set) var changeCount = 0

    init(folder: URL, admin: [String] = []) {
        self.folder = folder
        self.admin = admin
    }

    var isUnderWay: Bool { acts.contains { $0.result == nil } }

    // MARK: - Plans

    /// What is to be planned.
    ///
    /// - Returns: a plan without its numbers, and the command that finds them out.
    func draft(
        _ body: [String: Any],
        session: String,
        now: Int64
    ) throws(ConsoleFault) -> (plan: Plan, question: [String]) {
        guard let action = (body["action"] as? String).flatMap({ Action(rawValue: $0) }) else {
            throw ConsoleFault("action is replay, discard, pause, resume or reset")
        }
        guard !action.isOfLane else {
            return try draftLane(action, body, session: session, now: now)
        }
        let filter = try ConsoleQuestion.filter(body["filter"])
        guard !filter.isEmpty else {
            throw ConsoleFault("say which dead letters: a plan needs a filter")
        }
        var limits: [String] = []
        if let count = try ConsoleQuestion.number(body["max"], in: 1...Self.deadLetterCountMax) {
            limits.append("--max=\(count)")
        }
        if let rate = try ConsoleQuestion.number(body["rate"], in: 1...DeadLetterAction.rateMax) {
            limits.append("--rate=\(rate)")
        }
        let id = Self.newID()
        let file = folder.appendingPathComponent("plan-\(id).json")
        var plan = Plan(
            id: id,
            action: action,
            session: session,
            goCount: 0,
            what: "dead letters",
            plannedAt: now,
            arguments: ["dlq", action.rawValue],
            file: file
        )
        var question = ["dlq", "plan"]
        if action == .discard {
            question.append("--discard")
        } else if let count = try ConsoleQuestion.number(
            body["canary"],
            in: 1...Self.canaryCountMax
        ) {
            plan.arguments.append("--canary=\(count)")
        }
        return (plan, question + ["-o", "json"] + filter + limits + ["--", file.path])
    }

    private static func newID() -> String {
        RandomBytes.next(count: 16).map { String($0, radix: 16) }.joined(separator: "-")
    }

    private func draftLane(
        _ action: Action,
        _ body: [String: Any],
        session: String,
        now: Int64
    ) throws(ConsoleFault) -> (plan: Plan, question: [String]) {
        guard let text = body["app"] as? String, let app = Int64(text), app > 0,
            let environment = (body["environment"] as? String)
                .flatMap({ AppleEnvironment(rawValue: $0) })
        else {
            throw ConsoleFault("say which lane: app and environment")
        }
        let plan = Plan(
            id: Self.newID(),
            action: action,
            session: session,
            goCount: 0,
            what: "the lane of app \(app) (\(environment.rawValue))",
            plannedAt: now,
            arguments: ["lanes", action.rawValue] + admin.map { "--admin=\($0)" }
                + ["\(app)", environment.rawValue]
        )
        return (plan, plan.arguments + ["-o", "json"])
    }

    /// How many dead letters or lanes a dry run says would go; nil where it is none.
    private static func goCount(_ action: Action, _ object: [String: Any]?) -> Int? {
        guard action.isOfLane else {
            return object?["go"] as? Int
        }
        return object?["isWritten"] as? Bool == false ? 1 : nil
    }

    /// Keeps a plan whose numbers are known now, by what the command printed; nil where that is no
    /// plan.
    mutating func keep(_ draft: Plan, _ data: [UInt8]) -> Plan? {
        let object: [String: Any]?
        do {
            object = try JSONSerialization.jsonObject(with: Data(data)) as? [String: Any]
        } catch {
            // The command said why on its standard error; the page shows that.
            object = nil
        }
        guard let goCount = Self.goCount(draft.action, object) else {
            // A command that was ended may have left half of one.
            Self.remove(draft.file)
            return nil
        }
        var plan = draft
        plan.goCount = goCount
        for old in plans.values where plan.plannedAt - old.plannedAt >= Self.planMilliseconds {
            forget(old)
        }
        if plans.count >= Self.planCountMax,
            let oldest = plans.values.min(by: { $0.plannedAt < $1.plannedAt })
        {
            forget(oldest)
        }
        plans[plan.id] = plan
        return plan
    }

    private mutating func forget(_ plan: Plan) {
        plans[plan.id] = nil
        Self.remove(plan.file)
    }

    /// Where there is one: a plan without dead letters has no file.
    private static func remove(_ file: URL?) {
        guard let path = file?.path else {
            return
        }
        _ = unsafe unlink(path)
    }

    // MARK: - Acts

    /// A plan that is confirmed: its numbers repeated, and a reason given.
    ///
    /// - Returns: the act, and the command that does it.
    mutating func confirm(
        _ body: [String: Any],
        session: String,
        by person: ConsoleGate.Person,
        now: Int64
    ) throws(ConsoleFault) -> (act: Act, command: [String]) {
        guard let id = body["plan"] as? String, let plan = plans[id], plan.session == session,
            now - plan.plannedAt < Self.planMilliseconds
        else {
            throw ConsoleFault("the plan is not there, or too old: plan again", status: 409)
        }
        guard body["go"] as? Int == plan.goCount, plan.goCount > 0 else {
            throw ConsoleFault(
                "confirm how many go: the plan says \(plan.goCount)",
                status: 409
            )
        }
        let why = try ConsoleQuestion.text(body["why"])
        guard why.utf8.count <= HandOrder.whyByteCountMax,
            why.contains(where: { !$0.isWhitespace })
        else {
            throw ConsoleFault("say why, in at most \(HandOrder.whyByteCountMax) bytes")
        }
        guard !isUnderWay else {
            throw ConsoleFault("one is under way: wait for its end, or stop it", status: 409)
        }
        let act = Act(
            number: (acts.last?.number ?? 0) + 1,
            plan: plan,
            by: person.name,
            why: why,
            startedAt: now
        )
        let command =
            plan.arguments + ["-o", "json", "--yes", "--why=\(why)"]
            + (plan.file.map { ["--", $0.path] } ?? [])
        return (act, command)
    }

    /// Its process runs; until then the plan can be confirmed again.
    mutating func begin(_ act: Act, job: Int) {
        plans[act.plan.id] = nil
        var act = act
        act.job = job
        acts.append(act)
        changeCount += 1
        if acts.count > Self.actCountMax {
            acts.removeFirst()
        }
    }

    mutating func end(_ number: Int, _ result: ConsoleJobs.Result) {
        guard let index = acts.firstIndex(where: { $0.number == number }) else {
            return
        }
        acts[index].job = nil
        Self.remove(acts[index].plan.file)
        acts[index].result = result
        changeCount += 1
    }

    /// What a command came to, for the page.
    static func members(_ result: ConsoleJobs.Result) -> [(name: String, json: String)] {
        let data = String(decoding: result.data, as: UTF8.self)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        return [
            ("exit", "\(result.exit)"),
            ("data", data.isEmpty ? "null" : data),
            ("talk", JSONText.quoted(result.talk)),
            ("isTimedOut", "\(result.isTimedOut)"),
        ]
    }
}
