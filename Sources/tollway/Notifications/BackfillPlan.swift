internal import AppStoreAPI
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// What a backfill fetches, and how far it is: all that a later run needs to go on.
struct BackfillPlan: Equatable {
    /// How far one lane is.
    struct Place: Equatable {
        var lane: Lane
        var isDone = false
        /// Apple's, where some of its pages are stored and others are not.
        var paginationToken: String?
    }

    /// UNIX milliseconds; both are in.
    var from: Timestamp
    var to: Timestamp
    var onlyFailures: Bool
    /// In the order in which they are begun.
    private(set) var places: [Place]

    init(from: Timestamp, to: Timestamp, onlyFailures: Bool, lanes: [Lane]) {
        self.from = from
        self.to = to
        self.onlyFailures = onlyFailures
        places = lanes.map { Place(lane: $0) }
    }

    var doneCount: Int { places.reduce(0) { $0 + ($1.isDone ? 1 : 0) } }
    var isDone: Bool { doneCount == places.count }

    /// The next page of a lane.
    func query(ofLane index: Int) -> NotificationHistoryQuery {
        NotificationHistoryQuery(
            startDate: from,
            endDate: to,
            onlyFailures: onlyFailures,
            paginationToken: places[index].paginationToken
        )
    }

    /// For people.
    var filter: String {
        let times = [from, to].map { WallClock.rfc3339(milliseconds: $0.milliseconds) }
        return "from \(times[0]) to \(times[1])" + (onlyFailures ? ", only failures" : "")
    }

    /// A page of a lane is taken; the last one has no token for the next.
    mutating func advance(lane index: Int, to nextPaginationToken: String?) {
        places[index].paginationToken = nextPaginationToken
        places[index].isDone = nextPaginationToken == nil
    }

    /// Apple does not know its position any more: its first page is the next.
    mutating func restart(lane index: Int) {
        places[index].paginationToken = nil
    }
}

/// A value of `<prefix>audit.v1`: what one transaction of a backfill stored, and where it goes on.
///
/// It is in the transaction of its notifications: a run that was killed goes on after the last one.
struct BackfillAudit {
    static let action = BackfillCommand.verb.words.joined(separator: ".")

    var plan: BackfillPlan
    var order: HandOrder
    /// Which transaction of the run, from 1.
    var part: Int
    var state: AuditState
    /// UNIX milliseconds.
    var at: Int64
    var count: Int
    var runCount: Int
    var target: String

    func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginAudit(Self.action, order, part: (part, state.rawValue), at: at)
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
            for place in plan.places {
                writer.beginObject()
                writer.field("appAppleId", place.lane.appAppleID)
                writer.field("environment", place.lane.environment.rawValue)
                writer.field("isDone", place.isDone)
                writer.field("paginationToken", place.paginationToken)
                writer.endObject()
            }
            writer.endArray()
            writer.field("doneCount", plan.doneCount)
            writer.endObject()
        }
    }
}

extension BackfillPlan {
    /// Reads what ``BackfillAudit`` writes; nil where it is something else.
    ///
    /// Older versions asked one lane after the other: their lanes say nothing of themselves, and
    /// `doneCount` is the number of the one whose `paginationToken` stands beside it.
    init?(audit value: JSONValue) {
        guard value["action"]?.text == BackfillAudit.action,
            let from = value["from"]?.integer, let to = value["to"]?.integer,
            let onlyFailures = value["onlyFailures"]?.flag,
            let elements = value["lanes"]?.elements,
            let done = value["doneCount"]?.integer, (0...Int64(elements.count)).contains(done)
        else {
            return nil
        }
        var places: [Place] = []
        for (index, element) in elements.enumerated() {
            guard let app = element["appAppleId"]?.integer,
                let environment = element["environment"]?.text.flatMap(AppleEnvironment.init)
            else {
                return nil
            }
            var place = Place(lane: Lane(appAppleID: app, environment: environment))
            if let isDone = element["isDone"]?.flag {
                place.isDone = isDone
                place.paginationToken = element["paginationToken"]?.text
            } else {
                place.isDone = index < done
                place.paginationToken = index == done ? value["paginationToken"]?.text : nil
            }
            places.append(place)
        }
        self.init(
            from: Timestamp(milliseconds: from),
            to: Timestamp(milliseconds: to),
            onlyFailures: onlyFailures,
            lanes: []
        )
        self.places = places
    }
}
