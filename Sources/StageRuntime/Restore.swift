internal import Glibc
internal import Kafka
internal import StateStore
internal import Telemetry

/// Brings the store of one partition up to its changelog, a slice at a time, so that the worker can
/// go on answering its group between slices and loses no membership over a long restore.
final class Restore {
    /// Records applied at once: bounds memory, and the time a slice takes beyond its budget.
    static let recordCountMax = 10_000
    /// A predecessor that is ending, or a second instance about to be fenced, may hold the store.
    static let lockedMillisecondsMax: Int64 = 90_000
    /// Between two answers that another process holds the store: what was not asked for longer may have been
    /// let go meanwhile.
    static let lockedGapMillisecondsMax: Int64 = 10_000
    /// Questions about a changelog's partition that Kafka does not know, or refuses: 45 s of them, as
    /// long as a topic or a right may be gone.
    static let missingCountMax = 45_000 / WorkerRun.retryMilliseconds
    /// Between two clocks that wrote a store and a changelog, or of one that was set.
    static let clockMarginMilliseconds: Int64 = 86_400_000

    let partition: Int32
    private let changelog: TopicPartition
    private let log: any RecordLog
    private let provider: any StoreProvider
    private let stage: any StatefulStage
    private let telemetry: any LoopTelemetry
    private var reader: (any ChangelogReader)?
    private var store: (any PartitionStore)?
    private var batch = RecordBatch()
    /// How often a slice was asked for: those that nobody answers take turns.
    private(set) var tryCount = 0
    /// Since when another process holds the store, by the monotonic clock; nil where none does.
    private(set) var lockedSince: Int64?
    private var lockedAskedAt: Int64 = 0
    private let monotonicMilliseconds: () -> Int64
    private var missingCount = 0
    /// Records read so far, for the progress line and the metric.
    private(set) var recordCount = 0

    init(
        changelog: TopicPartition,
        log: any RecordLog,
        provider: any StoreProvider,
        stage: any StatefulStage,
        telemetry: any LoopTelemetry,
        monotonicMilliseconds: @escaping () -> Int64 = WallClock.monotonicMilliseconds
    ) {
        partition = changelog.partition
        self.changelog = changelog
        self.log = log
        self.provider = provider
        self.stage = stage
        self.telemetry = telemetry
        self.monotonicMilliseconds = monotonicMilliseconds
    }

    /// The next changelog offset to be read and the one to be reached; nil before the first slice.
    var progress: (next: Int64, end: Int64)? {
        reader.map { ((store?.changelogOffset ?? $0.startOffset), $0.endOffset) }
    }

    /// The least is read first: the offsets that are still to be read.
    ///
    /// Before those comes what was not looked at yet, and behind them what is locked, or refused.
    var rank: Int64 {
        progress.map { $0.end - $0.next } ?? (tryCount > 0 ? .max : -1)
    }

    /// Reads one slice; the first call finds out what is lacking, and reads nothing where anything is.
    ///
    /// A right that was missing for a moment, or a login that was cut off, is `unavailable` for 45 s of
    /// questions, and then the end of the worker.
    ///
    /// - Returns: the store once it is complete; nil while there is more to read.
    func slice(waitMilliseconds: Int) throws -> (any PartitionStore)? {
        let countBefore = recordCount
        tryCount += 1
        do {
            let store = try sliceUnlessRefused(waitMilliseconds)
            // One that brought nothing may not have been answered yet.
            missingCount = store == nil && recordCount == countBefore ? missingCount : 0
            return store
        } catch LogFault.misconfigured(let message) where missingCount < Self.missingCountMax {
            missingCount += 1
            // What was refused is not read on: it begins again where the store ends.
            close()
            throw LogFault.unavailable(code: "REFUSED", message: message)
        }
    }

    private func sliceUnlessRefused(_ waitMilliseconds: Int) throws -> (any PartitionStore)? {
        let wasOpen = reader != nil
        guard let (reader, store) = try openedUnlessLocked(waitMilliseconds),
            wasOpen || rank <= 0
        else {
            return nil
        }
        batch.removeAll()
        let isComplete = try reader.read(
            into: &batch,
            recordCountMax: Self.recordCountMax,
            waitMilliseconds: waitMilliseconds
        )
        recordCount += batch.records.count
        if let last = batch.records.last {
            try apply(upTo: last.offset + 1, to: store)
        }
        guard isComplete else {
            return nil
        }
        try store.endRestore()
        reader.close()
        self.reader = nil
        self.store = nil
        return store
    }

    private func apply(upTo offset: Int64, to store: any PartitionStore) throws {
        do throws(StoreFault) {
            try StagedState.apply(
                batch.records.map { record in
                    (
                        key: Array(batch.arena[record.key.indices]),
                        value: record.value.isAbsent
                            ? nil : Array(batch.arena[record.value.indices])
                    )
                },
                changelogOffset: offset,
                to: store,
                stage: stage
            )
        } catch {
            guard case .unreadable(let index, let message) = error else {
                throw error
            }
            let position = "\(changelog), offset \(batch.records[index].offset)"
            throw WorkerEnd(
                exitCode: 70,
                sentence: "the changelog record at \(position) cannot be read: \(message)"
            )
        }
    }

    /// Gives up: the partition went elsewhere.
    func close() {
        reader?.close()
        store?.close()
        reader = nil
        store = nil
    }

    /// - Returns: nil while another process holds the store, after a wait.
    private func openedUnlessLocked(
        _ waitMilliseconds: Int
    ) throws -> (any ChangelogReader, any PartitionStore)? {
        do {
            let found = try opened()
            lockedSince = nil
            return found
        } catch StoreFault.locked(let message) {
            let now = monotonicMilliseconds()
            if lockedSince == nil {
                telemetry.locked(partition: partition, because: message)
            }
            let isAskedAnew = now - lockedAskedAt > Self.lockedGapMillisecondsMax
            let since = isAskedAnew ? now : lockedSince ?? now
            (lockedSince, lockedAskedAt) = (since, now)
            guard now - since < Self.lockedMillisecondsMax else {
                throw WorkerEnd(
                    exitCode: 75,
                    sentence: "another process has held the state of partition \(partition) for"
                        + " \(Self.lockedMillisecondsMax / 1_000) s: \(message)"
                )
            }
            _ = poll(nil, 0, Int32(clamping: waitMilliseconds))
            return nil
        }
    }

    /// Opens the store and a reader that begins where the store ends.
    ///
    /// A store that cannot be right is wiped and replayed from the beginning: the changelog is the
    /// truth, the disk a copy.
    private func opened() throws -> (any ChangelogReader, any PartitionStore) {
        if let reader, let store {
            return (reader, store)
        }
        let probe = try changelogProbe()
        let store = try openStore(of: probe)
        let offset = store.changelogOffset ?? probe.startOffset
        let reader: any ChangelogReader
        if offset == 0 {
            reader = probe
        } else {
            probe.close()
            reader = try log.changelogReader(changelog, from: offset)
        }
        try store.beginRestore()
        self.reader = reader
        self.store = store
        return (reader, store)
    }

    /// - Throws: the end of the worker where its sources have a partition that its changelog has not.
    private func changelogProbe() throws -> any ChangelogReader {
        do throws(LogFault) {
            return try log.changelogReader(changelog, from: 0)
        } catch {
            guard case .unavailable("_UNKNOWN_PARTITION", _) = error else {
                throw error
            }
            missingCount += 1
            guard missingCount > Self.missingCountMax else {
                throw error
            }
            throw WorkerEnd(
                exitCode: 2,
                sentence: "\(changelog) is not there: were partitions added to a topic that is"
                    + " read with others? `tollway topics plan` names it"
            )
        }
    }

    private func openStore(of reader: any ChangelogReader) throws -> any PartitionStore {
        var reason = ""
        var form = ""
        var aheadSince: Int64?
        var whole: (any PartitionStore)?
        let identity = type(of: stage).storeIdentity(ofChangelog: reader.topicIdentity)
        do throws(StoreFault) {
            let store = try provider.open(
                partition: partition,
                changelogIdentity: identity
            )
            if let offset = store.changelogOffset, offset > reader.endOffset {
                aheadSince = store.lastUsedMilliseconds
                store.close()
                reason =
                    "the state ends at \(offset), its changelog at \(reader.endOffset): it is"
                    + " another cluster's past, or the changelog was made anew"
            } else {
                whole = store
            }
        } catch {
            switch error {
            case .damaged(let message):
                reason = message
            case .otherForm(let message, let offset, let lastUsedMilliseconds):
                reason = message
                form = ", in another form"
                // All of the changelog is to replace it, and it may have what was deleted of that.
                if let offset, reader.startOffset > 0 {
                    throw cutOff(reader, "\(offset)\(form)")
                }
                if let offset, offset > reader.endOffset {
                    aheadSince = lastUsedMilliseconds
                }
            case .idle(let message, let offset, let lastUsedMilliseconds):
                reason = message
                if offset > reader.endOffset {
                    aheadSince = lastUsedMilliseconds
                }
            default:
                throw error
            }
        }
        if let whole {
            try requireBeginning(of: reader, for: whole)
            return whole
        }
        // The store is the last copy of what the sources will not tell again.
        if let aheadSince, try Self.begins(reader, after: aheadSince) {
            let begin = reader.endOffset > 0 ? "is younger than" : "is empty beside"
            throw WorkerEnd.madeAnew(
                "\(changelog) \(begin) the state of partition \(partition)\(form)"
            )
        }
        telemetry.wiped(partition: partition, because: reason)
        try provider.wipe(partition: partition)
        let empty = try provider.open(partition: partition, changelogIdentity: identity)
        try requireBeginning(of: reader, for: empty)
        return empty
    }

    /// Says that an empty store lacks what was deleted of its changelog, and spares one that has it.
    ///
    /// Compaction leaves a log's start where it is: retention moved it, or a person.
    ///
    /// - Throws: the end of the worker, where the store ends before what is left.
    private func requireBeginning(
        of reader: any ChangelogReader,
        for store: any PartitionStore
    ) throws(WorkerEnd) {
        switch store.changelogOffset {
        case let offset? where offset < reader.startOffset:
            store.close()
            throw cutOff(reader, "\(offset)")
        case nil where reader.startOffset > 0:
            telemetry.wiped(
                partition: partition,
                because: "\(begin(of: reader)): what it had before was deleted, and this state"
                    + " lacks it"
            )
        default: break
        }
    }

    private func cutOff(_ reader: any ChangelogReader, _ end: String) -> WorkerEnd {
        .cutOff("\(begin(of: reader)), and the state of the partition ends at \(end)")
    }

    private func begin(of reader: any ChangelogReader) -> String {
        "\(changelog) begins at \(reader.startOffset)"
    }

    /// Whether a changelog was made anew after a store was written: it is empty, or its first record was
    /// written after that, or less than a day before, as clocks are set.
    ///
    /// One whose first record was compacted away tells nothing.
    private static func begins(
        _ changelog: any ChangelogReader,
        after milliseconds: Int64
    ) throws(LogFault) -> Bool {
        guard changelog.endOffset > 0 else {
            return true
        }
        // The clock that wrote the store may have been ahead.
        let writtenBy = min(milliseconds, WallClock.nowMilliseconds())
        return try changelog.firstRecordTime().map {
            $0 > writtenBy - Self.clockMarginMilliseconds
        } ?? false
    }
}
