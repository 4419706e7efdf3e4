@testable import Kafka
import MessageExamples
import StageRuntime
import TokenDomain

@testable import tollway

/// What `tollway` writes beside the records themselves.
extension `The schemas of Protocols` {
    static func changedByHand() throws -> [Case] {
        let configuration = try Configuration(environment: [:], program: .tollway)
        let replay = try DeadLetterOrder(
            .replay,
            Invocation(
                verb: ReplayCommand.replay,
                output: .table,
                operands: [],
                values: ["--reason": ["unknown_app"], "--patch": [#"{"bundleId":null}"#]]
            ),
            configuration,
            now: MessageExamples.time
        )
        let discard = try DeadLetterOrder(
            .discard,
            Invocation(
                verb: ReplayCommand.discard,
                output: .table,
                operands: [],
                values: ["--why": ["no tokens \"at all\""]]
            ),
            configuration,
            now: MessageExamples.time
        )
        let asked = ReportAudit(
            order: try HandOrder("request", why: "lost in May", now: MessageExamples.time),
            request: MessageExamples.reportsRequested[0],
            at: MessageExamples.time.milliseconds
        )
        let changes = [replay, discard].flatMap { order in
            let target: Topic = order.action == .replay ? .tokensReceived : .deadLetterArchive
            let audit = DeadLetterAudit(
                order: order,
                stage: .decode,
                part: 1,
                at: MessageExamples.time.milliseconds,
                state: .interrupted,
                counts: [target: 3],
                runCount: 3
            )
            let settled = SettledDeadLetter(
                state: order.action == .replay ? .replayed : .discarded,
                deadLetterTimestamp: 1,
                replayID: order.runID,
                at: MessageExamples.time.milliseconds,
                target: target.name(prefix: order.prefix)
            )
            return [
                written("audit.v1", order.action.rawValue, audit.write),
                written("dlq.replays.v1", order.action.rawValue, settled.write),
            ]
        }
        let lanes = try [LanesCommand.Action.pause, .resume, .reset].map { action in
            let audit = LaneAudit(
                action: action,
                order: try HandOrder(action.rawValue, why: "x", now: MessageExamples.time),
                lane: Lane(appAppleID: 1, environment: .sandbox),
                at: MessageExamples.time.milliseconds
            )
            return written("audit.v1", "lanes \(action.rawValue)", audit.write)
        }
        var plan = BackfillPlan(
            from: MessageExamples.time,
            to: MessageExamples.time + .hours(1),
            onlyFailures: true,
            lanes: AppleEnvironment.allCases.map { Lane(appAppleID: 1, environment: $0) }
        )
        plan.advance(lane: 0, to: nil)
        plan.advance(lane: 1, to: "next")
        let fetched = BackfillAudit(
            plan: plan,
            order: try HandOrder("backfill", why: nil, now: MessageExamples.time),
            part: 1,
            state: .running,
            at: MessageExamples.time.milliseconds,
            count: 20,
            runCount: 20,
            target: Topic.notificationsReceived.name(prefix: "tollway.")
        )
        return try repairs() + offsets() + lanes + changes + [
            written("audit.v1", "topics apply", try topics().write),
            written("audit.v1", "report request", asked.write),
            written("audit.v1", "notifications backfill", fetched.write),
        ]
    }

    private static func repairs() throws -> [Case] {
        let transaction = HangingTransaction(
            partition: TopicPartition(topic: "tollway.tokens.decoded.v1", partition: 3),
            producerID: 7,
            producerEpoch: 2,
            transactionalID: "tollway.decode-0",
            startOffset: 100,
            verdict: .commit,
            coordinatorEpoch: 1
        )
        var audit = RepairAudit(
            order: try HandOrder("repair", why: "a node was killed", now: MessageExamples.time),
            transactions: [transaction]
        )
        var documents: [[UInt8]] = []
        for state in [AuditState.running, .finished] {
            audit.state = state
            var arena: [UInt8] = []
            audit.append(to: &arena, at: MessageExamples.time.milliseconds)
            documents.append(arena)
        }
        return documents.map {
            Case(
                name: "transactions repair",
                schema: "audit.v1",
                isValid: true,
                document: String(decoding: $0, as: UTF8.self)
            )
        }
    }

    /// What is lost is known of one, and not of the other.
    private static func offsets() throws -> [Case] {
        let lost = [(committed: 5, start: 9, end: 20), (committed: 30, start: 0, end: 20)]
            .compactMap {
                LostRecords(
                    TopicPartition(topic: "tollway.tokens.received.v1", partition: 3),
                    committed: $0.committed,
                    start: $0.start,
                    end: $0.end
                )
            }
        precondition(lost.count == 2, "both places are gone")
        var audit = OffsetsAudit(
            order: try HandOrder("offsets", why: nil, now: MessageExamples.time),
            rows: lost.map { OffsetsCommand.Row(worker: .decode, lost: $0) }
        )
        let states: [(AuditState, Int)] = [(.running, 0), (.stopped, 1), (.finished, 2)]
        return states.map { state, count in
            (audit.state, audit.count) = (state, count)
            return written("audit.v1", "offsets reset") { arena in
                audit.append(to: &arena, at: MessageExamples.time.milliseconds)
            }
        }
    }

    /// One that is new, and one with other settings.
    private static func topics() throws -> TopicsAudit {
        let there = TopicReview.Present(
            partitionCount: 12,
            replicationFactor: 3,
            configuration: ["min.insync.replicas": "1"]
        )
        let reviews = TopicReview.all(
            prefix: "tollway.",
            wanted: TopicReview.Wanted(),
            present: [Topic.audit.name(prefix: "tollway."): there]
        )
        return TopicsAudit(
            order: try HandOrder("topics", why: "a new version", now: MessageExamples.time),
            reviews: reviews.filter { !$0.isRight },
            at: MessageExamples.time.milliseconds
        )
    }

    private static func written(
        _ schema: String,
        _ what: String,
        _ write: (inout [UInt8]) -> Void
    ) -> Case {
        var arena: [UInt8] = []
        write(&arena)
        return Case(
            name: "by hand: \(what)",
            schema: schema,
            isValid: true,
            document: String(decoding: arena, as: UTF8.self)
        )
    }
}
