internal import Kafka
internal import Telemetry
internal import TokenDomain
internal import TokenWire

/// Where the records of `lanes.control.v1` come from.
protocol LaneOrderSource: AnyObject {
    /// Appends what is there, without waiting for more.
    ///
    /// - Returns: whether all was read that stood there at the first read.
    func read(into batch: inout RecordBatch) throws(LogFault) -> Bool
}

/// The topic itself, read committed, whole, and without a group: every replica follows all of it.
final class LaneOrderTopic: LaneOrderSource {
    private static let recordCountMax = 1_000
    /// The loop is blocked for as long.
    private static let questionMilliseconds = 1_000
    private static let fetchWait = "fetch.wait.max.ms"

    private let browser: LogBrowser
    private var isStarted = false

    init(settings: KafkaSettings, topicPrefix: String) throws(LogFault) {
        var settings = settings
        // A record is there at once, however long the broker may wait for one.
        settings.extra[Self.fetchWait] = settings.extra[Self.fetchWait] ?? "500"
        browser = try LogBrowser(
            settings: settings,
            topics: [Topic.laneOrders.name(prefix: topicPrefix)],
            deadlineMilliseconds: Self.questionMilliseconds
        )
    }

    func read(into batch: inout RecordBatch) throws(LogFault) -> Bool {
        if !isStarted {
            // Where Kafka is away it has no start offset yet, and gets one with a later read.
            try browser.start()
            isStarted = true
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
                batch.records.forEach { changes += take($0) }
                isWhole = isWhole || isAtEnd
            } while !batch.records.isEmpty
            trouble = nil
        } catch {
            tell(error)
        }
        return changes
    }

    private func take(_ record: RecordBatch.Record) -> [LaneOrders.Change] {
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
                ("partition", .integer(Int64(record.partition))),
                ("offset", .integer(record.offset)),
                ("because", .text(error.message))
            )
            return []
        }
    }

    private func tell(_ fault: LogFault) {
        // Where Kafka is away the loop says so.
        guard case .unavailable(let code, _) = fault else {
            trouble = "the orders for lanes cannot be read: \(fault)"
            log.limited(
                .error,
                "the orders for lanes cannot be read",
                ("because", .text("\(fault)")),
                ("sends", .text(isWhole ? "as ordered before" : "nothing"))
            )
            return
        }
        trouble = "the orders for lanes cannot be read: \(code)"
    }
}
