internal import Glibc
internal import Kafka
internal import Telemetry
internal import TokenDomain

/// What the loop's thread waits for between two turns.
extension WorkerRun {
    /// Waits until the loop has something to do, or for a signal.
    func waitForWork(
        _ loop: WorkerLoop,
        _ recordLog: KafkaLog,
        _ stage: (any TickingStage)?
    ) -> ProcessSignals.Event? {
        let ticking = loop.isTicking ? stage : nil
        var entries = entries([recordLog.wakeDescriptor, ticking?.wakeDescriptor ?? -1])
        var event = wait(&entries, milliseconds: idleMilliseconds(loop, ticking))
        if entries[1].revents != 0 {
            recordLog.forgetWakes()
        }
        // What came back for the stage may wait for more of it, but not beyond the next tick.
        if event == nil, let ticking, entries[1].revents == 0, entries[2].revents != 0 {
            let now = WallClock.nowMilliseconds()
            let rest = ticking.restsUntil(now: Timestamp(milliseconds: now)).milliseconds - now
            if rest > 0 {
                entries[2].fd = -1
                let idle = idleMilliseconds(loop, ticking)
                event = wait(&entries, milliseconds: min(Int(clamping: rest), idle))
            }
        }
        return event
    }

    /// Has the stage read its files again where that was asked for.
    ///
    /// - Returns: whether the worker was told to stop.
    func heed(_ event: ProcessSignals.Event?, _ stage: any Stage) -> Bool {
        if event == .reload {
            let fault = (stage as? any ReloadingStage)?.reload()
            health.setCondition("settings", fault?.sentence)
        }
        return event?.isStop == true
    }

    /// Rests for so long, whatever else is asked of it.
    ///
    /// - Returns: whether the worker was told to stop before.
    func waitForStop(milliseconds: Int) -> Bool {
        let end = ContinuousClock.now + .milliseconds(milliseconds)
        var left = milliseconds
        while left > 0 {
            if wait(milliseconds: left)?.isStop == true {
                return true
            }
            left = Int((end - ContinuousClock.now) / .milliseconds(1))
        }
        return false
    }

    /// Waits for a signal, or the time.
    func wait(milliseconds: Int) -> ProcessSignals.Event? {
        var entries = entries([])
        return wait(&entries, milliseconds: milliseconds)
    }

    /// The first is the signals'.
    private func entries(_ descriptors: [Int32]) -> [pollfd] {
        ([signals.descriptor] + descriptors).map {
            pollfd(fd: $0, events: Int16(POLLIN), revents: 0)
        }
    }

    private func wait(
        _ entries: inout [pollfd],
        milliseconds: Int
    ) -> ProcessSignals.Event? {
        _ = unsafe poll(&entries, nfds_t(entries.count), Int32(clamping: milliseconds))
        return entries[0].revents != 0 ? signals.take() : nil
    }

    private func idleMilliseconds(_ loop: WorkerLoop, _ ticking: (any TickingStage)?) -> Int {
        // A tick that is due while a transaction waits to be repeated could not be committed.
        guard let due = loop.nextAttempt ?? ticking?.nextTick else {
            return Self.idleWaitMilliseconds
        }
        let wait = due.milliseconds - WallClock.nowMilliseconds()
        return min(max(Int(clamping: wait), 0), Self.idleWaitMilliseconds)
    }
}
