internal import CKafka
internal import Glibc
internal import Synchronization

/// The life of the producer, for the thread of a ``Committer``: made, its name taken over, thrown away,
/// and when there were too many of them.
extension Committer {
    /// Between two rebuilds that a lost connection asks for.
    private static let calm = Duration.seconds(1)
    /// A heartbeat interval and some.
    private static let fenceVerdict = Duration.seconds(4)
    private static let rebuildPauseMilliseconds: Int32 = 1_000
    private static let rebuildCountMax = 10
    private static let rebuildWindow = Duration.seconds(300)
    /// Producers that may hang in their end at one time.
    private static let retiringCountMax = 8
    private static let retiringWait = Duration.seconds(20)

    /// Whether the group says that a newer instance has our name.
    ///
    /// A producer's error is "fenced" where a newer instance has its name, but also after its transaction
    /// timed out. The group knows: the older of two static members learns it with its next heartbeat.
    /// Waiting for that keeps two instances from fencing each other in turn.
    func isFencedForGood() -> Bool {
        let end = ContinuousClock.now + Self.fenceVerdict
        while ContinuousClock.now < end, !isClosing {
            var fault = ckafka_fault()
            if unsafe ckafka_worker_check_fatal(worker, &fault) != 0 {
                giveUp(inquiries.settled(fault))
                return true
            }
            _ = poll(nil, 0, Self.retryMilliseconds)
        }
        return false
    }

    func wantsRebuild() -> Bool {
        guard state.withLock({ $0.isReady }), unsafe ckafka_transaction_is_worn(core) == 0 else {
            return true
        }
        // After a lost connection the coordinator may have been lost, and the next transaction would hang;
        // a producer that is idle now has the time. Connections that come and go do not count as failures,
        // but each costs a producer: no more than one a second, beside those lost in a commit.
        return unsafe ckafka_transaction_lost_connection(core) != 0
            && ContinuousClock.now - madeAt > Self.calm
    }

    /// Makes one that can take a transaction; false when closing or given up.
    func makeReady() -> Bool {
        while !isClosing, !hasGivenUp {
            guard hasRoomToRetire() else {
                return false
            }
            state.withLock { $0.isReady = false }
            madeAt = .now
            do throws(LogFault) {
                try LogFault.check { fault in unsafe ckafka_transaction_open(core, &fault) }
            } catch {
                giveUp(error)
                return false
            }
            state.withLock { $0.producerCount += 1 }
            guard takeNameOver() else {
                continue
            }
            switch step(unsafe ckafka_transaction_warm_up(core)) {
            case .fine: refusedSince = isOnlyStartRefused ? nil : refusedSince
            case .abort: noteRefusal(isOfStart: true)
            case .rebuild: return false
            }
            state.withLock { $0.isReady = true }
            tell()
            return true
        }
        return false
    }

    /// Every rebuild leaves a producer and a thread behind that end in their own time, and in 2.0.2
    /// perhaps never.
    private func hasRoomToRetire() -> Bool {
        let end = ContinuousClock.now + Self.retiringWait
        while unsafe ckafka_transaction_retiring_count(core) >= UInt32(Self.retiringCountMax) {
            guard !isClosing else {
                return false
            }
            guard ContinuousClock.now < end else {
                giveUp(.unusable(message: "\(Self.retiringCountMax) producers hang in their end"))
                return false
            }
            _ = poll(nil, 0, Self.retryMilliseconds)
        }
        return true
    }

    /// Whether the name is ours now; else the producer is of no use, and another may be.
    private func takeNameOver() -> Bool {
        guard setup.isTransactional,
            during(.naming, { step(unsafe ckafka_transaction_init(core)) }) != .fine
        else {
            return true
        }
        guard !isClosing else {
            return false
        }
        switch Int(failure.kind) {
        // The right was there before: a coordinator that has just started may not know it yet.
        case CKAFKA_FAULT_MISCONFIGURED where isRefusal && producerCount > 1:
            noteRefusal(isOfStart: true)
            _ = poll(nil, 0, Self.rebuildPauseMilliseconds)
        case CKAFKA_FAULT_MISCONFIGURED: giveUp(LogFault(failure))
        case CKAFKA_FAULT_FENCED where isFencedForGood(): break
        default:
            if countRebuild() {
                _ = poll(nil, 0, Self.rebuildPauseMilliseconds)
            }
        }
        return false
    }

    /// Whether one more rebuild is within reason.
    func countRebuild() -> Bool {
        let now = ContinuousClock.now
        rebuilds.removeAll { now - $0 > Self.rebuildWindow }
        rebuilds.append(now)
        guard rebuilds.count > Self.rebuildCountMax else {
            return true
        }
        giveUp(
            .unusable(
                message: "more than \(Self.rebuildCountMax) producers failed within 5 minutes"
            )
        )
        return false
    }
}
