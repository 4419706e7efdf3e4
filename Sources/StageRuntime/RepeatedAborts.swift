internal import Kafka
internal import TokenDomain

/// What to do while transaction after transaction is aborted: wait longer each time, look for the
/// record that Kafka refuses and have it dead-lettered, and in the end give up.
///
/// A record is made the culprit only by the two codes that Kafka gives for what is in a record; a
/// rebalance or a lost coordinator never makes it one.
struct RepeatedAborts {
    /// A record, as its group knows it.
    struct Place: Hashable {
        var partition: TopicPartition
        var offset: Int64
    }

    /// What one transaction took in.
    struct Attempt {
        /// Zero where only ticks had something to write.
        var recordCount: Int
        /// The record, where it is the only one.
        var onlyRecord: Place?
        var positions: [TopicPartition: Int64]
        var tally: TokenTally
        /// See ``BatchPlan/whenCommitted(_:)``.
        var afterCommit: [() -> Void] = []
    }

    /// Halving goes on until the culprit is alone.
    private struct Search {
        var recordCountMax: Int
        /// Between an abort and the dead letter of the record at fault: growing again would only run
        /// into that.
        var isNarrowing = true
        /// Up to where transactions were aborted: beyond, all is well until shown otherwise.
        var ends: [TopicPartition: Int64] = [:]
    }

    static let culpritCodes: Set<String> = ["MSG_SIZE_TOO_LARGE", "INVALID_RECORD"]
    /// Aborts before a record is suspected: one may be a broker that just changed its settings.
    static let countBeforeSearch = 3
    /// Aborts without a commit before the worker ends.
    ///
    /// With the waits that is about 70 s where Kafka refuses at once, and 10 to 15 min where each
    /// transaction waits 30 s for its records to be stored and up to 10 s more for its abort.
    static let countMax = 20
    static let waitMillisecondsMin: Int64 = 50
    static let waitMillisecondsMax: Int64 = 5_000

    /// Aborts that brought nothing nearer: neither a commit nor the culprit.
    private(set) var count = 0
    private var retryAt: Timestamp?
    private var search: Search?
    /// Records to be dead-lettered, with Kafka's code; at most one a partition, as reading goes on
    /// at it.
    private(set) var culprits: [Place: String] = [:]

    var isHopeless: Bool { count >= Self.countMax }

    /// Ticks wait meanwhile: what they write would be taken for the record's.
    var isSearching: Bool { search != nil }

    /// The most records that a transaction may take in; nil while any number may.
    var recordCountMax: Int? { search?.recordCountMax }

    /// When the next transaction may begin; nil: at once.
    func nextAttempt(now: Timestamp) -> Timestamp? {
        guard let retryAt, now < retryAt,
            // A clock that was set back must not hold the worker up.
            retryAt.milliseconds - now.milliseconds <= Self.waitMillisecondsMax
        else {
            return nil
        }
        return retryAt
    }

    mutating func committed(_ attempt: Attempt) {
        retryAt = nil
        guard var search else {
            count = 0
            return
        }
        let waiting = culprits.filter { place, _ in
            attempt.positions[place.partition].map { $0 <= place.offset } ?? false
        }
        if waiting.count < culprits.count {
            count = 0
            search.isNarrowing = false
        }
        culprits = waiting
        guard search.ends.contains(where: { attempt.positions[$0.key, default: .max] < $0.value })
        else {
            self.search = nil
            return
        }
        if culprits.isEmpty, !search.isNarrowing {
            search.recordCountMax = min(2 * search.recordCountMax, 1 << 20)
        }
        self.search = search
    }

    mutating func aborted(code: String, _ attempt: Attempt, now: Timestamp) {
        let isRecordSuspected =
            attempt.recordCount > 0 && Self.culpritCodes.contains(code)
            && (search != nil || count + 1 >= Self.countBeforeSearch)
        let isNearer = isRecordSuspected && narrow(attempt, code: code)
        if !isNearer {
            count += 1
        }
        let doublings = isNearer ? 0 : min(count - 1, 16)
        let wait = min(Self.waitMillisecondsMin << Int64(doublings), Self.waitMillisecondsMax)
        retryAt = now + Milliseconds(wait)
    }

    /// - Returns: whether it brought the culprit nearer.
    private mutating func narrow(_ attempt: Attempt, code: String) -> Bool {
        var search = search ?? Search(recordCountMax: attempt.recordCount)
        search.ends.merge(attempt.positions) { max($0, $1) }
        search.isNarrowing = true
        search.recordCountMax = max(attempt.recordCount / 2, 1)
        self.search = search
        guard attempt.recordCount == 1, let place = attempt.onlyRecord else {
            return attempt.recordCount > 1
        }
        return culprits.updateValue(code, forKey: place) == nil
    }
}
