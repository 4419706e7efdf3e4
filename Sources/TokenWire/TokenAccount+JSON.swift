package import TokenDomain

/// The value of `report.state.v1` under an externalPurchaseId. Fields that are absent, empty or zero
/// are not written.
extension TokenAccount: WireMessage {
    package static let blank = TokenAccount(externalPurchaseID: .blank, touchedAt: .blank)

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("externalPurchaseId", &externalPurchaseID)
        coder.member("touchedAt", &touchedAt)
        coder.member("appAppleId", &appAppleID)
        coder.member("bundleId", &bundleID)
        coder.member("tokenType", &tokenType)
        coder.member("tokenCreationDate", &tokenCreationDate)
        coder.member("tokenExpirationDate", &tokenExpirationDate)
        coder.role(&role, atMost: nil)
        coder.member("customer", &customer)
        coder.member("ownerConflictCount", &ownerConflictCount, default: 0)
        coder.member("otherCustomers", &otherCustomers, default: [])
        coder.member("refusedAt", &refusedAt)
        coder.member("lastAccepted", &lastAccepted)
        coder.member("lastAcceptedAt", &lastAcceptedAt)
        coder.member("intentCount", &intentCount, default: 0)
        coder.member("current", &current)
        coder.member("line", &line, default: RequestLine())
        // As they lay in the account before each had a record of its own: read, and not written.
        var queued: [ReportIntent] = []
        coder.member("queued", &queued, default: [])
        if !queued.isEmpty {
            line = RequestLine(inAccount: queued)
        }
        coder.member("parked", &parked, default: [])
        coder.member("debt", &debt)
        coder.member("waitingNotice", &waitingNotice)
        coder.member("waitingReminder", &waitingReminder)
        coder.member("notices", &notices, default: [])
        coder.member("accepted", &accepted, default: [])
        coder.member("lastRequestOffset", &lastRequestOffset)
        coder.member("lastRequestAt", &lastRequestAt)
        coder.member("traceparent", &trace)
    }

    package init(reading value: Span<UInt8>) throws(WireFault) {
        self = try .read(value: value)
        forgetTrace()
    }

    package func write(to arena: inout [UInt8]) {
        var account = self
        account.forgetTrace()
        account.append(to: &arena)
    }

    /// The trace is that of what is owed, and is not kept without it.
    private mutating func forgetTrace() {
        if !owesReport {
            trace = nil
        }
    }
}

/// `[first, end, lineItemByteCountMax, textByteCountMax]`.
extension RequestLine: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> RequestLine {
        var numbers: [Int] = []
        try scanner.tuple(of: 4) { (_, scanner) throws(WireFault) in
            numbers.append(try scanner.count())
        }
        guard numbers[0] < numbers[1] else {
            throw .outOfRange(field: "line")
        }
        return RequestLine(
            first: numbers[0],
            end: numbers[1],
            lineItemByteCountMax: numbers[2],
            textByteCountMax: numbers[3]
        )
    }

    package func write(by writer: inout JSONWriter) {
        writer.beginArray()
        writer.integer(Int64(first))
        writer.integer(Int64(end))
        writer.integer(Int64(lineItemByteCountMax))
        writer.integer(Int64(textByteCountMax))
        writer.endArray()
    }
}

/// `[signedDate, notificationUUID]`.
extension TokenAccount.Notice: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Self {
        var notice = Self(signedDate: .blank, uuid: "")
        try scanner.tuple(of: 2) { (index, scanner) throws(WireFault) in
            switch index {
            case 0: notice.signedDate = Timestamp(milliseconds: try scanner.integer())
            default: notice.uuid = try scanner.string()
            }
        }
        return notice
    }

    package func write(by writer: inout JSONWriter) {
        writer.beginArray()
        writer.integer(signedDate.milliseconds)
        writer.string(uuid)
        writer.endArray()
    }
}

extension TokenAccount.Debt: WireMessage {
    package static let blank = Self(dueAt: .blank, reason: .hold, origin: .blank)

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("dueAt", &dueAt)
        coder.member("reason", &reason)
        coder.member("origin", &origin)
    }
}

extension TokenAccount.WaitingNotice: WireMessage {
    package static let blank = Self(receivedAt: .blank, guardedFrom: nil, origin: .blank)

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("receivedAt", &receivedAt)
        coder.member("guardedFrom", &guardedFrom)
        coder.member("origin", &origin)
    }
}

/// `[topic, partition, offset]`.
extension RecordOrigin: WireValue {
    static var blank: RecordOrigin { RecordOrigin(topic: 0, partition: 0, offset: 0) }

    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> RecordOrigin {
        var origin = blank
        try scanner.tuple(of: 3) { (index, scanner) throws(WireFault) in
            switch index {
            case 0: origin.topic = Int(clamping: try scanner.integer())
            case 1: origin.partition = Int32(clamping: try scanner.integer())
            default: origin.offset = try scanner.integer()
            }
        }
        return origin
    }

    package func write(by writer: inout JSONWriter) {
        writer.beginArray()
        writer.integer(Int64(topic))
        writer.integer(Int64(partition))
        writer.integer(offset)
        writer.endArray()
    }
}
