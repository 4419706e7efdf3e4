internal import Kafka
internal import StageRuntime
internal import Telemetry
internal import TokenDomain

/// The dead letters that are open, by stage and code: read on from look to look.
final class TopDeadLetters {
    /// So many are taken in however long it takes, and more only for some time: somebody waits for
    /// what else the first look shows.
    private static let recordCountMin = 50_000
    private static let firstLookMilliseconds: Int64 = 400
    private static let lookMilliseconds: Int64 = 1_500
    /// Codes come from headers that anybody may write: beyond so many all go by one name.
    private static let groupCountMax = 1_000
    /// Then all is read anew: what Kafka has removed since is open no more.
    static let lifeMilliseconds: Int64 = 3_600_000

    private struct Group {
        var stage: Worker
        var code: String
        var count = 0
        var newest: Int64 = 0
    }

    let madeAt = WallClock.monotonicMilliseconds()
    private let prefix: String
    let stages: [Worker]
    private let replays: LogBrowser?
    var hasReplays: Bool { replays != nil }
    private let browser: LogBrowser
    private var settled = SettledDeadLetters()
    /// The group of each open dead letter, from 1.
    private var open = PositionTable()
    private var groups: [Group] = []
    private var indices: [String: Int] = [:]
    /// Whether everything there was at the start has been read.
    private(set) var isRead = false
    /// Why a record about a replay could not be taken in: what it settles counts as open ever since.
    private(set) var failure: CommandFailure?
    /// Whether nothing is missing.
    var isComplete: Bool { isRead && failure == nil }
    private var isFirst = true

    /// Starts where the topics begin.
    init(
        settings: KafkaSettings,
        prefix: String,
        stages: [Worker],
        hasReplays: Bool
    ) throws(LogFault) {
        self.prefix = prefix
        self.stages = stages
        let topics = stages.map { Topic.deadLetters($0).name(prefix: prefix) }
        browser = try LogBrowser(settings: settings, topics: topics, deadlineMilliseconds: 5_000)
        try browser.start()
        guard hasReplays else {
            replays = nil
            return
        }
        let replays = try LogBrowser(
            settings: settings,
            topics: [Topic.deadLetterReplays.name(prefix: prefix)],
            deadlineMilliseconds: 5_000
        )
        try replays.start()
        self.replays = replays
    }

    func close() {
        browser.close()
        replays?.close()
    }

    /// Takes in what came since the last look.
    ///
    /// Replays first: a dead letter is in its topic before anybody can send it back.
    func look() throws(LogFault) {
        let until =
            WallClock.monotonicMilliseconds()
            + (isFirst ? Self.firstLookMilliseconds : Self.lookMilliseconds)
        isFirst = false
        var areReplaysRead = true
        if let replays {
            areReplaysRead = try replays.look(
                until: until,
                countMin: Self.recordCountMin,
                absorb
            )
        }
        guard areReplaysRead else {
            return
        }
        isRead = try browser.look(until: until, countMin: Self.recordCountMin) { batch in
            for record in batch.records {
                add(record, batch)
            }
        }
    }

    func absorb(_ batch: RecordBatch) {
        do throws(CommandFailure) {
            try settled.absorb(batch, prefix: prefix) { position in
                close(position)
            }
        } catch {
            failure = failure ?? error
        }
    }

    private func add(_ record: RecordBatch.Record, _ batch: RecordBatch) {
        let deadLetter = DeadLetterRecord(record, stage: stages[record.topic], in: batch.arena.span)
        let state = settled.state(
            of: deadLetter.position,
            timestamp: record.timestampMilliseconds
        )
        guard state == nil else {
            return
        }
        let index = group(of: deadLetter, batch)
        groups[index].count += 1
        groups[index].newest = max(groups[index].newest, record.timestampMilliseconds)
        open[deadLetter.position] = UInt32(index + 1)
    }

    private func close(_ position: DeadLetterPosition) {
        let number = Int(open[position])
        if number > 0 {
            groups[number - 1].count -= 1
            open[position] = 0
        }
    }

    private func group(of deadLetter: DeadLetterRecord, _ batch: RecordBatch) -> Int {
        let text = deadLetter.headers.text(.code, of: batch.arena)
        var code = text.isEmpty ? "unknown" : text
        if groups.count >= Self.groupCountMax,
            indices["\(deadLetter.stage.rawValue) \(code)"] == nil
        {
            code = "other"
        }
        let name = "\(deadLetter.stage.rawValue) \(code)"
        if let index = indices[name] {
            return index
        }
        indices[name] = groups.count
        groups.append(Group(stage: deadLetter.stage, code: code))
        return groups.count - 1
    }

    var total: Int { groups.reduce(0) { $0 + $1.count } }

    /// The largest first.
    var shown: [TopSnapshot.DeadLetters] {
        groups.filter { $0.count > 0 }
            .sorted { ($1.count, $0.code) < ($0.count, $1.code) }
            .map {
                .init(
                    stage: $0.stage.rawValue,
                    code: $0.code,
                    count: $0.count,
                    newest: $0.newest
                )
            }
    }
}
