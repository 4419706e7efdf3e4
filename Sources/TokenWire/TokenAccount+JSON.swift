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
            if let debt {
                writer.name("debt")
                writer.beginObject()
                writer.field("dueAt", debt.dueAt.milliseconds)
                writer.field("reason", debt.reason.rawValue)
                writer.name("origin")
                debt.origin.write(&writer)
                writer.endObject()
            }
            Self.write("waitingNotice", waitingNotice, &writer)
            Self.write("waitingReminder", waitingReminder, &writer)
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

    private static func write(
        _ name: StaticString,
        _ notice: WaitingNotice?,
        _ writer: inout JSONWriter
    ) {
        guard let notice else {
            return
        }
        writer.name(name)
        writer.beginObject()
        writer.field("receivedAt", notice.receivedAt.milliseconds)
        writer.field("guardedFrom", notice.guardedFrom?.milliseconds)
        writer.name("origin")
        notice.origin.write(&writer)
        writer.endObject()
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
        case "debt": debt = try Self.readDebt(&scanner)
        case "waitingNotice": waitingNotice = try Self.readNotice(&scanner)
        case "waitingReminder": waitingReminder = try Self.readNotice(&scanner)
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

    private static func readDebt(_ scanner: inout JSONScanner) throws(WireFault) -> Debt {
        var dueAt: Timestamp?
        var reason: ReportReason?
        var origin: RecordOrigin?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "dueAt": try scanner.fill(&dueAt)
            case "reason": try scanner.fill(&reason)
            case "origin": origin = try RecordOrigin(&scanner)
            default: try scanner.skip()
            }
        }
        return Debt(
            dueAt: try JSONScanner.require(dueAt, "dueAt"),
            reason: try JSONScanner.require(reason, "reason"),
            origin: try JSONScanner.require(origin, "origin")
        )
    }

    private static func readNotice(_ scanner: inout JSONScanner) throws(WireFault) -> WaitingNotice
    {
        var receivedAt: Timestamp?
        var guardedFrom: Timestamp?
        var origin: RecordOrigin?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "receivedAt": try scanner.fill(&receivedAt)
            case "guardedFrom": try scanner.fill(&guardedFrom)
            case "origin": origin = try RecordOrigin(&scanner)
            default: try scanner.skip()
            }
        }
        return WaitingNotice(
            receivedAt: try JSONScanner.require(receivedAt, "receivedAt"),
            guardedFrom: guardedFrom,
            origin: try JSONScanner.require(origin, "origin")
        )
    }
}

extension RecordOrigin {
    /// Reads `[topic, partition, offset]`.
    init(_ scanner: inout JSONScanner) throws(WireFault) {
        self.init(topic: 0, partition: 0, offset: 0)
        try scanner.tuple(of: 3) { (index, scanner) throws(WireFault) in
            switch index {
            case 0: topic = Int(clamping: try scanner.integer())
            case 1: partition = Int32(clamping: try scanner.integer())
            default: offset = try scanner.integer()
            }
        }
    }

    func write(_ writer: inout JSONWriter) {
        writer.beginArray()
        writer.integer(Int64(topic))
        writer.integer(Int64(partition))
        writer.integer(offset)
        writer.endArray()
    }
}
