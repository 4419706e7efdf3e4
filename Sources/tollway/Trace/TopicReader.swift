internal import Kafka
internal import StageRuntime

/// Reads the part of a topic where something must be: one partition, where the key is known, and
/// one span of time, where that is.
struct TopicReader {
    private static let readCountMax = 20_000
    private static let waitMilliseconds = 500
    /// What is looked at first where the newest is wanted, and how many times more after that.
    private static let newestOffsetCount: Int64 = 20_000
    private static let newestOffsetFactor: Int64 = 8
    /// Looks without a record in a row before a broker that is silent counts as away.
    private static let emptyReadCountMax = 40

    /// A record that was looked for.
    struct Found {
        var topic: String
        var partition: Int32
        var offset: Int64
        /// Kafka's own, UNIX milliseconds.
        var timestamp: Int64
        var key: [UInt8]
        /// Empty for a tombstone.
        var value: [UInt8]
        var headers: [String: String]

        func header(_ name: String) -> String? { headers[name] }
    }

    /// Where to look.
    struct Place {
        var topic: String
        /// Nil is all of them.
        var partition: Int32?
        /// The first record not older than this; nil is the first there is.
        var from: Int64?
        /// What is younger is left out; many in a row end the search of their partition.
        var until: Int64?
        /// This offset, and what lies behind it, ends the search of its partition.
        var untilOffset: Int64?
        /// The last so many offsets alone, whatever `from` says.
        var last: Int64?

        var start: LogBrowser.Start {
            last.map { .last($0) } ?? from.map { .timestamp($0) } ?? .earliest
        }

        /// Whether a record lies behind what is looked at.
        func ends(before record: RecordBatch.Record) -> Bool {
            until.map { record.timestampMilliseconds > $0 } ?? false
                || untilOffset.map { record.offset >= $0 } ?? false
        }
    }

    private let configuration: KafkaSettings
    /// Read ahead, in all partitions together.
    private static let readAheadKilobytes = 65_536
    /// Records looked at so far, of all topics.
    private(set) var readCount = 0

    init(_ configuration: Configuration) {
        self.configuration = configuration.kafka
    }

    /// One search and then the end: memory is cheap here, and time is not.
    private func settings(isOnePartition: Bool) -> KafkaSettings {
        var settings = configuration
        // Each partition has a queue of its own.
        let share =
            Self.readAheadKilobytes / (isOnePartition ? 1 : TopicShape.partitionCountDefault)
        let wanted = [
            "queued.max.messages.kbytes": "\(share)", "queued.min.messages": "100000",
            "fetch.message.max.bytes": "1048576", "fetch.max.bytes": "33554432",
        ]
        settings.extra.merge(wanted) { own, _ in own }
        return settings
    }

    /// Which partition a key lies in.
    static func partition(ofKey key: [UInt8], partitionCount: Int) -> Int32 {
        Partitioner.partition(ofKey: key.span, partitionCount: Int32(partitionCount))
    }

    /// What `isWanted` says yes to, in order of partition and offset as far as they came so.
    mutating func search(
        _ place: Place,
        isWanted: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
    ) throws(LogFault) -> [Found] {
        let browser = try LogBrowser(
            settings: settings(isOnePartition: place.partition != nil),
            topics: [place.topic]
        )
        defer { browser.close() }
        if let partition = place.partition {
            try browser.start(at: [.init(topic: place.topic, partition: partition): place.start])
        } else {
            try browser.start(from: place.start)
        }
        return try read(browser, place, isWanted)
    }

    /// What is nearest to the end of one partition, or of all: the last offsets of each, and more of
    /// them until something is found.
    ///
    /// What is found has nothing after it that was wanted; before it there may be more, where
    /// `hasEarlier` says so.
    mutating func searchNewest(
        topic: String,
        partition: Int32?,
        isWanted: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
    ) throws(LogFault) -> (found: [Found], hasEarlier: Bool) {
        var place = Place(topic: topic, partition: partition, last: Self.newestOffsetCount)
        while true {
            let browser = try LogBrowser(
                settings: settings(isOnePartition: partition != nil),
                topics: [topic]
            )
            defer { browser.close() }
            if let partition {
                try browser.start(at: [
                    .init(topic: topic, partition: partition): place.start
                ])
            } else {
                try browser.start(from: place.start)
            }
            let found = try read(browser, place, isWanted)
            guard found.isEmpty, browser.hasEarlierRecords else {
                return (found, browser.hasEarlierRecords)
            }
            place.last = place.last.map { $0 * Self.newestOffsetFactor }
        }
    }

    private mutating func read(
        _ browser: LogBrowser,
        _ place: Place,
        _ isWanted: (_ key: Span<UInt8>, _ value: Span<UInt8>) -> Bool
    ) throws(LogFault) -> [Found] {
        let progress = ProgressLine("records of \(place.topic)")
        let goal = browser.remainingCount
        var found: [Found] = []
        var batch = RecordBatch()
        var late = LateRecords()
        var emptyReadCount = 0
        // To the end, however far: an answer from a part of a topic would look like one from all of it.
        while true {
            batch.removeAll()
            let isEnd = try browser.read(
                into: &batch,
                recordCountMax: Self.readCountMax,
                waitMilliseconds: Self.waitMilliseconds
            )
            readCount += batch.records.count
            progress?.show(Int(goal - browser.remainingCount), of: Int(goal))
            for record in batch.records {
                let isLate = place.ends(before: record)
                late.note(record.partition, isLate: isLate)
                guard !isLate else {
                    continue
                }
                let key = batch.arena.span.extracting(record.key.indices)
                let value = batch.arena.span.extracting(record.value.indices)
                if isWanted(key, value) {
                    found.append(Self.found(record, place.topic, batch))
                }
            }
            guard !isEnd else {
                break
            }
            let isQuiet = batch.records.isEmpty && batch.ends.isEmpty
            emptyReadCount = isQuiet ? emptyReadCount + 1 : 0
            if emptyReadCount > Self.emptyReadCountMax {
                throw .unavailable(
                    code: "_TIMED_OUT",
                    message: "\(place.topic) brings nothing for twenty seconds"
                )
            }
            // Partitions that have nothing in this span end by themselves.
            if late.isOver, isQuiet || place.partition != nil {
                break
            }
        }
        return found
    }

    /// Whether every partition that was seen is past the time that is looked at.
    ///
    /// A few younger records prove nothing: a clock that was ahead for a while wrote them.
    struct LateRecords {
        static let countMin = 50_000

        /// By partition, the last ones in a row.
        private var counts: [Int32: Int] = [:]

        mutating func note(_ partition: Int32, isLate: Bool) {
            counts[partition] = isLate ? counts[partition, default: 0] + 1 : 0
        }

        var isOver: Bool {
            !counts.isEmpty && counts.values.allSatisfy { $0 >= Self.countMin }
        }
    }

    private static func found(
        _ record: RecordBatch.Record,
        _ topic: String,
        _ batch: RecordBatch
    ) -> Found {
        var headers: [String: String] = [:]
        for (name, value) in HeaderList.entries(in: record.headers, of: batch.arena)
        where headers[name] == nil {
            headers[name] = String(decoding: batch.arena[value.indices], as: UTF8.self)
        }
        return Found(
            topic: topic,
            partition: record.partition,
            offset: record.offset,
            timestamp: record.timestampMilliseconds,
            key: Array(batch.arena[record.key.indices]),
            value: Array(batch.arena[record.value.indices]),
            headers: headers
        )
    }
}
