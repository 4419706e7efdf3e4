internal import Crypto
internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Counts the tokens of a window in every topic that they pass, a million tokens or one partition at
/// a time.
///
/// Memory is that of these tokens: some 40 bytes each, and 100 to 200 for each of report's accounts
/// (see ``ReportAccounts/Token``); and, until all is read, 40 for each token that Apple has refused
/// and that came again.
struct TokenCount {
    let configuration: Configuration
    let window: AccountWindow
    let positions: AccountPositions
    /// What came after these is not counted.
    let ends: AccountEnds
    /// By app; 0 is what no app can be read of.
    private(set) var lines: [Int64: AccountLine] = [:]
    /// What dead letters say of where they came from, by stage, and when they were written, UNIX
    /// milliseconds: no token was taken there.
    private var refused: [Worker: RefusedRecords] = [:]

    /// Tokens that fit into memory at once: some 100 MB.
    private static let sliceRecordCountMax: Int64 = 1_000_000
    private static let replayHeader = ByteNeedle(Array("tollway.dlq.replay_id".utf8))
    private let subjects = SubjectReader()

    init(
        _ configuration: Configuration,
        _ window: AccountWindow,
        _ positions: AccountPositions,
        _ ends: AccountEnds
    ) {
        self.configuration = configuration
        self.window = window
        self.positions = positions
        self.ends = ends
    }

    /// Counts everything.
    mutating func run(
        months: inout MonthCount?
    ) throws(CommandFailure) {
        try countReceived()
        try countDeadLetters(of: .decode) { line in line.decode.outgoing += 1 }
        // Before what they came from, as those of report: which token was refused is known then.
        try countDeadLetters(of: .dedupe) { line in line.dedupe.outgoing += 1 }
        var repeats = RepeatCount(window: window)
        for slice in try slices(.tokensDecoded, .dedupeState) {
            try countDecoded(slice, &repeats)
        }
        repeats.beginPartitions()
        try countDeadLetters(of: .report) { line in line.report.outgoing += 1 }
        for slice in try slices(.tokensDistinct, .reportState) {
            try countDistinct(slice, &repeats, &months)
        }
        for (app, count) in repeats.lateRepeats {
            lines[app, default: AccountLine()].repeats += count
            lines[app, default: AccountLine()].dedupe.outgoing += count
        }
    }

    /// All partitions at once where few tokens lie in them, for each reading takes its time; else one
    /// by one.
    private func slices(_ topics: Topic...) throws(CommandFailure) -> [Range<Int32>] {
        let names = topics.map { $0.name(prefix: configuration.topicPrefix) }
        let (count, records) = try KafkaQuestion.ask(configuration) {
            admin throws(LogFault) -> (Int, Int64) in
            var records: Int64 = 0
            for name in names where try admin.topic(name)?.partitions.isEmpty == false {
                records += try admin.endOffsets(ofTopic: name).reduce(0, +)
                records -= try admin.startOffsets(ofTopic: name).reduce(0, +)
            }
            return (try admin.topic(names[0])?.partitions.count ?? 0, records)
        }
        guard records > Self.sliceRecordCountMax else {
            return count == 0 ? [] : [0..<Int32(count)]
        }
        return (0..<Int32(count)).map { $0..<$0 + 1 }
    }

    // MARK: decode

    private mutating func countReceived() throws(CommandFailure) {
        try scan(.tokensReceived, nil, "tokens received") { book, record, batch in
            guard !record.value.isAbsent else {
                return
            }
            let value = batch.arena.span.extracting(record.value.indices)
            let time = TokenReceived.receivedAt(
                stated: StatedTime.read(value),
                recordTime: Timestamp(milliseconds: record.timestampMilliseconds)
            )
            guard book.window.contains(time) else {
                return
            }
            let app = book.subjects.read(value).appAppleID ?? 0
            let isUnread = book.positions.isUnread(.tokensReceived, record)
            book.lines[app, default: AccountLine()].decode.incoming += 1
            book.lines[app, default: AccountLine()].decode.unread += isUnread ? 1 : 0
        }
    }

    /// Dead letters of a stage whose record came in within the window.
    private mutating func countDeadLetters(
        of worker: Worker,
        _ count: (inout AccountLine) -> Void
    ) throws(CommandFailure) {
        let source = worker.sources[0].name(prefix: configuration.topicPrefix)
        try scan(.deadLetters(worker), nil, "dead letters of \(worker.rawValue)") {
            book,
            record,
            batch in
            guard !record.value.isAbsent else {
                return
            }
            let deadLetter = DeadLetterRecord(record, stage: worker, in: batch.arena.span)
            guard deadLetter.headers.text(.topic, of: batch.arena) == source else {
                return
            }
            let value = batch.arena.span.extracting(record.value.indices)
            let subject = book.subjects.read(value)
            // A report that Apple refused: report's state has its token. What came in elsewhere may
            // have any field.
            guard worker != .report || subject.status == nil else {
                return
            }
            book.refused[worker, default: RefusedRecords()].insert(
                RecordPlace(origin: deadLetter, in: batch.arena.span),
                at: record.timestampMilliseconds
            )
            guard
                let time = Self.timeOfInput(
                    value,
                    of: worker,
                    recordTime: Timestamp(milliseconds: record.timestampMilliseconds)
                ),
                book.window.contains(time)
            else {
                return
            }
            let app = subject.appAppleID ?? 0
            var line = book.lines[app, default: AccountLine()]
            count(&line)
            line.deadLetters += 1
            book.lines[app] = line
        }
    }

    /// When the token of a dead letter came in, as it is counted where its stage read it.
    ///
    /// A dead letter may be much younger than its token: it was sent back, and failed again. Nil where the
    /// record is not counted as one that came in.
    private static func timeOfInput(
        _ value: Span<UInt8>,
        of worker: Worker,
        recordTime: Timestamp
    ) -> Timestamp? {
        do throws(WireFault) {
            switch worker {
            case .dedupe: return try TokenDecoded(reading: value).receivedAt
            case .report:
                let token = try TokenDistinct(reading: value)
                return token.isInput ? token.receivedAt : nil
            default: break
            }
        } catch {
            // It was refused because it cannot be read.
        }
        // The record's own time is gone with it: its dead letter is a moment younger.
        return TokenReceived.receivedAt(stated: StatedTime.read(value), recordTime: recordTime)
    }

    // MARK: dedupe

    private mutating func countDecoded(
        _ partitions: Range<Int32>,
        _ repeats: inout RepeatCount
    ) throws(CommandFailure) {
        repeats.beginPartitions()
        try scan(.dedupeState, partitions, "tokens of dedupe's state") { _, record, batch in
            guard !record.key.isAbsent, !record.value.isAbsent else {
                return
            }
            repeats.takeState(
                key: batch.arena.span.extracting(record.key.indices),
                value: batch.arena.span.extracting(record.value.indices),
                recordTime: record.timestampMilliseconds
            )
        }
        try scan(.tokensDecoded, partitions, "tokens decoded") { book, record, batch in
            guard !record.value.isAbsent else {
                return
            }
            let token: TokenDecoded
            do throws(WireFault) {
                token = try TokenDecoded(
                    reading: batch.arena.span.extracting(record.value.indices)
                )
            } catch {
                book.countUnreadable(record, of: .tokensDecoded, by: .dedupe, in: batch)
                return
            }
            // Its dead letter is what came out; the same sent back is no repeat of it.
            let isRepeat =
                !book.isRefused(record, by: .dedupe)
                && repeats.takeDecoded(token, recordTime: record.timestampMilliseconds)
            guard book.window.contains(token.receivedAt) else {
                return
            }
            let app = token.token.appAppleID
            var line = book.lines[app, default: AccountLine()]
            if Self.isReplayed(record, batch) {
                line.dedupe.replayed += 1
            } else {
                line.decode.outgoing += 1
            }
            line.dedupe.incoming += 1
            if book.positions.isUnread(.tokensDecoded, record) {
                line.dedupe.unread += 1
            }
            if isRepeat {
                line.repeats += 1
                line.dedupe.outgoing += 1
            }
            book.lines[app] = line
        }
    }

    // MARK: report

    private mutating func countDistinct(
        _ partitions: Range<Int32>,
        _ repeats: inout RepeatCount,
        _ months: inout MonthCount?
    ) throws(CommandFailure) {
        let accounts = try ReportAccounts(partitions, configuration)
        try months?.take(accounts, partitions)
        var seen: Set<UInt64> = []
        try scan(.tokensDistinct, partitions, "tokens classified") { book, record, batch in
            guard !record.value.isAbsent else {
                return
            }
            let token: TokenDistinct
            do throws(WireFault) {
                token = try TokenDistinct(
                    reading: batch.arena.span.extracting(record.value.indices)
                )
            } catch {
                book.countUnreadable(record, of: .tokensDistinct, by: .report, in: batch)
                return
            }
            guard token.isInput, book.window.contains(token.receivedAt), let app = token.appAppleID
            else {
                return
            }
            repeats.takeDistinct(token)
            var line = book.lines[app, default: AccountLine()]
            if Self.isReplayed(record, batch) {
                line.report.replayed += 1
            } else {
                line.dedupe.outgoing += 1
            }
            line.report.incoming += 1
            if book.positions.isUnread(.tokensDistinct, record) {
                line.report.unread += 1
            }
            if !book.isRefused(record, by: .report) {
                let digest = TextDigest.of(token.externalPurchaseID.text)
                let isFirst = seen.insert(digest).inserted
                line.take(isFirst ? accounts.fate(of: digest) : .repeated)
            }
            book.lines[app] = line
        }
    }

    // MARK: Reading

    /// Counts what a stage cannot read as coming in there, under the app of its dead letter.
    ///
    /// No stage before it has made that.
    private mutating func countUnreadable(
        _ record: RecordBatch.Record,
        of topic: Topic,
        by worker: Worker,
        in batch: RecordBatch
    ) {
        let value = batch.arena.span.extracting(record.value.indices)
        let time = TokenReceived.receivedAt(
            stated: StatedTime.read(value),
            recordTime: Timestamp(milliseconds: record.timestampMilliseconds)
        )
        let subject = subjects.read(value)
        guard worker != .report || subject.status == nil, window.contains(time) else {
            return
        }
        let stage = worker == .report ? \AccountLine.report : \AccountLine.dedupe
        var line = lines[subject.appAppleID ?? 0, default: AccountLine()]
        line[keyPath: stage].incoming += 1
        line[keyPath: stage].replayed += 1
        line[keyPath: stage].unread += positions.isUnread(topic, record) ? 1 : 0
        lines[subject.appAppleID ?? 0] = line
    }

    private func isRefused(_ record: RecordBatch.Record, by worker: Worker) -> Bool {
        refused[worker]?.contains(RecordPlace(record), writtenAt: record.timestampMilliseconds)
            ?? false
    }

    private static func isReplayed(_ record: RecordBatch.Record, _ batch: RecordBatch) -> Bool {
        !record.headers.isAbsent
            && replayHeader.isIn(batch.arena.span.extracting(record.headers.indices))
    }

    /// Shows each record of a topic, or of some partitions, up to its end of the count; a topic that is
    /// not there has none.
    private mutating func scan(
        _ topic: Topic,
        _ partitions: Range<Int32>?,
        _ what: String,
        _ body: (inout TokenCount, RecordBatch.Record, RecordBatch) -> Void
    ) throws(CommandFailure) {
        var copy = self
        let ends = ends.offsets(of: topic)
        try AccountScan.run(topic, partitions, what, configuration) { record, batch in
            let partition = Int(record.partition)
            if let ends, !(ends.indices.contains(partition) && record.offset < ends[partition]) {
                return
            }
            body(&copy, record, batch)
        }
        self = copy
    }
}

extension TokenDistinct {
    /// Whether it is a token that came in, and no word about one that did.
    fileprivate var isInput: Bool { role != .seen && promotedFrom == nil }
}

extension AccountLine {
    /// How report left a token.
    mutating func take(_ fate: ReportAccounts.Fate?) {
        switch fate {
        case .repeated: repeats += 1
        case .reported: reported += 1
        case .held: held += 1
        case .deadLetter: deadLetters += 1
        case nil: return
        }
        report.outgoing += 1
    }
}

/// `receivedAt` of a value, where it is a number.
enum StatedTime {
    static func read(_ value: Span<UInt8>) -> Timestamp? {
        var time: Timestamp?
        do throws(WireFault) {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                if key == "receivedAt", try scanner.peekKind() == .number {
                    time = Timestamp(milliseconds: try scanner.integer())
                } else {
                    try scanner.skip()
                }
            }
        } catch {
            // What was read before it broke counts, as it does for the stage.
            return time
        }
        return time
    }
}
