internal import AppStoreAPI
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What a backfill fetches, and how far it is: all that a later run needs to go on.
struct BackfillPlan: Equatable {
    /// UNIX milliseconds; both are in.
    var from: Timestamp
    var to: Timestamp
    var onlyFailures: Bool
    /// In the order in which they are fetched.
    var lanes: [Lane]
    /// How many of them are done.
    var doneCount = 0
    /// Of the lane after those, where some of its pages are stored.
    var paginationToken: String?

    var lane: Lane? { lanes.indices.contains(doneCount) ? lanes[doneCount] : nil }
    var isDone: Bool { doneCount >= lanes.count }

    var query: NotificationHistoryQuery {
        NotificationHistoryQuery(
            startDate: from,
            endDate: to,
            onlyFailures: onlyFailures,
            paginationToken: paginationToken
        )
    }

    /// For people.
    var filter: String {
        let times = [from, to].map { WallClock.rfc3339(milliseconds: $0.milliseconds) }
        return "from \(times[0]) to \(times[1])" + (onlyFailures ? ", only failures" : "")
    }

    /// A page of the current lane is taken.
    mutating func advance(to nextPaginationToken: String?) {
        paginationToken = nextPaginationToken
        if nextPaginationToken == nil {
            doneCount += 1
        }
    }

    /// The current lane is given up.
    mutating func skipLane() {
        advance(to: nil)
    }
}

/// A value of `<prefix>audit.v1`: what one transaction of a backfill stored, and where it goes on.
///
/// It lies in the transaction of its notifications: a run that was killed goes on after the last one.
struct BackfillAudit {
    enum State: String {
        case running, finished, interrupted
        /// Some lanes could not be fetched.
        case stopped
    }

    static let action = BackfillCommand.verb.words.joined(separator: ".")

    var plan: BackfillPlan
    var order: HandOrder
    /// Which transaction of the run, from 1.
    var part: Int
    var state: State
    /// UNIX milliseconds.
    var at: Int64
    var count: Int
    var runCount: Int
    var target: String

    func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("action", Self.action)
            writer.field("runId", order.id)
            writer.field("part", part)
            writer.field("state", state.rawValue)
            writer.field("at", at)
            writer.field("by", order.by)
            writer.field("why", order.why)
            writer.field("filter", plan.filter)
            writer.field("count", count)
            writer.field("runCount", runCount)
            writer.name("targets")
            writer.beginObject()
            if count > 0 {
                writer.name(text: target)
                writer.integer(Int64(count))
            }
            writer.endObject()
            writer.field("from", plan.from.milliseconds)
            writer.field("to", plan.to.milliseconds)
            writer.field("onlyFailures", plan.onlyFailures)
            writer.name("lanes")
            writer.beginArray()
            for lane in plan.lanes {
                writer.beginObject()
                writer.field("appAppleId", lane.appAppleID)
                writer.field("environment", lane.environment.rawValue)
                writer.endObject()
            }
            writer.endArray()
            writer.field("doneCount", plan.doneCount)
            writer.field("paginationToken", plan.paginationToken)
            writer.endObject()
        }
    }
}

extension BackfillPlan {
    /// Reads what ``BackfillAudit`` writes; nil where it is something else.
    init?(audit value: JSONValue) {
        guard value["action"]?.text == BackfillAudit.action,
            let from = value["from"]?.integer, let to = value["to"]?.integer,
            let onlyFailures = value["onlyFailures"]?.flag,
            let elements = value["lanes"]?.elements,
            let done = value["doneCount"]?.integer, (0...Int64(elements.count)).contains(done)
        else {
            return nil
        }
        let lanes = elements.compactMap { element -> Lane? in
            guard let app = element["appAppleId"]?.integer,
                let environment = element["environment"]?.text.flatMap(AppleEnvironment.init)
            else {
                return nil
            }
            return Lane(appAppleID: app, environment: environment)
        }
        guard lanes.count == elements.count else {
            return nil
        }
        self.init(
            from: Timestamp(milliseconds: from),
            to: Timestamp(milliseconds: to),
            onlyFailures: onlyFailures,
            lanes: lanes,
            doneCount: Int(done),
            paginationToken: value["paginationToken"]?.text
        )
    }
}
