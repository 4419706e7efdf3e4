import AppStoreAPI
import Kafka
import Simulation
import StageRuntime
import TokenDomain

/// Every record and every request to Apple carries the trace of what came in, whatever crashed on
/// the way.
extension SimulatedPipeline {
    /// A valid header, a bad one, or none.
    func nextTraceHeader() -> String {
        requestCount &+= 1
        switch requestCount % 3 {
        case 0:
            let bytes = [UInt8](repeating: requestCount, count: TraceParent.randomByteCount)
            return "traceparent\0\(TraceParent(random: bytes).text)\0"
        case 1: return "traceparent\u{0}00-0-0-00\u{0}"
        default: return ""
        }
    }

    /// Of a record that is written past the door, by a platform that traces what it does.
    func nextTraceHeaders() -> [UInt8] {
        requestCount &+= 1
        let bytes = [UInt8](repeating: requestCount, count: TraceParent.randomByteCount)
        var headers: [UInt8] = []
        _ = TraceHeader.append(TraceParent(random: bytes), to: &headers)
        return headers
    }

    func lostTraces() -> [String] {
        var lost: [String] = []
        var known: Set<TraceParent> = []
        var byToken: [String: Set<TraceParent>] = [:]
        let sales = Set(traces(of: .purchasesReceived).compactMap(\.trace))
        known.formUnion(sales)
        for topic in [Topic.tokensReceived, .notificationsReceived] {
            known.formUnion(traces(of: topic).map { $0.trace }.compactMap { $0 })
        }
        let later =
            [
                Topic.tokensDecoded, .tokensDistinct, .notificationsVerified, .reportsRequested,
                .reportsOutcomes, .purchasesAnswered, .purchasesOutcomes,
            ]
            + Self.workers.compactMap(\.deadLetters)
        for topic in later {
            for (key, trace) in traces(of: topic) {
                guard let trace else {
                    lost.append("a record of \(topic) has no trace")
                    continue
                }
                if !known.contains(trace) {
                    lost.append("a record of \(topic) has a trace of nowhere: \(trace.text)")
                }
                switch topic {
                case .tokensDistinct, .notificationsVerified:
                    byToken[key, default: []].insert(trace)
                case .purchasesOutcomes, .reportsRequested:
                    if !sales.contains(trace) {
                        lost.append("\(key): a record of \(topic) has the trace of no sale")
                    }
                case .reportsOutcomes
                where byToken[key]?.contains(trace) != true && !sales.contains(trace):
                    lost.append("\(key): its outcome has the trace of another token")
                default: break
                }
            }
        }
        for request in apple.sent {
            let isOurs = ([sales] + byToken.values).contains { traces in
                request.trace.map { traces.contains($0) } == true
            }
            if !isOurs {
                lost.append("request \(request.tag) to Apple has no trace of a token or a sale")
            }
        }
        return lost
    }

    /// The key and the header of each record.
    private func traces(of topic: Topic) -> [(key: String, trace: TraceParent?)] {
        let name = topic.name(prefix: Self.prefix)
        return cluster.committedRecords(of: name).map { record in
            let list = ByteRange(start: 0, count: record.headers.count)
            let value = HeaderList.value(
                named: TraceParent.headerName,
                in: list,
                of: record.headers
            )
            return (
                String(decoding: record.key ?? [], as: UTF8.self),
                value.flatMap { TraceParent(record.headers.span.extracting($0.indices)) }
            )
        }
    }
}
