internal import Foundation
internal import HTTPClient
internal import Telemetry
internal import TokenDomain

/// What the workers say of themselves on their admin ports: on those that are named, else on the
/// ports that workers have by default on this machine, where there are any.
final class AdminPorts {
    private static let deadlineMilliseconds = 2_000
    /// The metrics of as many apps as there may be.
    private static let pageByteCountMax = 32 << 20
    static let addressCountMax = 64

    private let addresses: [String]
    /// Not given by the user: an absent port is no fault, and another pipeline's is not shown.
    private let areGuessed: Bool
    private let http: HTTPClient

    /// - Throws: exit 2 where an address is none, or there are too many.
    init(_ addresses: [String]) throws(CommandFailure) {
        for address in addresses where !Self.isAddress(address) {
            throw .usage("bad_value", "--admin is \"\(address)\": it must be HOST:PORT")
        }
        guard addresses.count <= Self.addressCountMax else {
            throw .usage("bad_value", "--admin may be given \(Self.addressCountMax) times")
        }
        areGuessed = addresses.isEmpty
        self.addresses =
            areGuessed ? Worker.allCases.map { "127.0.0.1:\($0.adminPort)" } : addresses
        do throws(HTTPClientFault) {
            http = try HTTPClient(
                limits: HTTPClient.Limits(
                    concurrency: 8,
                    responseByteCountMax: Self.pageByteCountMax,
                    totalTimeoutMilliseconds: Self.deadlineMilliseconds
                ),
                userAgent: "tollway-top"
            )
        } catch {
            throw CommandFailure(.failed, code: "top.http", "no HTTP client: \(error)")
        }
    }

    private static func isAddress(_ text: String) -> Bool {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count >= 2, let port = parts.last.flatMap({ UInt16($0) }), port > 0 else {
            return false
        }
        return !parts[0].isEmpty && !text.contains("/") && !text.contains(" ")
    }

    /// Asks all at once and adds what they answer.
    func ask(_ snapshot: inout TopSnapshot) {
        for (tag, address) in addresses.enumerated() {
            _ = http.submit(
                HTTPClientRequest(
                    method: "GET",
                    url: "http://\(address)/debug/status",
                    tag: UInt64(tag)
                )
            )
        }
        for (tag, address) in addresses.enumerated() {
            _ = http.submit(
                HTTPClientRequest(
                    method: "GET",
                    url: "http://\(address)/metrics",
                    tag: UInt64(addresses.count + tag)
                )
            )
        }
        var answers: [Int: [String: Any]] = [:]
        var pages: [Int: [UInt8]] = [:]
        var times: [Int: Int64] = [:]
        http.awaitAll { response in
            guard case .answered(let answer) = response.outcome, answer.status == 200 else {
                return
            }
            let tag = Int(response.tag)
            times[tag] = WallClock.monotonicMilliseconds()
            if tag < addresses.count {
                answers[tag] = Self.object(answer.body)
            } else {
                pages[tag - addresses.count] = answer.body
            }
        }
        for (tag, address) in addresses.enumerated() {
            if areGuessed, !Self.isOfPipeline(answers[tag], snapshot) {
                continue
            }
            if let status = answers[tag] {
                Self.add(status, address, to: &snapshot)
                let last = snapshot.instances.count - 1
                snapshot.instances[last].statusAt = times[tag]
                snapshot.instances[last].metricsAt = times[addresses.count + tag]
                AppleAnswers.add(pages[tag] ?? [], of: address, to: &snapshot)
            } else {
                snapshot.instances.append(.init(address: address))
                let sentence = "\(address) does not answer as a worker would"
                snapshot.troubles.append(sentence)
                snapshot.repairs[sentence] =
                    "see whether the worker runs and why it ends: RUNBOOK.md, \"A worker exits\""
            }
        }
        snapshot.lanes.sort {
            ($0.app, $0.environment, $0.endpoint) < ($1.app, $1.environment, $1.endpoint)
        }
    }

    /// Whether a worker answered that works on the Kafka and under the prefix that are looked at.
    ///
    /// While Kafka is away its name is not known, nor does a worker know it that was started since:
    /// the prefix alone decides then.
    static func isOfPipeline(_ status: [String: Any]?, _ snapshot: TopSnapshot) -> Bool {
        guard let status, let worker = status["worker"] as? String else {
            return false
        }
        let kafka = status["kafka"] as? [String: Any] ?? [:]
        guard let group = kafka["group"] as? String else {
            // The door has no group, and says nothing of its Kafka.
            return worker == Worker.ingest.rawValue
        }
        guard group == Worker(rawValue: worker)?.group(prefix: snapshot.prefix) else {
            return false
        }
        return snapshot.clusterID.map { $0 == kafka["clusterId"] as? String } ?? true
    }

    private static func object(_ body: [UInt8]) -> [String: Any]? {
        do {
            return try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any]
        } catch {
            // Shown as an instance without an answer.
            return nil
        }
    }

    static func add(
        _ status: [String: Any],
        _ address: String,
        to snapshot: inout TopSnapshot
    ) {
        func number(_ object: [String: Any], _ name: String) -> Int64? {
            (object[name] as? NSNumber)?.int64Value
        }
        let worker = status["worker"] as? String
        let partitions = status["partitions"] as? [[String: Any]] ?? []
        snapshot.instances.append(
            .init(
                address: address,
                worker: worker,
                name: status["instance"] as? String,
                isReady: status["isReady"] as? Bool,
                partitionCount: status["partitions"] == nil ? nil : partitions.count,
                restoringCount: (status["restoring"] as? [Any])?.count,
                usefulReplicas: number(status, "usefulReplicas")
            )
        )
        if let count = (status["restoring"] as? [Any])?.count {
            for index in snapshot.stages.indices
            where snapshot.stages[index].worker.rawValue == worker {
                snapshot.stages[index].restoringCount =
                    (snapshot.stages[index].restoringCount ?? 0) + count
            }
        }
        for partition in partitions {
            guard let name = partition["topic"] as? String,
                let milliseconds = number(partition, "lagMilliseconds"),
                let index = snapshot.stages.firstIndex(where: {
                    $0.worker.rawValue == worker && name.hasSuffix($0.topic)
                })
            else {
                continue
            }
            let seconds = Double(milliseconds) / 1_000
            snapshot.stages[index].lagSeconds = max(
                snapshot.stages[index].lagSeconds ?? 0,
                seconds
            )
        }
        var indices = Dictionary(
            snapshot.lanes.indices.map { (snapshot.lanes[$0].key, $0) },
            uniquingKeysWith: { first, _ in first }
        )
        for lane in status["lanes"] as? [[String: Any]] ?? [] {
            guard let app = number(lane, "appAppleId"),
                let environment = lane["environment"] as? String,
                let endpoint = lane["endpoint"] as? String
            else {
                continue
            }
            var told = TopSnapshot.Lane(
                app: app,
                environment: environment,
                endpoint: endpoint,
                state: lane["state"] as? String ?? "unknown"
            )
            told.because = lane["because"] as? String
            told.until = number(lane, "until")
            told.since = number(lane, "since")
            told.due = number(lane, "due")
            told.configuredPerSecond =
                Double(number(lane, "milliConfiguredPerSecond") ?? 0) / 1_000
            told.allowedPerSecond = Double(number(lane, "milliRequestsPerSecond") ?? 0) / 1_000
            told.startedCounts = [address: number(lane, "startedCount") ?? 0]
            told.inFlight = Int(number(lane, "inFlight") ?? 0)
            told.nextDeadline = number(lane, "nextDeadline")
            for day in lane["days"] as? [[String: Any]] ?? [] {
                if let start = number(day, "startsAt") {
                    told.days[start] = TopSnapshot.Day(
                        deadlineCount: number(day, "deadlines") ?? 0,
                        fallingCount: number(day, "falling") ?? 0
                    )
                }
            }
            if let index = indices[told.key] {
                merge(told, into: &snapshot.lanes[index])
            } else {
                indices[told.key] = snapshot.lanes.count
                snapshot.lanes.append(told)
            }
        }
    }

    /// Instances share a lane: what they do adds up, and the worst of their states is shown.
    private static func merge(_ told: TopSnapshot.Lane, into lane: inout TopSnapshot.Lane) {
        let severity = ["open": 0, "held": 1, "probing": 2, "stopped": 3, "paused": 4]
        if severity[told.state, default: 5] > severity[lane.state, default: 5] {
            lane.state = told.state
            lane.because = told.because
            lane.until = told.until
            lane.since = told.since
        }
        lane.because = lane.because ?? (told.state == lane.state ? told.because : nil)
        lane.allowedPerSecond += told.allowedPerSecond
        lane.configuredPerSecond = max(lane.configuredPerSecond, told.configuredPerSecond)
        lane.due = [lane.due, told.due].compactMap { $0 }.reduce(nil) {
            ($0 ?? 0).adding(saturating: $1)
        }
        lane.startedCounts.merge(told.startedCounts) { $0.adding(saturating: $1) }
        lane.inFlight = Int(Int64(lane.inFlight).adding(saturating: Int64(told.inFlight)))
        lane.nextDeadline = [lane.nextDeadline, told.nextDeadline].compactMap { $0 }.min()
        lane.days.merge(told.days) { one, other in
            TopSnapshot.Day(
                deadlineCount: one.deadlineCount.adding(saturating: other.deadlineCount),
                fallingCount: one.fallingCount.adding(saturating: other.fallingCount)
            )
        }
    }
}
