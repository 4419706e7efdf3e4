internal import Telemetry
internal import TokenDomain

/// A snapshot for a program.
extension TopSnapshot {
    var json: String {
        JSONLines.object([
            ("at", "\(at)"),
            ("servers", JSONText.quoted(servers)),
            ("prefix", JSONText.quoted(prefix)),
            ("clusterId", clusterID.map(JSONText.quoted) ?? "null"),
            ("stages", JSONLines.list(stages.map(Self.object))),
            ("lanes", JSONLines.list(lanes.map { Self.object($0, at: at) })),
            ("answers", JSONLines.list(answers.map(Self.object))),
            ("reported", reported.map { JSONLines.list($0.map(Self.object)) } ?? "null"),
            ("isReportedAll", "\(isReportedAll)"),
            ("deadLetterTotal", deadLetterTotal.map(String.init) ?? "null"),
            ("areDeadLettersAll", "\(areDeadLettersAll)"),
            (
                "deadLetters",
                JSONLines.list(
                    deadLetters.map { deadLetters in
                        JSONLines.object(
                            Fact.text("stage", deadLetters.stage)
                                + Fact.text("code", deadLetters.code)
                                + Fact.number("count", Int64(deadLetters.count))
                                + Fact.number("newest", deadLetters.newest)
                        )
                    }
                )
            ),
            ("instances", JSONLines.list(instances.map(Self.object))),
            ("troubles", JSONLines.texts(troubles)),
            ("advice", JSONLines.list(TopAdvice.all(self).map(\.json))),
        ])
    }

    private static func number(_ name: String, _ value: Double?) -> [(name: String, json: String)] {
        // A lane may be allowed less than one a second.
        let scale = abs(value ?? 0) < 1 ? 1_000.0 : 10
        return value.map { [(name, "\(($0 * scale).rounded() / scale)")] } ?? []
    }

    /// Absent where the topic is, null where it is not known.
    private static func lag(of stage: Stage) -> [(name: String, json: String)] {
        guard stage.lag != nil || stage.partitionCount > 0 else {
            return []
        }
        return [("lag", stage.lag.map(String.init) ?? "null")]
    }

    private static func object(_ stage: Stage) -> String {
        JSONLines.object(
            Fact.text("worker", stage.worker.rawValue)
                + Fact.text("topic", stage.topic)
                + Fact.number("end", stage.end)
                + Fact.number("committed", stage.committed)
                + lag(of: stage)
                + Fact.number("partitions", Int64(stage.partitionCount))
                + Fact.number("members", stage.memberCount.map(Int64.init))
                + Fact.number("assigned", stage.assignedCount.map(Int64.init))
                + Fact.number("restoring", stage.restoringCount.map(Int64.init))
                + number("lagSeconds", stage.lagSeconds)
                + number("inPerSecond", stage.inPerSecond)
                + number("donePerSecond", stage.donePerSecond)
        )
    }

    private static func object(_ lane: Lane, at now: Int64) -> String {
        var members = Fact.number("appAppleId", lane.app)
        members += Fact.text("environment", lane.environment)
        members += Fact.text("endpoint", lane.endpoint)
        members += Fact.text("state", lane.state)
        members += Fact.text("because", lane.because)
        members += Fact.number("until", lane.until)
        members += Fact.number("since", lane.since)
        members += number("allowedPerSecond", lane.allowedPerSecond)
        members += number("configuredPerSecond", lane.configuredPerSecond)
        members += number("startedPerSecond", lane.startedPerSecond)
        members += Fact.number("inFlight", Int64(lane.inFlight))
        members += Fact.number("due", lane.due)
        members += Fact.number("nextDeadline", lane.nextDeadline)
        members.append(("days", DeadlineForecast(lane, at: now).json))
        return JSONLines.object(members)
    }

    private static func object(_ reported: Reported) -> String {
        JSONLines.object(
            Fact.number("appAppleId", reported.app)
                + Fact.text("environment", reported.environment)
                + Fact.number("count", Int64(reported.count))
        )
    }

    private static func object(_ answer: Answer) -> String {
        JSONLines.object(
            Fact.number("appAppleId", answer.app)
                + Fact.text("environment", answer.environment)
                + Fact.text("status", answer.status) + Fact.text("code", answer.code)
                + Fact.number("count", answer.count) + number("perSecond", answer.perSecond)
        )
    }

    private static func object(_ instance: Instance) -> String {
        JSONLines.object(
            Fact.text("address", instance.address)
                + Fact.text("worker", instance.worker)
                + Fact.text("instance", instance.name)
                + (instance.isReady.map { [("isReady", "\($0)")] } ?? [])
                + Fact.number("partitions", instance.partitionCount.map(Int64.init))
                + Fact.number("restoring", instance.restoringCount.map(Int64.init))
                + Fact.number("usefulReplicas", instance.usefulReplicas)
        )
    }
}
