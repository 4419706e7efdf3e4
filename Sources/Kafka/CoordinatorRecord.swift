/// What a coordinator has written of a producer's transaction in `__transaction_state`.
struct CoordinatorRecord: Equatable {
    /// Kafka's numbers.
    enum State: UInt8 {
        case empty = 0
        case ongoing = 1
        case prepareCommit = 2
        case prepareAbort = 3
        case completeCommit = 4
        case completeAbort = 5
        case dead = 6
        case prepareEpochFence = 7
    }

    static let topic = "__transaction_state"

    var transactionalID: String
    var producerID: Int64
    var producerEpoch: Int16
    var state: State
    /// Of the transaction that is open or decided; a complete one has none any more.
    var partitions: Set<TopicPartition>

    /// Reads both versions of the value; nil where it is another kind of record or cannot be read.
    init?(key: [UInt8], value: [UInt8]) {
        do throws(WireReader.CutShort) {
            var keyReader = WireReader(key[...])
            var reader = WireReader(value[...])
            let version = try reader.integer(Int16.self)
            guard try keyReader.integer(Int16.self) == 0, (0...1).contains(version) else {
                return nil
            }
            transactionalID = try keyReader.text(isCompact: false)
            producerID = try reader.integer()
            producerEpoch = try reader.integer()
            _ = try reader.integer(Int32.self)
            guard let state = State(rawValue: try reader.integer()) else {
                return nil
            }
            self.state = state
            partitions = []
            let isCompact = version == 1
            for _ in 0..<(try reader.count(isCompact: isCompact)) {
                let topic = try reader.text(isCompact: isCompact)
                for _ in 0..<(try reader.count(isCompact: isCompact)) {
                    partitions.insert(
                        TopicPartition(topic: topic, partition: try reader.integer())
                    )
                }
                if isCompact {
                    try reader.skipTags()
                }
            }
        } catch {
            return nil
        }
    }
}

/// What a coordinator's records say of one transaction that is open in a partition.
struct CoordinatorVerdict {
    private let producerID: Int64
    private let producerEpoch: Int16
    private let partition: TopicPartition
    /// The last of the producer's records, and the last one that names the partition.
    private var last: CoordinatorRecord?
    private var deciding: (record: CoordinatorRecord, at: Int64)?

    init(producerID: Int64, producerEpoch: Int16, partition: TopicPartition) {
        self.producerID = producerID
        self.producerEpoch = producerEpoch
        self.partition = partition
    }

    var transactionalID: String? { last?.transactionalID }

    /// In the order of their offsets; `time` in UNIX milliseconds is the broker's.
    mutating func take(_ record: CoordinatorRecord, at time: Int64) {
        guard record.producerID == producerID else {
            return
        }
        last = record
        if record.partitions.contains(partition) {
            deciding = (record, time)
        }
    }

    /// What its coordinator decided, at least `patience` before `now`.
    ///
    /// A coordinator that aborts what its producer left open does so under the next epoch.  While the
    /// producer is at work under the same epoch nothing is decided for it: its next marker in the
    /// partition ends both.
    func verdict(now: Int64, patience: Int64) -> HangingTransaction.Verdict {
        guard let last, let (record, time) = deciding,
            record.producerEpoch >= producerEpoch, record.producerEpoch <= producerEpoch + 1
        else {
            return .unknown
        }
        if last.state == .ongoing, last.producerEpoch == producerEpoch {
            return .underWay
        }
        switch record.state {
        case .prepareCommit: return now - time < patience ? .underWay : .commit
        case .prepareAbort, .prepareEpochFence: return now - time < patience ? .underWay : .abort
        case .ongoing: return .underWay
        case .empty, .completeCommit, .completeAbort, .dead: return .unknown
        }
    }
}
