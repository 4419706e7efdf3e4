internal import CKafka
internal import CLibrdkafka
internal import Glibc

/// How far a worker's commit reaches.
package enum KafkaDelivery: String, Sendable, CaseIterable {
    /// Outputs, changelog and positions in one Kafka transaction.
    case exactlyOnce = "exactly-once"
    /// Flush, then commit: for the embedded broker, whose transactions are theatre.
    case atLeastOnce = "at-least-once"
}

/// Where Kafka is, and what every client of ours sets.
///
/// `extra` takes any setting of librdkafka by its own name (`sasl.username`). One that a client has
/// no use for is ignored by it; one that librdkafka does not know, or that a promise rests upon
/// (delivery on `isolation.level`, lag on `statistics.interval.ms`), is refused by ``check()``.
package struct KafkaSettings: Sendable, Equatable {
    /// `host:port`, comma-separated.
    package var bootstrapServers: String
    /// What the broker's log calls us.
    package var clientID: String
    package var extra: [String: String]
    /// Paths of files that are read once, at a client's start, secrets in `extra` and certificates; by
    /// the setting that names them.
    package var files: [String: String] = [:]
    /// How long the group waits for a member that says nothing.
    ///
    /// Below the transaction's 40 s; the heartbeat is a fifth of it.
    package var sessionMilliseconds = 15_000
    /// How long sending offsets or ending a transaction may take before the worker is beyond repair,
    /// and how long a right or a topic may be missing before the worker ends.
    ///
    /// Above the transaction's 40 s: until then the coordinator may still be right.
    package var watchdogMilliseconds = 45_000
    /// How long the broker may hold a fetch of a worker's consumer back while there is nothing.
    ///
    /// A record is delivered at once. But a partition that a fetch does not name, for it was full or
    /// not assigned yet, waits until the fetch under way is answered.
    package var fetchWaitMilliseconds = 50
    package var prefetch = Prefetch()
    /// How often a worker's consumer emits the watermarks that lag is counted from.
    package var statisticsMilliseconds = 5_000

    /// How much a consumer has fetched beforehand: what comes in one topic waits behind all that was
    /// fetched of the others.
    package struct Prefetch: Equatable, Sendable {
        /// It fetches while it has fewer records, of all partitions together.
        package var recordCountMin = 5_000
        /// What one fetch brings, compressed.
        ///
        /// Less than what twelve partitions have, 1 MiB, would save decode 20 MB and cost it a third of
        /// its speed.
        package var responseByteCountMax = 8 << 20

        package init() {}
    }

    package init(bootstrapServers: String, clientID: String, extra: [String: String] = [:]) {
        self.bootstrapServers = bootstrapServers
        self.clientID = clientID
        self.extra = extra
    }

    /// Settings that the promises of ``RecordLog`` need: an operator may not change them.
    ///
    /// Among them the ladder of times (`heartbeat < session < socket < transaction`), what must be
    /// ours to know whether a record is too large, lag's interval, up to which size the library
    /// copies a value that is lent to it (`message.copy.max.bytes`), the order and the place in
    /// which records and log lines arrive, and the group's protocol.
    package static let reserved: Set<String> = [
        "acks", "allow.auto.create.topics", "auto.commit.enable", "auto.offset.reset",
        "batch.size", "bootstrap.servers", "check.crcs", "delivery.report.only.error",
        "delivery.timeout.ms", "enable.auto.commit", "enable.auto.offset.store",
        "enable.gapless.guarantee", "enable.idempotence", "enable.partition.eof",
        "enabled_events", "group.id", "group.instance.id", "group.protocol",
        "group.protocol.type", "heartbeat.interval.ms", "isolation.level", "log.queue",
        "max.in.flight", "max.in.flight.requests.per.connection", "max.poll.interval.ms",
        "message.copy.max.bytes", "message.max.bytes", "message.send.max.retries",
        "message.timeout.ms", "metadata.broker.list", "metadata.max.age.ms",
        "partition.assignment.strategy", "partitioner", "produce.offset.report",
        "queuing.strategy", "receive.message.max.bytes", "request.required.acks",
        "request.timeout.ms", "retries", "session.timeout.ms", "socket.timeout.ms",
        "statistics.interval.ms", "test.mock.num.brokers", "topic.blacklist",
        "transaction.timeout.ms", "transactional.id",
    ]

    /// Whether the client library knows every setting and takes its value.
    ///
    /// - Throws: ``LogFault/misconfigured(message:)`` with the setting's name.
    package func check() throws(LogFault) {
        if let name = extra.keys.sorted().first(where: { Self.reserved.contains($0) }) {
            throw LogFault.misconfigured(
                message: "the Kafka setting \(name) is Tollway's own: a promise rests on it"
            )
        }
        var fault = ckafka_fault()
        guard unsafe ckafka_check_settings(list(common), &fault) == 0 else {
            throw LogFault(fault)
        }
    }

    /// What is wrong with one setting of librdkafka's.
    package enum SettingFault: Error, Equatable, Sendable {
        /// The library has none of this name.
        case unknown
        /// Its own words, which name the setting and what it takes.
        case refused(message: String)
    }

    /// Whether the client library knows a setting of this name and takes the value.
    package static func check(_ name: String, _ value: String) throws(SettingFault) {
        let configuration = unsafe rd_kafka_conf_new()
        defer { unsafe rd_kafka_conf_destroy(configuration) }
        // Without a value a setting is put back to its default; a name is judged before that.
        let verdict = unsafe rd_kafka_conf_set(configuration, name, nil, nil, 0)
        guard verdict != RD_KAFKA_CONF_UNKNOWN else {
            throw .unknown
        }
        var fault = ckafka_fault()
        guard unsafe ckafka_check_settings(CText.list([name, value]), &fault) == 0 else {
            throw .refused(message: CText.text(of: fault.message))
        }
    }

    /// Every setting that the client library lists, in its own spelling; none without memory.
    ///
    /// It has them only as a table to print: `name | C/P | range | …`.
    package static func knownNames() -> [String] {
        var table: UnsafeMutablePointer<CChar>?
        var byteCount = 0
        guard let printed = unsafe open_memstream(&table, &byteCount) else {
            return []
        }
        unsafe rd_kafka_conf_properties_show(printed)
        unsafe fclose(printed)
        defer { unsafe free(table) }
        let lines = unsafe table.map { unsafe String(cString: $0) } ?? ""
        return lines.split(separator: "\n").compactMap { line in
            let name = line.prefix {
                $0.isASCII && ($0.isLowercase || $0.isNumber) || $0 == "." || $0 == "_"
            }
            let rest = line[name.endIndex...]
            return !name.isEmpty && rest.hasPrefix(" ") && rest.contains("|") ? String(name) : nil
        }
    }

    /// One block of texts, as the C side reads settings: what is given later wins.
    private func list(_ settings: [(String, String)]) -> [CChar] {
        let own = settings + extra.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
        return CText.list(own.flatMap { [$0.0, $0.1] })
    }

    private var common: [(String, String)] {
        [
            ("bootstrap.servers", bootstrapServers),
            ("client.id", clientID),
            ("socket.keepalive.enable", "true"),
            ("socket.nagle.disable", "true"),
            // Above the session's 15 s, below the transaction's 40 s.
            ("socket.timeout.ms", "\(Self.socketMilliseconds)"),
            ("topic.metadata.refresh.interval.ms", "30000"),
            // The pipeline is to be at rest soon after the broker's return.
            ("reconnect.backoff.ms", "100"),
            ("reconnect.backoff.max.ms", "1000"),
        ]
    }

    /// `partitionByteCountMax` is what one fetch brings of a partition, compressed.
    private func reading(
        partitionByteCountMax: Int,
        fetchWaitMilliseconds: Int = 50,
        prefetch: Prefetch = Prefetch()
    ) -> [(String, String)] {
        [
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("enable.partition.eof", "true"),
            ("check.crcs", "true"),
            ("fetch.wait.max.ms", "\(fetchWaitMilliseconds)"),
            ("fetch.error.backoff.ms", "100"),
            // A record holds the whole response that it came in. A larger record is still delivered,
            // alone.
            ("fetch.message.max.bytes", "\(partitionByteCountMax)"),
            ("fetch.max.bytes", "\(prefetch.responseByteCountMax)"),
            // Of what is sent; but the library takes no response of less.
            ("message.max.bytes", "\(min(prefetch.responseByteCountMax, 1_000_000))"),
            ("queued.min.messages", "\(prefetch.recordCountMin)"),
            ("queued.max.messages.kbytes", "2048"),
        ]
    }

    private static let socketMilliseconds = 20_000
    private static let restoreWaitMilliseconds = 5
    static let batchByteCountMax = 262_144
    /// The most that librdkafka's `message.max.bytes` takes.
    private static let messageByteCountMax = 1_000_000_000

    private var writing: [(String, String)] {
        [
            ("enable.idempotence", "true"),
            ("acks", "all"),
            // As Java's default; CRC32, the library's own default, would part keyed topics.
            ("partitioner", "murmur2_random"),
            ("compression.type", "lz4"),
            ("batch.size", "\(Self.batchByteCountMax)"),
            ("linger.ms", "5"),
        ]
    }

    /// Where to start is always said by offset.
    ///
    /// Anything else would step over records that were removed before they were read, and say
    /// nothing.
    private static let exact = [("auto.offset.reset", "error")]

    /// Of clients that only read.
    private var readingAlone: [(String, String)] { reading(partitionByteCountMax: 196_608) }

    /// A worker fetches less at once than who only reads.
    ///
    /// The bound is on compressed bytes, and what ingest writes compresses well: behind it decode has
    /// 85 to 94 MB with 192 KiB a partition, 80 with 128 KiB and 73 with 96 KiB, at the same speed.
    /// Who has a changelog mostly reads what a worker wrote, in batches that are each a partition's
    /// part of a whole transaction: below their size a response would hold those of one partition.
    func consumer(member: KafkaLog.Member, hasChangelog: Bool) -> [CChar] {
        let reading = reading(
            partitionByteCountMax: hasChangelog ? 131_072 : 98_304,
            fetchWaitMilliseconds: fetchWaitMilliseconds,
            prefetch: prefetch
        )
        return list(
            common + reading + Self.exact + [
                ("group.id", member.group),
                ("group.instance.id", member.instance),
                ("isolation.level", "read_committed"),
                // Eager: cooperative-sticky loses assignments and crashes in 2.0.2.
                ("partition.assignment.strategy", "range"),
                ("heartbeat.interval.ms", "\(sessionMilliseconds / 5)"),
                ("session.timeout.ms", "\(sessionMilliseconds)"),
                ("max.poll.interval.ms", "300000"),
                // The watermarks that lag is counted from; they cost no request.
                ("statistics.interval.ms", "\(statisticsMilliseconds)"),
            ]
        )
    }

    /// A reader without a group; unless exact, it begins anew with what there is where records were
    /// removed.
    func reader(isolation: LogBrowser.Isolation, isExact: Bool = false) -> [CChar] {
        let level = isolation == .readCommitted ? "read_committed" : "read_uncommitted"
        let reset = isExact ? Self.exact : [("auto.offset.reset", "earliest")]
        // The end behind a last marker is seen only by a fetch that finds nothing, and one partition is
        // restored after the other.
        let wait = isExact ? [("fetch.wait.max.ms", "\(Self.restoreWaitMilliseconds)")] : []
        return list(common + readingAlone + reset + wait + [("isolation.level", level)])
    }

    /// A client that asks, also for what groups have committed.
    ///
    /// It names a group and joins none: where a group's coordinator has moved or is away, librdkafka
    /// 2.0.2 notifies the asking handle's own group without looking whether there is one, and dies
    /// (`rd_kafka_handle_OffsetFetch`: seen when leaders went back to a Kafka node that had been
    /// killed).
    ///
    /// What it does not use for `metadata.max.age.ms` it forgets: its only way to look for a
    /// coordinator that has moved (``Inquiries`` rest so long).
    func inquirer(group: String) -> [CChar] {
        list(
            common + readingAlone + [
                ("auto.offset.reset", "earliest"),
                ("isolation.level", "read_uncommitted"),
                ("group.id", group),
                ("metadata.max.age.ms", "2000"),
            ]
        )
    }

    /// `topicByteCountMax` are the smallest and the largest `max.message.bytes` of the targets.
    ///
    /// An open transaction holds back the last stable offset until `transactionMilliseconds` after
    /// its producer died, unless a new one takes its name.
    func workerProducer(
        transactionalID: String?,
        topicByteCountMax: ClosedRange<Int>,
        transactionMilliseconds: Int = 40_000
    ) -> [CChar] {
        var settings =
            common + writing + [
                // A broker holds whole batches against a topic's limit, and this library does not
                // part one that is refused.
                ("batch.size", "\(min(Self.batchByteCountMax, topicByteCountMax.lowerBound))"),
                // The library's own check must not come before ours.
                (
                    "message.max.bytes",
                    "\(min(topicByteCountMax.upperBound + 65_536, Self.messageByteCountMax))"
                ),
                ("queue.buffering.max.kbytes", "16384"),
            ]
        if let transactionalID {
            settings += [
                ("transactional.id", transactionalID),
                ("transaction.timeout.ms", "\(transactionMilliseconds)"),
                // The library refuses more than the transaction's.
                (
                    "socket.timeout.ms",
                    "\(min(Self.socketMilliseconds, transactionMilliseconds / 2))"
                ),
                // The wait after CONCURRENT_TRANSACTIONS, which every second transaction gets:
                // 15,500 records/s with the default of 100, 50,700 with 5.
                ("retry.backoff.ms", "5"),
            ]
        }
        return list(settings)
    }

    /// Of a producer that asks for what no broker grants; see ``KafkaRights``.
    var probe: [CChar] {
        list(
            common + [
                ("acks", "\(KafkaRights.impossibleAcks)"),
                ("enable.idempotence", "false"),
                ("message.send.max.retries", "0"),
                ("message.timeout.ms", "10000"),
                ("message.max.bytes", "\(2 * KafkaRights.provableByteCountMax)"),
            ]
        )
    }

    /// `topicByteCountMax` is the smallest `max.message.bytes` of the targets; for batches see
    /// ``workerProducer(transactionalID:topicByteCountMax:transactionMilliseconds:)``.
    func ingestProducer(
        queueByteCountMax: Int,
        topicByteCountMax: Int = KafkaLog.recordByteCountMaxDefault
    ) -> [CChar] {
        list(
            common + writing + [
                ("batch.size", "\(min(Self.batchByteCountMax, topicByteCountMax))"),
                ("queue.buffering.max.kbytes", "\(queueByteCountMax / 1024 + 1024)"),
                ("queue.buffering.max.messages", "500000"),
                // Long: after a possibly stored failure the idempotent producer of 2.0.2 counts
                // wrongly and dies.
                ("message.timeout.ms", "300000"),
            ]
        )
    }
}

/// A line from the client library, for the log.
package struct KafkaNote: Sendable, Equatable {
    /// syslog's: 3 error, 4 warning, 5 notice, 6 information, 7 debug.
    package var level: Int
    /// librdkafka's fixed word for it, such as `FAIL`.
    package var facility: String
    package var text: String

    /// Of one call of ``collect(_:)``.
    private static let countMax = 192
    /// So many fit on the stack.
    private static let countAtOnce = 2

    /// Collects notes by a call that fills an array of the C side's.
    ///
    /// Mostly there are none, and a loop asks in each turn.
    static func collect(
        _ take: (UnsafeMutablePointer<ckafka_note>?, Int) -> Int
    ) -> [KafkaNote] {
        unsafe withUnsafeTemporaryAllocation(of: ckafka_note.self, capacity: countAtOnce) {
            buffer in
            var notes: [KafkaNote] = []
            var count = countAtOnce
            while count == countAtOnce, notes.count < countMax {
                count = unsafe take(buffer.baseAddress, buffer.count)
                notes += unsafe buffer[..<count].map { note in
                    KafkaNote(
                        level: Int(note.level),
                        facility: CText.text(of: note.facility),
                        text: CText.text(of: note.text)
                    )
                }
            }
            return notes
        }
    }
}
