internal import StateStore
internal import TokenDomain

/// One entry of the due table: when the account of a key wants attention, ordered by it.
///
/// Four regions, by the first byte: what waits for a time, what may be sent (by lane, the earliest
/// deadline first), what waits for the guard, and what is to be forgotten. A key of the
/// state stands in one of them. What waits to be tried again stands in a fifth, too, ordered as what
/// may be sent is: so the most urgent of all that is due is found without a search.
enum DueKey {
    enum Region: UInt8, CaseIterable {
        case guarded = 0x67  // g
        case ready = 0x72  // r
        case retried = 0x75  // u
        case waiting = 0x77  // w
        case forgotten = 0x78  // x
    }

    /// The entry of an account.
    static func bytes(of debtor: Debtor, key: [UInt8]) -> [UInt8] {
        bytes(debtor.attention, endpoint: debtor.queue?.endpoint ?? .reports, key: key)
    }

    static func bytes(
        _ attention: TokenAccount.Attention,
        endpoint: SendQueue.Endpoint = .reports,
        key: [UInt8]
    ) -> [UInt8] {
        var entry: [UInt8]
        switch attention {
        case .ready(let lane, let deadline):
            entry = start(.ready, SendQueue(endpoint: endpoint, lane: lane), at: deadline)
        case .waiting(let time):
            entry = start(Region.waiting, at: time)
        case .guarded(let time):
            entry = start(Region.guarded, at: time)
        case .forgotten(let time):
            entry = start(Region.forgotten, at: time)
        }
        entry.append(contentsOf: key)
        return entry
    }

    /// The second entry of an account whose request failed and waits to be tried again; nil where
    /// none does.
    static func retry(of debtor: Debtor, key: [UInt8]) -> [UInt8]? {
        debtor.retry.map { start(.retried, $0.queue, at: $0.deadline) + key }
    }

    /// All entries of what lies under a key: one or two.
    static func entries(of debtor: Debtor, key: [UInt8]) -> [DueEntry] {
        let entry: DueEntry = (bytes(of: debtor, key: key), note(of: debtor))
        guard let retry = retry(of: debtor, key: key) else {
            return [entry]
        }
        return [entry, (retry, [])]
    }

    /// Of an entry with the key of a token, most of which are UUIDs.
    private static let byteCount = 64

    /// Where a region begins.
    static func start(_ region: Region) -> [UInt8] {
        [region.rawValue]
    }

    static func start(_ region: Region, at time: Timestamp) -> [UInt8] {
        var bytes = start(region)
        bytes.reserveCapacity(byteCount)
        BigEndian.append(time.milliseconds, to: &bytes)
        return bytes
    }

    /// Where a queue's part of the ready or the retried region begins.
    static func start(_ region: Region, _ queue: SendQueue) -> [UInt8] {
        var bytes = [
            region.rawValue, queue.endpoint.rawValue,
            queue.lane.environment == .sandbox ? 1 : 0,
        ]
        bytes.reserveCapacity(byteCount)
        BigEndian.append(queue.lane.appAppleID, to: &bytes)
        return bytes
    }

    static func start(_ region: Region, _ queue: SendQueue, at deadline: Timestamp) -> [UInt8] {
        var bytes = start(region, queue)
        BigEndian.append(deadline.milliseconds, to: &bytes)
        return bytes
    }

    /// The time of an entry that is ordered by it, and the key of its state.
    static func timed(_ entry: [UInt8]) -> (time: Timestamp, key: [UInt8])? {
        time(entry).map { ($0, Array(entry[9...])) }
    }

    /// The time alone.
    static func time(_ entry: [UInt8]) -> Timestamp? {
        entry.count > 9 ? Timestamp(milliseconds: BigEndian.number(entry, at: 1)) : nil
    }

    /// The queue and deadline of an entry of the ready or the retried region.
    static func queued(_ entry: [UInt8]) -> (queue: SendQueue, deadline: Timestamp)? {
        guard entry.count > 19,
            entry[0] == Region.ready.rawValue || entry[0] == Region.retried.rawValue,
            let endpoint = SendQueue.Endpoint(rawValue: entry[1])
        else {
            return nil
        }
        let lane = Lane(
            appAppleID: BigEndian.number(entry, at: 3),
            environment: entry[2] == 1 ? .sandbox : .production
        )
        return (
            SendQueue(endpoint: endpoint, lane: lane),
            Timestamp(milliseconds: BigEndian.number(entry, at: 11))
        )
    }

    /// Likewise, and the key of its state, of the ready region only: what may be sent.
    static func ready(_ entry: [UInt8]) -> (queue: SendQueue, deadline: Timestamp, key: [UInt8])? {
        guard entry.first == Region.ready.rawValue, let (queue, deadline) = queued(entry) else {
            return nil
        }
        return (queue, deadline, Array(entry[19...]))
    }

    private static let sandboxBit: UInt8 = 1
    private static let retryBit: UInt8 = 2
    private static let overdueBit: UInt8 = 4

    /// The value of an entry: whether it waits to be tried again or is an overdue duplicate, and
    /// the lane of a token that is held; nothing where none is so.
    static func note(of debtor: Debtor) -> [UInt8] {
        var bits = debtor.retry == nil ? 0 : retryBit
        guard case .token(let account) = debtor else {
            return bits == 0 ? [] : [bits]
        }
        if account.isDuplicateOverdue {
            bits |= overdueBit
        }
        guard account.isHeld, let lane = account.lane else {
            return bits == 0 ? [] : [bits]
        }
        if lane.environment == .sandbox {
            bits |= sandboxBit
        }
        return [bits] + BigEndian.bytes(lane.appAppleID)
    }

    static func isRetry(note: [UInt8]) -> Bool {
        note.first.map { $0 & retryBit != 0 } ?? false
    }

    /// Whether its time moves with a clock that is set back.
    static func isMovable(note: [UInt8]) -> Bool {
        note.first.map { $0 & (retryBit | overdueBit) != 0 } ?? false
    }

    static func heldLane(note: [UInt8]) -> Lane? {
        guard note.count == 9 else {
            return nil
        }
        return Lane(
            appAppleID: BigEndian.number(note, at: 1),
            environment: note[0] & sandboxBit != 0 ? .sandbox : .production
        )
    }

    /// The smallest key that is greater than every key with this prefix.
    static func after(_ prefix: [UInt8]) -> [UInt8] {
        var next = prefix
        while let last = next.popLast() {
            if last < 0xff {
                return next + [last + 1]
            }
        }
        return [0xff]
    }
}
