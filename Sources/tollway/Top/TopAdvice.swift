internal import Telemetry
internal import TokenDomain

/// What is wrong in a snapshot, and what to do about it, by the runbook.
struct TopAdvice: Equatable {
    enum Severity: String {
        /// A person must act.
        case error
        /// Nothing is lost; somebody should look.
        case warning
        /// Good to know.
        case note
    }

    /// The most urgent report is due so soon, and the lane cannot send it: time to look.
    private static let slackMilliseconds: Int64 = 86_400_000
    /// Who is so far behind, and falls further behind, needs help.
    private static let lagSecondsMax = 60.0

    var severity: Severity
    /// Whose part of the page it belongs to: a worker, `kafka`, `apple` or `dead-letters`.
    var place: String
    var what: String
    var todo: String
    /// A heading of `Deploy/RUNBOOK.md`.
    var section: String

    var json: String {
        JSONLines.object([
            ("severity", JSONText.quoted(severity.rawValue)),
            ("place", JSONText.quoted(place)),
            ("what", JSONText.quoted(what)),
            ("todo", JSONText.quoted(todo)),
            ("section", JSONText.quoted(section)),
        ])
    }

    /// The worst first.
    static func all(_ snapshot: TopSnapshot) -> [TopAdvice] {
        let all =
            troubles(snapshot) + snapshot.stages.flatMap(stage) + instances(snapshot)
            + unasked(snapshot) + snapshot.lanes.flatMap { lane($0, at: snapshot.at) }
            + deadLetters(snapshot)
        let order: [Severity] = [.error, .warning, .note]
        return order.flatMap { severity in all.filter { $0.severity == severity } }
    }

    private static func troubles(_ snapshot: TopSnapshot) -> [TopAdvice] {
        guard snapshot.clusterID != nil else {
            let said = snapshot.troubles.filter { $0.hasPrefix(TopSnapshot.kafkaTrouble) }
            return [
                TopAdvice(
                    severity: .error,
                    place: "kafka",
                    what:
                        "no answer from Kafka at \(snapshot.servers): \(said.joined(separator: "; "))",
                    todo: "see whether it runs, and whether address, TLS and SASL fit; the workers"
                        + " wait for it, and go on by themselves when it is back",
                    section: "Kafka is away"
                )
            ]
        }
        return snapshot.troubles.map { trouble in
            let isOfKafka = trouble.hasPrefix(TopSnapshot.kafkaTrouble)
            return TopAdvice(
                severity: .error,
                place: isOfKafka ? "kafka" : worker(in: trouble)?.rawValue ?? "kafka",
                what: trouble,
                todo: snapshot.repairs[trouble] ?? "tollway doctor says more",
                section: isOfKafka ? "Kafka is away" : "A stage that nobody runs"
            )
        }
    }

    /// The first worker that a sentence names, as a word of its own: topics are called after them.
    private static func worker(in trouble: String) -> Worker? {
        trouble.split { !$0.isLetter }.lazy.compactMap { Worker(rawValue: String($0)) }.first
    }

    private static func stage(_ stage: TopSnapshot.Stage) -> [TopAdvice] {
        let worker = stage.worker.rawValue
        guard stage.lag != nil || stage.partitionCount > 0 else {
            return [
                TopAdvice(
                    severity: .error,
                    place: worker,
                    what: "the topic \(stage.topic), which \(worker) reads, is not there",
                    todo: "tollway topics plan shows what is missing, tollway topics apply --yes"
                        + " makes it",
                    section: "Kafka is away"
                )
            ]
        }
        var advice: [TopAdvice] = []
        if let count = stage.restoringCount, count > 0 {
            advice.append(
                TopAdvice(
                    severity: .note,
                    place: worker,
                    what: "\(worker) reads the state of " + CountText.of(Int(count), "partition")
                        + " before it goes on",
                    todo: "wait; a million keys take some seconds",
                    section: "State is restored for too long"
                )
            )
        }
        // Of a stage that nobody runs the troubles say so.
        if stage.memberCount != 0, let seconds = stage.secondsBehind, seconds > lagSecondsMax,
            let done = stage.donePerSecond, let incoming = stage.inPerSecond, done <= incoming
        {
            advice.append(
                TopAdvice(
                    severity: .warning,
                    place: worker,
                    what: "\(worker) is \(stage.lagSeconds == nil ? "about " : "")"
                        + "\(TopScreen.span(seconds)) behind \(stage.topic), and does"
                        + " not catch up",
                    todo: "where it reads its state, wait; else run more instances of \(worker), up"
                        + " to the number of partitions; if only one partition is behind, see the"
                        + " runbook",
                    section: "Lag grows"
                )
            )
        }
        return advice
    }

    private static func instances(_ snapshot: TopSnapshot) -> [TopAdvice] {
        snapshot.instances.filter { $0.isReady == false }.map { instance in
            TopAdvice(
                severity: .warning,
                place: instance.worker ?? "kafka",
                what: "\(instance.worker ?? "a worker") at \(instance.address) is not ready",
                todo: "curl '\(instance.address)/readyz?verbose' says what keeps it from work",
                section: "A worker exits"
            )
        }
    }

    private static func unasked(_ snapshot: TopSnapshot) -> [TopAdvice] {
        let members = snapshot.stages.lazy.filter { $0.worker == .report }.compactMap(\.memberCount)
        guard let sentence = snapshot.lanesAreOfSome(of: members.max()) else {
            return []
        }
        return [
            TopAdvice(
                severity: .note,
                place: "apple",
                what: sentence,
                todo: "name the admin port of each with --admin",
                section: "A report lane is held"
            )
        ]
    }

    private static func lane(_ lane: TopSnapshot.Lane, at now: Int64) -> [TopAdvice] {
        let name = "the lane of \(lane.app) \(lane.environment) (\(lane.endpoint))"
        let because = lane.because.map { ": \($0)" } ?? ""
        var advice: [TopAdvice] = []
        func add(_ severity: Severity, _ what: String, _ todo: String, _ section: String) {
            advice.append(
                TopAdvice(
                    severity: severity,
                    place: "apple",
                    what: what,
                    todo: todo,
                    section: section
                )
            )
        }
        switch lane.state {
        case "stopped", "probing":
            add(
                .error,
                "\(name) is stopped\(because)",
                "mend its key, role or address; report tries by itself, at most every 5 minutes",
                "A report lane is stopped"
            )
        case "paused":
            add(
                .warning,
                "\(name) is paused by hand\(because)",
                "tollway lanes resume \(lane.app) \(lane.environment) --why … --yes lets it go on",
                "A report lane is paused"
            )
        case "held":
            add(
                .note,
                "\(name) is held, as Apple asked\(because)",
                "wait; if it lasts, ask for less with reportsPerSecond in the apps file",
                "A report lane is held"
            )
        default:
            if lane.because != nil {
                add(
                    .warning,
                    "Apple fails the requests of \(name)\(because)",
                    "wait: every report is tried again under its identifier; look at Apple's system"
                        + " status, and at the way there",
                    "Apple fails"
                )
            }
        }
        let slow = DeadlineForecast(lane, at: now).days.first { $0.makesIt == false }
        if let slow, let needed = slow.neededPerSecond {
            let day = WallClock.rfc3339(milliseconds: slow.startsAt).prefix(10)
            let isSending = DeadlineForecast.isSending(lane)
            let rates =
                "it needs \(TopScreen.rate(needed))/s and may send"
                + " \(TopScreen.rate(lane.allowedPerSecond))/s"
            add(
                .error,
                "\(name) does not make the deadlines of \(day): "
                    + (isSending ? rates : "it is \(lane.state), and sends nothing"),
                isSending
                    ? "raise reportsPerSecond in the apps file, as far as Apple allows"
                    : "open the lane",
                "Deadline slack is small"
            )
        }
        let left = lane.nextDeadline?.subtracting(saturating: now)
        if let left, left < slackMilliseconds {
            let isLate = left <= 0
            add(
                isLate ? .error : .warning,
                isLate
                    ? "a report of \(name) is past its deadline"
                    : "a report of \(name) is due at Apple in"
                        + " \(TopScreen.span(Double(left) / 1_000))",
                "see what holds the lane, and whether its rate is enough for what is due",
                "Deadline slack is small"
            )
        }
        return advice
    }

    private static func deadLetters(_ snapshot: TopSnapshot) -> [TopAdvice] {
        guard let total = snapshot.deadLetterTotal, total > 0 else {
            return []
        }
        return [
            TopAdvice(
                severity: .warning,
                place: "dead-letters",
                what: "\(total) dead letters are open"
                    + (snapshot.areDeadLettersAll ? "" : ", and more are being read"),
                todo: "read why by group, mend the cause, then send them back",
                section: "Dead letters grow"
            )
        ]
    }
}
