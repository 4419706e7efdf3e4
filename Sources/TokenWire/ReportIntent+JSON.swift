package import TokenDomain

/// An intent inside an account's value.
extension ReportIntent {
    init(_ scanner: inout JSONScanner) throws(WireFault) {
        var number: Int?
        var identifier: String?
        var status: ReportStatus?
        var reason: ReportReason?
        var origin: RecordOrigin?
        var deadline: Timestamp?
        var lineItems: String?
        var phase: Phase?
        var takenSince: Timestamp?
        var attempts: Int?
        var inquiries: Int?
        var firstSentAt: Timestamp?
        var nextAttemptAt: Timestamp?
        var refusal: [AppleError] = []
        var exchanges: [ReportExchange] = []
        var history: ReplayHistory?
        var isRepeat: Bool?
        var purchaseKey: PurchaseKey?
        var search: LineItemSearch?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "number": try scanner.fill(&number)
            case "requestIdentifier": try scanner.fill(&identifier)
            case "status": try scanner.fill(&status)
            case "reason": try scanner.fill(&reason)
            case "origin": origin = try .read(&scanner, atMost: nil)
            case "deadline": try scanner.fill(&deadline)
            case "lineItems": try scanner.fill(&lineItems)
            case "phase": try scanner.fill(&phase)
            case "takenSince": try scanner.fill(&takenSince)
            case "attempts": try scanner.fillCount(&attempts)
            case "inquiries": try scanner.fillCount(&inquiries)
            case "firstSentAt": try scanner.fill(&firstSentAt)
            case "nextAttemptAt": try scanner.fill(&nextAttemptAt)
            case "requests": exchanges = try .read(&scanner, atMost: nil)
            case "history": history = try .read(&scanner, atMost: nil)
            case "isRepeat": try scanner.fill(&isRepeat)
            case "purchaseKey": try scanner.fill(&purchaseKey, atMost: .tokenField)
            case "search": search = try .read(&scanner, atMost: nil)
            case "refusal":
                try scanner.beginArray()
                while try scanner.nextElement() {
                    refusal.append(try Self.readError(&scanner))
                }
            default: try scanner.skip()
            }
        }
        self.init(
            number: try JSONScanner.require(number, "number"),
            identifier: try JSONScanner.require(identifier, "requestIdentifier"),
            status: try JSONScanner.require(status, "status"),
            lineItems: lineItems,
            reason: try JSONScanner.require(reason, "reason"),
            origin: try JSONScanner.require(origin, "origin"),
            deadline: try JSONScanner.require(deadline, "deadline"),
            phase: phase ?? .planned,
            takenSince: takenSince,
            attempts: attempts ?? 0,
            inquiries: inquiries ?? 0,
            firstSentAt: firstSentAt,
            nextAttemptAt: nextAttemptAt,
            refusal: refusal,
            history: history
        )
        self.isRepeat = isRepeat ?? false
        self.purchaseKey = purchaseKey
        self.search = search
        for exchange in exchanges {
            note(exchange)
        }
    }

    func write(_ writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("number", number)
        writer.field("requestIdentifier", identifier)
        writer.field("status", status.rawValue)
        writer.field("reason", reason.rawValue)
        writer.name("origin")
        origin.write(by: &writer)
        writer.field("deadline", deadline.milliseconds)
        // As text: the bytes that were frozen are the bytes that come back.
        writer.field("lineItems", lineItems)
        if phase != .planned {
            writer.field("phase", phase.rawValue)
        }
        writer.field("takenSince", takenSince?.milliseconds)
        if attempts > 0 {
            writer.field("attempts", attempts)
        }
        if inquiries > 0 {
            writer.field("inquiries", inquiries)
        }
        writer.field("firstSentAt", firstSentAt?.milliseconds)
        writer.field("nextAttemptAt", nextAttemptAt?.milliseconds)
        if !exchanges.isEmpty {
            writer.name("requests")
            exchanges.write(by: &writer)
        }
        if !refusal.isEmpty {
            writer.name("refusal")
            writer.beginArray()
            for error in refusal {
                writer.beginObject()
                writer.field("errorCode", error.code)
                writer.field("fieldName", error.fieldName)
                writer.field("lineItemId", error.lineItemID)
                writer.endObject()
            }
            writer.endArray()
        }
        if let history {
            writer.name("history")
            history.write(by: &writer)
        }
        if isRepeat {
            writer.field("isRepeat", true)
        }
        writer.field("purchaseKey", purchaseKey?.text)
        if let search {
            writer.name("search")
            search.write(by: &writer)
        }
        writer.endObject()
    }

    private static func readError(_ scanner: inout JSONScanner) throws(WireFault) -> AppleError {
        var code: Int64?
        var fieldName: String?
        var lineItemID: String?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "errorCode": try scanner.fill(&code)
            case "fieldName": try scanner.fill(&fieldName)
            case "lineItemId": try scanner.fill(&lineItemID)
            default: try scanner.skip()
            }
        }
        return AppleError(
            code: try JSONScanner.require(code, "errorCode"),
            fieldName: fieldName,
            lineItemID: lineItemID
        )
    }
}

/// A search for line items, inside an intent.
extension LineItemSearch: WireMessage {
    package static let blank = Self(number: 0, open: [], verified: [])

    @inline(__always)
    package mutating func members<C: ValueCoder & ~Copyable>(_ coder: inout C) {
        coder.member("number", &number)
        coder.member("open", &open)
        coder.member("verified", &verified)
    }
}
