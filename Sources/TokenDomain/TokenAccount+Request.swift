extension TokenAccount {
    /// Identifiers of ours beyond the last number that a request may name: a replay may know more
    /// than a state that was lost.
    static let numberLookAheadMax = 16

    /// Absorbs a record of `reports.requested.v1`: a report asked for by hand, or a replay.
    ///
    /// The time is the record's own, for what has no date of its own; the history is that of the
    /// dead letter whose replay it is.
    package mutating func absorb(
        _ request: ReportRequested,
        origin: RecordOrigin,
        time: Timestamp,
        history: ReplayHistory? = nil,
        policy: ReportPolicy
    ) -> Absorption {
        if let lastRequestOffset, origin.offset <= lastRequestOffset {
            return .repeated
        }
        if let fault = fault(of: request) {
            return .refused(fault)
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
        let number = intentCount + 1
        return enqueue(
            intent(
                of: request,
                number: number,
                identifier: policy.requestIdentifier(externalPurchaseID, number),
                origin: origin,
                time: time,
                history: history
            ),
            request,
            time: time
        )
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
        let held = ([current].compactMap { $0 } + queued).first { $0.identifier == identifier }
        if let held {
            guard held.status == request.status, held.lineItems == request.lineItems else {
                return .refused(statusChanged)
            }
            lastRequestOffset = origin.offset
            return .underWay
        }
        if let index = parked.firstIndex(where: { $0.identifier == identifier }) {
            return resume(index, request, origin: origin, time: time, history: history)
        }
        let known = 1...intentCount + Self.numberLookAheadMax
        let number = known.first { policy.requestIdentifier(externalPurchaseID, $0) == identifier }
        if let settled = accepted.first(where: {
            $0.identifier == identifier || ($0.identifier == nil && $0.number == number)
        }) {
            guard settled.says(request) else {
                return .conflict(heldOtherwise)
            }
            lastRequestOffset = origin.offset
            return .alreadyReported
        }
        if let number, number <= intentCount {
            guard request.status != .lineItem || hasForgotten(number) else {
                return .refused(statusChanged)
            }
            lastRequestOffset = origin.offset
            return .alreadyReported
        }
        return enqueue(
            intent(
                of: request,
                number: number ?? intentCount + 1,
                identifier: identifier,
                origin: origin,
                time: time,
                history: history
            ),
            request,
            time: time
        )
    }

    /// Whether the report of a number may have been one with line items that gave way to others.
    private func hasForgotten(_ number: Int) -> Bool {
        lastAccepted == .lineItem && accepted.count >= Self.acceptedCountMax
            && accepted.allSatisfy { number < $0.number }
    }

    /// Takes a refused intent up again.
    ///
    /// Apple kept nothing of it, so a new body may go under the same identifier; another status may
    /// not.
    private mutating func resume(
        _ index: Int,
        _ request: ReportRequested,
        origin: RecordOrigin,
        time: Timestamp,
        history: ReplayHistory?
    ) -> Absorption {
        var intent = parked[index]
        guard intent.status == request.status else {
            return .refused(statusChanged)
        }
        intent.lineItems = request.lineItems
        intent.phase = .planned
        intent.takenSince = nil
        intent.nextAttemptAt = nil
        intent.keep([])
        intent.history = history
        let absorption = enqueue(intent, request, time: time)
        if absorption == .owed {
            parked.remove(at: index)
            lastRequestOffset = origin.offset
        }
        return absorption
    }

    private mutating func enqueue(
        _ intent: ReportIntent,
        _ request: ReportRequested,
        time: Timestamp
    ) -> Absorption {
        guard NextStatus.mayFollow(lastAccepted: lastAccepted, requested: request.status) else {
            return .refused(statusOrder(request.status))
        }
        guard queued.count < Self.queueCountMax else {
            return .refused(
                fault("queue_full", "\(Self.queueCountMax) reports already wait for this token")
            )
        }
        let held = [current].compactMap { $0 } + queued
        let byteCount = held.reduce(intent.lineItemByteCount) { $0 + $1.lineItemByteCount }
        guard byteCount <= Self.lineItemByteCountMax else {
            return .refused(
                fault(
                    "queue_full",
                    "the line items held for this token would be \(byteCount) bytes, more than"
                        + " \(Self.lineItemByteCountMax)"
                )
            )
        }
        appAppleID = appAppleID ?? request.appAppleID
        bundleID = bundleID ?? request.bundleID
        intentCount = max(intentCount, intent.number)
        lastRequestOffset = max(lastRequestOffset ?? intent.origin.offset, intent.origin.offset)
        touch(time)
        queued.append(intent)
        return .owed
    }

    private func intent(
        of request: ReportRequested,
        number: Int,
        identifier: String,
        origin: RecordOrigin,
        time: Timestamp,
        history: ReplayHistory?
    ) -> ReportIntent {
        ReportIntent(
            number: number,
            identifier: identifier,
            status: request.status,
            lineItems: request.lineItems,
            reason: .request,
            origin: origin,
            // Who asks by hand wants it now.
            deadline: time,
            history: history
        )
    }

    // MARK: Faults of the record

    private func fault(of request: ReportRequested) -> Fault? {
        guard appAppleID == nil || appAppleID == request.appAppleID else {
            return fault("app_mismatch", "the token belongs to another app")
        }
        guard (request.lineItems != nil) == (request.status == .lineItem) else {
            return fault("line_items", "line items go with LINE_ITEM and with nothing else")
        }
        guard request.status != .duplicateToken || tokenType?.hasDuplicates ?? true
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

    private var statusChanged: Fault {
        fault(
            "status_changed",
            "another status or other line items are another report: leave out requestIdentifier"
        )
    }

    private var heldOtherwise: Fault {
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
