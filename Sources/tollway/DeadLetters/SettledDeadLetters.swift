internal import Kafka
internal import StageRuntime
internal import TokenDomain
internal import TokenWire

/// Which dead letters were replayed or discarded, by `dlq.<prefix>replays.v1`.
///
/// A record counts only for the dead letter with its timestamp: offsets begin anew where somebody
/// deletes a topic and makes it again.
struct SettledDeadLetters {
    enum State: UInt8, CaseIterable {
        case replayed = 1
        case discarded = 2

        var text: String {
            switch self {
            case .replayed: "replayed"
            case .discarded: "discarded"
            }
        }
    }

    private(set) var count = 0
    /// Older dead letters may have been settled though nothing here says so, see ``ReplayMemory``;
    /// UNIX milliseconds.
    private(set) var knownSince: Int64?
    /// Dead letters that the counted run has settled.
    private(set) var runCount = 0
    private var entries = PositionTable()
    private let countedRun: [UInt8]?

    /// Counts apart what one run has settled, where it is named.
    init(countingRun runID: String? = nil) {
        countedRun = runID.map { Array($0.utf8) }
    }

    func state(of position: DeadLetterPosition, timestamp: Int64) -> State? {
        let entry = entries[position]
        guard entry >> 2 == Self.digest(timestamp) else {
            return nil
        }
        return State(rawValue: UInt8(entry & 3))
    }

    mutating func set(_ state: State?, of position: DeadLetterPosition, timestamp: Int64) {
        let entry = state.map { Self.digest(timestamp) << 2 | UInt32($0.rawValue) } ?? 0
        let before = entries[position]
        entries[position] = entry
        count += (entry == 0 ? 0 : 1) - (before == 0 ? 0 : 1)
    }

    /// 30 bits: two dead letters at one position share a time only for one pair in a billion.
    private static func digest(_ timestamp: Int64) -> UInt32 {
        UInt32((UInt64(bitPattern: timestamp) &* 0x9e37_79b9_7f4a_7c15) >> 34)
    }

    // MARK: - The topic

    /// Takes in records of the topic, in their order, and shows what each settles.
    ///
    /// - Throws: why one cannot be read, the first of them, when all others are taken in.
    mutating func absorb(
        _ batch: RecordBatch,
        prefix: String,
        _ settled: (DeadLetterPosition) -> Void = { _ in }
    ) throws(CommandFailure) {
        let topics = DeadLetters.stages.map { stage in
            (stage, Array((Topic.deadLetters(stage).name(prefix: prefix) + "/").utf8))
        }
        var failure: CommandFailure?
        for record in batch.records where !record.key.isAbsent {
            let key = batch.arena.span.extracting(record.key.indices)
            guard let position = Self.position(key, topics) else {
                guard key.starts(with: ReplayMemory.keyPrefix), !record.value.isAbsent else {
                    // Of another version, or of a stage that is no more.
                    continue
                }
                do throws(WireFault) {
                    let value = batch.arena.span.extracting(record.value.indices)
                    knownSince = max(knownSince ?? 0, try ReplayMemory.knownSince(value))
                } catch {
                    failure = failure ?? Self.unreadable("what was lost", record, prefix, error)
                }
                continue
            }
            guard !record.value.isAbsent else {
                set(nil, of: position, timestamp: 0)
                continue
            }
            do throws(WireFault) {
                let value = batch.arena.span.extracting(record.value.indices)
                let essence = try SettledDeadLetter.essence(of: value, run: countedRun)
                set(essence.state, of: position, timestamp: essence.deadLetterTimestamp)
                runCount += essence.isOfRun ? 1 : 0
                settled(position)
            } catch {
                failure = failure ?? Self.unreadable("\(position)", record, prefix, error)
            }
        }
        if let failure {
            throw failure
        }
    }

    /// To go on would send a dead letter back twice.
    private static func unreadable(
        _ subject: String,
        _ record: RecordBatch.Record,
        _ prefix: String,
        _ fault: WireFault
    ) -> CommandFailure {
        CommandFailure(
            .failed,
            code: "dlq.bad_replay_record",
            "the record about \(subject) at \(record.partition)/\(record.offset) of"
                + " \(Topic.deadLetterReplays.name(prefix: prefix)) cannot be read:"
                + " \(fault.message)"
        )
    }

    /// `topic/partition/offset`, without a text made of it: there may be millions.
    private static func position(
        _ key: Span<UInt8>,
        _ topics: [(Worker, [UInt8])]
    ) -> DeadLetterPosition? {
        for (stage, topic) in topics where key.starts(with: topic) {
            let rest = key.extracting(topic.count..<key.count)
            var slash = 0
            while slash < rest.count, rest[slash] != UInt8(ascii: "/") {
                slash += 1
            }
            guard slash < rest.count,
                let partition = DecimalText.read(rest.extracting(0..<slash)),
                let offset = DecimalText.read(rest.extracting(slash + 1..<rest.count))
            else {
                return nil
            }
            return DeadLetterPosition(
                stage: stage,
                partition: Int32(clamping: partition),
                offset: offset
            )
        }
        return nil
    }
}

/// A value of `dlq.<prefix>replays.v1`.
struct SettledDeadLetter {
    var state: SettledDeadLetters.State
    /// Kafka's own time of the dead letter.
    var deadLetterTimestamp: Int64
    var replayID: String
    /// UNIX milliseconds.
    var at: Int64
    /// Where it went.
    var target: String
}

extension SettledDeadLetter {
    init(reading value: Span<UInt8>) throws(WireFault) {
        var state: String?
        var deadLetterTimestamp: Int64?
        var replayID: String?
        var at: Int64?
        var target: String?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "state": try scanner.fill(&state)
            case "letterTimestamp": try scanner.fill(&deadLetterTimestamp)
            case "replayId": try scanner.fill(&replayID)
            case "at": try scanner.fill(&at)
            case "target": try scanner.fill(&target)
            default: try scanner.skip()
            }
        }
        guard let known = SettledDeadLetters.State.allCases.first(where: { $0.text == state })
        else {
            throw state == nil ? .missing(field: "state") : .outOfRange(field: "state")
        }
        self.init(
            state: known,
            deadLetterTimestamp: try JSONScanner.require(deadLetterTimestamp, "letterTimestamp"),
            replayID: replayID ?? "",
            at: at ?? 0,
            target: target ?? ""
        )
    }

    /// What alone decides whether a dead letter may go, and whether a run has settled it, where one is
    /// asked for; without the rest.
    static func essence(
        of value: Span<UInt8>,
        run runID: [UInt8]? = nil
    ) throws(WireFault) -> (
        state: SettledDeadLetters.State, deadLetterTimestamp: Int64, isOfRun: Bool
    ) {
        var state: SettledDeadLetters.State?
        var deadLetterTimestamp: Int64?
        var isOfRun = false
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "state":
                let text = try scanner.string()
                state = SettledDeadLetters.State.allCases.first { $0.text == text }
                guard state != nil else {
                    throw .outOfRange(field: "state")
                }
            case "letterTimestamp": try scanner.fill(&deadLetterTimestamp)
            case "replayId" where runID != nil: isOfRun = try scanner.stringBytes() == runID
            default: try scanner.skip()
            }
        }
        return (
            try JSONScanner.require(state, "state"),
            try JSONScanner.require(deadLetterTimestamp, "letterTimestamp"),
            isOfRun
        )
    }

    func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("state", state.text)
            writer.field("letterTimestamp", deadLetterTimestamp)
            writer.field("replayId", replayID)
            writer.field("at", at)
            writer.field("target", target)
            writer.endObject()
        }
    }
}
