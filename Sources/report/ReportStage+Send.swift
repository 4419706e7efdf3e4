internal import AppStoreAPI
internal import StageRuntime
internal import StateStore
internal import TokenDomain

extension ReportStage {
    /// Gives every lane its turns.
    func send(now: Timestamp) throws(StoreFault) {
        for queue in queues {
            while let debt = try nextDebt(queue, now: now) {
                guard lanes[queue]?.pace.take(now: now) == true else {
                    lanes[queue]?.putBack(debt)
                    break
                }
                if try !start(debt, queue, now: now) {
                    continue
                }
            }
        }
    }

    /// The most urgent debt of a queue that may send now.
    private func nextDebt(_ queue: SendQueue, now: Timestamp) throws(StoreFault) -> ReadyDebt? {
        while let lane = lanes[queue] {
            guard let turn = nextTurn(of: lane, queue, now: now), turn <= now else {
                return nil
            }
            if lane.needsRefill {
                try refill(queue)
            }
            guard let debt = lanes[queue]?.popMostUrgent() else {
                return nil
            }
            // What is under way or staged comes back after its commit.
            if !busy.contains(debt.place), !isStaged(debt.place) {
                return debt
            }
        }
        return nil
    }

    /// Reads the most urgent debts of a queue from the committed store, some of each partition.
    private func refill(_ queue: SendQueue) throws(StoreFault) {
        guard let state else {
            return
        }
        var debts: [ReadyDebt] = []
        var isWhole = true
        let prefix = DueKey.start(.ready, queue)
        for partition in partitions {
            var count = 0
            try state.scan(.due, partition: partition, from: prefix, within: prefix) { entry, _ in
                guard let (found, deadline, key) = DueKey.ready(entry), found == queue else {
                    return false
                }
                let place = AccountPlace(key: key, partition: partition)
                if !busy.contains(place), !isStaged(place) {
                    debts.append(ReadyDebt(place: place, deadline: deadline))
                    count += 1
                }
                isWhole = isWhole && count < limits.readyCountMax
                return count < limits.readyCountMax
            }
        }
        lanes[queue]?.refill(debts, isWhole: isWhole)
    }

    /// Sends the next request for a debt.
    ///
    /// - Returns: false where nothing was left to send.
    private func start(
        _ debt: ReadyDebt,
        _ queue: SendQueue,
        now: Timestamp
    ) throws(StoreFault) -> Bool {
        guard let state,
            let value = try state.values([debt.place.key], partition: debt.place.partition)[0]
        else {
            return false
        }
        let debtor = Debtor(value, key: debt.place.key)
        guard debtor.queue == queue, let (errand, action) = nextRequest(of: debtor) else {
            return false
        }
        let isKeyProbe = keyGates[queue.lane]?.isProbe == true
        let isEndpointProbe = lanes[queue]?.gate.isProbe == true
        if isKeyProbe || isEndpointProbe {
            apple.reloadKey(appAppleID: queue.lane.appAppleID)
        }
        keyGates[queue.lane, default: LaneGate()].started(now: now)
        lanes[queue]?.gate.started(now: now)
        countFlight(queue, 1)
        lanes[queue]?.startedCount += 1
        busy.insert(debt.place)
        let tag = nextTag
        nextTag += 1
        flights[tag] = Flight(
            place: debt.place,
            queue: queue,
            errand: errand,
            method: action.method,
            sentAt: now,
            isKeyProbe: isKeyProbe,
            isEndpointProbe: isEndpointProbe
        )
        apple.submit(
            AppleRequest(tag: tag, lane: queue.lane, action: action, trace: debtor.trace),
            now: now
        )
        return true
    }

    private func nextRequest(of debtor: Debtor) -> (Errand, AppleRequest.Action)? {
        switch debtor {
        case .token(let account):
            guard let intent = account.current, let request = account.nextRequest else {
                return nil
            }
            let body = Self.body(of: intent, of: account.externalPurchaseID)
            let errand = Errand.report(
                number: intent.number,
                requestCount: intent.requestCount,
                request,
                of: SentReport(
                    identifier: intent.identifier,
                    newestDate: body.newestCreationDate,
                    lineItemCount: body.lineItemCount
                )
            )
            switch request {
            case .send:
                return (errand, .sendReport(body))
            case .retrieve, .search:
                let identifier = account.searchedIdentifier(policy: policy) ?? intent.identifier
                return (errand, .retrieveReport(requestIdentifier: identifier, sent: body))
            }
        case .transaction(let debt):
            return debt.current.map { wish in
                (
                    .accountToken(wish.appAccountToken, attempts: debt.attempts),
                    .setAccountToken(
                        wish.appAccountToken,
                        originalTransactionID: debt.originalTransactionID
                    )
                )
            }
        }
    }

    private static func body(of intent: ReportIntent, of id: TokenID) -> ReportRequestBody {
        guard let lineItems = intent.lineItems else {
            return ReportRequestBody(
                requestIdentifier: intent.identifier,
                externalPurchaseID: id,
                status: intent.status
            )
        }
        do throws(ReportRequestFault) {
            return try ReportRequestBody(
                requestIdentifier: intent.identifier,
                externalPurchaseID: id,
                lineItems: lineItems
            )
        } catch {
            preconditionFailure("line items are checked when they are absorbed: \(error.message)")
        }
    }
}
