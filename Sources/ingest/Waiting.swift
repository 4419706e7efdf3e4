internal import HTTPServer
internal import Kafka
internal import StageRuntime

/// Requests whose records are on their way to the broker.
///
/// A request is answered once: when all of its records have their receipts, or when its time is
/// over. Receipts that come later are still counted.
struct Waiting {
    struct Entry {
        var tag: UInt64
        var request: HTTPRequest.ID
        var admission: Door.Admission
        /// Monotonic milliseconds.
        var startedAt: Int64
        var missingCount: Int
        /// Of the records without a receipt, as if they were of one size.
        var byteCount: Int
        var failure: Problem?
        var isPartStored = false
        var isAnswered = false

        /// What is answered once all receipts are there; nil: everything is stored.
        var problem: Problem? {
            failure == .recordRefused && isPartStored ? .recordRefusedOfMany : failure
        }

        /// 503 outranks 413, which says that nothing is stored.
        mutating func note(_ problem: Problem) {
            if failure?.status != 503 {
                failure = problem
            }
        }
    }

    /// As many as were ever waiting at once; an entry's slot is the lower half of its tag.
    private var slots: [Entry?] = []
    private var freeSlots: [Int] = []
    /// The upper half of a tag: no two of them are the same while receipts may come.
    private var nextSerial: UInt32 = 1
    /// Tags in the order of their deadlines, which is that of their arrival.
    private var queue: [(tag: UInt64, deadline: Int64)] = []
    private var queueStart = 0
    /// Requests not yet answered.
    private(set) var openCount = 0
    /// What the records without a receipt take, by the number of their topic.
    private(set) var byteCounts = Route.allCases.map { _ in 0 }

    /// Takes a request in.
    ///
    /// - Returns: the tag that its records carry.
    mutating func add(
        _ request: HTTPRequest.ID,
        _ admission: Door.Admission,
        now: Int64
    ) -> UInt64 {
        let slot = freeSlots.popLast() ?? slots.count
        if slot == slots.count {
            slots.append(nil)
        }
        let tag = UInt64(nextSerial) << 32 | UInt64(slot)
        nextSerial &+= 1
        slots[slot] = Entry(
            tag: tag,
            request: request,
            admission: admission,
            startedAt: now,
            missingCount: admission.recordCount,
            byteCount: admission.byteCount
        )
        queue.append((tag, now + IngestLimits.answerTimeoutMilliseconds))
        openCount += 1
        byteCounts[admission.route.topic] += admission.byteCount
        return tag
    }

    /// Notes the receipt of records of a request.
    ///
    /// - Returns: the entry, once it is to be answered.
    mutating func note(_ receipt: KafkaProducer.Receipt) -> Entry? {
        guard let slot = slot(of: receipt.tag) else {
            return nil
        }
        if let failure = receipt.failure {
            let byteCountMax = slots[slot]?.admission.recordByteCountMax ?? 0
            slots[slot]?.note(Self.problem(for: failure, recordByteCountMax: byteCountMax))
        } else {
            slots[slot]?.isPartStored = true
        }
        slots[slot]?.missingCount -= receipt.outputCount
        leave(slot, receipt.outputCount)
        guard let entry = slots[slot], entry.missingCount == 0 else {
            return nil
        }
        slots[slot] = nil
        freeSlots.append(slot)
        guard !entry.isAnswered else {
            return nil
        }
        openCount -= 1
        return entry
    }

    private mutating func leave(_ slot: Int, _ outputCount: Int) {
        guard let entry = slots[slot] else {
            return
        }
        let byteCount =
            entry.missingCount > 0
            ? entry.admission.byteCount / entry.admission.recordCount * outputCount
            : entry.byteCount
        slots[slot]?.byteCount -= byteCount
        byteCounts[entry.admission.route.topic] -= byteCount
    }

    /// The topic that a tag's records go to.
    func topic(of tag: UInt64) -> Int? {
        slot(of: tag).flatMap { slots[$0]?.admission.route.topic }
    }

    /// Nil where all of its receipts have come.
    private func slot(of tag: UInt64) -> Int? {
        let slot = Int(tag & 0xffff_ffff)
        return slots.indices.contains(slot) && slots[slot]?.tag == tag ? slot : nil
    }

    /// What must be answered now although receipts are missing.
    mutating func takeExpired(now: Int64) -> [Entry] {
        var expired: [Entry] = []
        while queueStart < queue.count, queue[queueStart].deadline <= now {
            close(queue[queueStart].tag, into: &expired)
            queueStart += 1
        }
        forgetStart()
        return expired
    }

    /// Everything not answered, at the end.
    mutating func takeAll() -> [Entry] {
        var all: [Entry] = []
        for place in queue[queueStart...] {
            close(place.tag, into: &all)
        }
        queue = []
        queueStart = 0
        return all
    }

    /// Monotonic milliseconds; nil where nothing waits.
    mutating func nextDeadline() -> Int64? {
        while queueStart < queue.count, slot(of: queue[queueStart].tag) == nil {
            queueStart += 1
        }
        forgetStart()
        return queueStart < queue.count ? queue[queueStart].deadline : nil
    }

    private mutating func close(_ tag: UInt64, into list: inout [Entry]) {
        guard let slot = slot(of: tag), let entry = slots[slot], !entry.isAnswered else {
            return
        }
        slots[slot]?.isAnswered = true
        openCount -= 1
        list.append(entry)
    }

    /// Gives back what the queue has passed, now and then: moving it costs its length.
    private mutating func forgetStart() {
        guard queueStart > 1_024, queueStart * 2 > queue.count else {
            return
        }
        queue.removeFirst(queueStart)
        queueStart = 0
    }

    /// Only the size of a record is ever its own fault; all else is the broker's.
    ///
    /// A broker holds whole batches against a topic's limit: where that was lowered under us, a small
    /// record is refused for those beside it, and is taken in another batch.
    private static func problem(for failure: String, recordByteCountMax: Int) -> Problem {
        switch failure {
        case "MSG_SIZE_TOO_LARGE", "_MSG_SIZE_TOO_LARGE":
            recordByteCountMax > WorkerLoop.Limits.outputRecordByteCountMin
                ? .recordRefused : .batchRefused
        case "_QUEUE_FULL": .queueFull
        default: .notStored
        }
    }
}
