package import TokenDomain

/// The value of `report.state.v1` under an externalPurchaseId. Fields that are absent, empty or zero
/// are not written.
extension TokenAccount {
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var id: TokenID?
        var touchedAt: Timestamp?
        var account = TokenAccount(
            externalPurchaseID: TokenID(""),
            touchedAt: Timestamp(milliseconds: 0)
        )
        var role: String?
        var primary: TokenID?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "externalPurchaseId": try scanner.fill(&id, atMost: nil)
            case "touchedAt": try scanner.fill(&touchedAt)
            case "role": try scanner.fill(&role)
            case "primaryExternalPurchaseId": try scanner.fill(&primary, atMost: nil)
            default: try account.readMember(key, &scanner)
            }
        }
        account.role = try Self.role(role, primary: primary)
        account.touchedAt = try JSONScanner.require(touchedAt, "touchedAt")
        account.externalPurchaseID = try JSONScanner.require(id, "externalPurchaseId")
        if !account.owesReport {
            // It is that of what is owed, and is not written without it.
            account.trace = nil
        }
        self = account
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("externalPurchaseId", externalPurchaseID.text)
            writer.field("touchedAt", touchedAt.milliseconds)
            writeToken(&writer)
            writer.field("refusedAt", refusedAt?.milliseconds)
            writer.field("lastAccepted", lastAccepted?.rawValue)
            writer.field("lastAcceptedAt", lastAcceptedAt?.milliseconds)
            if intentCount > 0 {
                writer.field("intentCount", intentCount)
            }
            if let current {
                writer.name("current")
                current.write(&writer)
            }
            if !line.isEmpty {
                writer.name("line")
                writer.beginArray()
                writer.integer(Int64(line.first))
                writer.integer(Int64(line.end))
                writer.integer(Int64(line.lineItemByteCountMax))
                writer.integer(Int64(line.textByteCountMax))
                writer.endArray()
            }
            Self.write("parked", parked, &writer) { $0.write(&$1) }
            writer.field("debt", debt)
            writer.field("waitingNotice", waitingNotice)
            writer.field("waitingReminder", waitingReminder)
            Self.write("notices", notices, &writer) { notice, writer in
                writer.beginArray()
                writer.integer(notice.signedDate.milliseconds)
                writer.string(notice.uuid)
                writer.endArray()
            }
            Self.write("accepted", accepted, &writer) { $0.write(&$1) }
            writer.field("lastRequestOffset", lastRequestOffset)
            if owesReport {
                writer.field("traceparent", trace?.text)
            }
            writer.endObject()
        }
    }

    // MARK: Writing

    private func writeToken(_ writer: inout JSONWriter) {
        writer.field("appAppleId", appAppleID)
        writer.field("bundleId", bundleID)
        writer.field("tokenType", tokenType?.text)
        writer.field("tokenCreationDate", tokenCreationDate?.milliseconds)
        writer.field("tokenExpirationDate", tokenExpirationDate?.milliseconds)
        writer.field("role", role?.text)
        if case .duplicate(let primary) = role {
            writer.field("primaryExternalPurchaseId", primary.text)
        }
        writer.field("customer", customer?.text)
        if ownerConflictCount > 0 {
            writer.field("ownerConflictCount", ownerConflictCount)
        }
    }

    private static func write<Element>(
        _ name: StaticString,
        _ elements: [Element],
        _ writer: inout JSONWriter,
        _ element: (Element, inout JSONWriter) -> Void
    ) {
        guard !elements.isEmpty else {
            return
        }
        writer.name(name)
        writer.beginArray()
        for value in elements {
            element(value, &writer)
        }
        writer.endArray()
    }

    // MARK: Reading

    private mutating func readMember(
        _ key: JSONKey,
        _ scanner: inout JSONScanner
    ) throws(WireFault) {
        switch key {
        case "appAppleId": try scanner.fill(&appAppleID)
        case "bundleId": try scanner.fill(&bundleID)
        case "tokenType": try scanner.fill(&tokenType, atMost: nil)
        case "tokenCreationDate": try scanner.fill(&tokenCreationDate)
        case "tokenExpirationDate": try scanner.fill(&tokenExpirationDate)
        case "customer": try scanner.fill(&customer, atMost: nil)
        case "ownerConflictCount": ownerConflictCount = try scanner.count()
        case "refusedAt": try scanner.fill(&refusedAt)
        case "lastAccepted": try scanner.fill(&lastAccepted)
        case "lastAcceptedAt": try scanner.fill(&lastAcceptedAt)
        case "intentCount": intentCount = try scanner.count()
        case "current": current = try ReportIntent(&scanner)
        case "line": line = try Self.readLine(&scanner)
        case "queued":
            // As they lay in the account before each had a record of its own.
            line = RequestLine(
                inAccount: try Self.read(&scanner) { (scanner) throws(WireFault) in
                    try ReportIntent(&scanner)
                }
            )
        case "parked":
            parked = try Self.read(&scanner) { (scanner) throws(WireFault) in
                try ReportIntent(&scanner)
            }
        case "debt": debt = try .read(&scanner, atMost: nil)
        case "waitingNotice": waitingNotice = try .read(&scanner, atMost: nil)
        case "waitingReminder": waitingReminder = try .read(&scanner, atMost: nil)
        case "notices":
            notices = try Self.read(&scanner) { (scanner) throws(WireFault) in
                var notice = Notice(signedDate: Timestamp(milliseconds: 0), uuid: "")
                try scanner.tuple(of: 2) { (index, scanner) throws(WireFault) in
                    switch index {
                    case 0: notice.signedDate = Timestamp(milliseconds: try scanner.integer())
                    default: notice.uuid = try scanner.string()
                    }
                }
                return notice
            }
        case "accepted":
            accepted = try Self.read(&scanner) { (scanner) throws(WireFault) in
                try AcceptedReport(&scanner)
            }
        case "lastRequestOffset": try scanner.fill(&lastRequestOffset)
        case "traceparent": trace = TraceParent(try scanner.string())
        default: try scanner.skip()
        }
    }

    private static func role(_ text: String?, primary: TokenID?) throws(WireFault) -> TokenRole? {
        switch text {
        case nil: nil
        case "primary": .primary
        case "duplicate":
            .duplicate(of: try JSONScanner.require(primary, "primaryExternalPurchaseId"))
        case "seen": .seen
        default: throw .outOfRange(field: "role")
        }
    }

    private static func read<Element>(
        _ scanner: inout JSONScanner,
        _ element: (inout JSONScanner) throws(WireFault) -> Element
    ) throws(WireFault) -> [Element] {
        var elements: [Element] = []
        try scanner.beginArray()
        while try scanner.nextElement() {
            elements.append(try element(&scanner))
        }
        return elements
    }

    private static func readLine(_ scanner: inout JSONScanner) throws(WireFault) -> RequestLine {
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
