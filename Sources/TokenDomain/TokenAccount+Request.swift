extension TokenAccount {
    /// Identifiers of ours beyond the last number that a request may name: a replay may know more
    /// than a state that was lost.
    static let numberLookAheadMax = 16

    /// Absorbs a record of `reports.requested.v1`: a report asked for by hand, or a replay.
    ///
    /// The time is the record's own, nil where it has none; the history is that of the dead letter
    /// whose replay it is. The parts are the line items of each report that it becomes, in order: one
    /// where one report takes them, without the blanks between them if it does not take those too.
    package mutating func absorb(
        _ request: ReportRequested,
        parts: [String] = [],
        origin: RecordOrigin,
        time: Timestamp?,
        now: Timestamp,
        history: ReplayHistory? = nil,
        policy: ReportPolicy
    ) -> Absorption {
        if isRepeat(origin, time: time) {
            return .repeated
        }
        // What is under way is answered when it ends, whatever was learnt of the token since.
        if !isUnderWay(request, parts), let fault = fault(of: request, partCount: parts.count) {
            return .refused(fault)
        }
        let known = lastRequestAt ?? lastRequestOffset.map { _ in touchedAt }
        let absorption = take(
            request,
            parts: parts,
            origin: origin,
            time: time ?? now,
            history: history,
            policy: policy
        )
        if absorption.fault == nil {
            lastRequestOffset = origin.offset
            lastRequestAt = .later(of: known, time)
        }
        return absorption
    }

    /// Whether a record was absorbed before: under at-least-once one may come twice.
    ///
    /// Its offset alone does not say so: offsets begin anew where the topic was made anew. What is
    /// younger than all that was absorbed is none. Where an earlier version absorbed that, the account
    /// has the time of none of those records, and none is younger than the account.
    private func isRepeat(_ origin: RecordOrigin, time: Timestamp?) -> Bool {
        guard let lastRequestOffset, origin.offset <= lastRequestOffset else {
            return false
        }
        guard let time else {
            return true
        }
        return time <= lastRequestAt ?? touchedAt
    }

    private mutating func take(
        _ request: ReportRequested,
        parts: [String],
        origin: RecordOrigin,
        time: Timestamp,
        history: ReplayHistory?,
        policy: ReportPolicy
    ) -> Absorption {
        var request = request
        if parts.count == 1 {
            request.lineItems = parts[0]
        }
        if isUnderWay(request, parts) {
            return .underWay
        }
        if let identifier = request.requestIdentifier?.lowercased() {
            return absorb(
                request,
                under: identifier,
                origin: origin,
                time: time,
                history: history,
                policy: policy
            )
        }
        for index in 0..<max(parts.count, 1) {
            var part = request
            part.lineItems = parts.isEmpty ? request.lineItems : parts[index]
            let number = intentCount + 1
            let absorption = enqueue(
                intent(
                    of: part,
                    number: number,
                    identifier: policy.requestIdentifier(externalPurchaseID, number),
                    origin: origin,
                    time: time,
                    history: history,
                    policy: policy
                ),
                part,
                time: time,
                policy: policy
            )
            guard absorption == .owed else {
                return absorption
            }
        }
        return .owed
    }

    // MARK: Under a given identifier

    mutating func absorb(
        _ request: ReportRequested,
        under identifier: String,
        origin: RecordOrigin,
        time: Timestamp,
        history: ReplayHistory? = nil,
        policy: ReportPolicy
    ) -> Absorption {
        if let current, current.identifier == identifier {
            guard current.says(request.status, request.lineItems, policy) else {
                return .refused(statusChanged)
            }
            return .underWay
        }
        if case .parked(let index)? = known(identifier, number: nil) {
            return resume(index, request, time: time, history: history, policy: policy)
        }
        let numbers = 1...intentCount + Self.numberLookAheadMax
        let number = numbers.first {
            policy.requestIdentifier(externalPurchaseID, $0) == identifier
        }
        var asked = intent(
            of: request,
            number: number ?? intentCount + 1,
            identifier: identifier,
            origin: origin,
            time: time,
            history: history,
            policy: policy
        )
        let known = known(identifier, number: number)
        let isGiven = number.map { $0 <= intentCount } ?? false
        if isGiven, known == nil, !line.isEmpty {
            // It may be one of those in line, whose records were not read.
            asked.isRepeat = true
            let absorption = enqueue(asked, request, time: time, policy: policy)
            return absorption == .owed ? .underWay : absorption
        }
        asked.isRepeat = isGiven
        switch ending(of: asked, known, policy) {
        case .alreadyReported:
            return .alreadyReported
        case .refused(let fault):
            return fault.code == heldOtherwise.code ? .conflict(fault) : .refused(fault)
        case nil:
            return enqueue(asked, request, time: time, policy: policy)
        }
    }

    /// Takes a refused intent up again; where it is outdated, the token's own is owed instead.
    ///
    /// Apple kept nothing of what it refused, so a new body may go under the same identifier; another
    /// status may not, nor another body where Apple calls that identifier taken.
    private mutating func resume(
        _ index: Int,
        _ request: ReportRequested,
        time: Timestamp,
        history: ReplayHistory?,
        policy: ReportPolicy
    ) -> Absorption {
        if let fault = refusal(of: parked[index], request.status, request.lineItems, policy) {
            return .refused(fault)
        }
        guard !isOutdated(parked[index]) else {
            oweInstead(of: parked.remove(at: index), at: time)
            touch(time)
            return .alreadyReported
        }
        let intent = parked[index].resumed(lineItems: request.lineItems, history: history)
        let absorption = enqueue(intent, request, time: time, policy: policy)
        if absorption == .owed {
            parked.remove(at: index)
        }
        return absorption
    }

    /// Makes it the report under way, or lets it wait in line: it becomes due, however many wait.
    private mutating func enqueue(
        _ intent: ReportIntent,
        _ request: ReportRequested,
        time: Timestamp,
        policy: ReportPolicy
    ) -> Absorption {
        guard NextStatus.mayFollow(lastAccepted: lastAccepted, requested: request.status) else {
            return .refused(statusOrder(request.status))
        }
        if appAppleID != request.appAppleID {
            appAppleID = request.appAppleID
            bundleID = request.bundleID
        }
        bundleID = bundleID ?? request.bundleID
        tokenCreationDate = tokenCreationDate ?? request.tokenCreationDate
        tokenExpirationDate = tokenExpirationDate ?? request.tokenExpirationDate
        intentCount = max(intentCount, intent.number)
        touch(time)
        if isBusy || holder(of: intent, policy) != nil {
            line.append(intent)
            bringForward(to: intent)
        } else {
            current = intent
        }
        return .owed
    }

    /// What is under way goes before what waits behind it: it is as urgent.
    ///
    /// Two kinds have the month that they are for in their deadline; it is near.
    private mutating func bringForward(to intent: ReportIntent) {
        guard let current, intent.purchaseKey != nil, current.reason != .month,
            current.reason != .reminder
        else {
            return
        }
        self.current?.deadline = min(current.deadline, intent.deadline)
    }

    /// The answer to a request that carries sales and becomes no report; nil for any other.
    ///
    /// Its identifier is that of number 0, which no report has: the next number would be the next
    /// report's, and that one may be accepted.
    package func answer(
        to request: ReportRequested,
        _ fault: Fault,
        policy: ReportPolicy
    ) -> PurchaseAnswer? {
        request.purchaseKey.map { purchaseKey in
            PurchaseAnswer(
                purchaseKey: purchaseKey,
                requestIdentifier: request.requestIdentifier
                    ?? policy.requestIdentifier(externalPurchaseID, 0),
                lineItems: request.lineItems,
                outcome: .rejected,
                errors: [],
                reason: fault.code,
                verified: [],
                primary: primary(after: fault),
                askedAt: request.askedAt
            )
        }
    }

    /// Why no sale is reported under a duplicate that Apple has no other report of: its primary carries
    /// them.
    ///
    /// What was reported under it before it was known for one stands.
    var duplicateFault: Fault? {
        guard dueEvent == .duplicateDue, lastAccepted == nil || lastAccepted == .duplicateToken
        else {
            return nil
        }
        return fault(Self.isDuplicate, "sales go with the primary token of the period")
    }

    private static let isDuplicate = "is_duplicate"

    func primary(after fault: Fault) -> TokenID? {
        guard fault.code == "report.\(Self.isDuplicate)", case .duplicate(let primary) = role else {
            return nil
        }
        return primary
    }

    private func intent(
        of request: ReportRequested,
        number: Int,
        identifier: String,
        origin: RecordOrigin,
        time: Timestamp,
        history: ReplayHistory?,
        policy: ReportPolicy
    ) -> ReportIntent {
        var intent = ReportIntent(
            number: number,
            identifier: identifier,
            status: request.status,
            lineItems: request.lineItems,
            reason: .request,
            origin: origin,
            deadline: deadline(of: request, time: time, policy: policy),
            history: history
        )
        intent.purchaseKey = request.purchaseKey
        intent.askedAt = request.askedAt
        return intent
    }

    /// Whoever asks by hand wants it now.
    ///
    /// Sales have the time that Apple gives them, and the token's: were they all wanted now, a debt
    /// with an hour left would wait behind every sale of the month.
    private func deadline(
        of request: ReportRequested,
        time: Timestamp,
        policy: ReportPolicy
    ) -> Timestamp {
        guard request.purchaseKey != nil, let asked = request.deadline else {
            return time
        }
        // A token that Apple has a report of has met its own.
        guard lastAccepted == nil,
            let own = policy.deadline(
                creation: tokenCreationDate ?? request.tokenCreationDate,
                expiration: tokenExpirationDate ?? request.tokenExpirationDate
            )
        else {
            return asked
        }
        return min(asked, own)
    }

    // MARK: Faults of the record

    private func fault(of request: ReportRequested, partCount: Int) -> Fault? {
        // By hand: a sale's token is its customer's word.
        let mayChange = mayBeOfAnotherApp && request.purchaseKey == nil
        guard appAppleID == nil || appAppleID == request.appAppleID || mayChange else {
            return fault("app_mismatch", "the token belongs to another app")
        }
        guard (request.lineItems != nil) == (request.status == .lineItem) else {
            return fault("line_items", "line items go with LINE_ITEM and with nothing else")
        }
        guard partCount <= 1 || request.requestIdentifier == nil && request.purchaseKey == nil
        else {
            return fault(
                "line_items",
                "more line items than one report takes: leave out requestIdentifier"
            )
        }
        if request.purchaseKey != nil, let fault = duplicateFault {
            return fault
        }
        // A token that came in without a type has none; of any other the type may not be known.
        guard request.status != .duplicateToken || tokenType?.hasDuplicates ?? !isKnown
        else {
            return fault(
                "duplicate_not_allowed",
                "DUPLICATE_TOKEN is for \(KnownTokenType.namesWithDuplicates)"
            )
        }
        guard request.requestIdentifier.map(Self.isUUID) ?? true else {
            return fault("bad_identifier", "requestIdentifier is not a UUID")
        }
        return nil
    }

    func statusOrder(_ status: ReportStatus) -> Fault {
        fault(
            "status_order",
            "\(status.rawValue) may not follow \(lastAccepted?.rawValue ?? "nothing")"
        )
    }

    var statusChanged: Fault {
        fault(
            "status_changed",
            "another status or other line items are another report: leave out requestIdentifier"
        )
    }

    /// Why what ended may not be taken up again with such a body; nil where it may.
    func refusal(
        of ended: ReportIntent,
        _ status: ReportStatus,
        _ lineItems: String?,
        _ policy: ReportPolicy
    ) -> Fault? {
        guard ended.status == status else {
            return statusChanged
        }
        guard let frozen = ended.frozenHash, frozen != policy.hash(of: lineItems) else {
            return nil
        }
        return fault(
            "status_changed",
            "Apple may hold the line items that went first under this identifier: send those, or"
                + " ask Apple before others go under another one"
        )
    }

    var heldOtherwise: Fault {
        fault(
            Rejection.conflict.rawValue,
            "Apple has accepted another report under this identifier: leave out requestIdentifier"
        )
    }

    private func fault(_ reason: String, _ message: String) -> Fault {
        Fault(code: "report.\(reason)", message: message, externalPurchaseID: externalPurchaseID)
    }

    /// 8-4-4-4-12 hexadecimal digits.
    package static func isUUID(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else {
            return false
        }
        return bytes.enumerated().allSatisfy { index, byte in
            switch index {
            case 8, 13, 18, 23:
                byte == UInt8(ascii: "-")
            default:
                switch byte {
                case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
                    UInt8(ascii: "A")...UInt8(ascii: "F"):
                    true
                default:
                    false
                }
            }
        }
    }
}
