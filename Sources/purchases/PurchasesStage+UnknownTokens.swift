internal import Kafka
internal import StageRuntime
internal import StateStore
internal import TokenDomain
internal import TokenWire

/// Tokens that Apple does not know, and those that it knows after all.
extension PurchasesStage {
    func takeRefusal(
        _ record: RecordBatch.Record,
        _ value: Span<UInt8>,
        _ key: PurchaseKey,
        _ book: inout Book
    ) throws(StoreFault) -> Verdict {
        let refused: TokenRefused
        do throws(WireFault) {
            refused = try TokenRefused(reading: value)
        } catch {
            return .deadLetter(Self.badRecord(error.message))
        }
        let place = BookPlace(
            partition: record.partition,
            key: .token(refused.externalPurchaseID, of: key)
        )
        if let withdrawnAt = refused.withdrawnAt {
            return try reinstate(place, at: withdrawnAt, &book)
                ? .settled("token_known") : .settled("repeat")
        }
        return try refuse(place, at: refused.refusedAt, &book)
            ? .settled("token_refused") : .settled("repeat")
    }

    /// Apple knows a token after all: it carries sales again, and may be what some wait for.
    ///
    /// - Returns: whether it changes what is known of the token.
    private func reinstate(
        _ place: BookPlace,
        at time: Timestamp,
        _ book: inout Book
    ) throws(StoreFault) -> Bool {
        guard var token = try book.token(place), token.knownAt.map({ $0 < time }) ?? true else {
            return false
        }
        let wasRefused = token.isRefused
        token.isRefused = false
        token.knownAt = time
        book.forgetPrimaries(of: place.at(place.key.customer))
        token.touchedAt = max(token.touchedAt, time)
        try book.wake(token, at: place)
        book.put(token, at: place)
        return wasRefused
    }

    /// Apple does not know a token: the next one of its period is the primary now.
    ///
    /// - Returns: whether it changes what is known of the token.
    func refuse(
        _ place: BookPlace,
        at time: Timestamp,
        _ book: inout Book
    ) throws(StoreFault) -> Bool {
        var token = try book.token(place) ?? BookedToken(touchedAt: time)
        // Answers and refusals are read in any order.
        guard !token.isRefused, token.knownAt.map({ $0 < time }) ?? true else {
            return false
        }
        token.isRefused = true
        book.forgetPrimaries(of: place.at(place.key.customer))
        try book.wake(token, at: place)
        // What stands in its queue must find another one.
        let traffic = try book.traffic(of: place)
        if traffic.hasQueue, traffic.inFlight.isEmpty {
            ready.insert(place)
        }
        token.touchedAt = max(token.touchedAt, time)
        book.put(token, at: place)
        return true
    }
}
