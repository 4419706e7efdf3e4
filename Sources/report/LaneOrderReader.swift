internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Where the records of `lanes.control.v1` come from.
protocol LaneOrderSource: AnyObject {
    /// Appends what is there, without waiting for more.
    ///
    /// - Returns: whether all was read that stood there at the first read.
    func read(into batch: inout RecordBatch) throws(LogFault) -> Bool
    /// How often it began at the topic's first record.
    var startCount: Int { get }
}

/// The topic itself, read committed, whole, and without a group: every replica follows all of it.
final class LaneOrderTopic: LaneOrderSource {
    private static let recordCountMax = 1_000
    /// The loop is blocked for as long.
    private static let questionMilliseconds = 1_000
    private static let fetchWait = "fetch.wait.max.ms"

    /// After a refusal, for the library tells it once and goes on in silence: a new reader is told again, or
    /// reads.
    private static let startAgain = Duration.seconds(10)

    private var settings: KafkaSettings
    private let topic: String
    /// Nil before the first read, and after a refusal.
    private var browser: LogBrowser?
    private var isStarted = false
    private var refusal: (fault: LogFault, until: ContinuousClock.Instant)?
    private(set) var startCount = 0

    init(settings: KafkaSettings, topicPrefix: String) {
        self.settings = settings
        topic = Topic.laneOrders.name(prefix: topicPrefix)
        // A record is there at once, however long the broker may wait for one.
        self.settings.extra[Self.fetchWait] = settings.extra[Self.fetchWait] ?? "500"
    }

    func read(into batch: inout RecordBatch) throws(LogFault) -> Bool {
        if let refusal, ContinuousClock.now < refusal.until {
            throw refusal.fault
        }
        refusal = nil
        do throws(LogFault) {
            return try readOn(into: &batch)
        } catch {
            guard case .unavailable = error else {
                browser?.close()
                (browser, isStarted) = (nil, false)
                refusal = (error, .now + Self.startAgain)
                throw error
            }
            throw error
        }
    }

    private func readOn(into batch: inout RecordBatch) throws(LogFault) -> Bool {
        let browser: LogBrowser
        if let known = self.browser {
            browser = known
        } else {
            browser = try LogBrowser(
                settings: settings,
                topics: [topic],
                deadlineMilliseconds: Self.questionMilliseconds
            )
            self.browser = browser
        }
        if !isStarted {
            // Where Kafka is away it has no start offset yet, and gets one with a later read.
            try browser.start()
            isStarted = true
            startCount += 1
        }
        return try browser.read(
            into: &batch,
            recordCountMax: Self.recordCountMax,
            waitMilliseconds: 0
        )
    }
}

/// Follows the orders for lanes.
///
/// Nothing is sent before all was read that stood there at the start. Where the topic cannot be read
/// later, what was read holds.
final class LaneOrderReader {
    private let source: any LaneOrderSource
    private let log: Log
    private var batch = RecordBatch()
    private(set) var orders = LaneOrders()
    private(set) var isWhole = false
    /// Those of a topic that is read from its start again, until all is read.
    private var anew: LaneOrders?
    private var startCount = 0
    /// Why the topic cannot be read now.
    private(set) var trouble: String?
    /// Records skipped since the last look.
    private(set) var unreadableCount = 0

    init(_ source: any LaneOrderSource, log: Log) {
        self.source = source
        self.log = log
    }

    /// Takes in what came since.
    func look() -> [LaneOrders.Change] {
        var changes: [LaneOrders.Change] = []
        unreadableCount = 0
        do throws(LogFault) {
            repeat {
                batch.removeAll()
                let isAtEnd = try source.read(into: &batch)
                if source.startCount != startCount {
                    startCount = source.startCount
                    anew = isWhole ? LaneOrders() : nil
                }
                for record in batch.records {
                    if var next = anew {
                        _ = take(record, into: &next)
                        anew = next
                    } else {
                        changes += take(record, into: &orders)
                    }
                }
                if isAtEnd {
                    (isWhole, trouble) = (true, nil)
                    changes += anew.map { orders.become($0) } ?? []
                    anew = nil
                }
            } while !batch.records.isEmpty
        } catch {
            tell(error)
        }
        return changes
    }

    private func take(
        _ record: RecordBatch.Record,
        into orders: inout LaneOrders
    ) -> [LaneOrders.Change] {
        let key = record.key.isAbsent ? [] : Array(batch.arena[record.key.indices])
        guard !record.value.isAbsent else {
            let change = orders.forget(key: String(decoding: key, as: UTF8.self))
            return [change].compactMap { $0 }
        }
        do throws(WireFault) {
            let order = try LaneOrder(
                reading: batch.arena.span.extracting(record.value.indices)
            )
            return orders.take(order)
        } catch {
            unreadableCount += 1
            log.limited(
                .error,
                "an order for a lane cannot be read, and is ignored",
                per: "\(record.partition) \(record.offset)",
                ("partition", .integer(Int64(record.partition))),
                ("offset", .integer(record.offset)),
                ("because", .text(error.message))
            )
            return []
        }
    }

    private func tell(_ fault: LogFault) {
        // Where Kafka is away the loop says so; one topic may be.
        if isWhole, case .unavailable(let code, _) = fault {
            trouble = "the orders for lanes cannot be read: \(code)"
        } else {
            let because = WorkerRun.end(for: fault).sentence
            trouble = "the orders for lanes cannot be read: \(because)"
            log.limited(
                .error,
                "the orders for lanes cannot be read",
                ("because", .text(because)),
                ("sends", .text(isWhole ? "as ordered before" : "nothing"))
            )
        }
    }
}
