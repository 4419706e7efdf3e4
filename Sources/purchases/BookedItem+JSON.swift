internal import TokenDomain
internal import TokenWire

// The values of `purchases.state.v1`. Fields that are absent, empty or zero are not written.

extension BookedItem {
    init(reading value: [UInt8], key: BookKey) throws(WireFault) {
        var item = BookedItem(touchedAt: Timestamp(milliseconds: 0))
        var standing: Standing?
        var touchedAt: Timestamp?
        var waitingSince: Timestamp?
        var flight: FlightFields?
        var changeOffset: Int64?
        var changeTime: Timestamp?
        try JSONScanner.scanObject(value.span) { (key, scanner) throws(WireFault) in
            switch key {
            case "standing": try scanner.fill(&standing)
            case "sale": item.sale = try .read(&scanner, atMost: nil)
            case "first": item.first = try .read(&scanner, atMost: nil)
            case "restated": item.restated = try .read(&scanner, atMost: nil)
            case "event": item.event = try BookedEvent(from: &scanner)
            case "live": item.live = try Live(from: &scanner)
            case "parent": try scanner.fill(&item.parent)
            case "reopensUntil": try scanner.fill(&item.reopensUntil)
            case "retractedOffset": try scanner.fill(&item.retractedOffset)
            case "saidIn": item.saidIn = AlphaCode(try scanner.string())
            case "currencyOffset": try scanner.fill(&item.currencyOffset)
            case "currencyBefore": item.currencyBefore = AlphaCode(try scanner.string())
            case "revision": item.revision = try scanner.count()
            case "changeFirst": item.changeFirst = try scanner.integer()
            case "changeNext": item.changeNext = try scanner.integer()
            case "oursCount": item.oursCount = try scanner.count()
            case "changeOffset": try scanner.fill(&changeOffset)
            case "changeTime": try scanner.fill(&changeTime)
            case "foldedTo": try scanner.fill(&item.foldedTo)
            case "wait": item.wait = try Wait(from: &scanner)
            case "waitingSince": try scanner.fill(&waitingSince)
            case "excluded": item.excluded = try scanner.texts().map { TokenID($0) }
            case "goesAlone": item.goesAlone = try scanner.bool()
            case "attempts": item.attempts = try scanner.count()
            case "flight": flight = try FlightFields(from: &scanner)
            case "daysBefore": try scanner.fill(&item.daysBefore)
            case "refunded": item.refunded = try NetFamily.Share(from: &scanner)
            case "busyWith": try scanner.fill(&item.busyWith)
            case "wakesFrom": item.wakesFrom = try scanner.keyBytes()
            case "touchedAt": try scanner.fill(&touchedAt)
            default: try scanner.skip()
            }
        }
        item.standing = try JSONScanner.require(standing, "standing")
        item.touchedAt = try JSONScanner.require(touchedAt, "touchedAt")
        item.waitingSince = waitingSince ?? item.touchedAt
        if item.sale == nil, let event = item.event {
            item.sale = try Self.sale(of: event, key)
        }
        item.flight = try flight?.flight()
        if let changeOffset, let changeTime {
            item.lastChange = ChangePosition(offset: changeOffset, time: changeTime)
        }
        self = item
    }

    /// The sale is what its event says of it, until a restatement changes it.
    private var isSaleInEvent: Bool { event != nil && first == nil }

    private static func sale(
        of event: BookedEvent,
        _ key: BookKey
    ) throws(WireFault) -> PurchaseEvent {
        var sale = try PurchaseEvent(fromState: event.value)
            .normalized(appAppleID: key.lane.appAppleID)
        // The key names the customer.
        sale.customer = nil
        return sale
    }

    func write(to bytes: inout [UInt8]) {
        JSONWriter.append(to: &bytes) { writer in
            writer.beginObject()
            writer.field("standing", standing.rawValue)
            writer.field("sale", isSaleInEvent ? nil : sale)
            writer.field("first", first)
            writer.field("restated", restated)
            writer.object("event", event) { $0.write(&$1) }
            writer.object("live", live) { $0.write(&$1) }
            writer.field("parent", parent)
            writer.field("reopensUntil", reopensUntil?.milliseconds)
            writer.field("retractedOffset", retractedOffset)
            writer.field("saidIn", saidIn?.text)
            writer.field("currencyOffset", currencyOffset)
            writer.field("currencyBefore", currencyBefore?.text)
            if revision > 0 { writer.field("revision", revision) }
            if changeNext > 1 {
                writer.field("changeFirst", changeFirst)
                writer.field("changeNext", changeNext)
            }
            if oursCount > 0 { writer.field("oursCount", oursCount) }
            writer.field("changeOffset", lastChange?.offset)
            writer.field("changeTime", lastChange?.time.milliseconds)
            writer.field("foldedTo", foldedTo)
            wait.write(&writer)
            writer.field("waitingSince", waitingSince.milliseconds)
            writer.texts("excluded", excluded.map(\.text))
            if goesAlone { writer.field("goesAlone", true) }
            if attempts > 0 { writer.field("attempts", attempts) }
            writer.object("flight", flight) { $0.write(&$1) }
            writer.field("daysBefore", daysBefore)
            writer.object("refunded", refunded == .none ? nil : refunded, wrapped: false) {
                $0.write(&$1)
            }
            writer.field("busyWith", busyWith)
            writer.field("wakesFrom", key: wakesFrom)
            writer.field("touchedAt", touchedAt.milliseconds)
            writer.endObject()
        }
    }
}

extension BookedItem.Live {
    fileprivate init(from scanner: inout JSONScanner) throws(WireFault) {
        var token: TokenID?
        var terms = TermsFields()
        var reported: Int64?
        var requestIdentifier: String?
        var days: Int64?
        var isRetracted: Bool?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "externalPurchaseId": try scanner.fill(&token, atMost: nil)
            case "reported": try scanner.fill(&reported)
            case "requestIdentifier": try scanner.fill(&requestIdentifier)
            case "days": try scanner.fill(&days)
            case "retracted": try scanner.fill(&isRetracted)
            default: try terms.take(key, &scanner)
            }
        }
        self.init(
            token: try JSONScanner.require(token, "externalPurchaseId"),
            terms: try terms.terms(),
            reported: Milliunits(try JSONScanner.require(reported, "reported")),
            requestIdentifier: requestIdentifier ?? "",
            days: days ?? 0,
            isRetracted: isRetracted ?? false
        )
    }

    fileprivate func write(_ writer: inout JSONWriter) {
        writer.field("externalPurchaseId", token.text)
        writer.fields(of: terms)
        writer.field("reported", reported.count)
        writer.field("requestIdentifier", requestIdentifier)
        if days > 0 { writer.field("days", days) }
        if isRetracted { writer.field("retracted", true) }
    }
}

/// The members of a flight while they are read.
private struct FlightFields {
    private var item: String?
    private var sale: PurchaseEvent?
    private var terms = TermsFields()
    private var share: NetFamily.Share?
    private var days: Int64?
    private var isRetraction: Bool?

    init(from scanner: inout JSONScanner) throws(WireFault) {
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "item":
                let json = try scanner.peekKind() == .object ? scanner.raw() : scanner.stringBytes()
                item = String(decoding: json, as: UTF8.self)
            case "sale": sale = try .read(&scanner, atMost: nil)
            case "share": share = try NetFamily.Share(from: &scanner)
            case "days": try scanner.fill(&days)
            case "retraction": try scanner.fill(&isRetraction)
            default: try terms.take(key, &scanner)
            }
        }
    }

    func flight() throws(WireFault) -> BookedItem.Flight {
        BookedItem.Flight(
            item: try JSONScanner.require(item, "item"),
            sale: sale,
            terms: try terms.terms(),
            share: try JSONScanner.require(share, "share"),
            days: days ?? 0,
            isRetraction: isRetraction ?? false
        )
    }
}

extension BookedItem.Flight {
    fileprivate func write(_ writer: inout JSONWriter) {
        writer.field("item", raw: item.utf8.span)
        writer.field("sale", sale)
        writer.fields(of: terms)
        writer.object("share", share, wrapped: false) { $0.write(&$1) }
        if days > 0 { writer.field("days", days) }
        if isRetraction { writer.field("retraction", true) }
    }
}

extension BookedItem.Wait {
    private var name: String {
        switch self {
        case .idle: "idle"
        case .now: "now"
        case .token: "token"
        case .rate: "rate"
        case .reference: "reference"
        case .turn: "turn"
        case .base: "base"
        case .queued: "queued"
        case .sent: "sent"
        case .reopening: "reopening"
        }
    }

    fileprivate init(from scanner: inout JSONScanner) throws(WireFault) {
        var name: String?
        var token: TokenID?
        var key: [UInt8]?
        var until: Timestamp?
        try scanner.beginObject()
        while let member = try scanner.nextKey() {
            switch member {
            case "for": try scanner.fill(&name)
            case "externalPurchaseId": try scanner.fill(&token, atMost: nil)
            case "key": key = try scanner.keyBytes()
            case "until": try scanner.fill(&until)
            default: try scanner.skip()
            }
        }
        func required<Value>(_ value: Value?) throws(WireFault) -> Value {
            try JSONScanner.require(value, "wait")
        }
        switch try required(name) {
        case "idle": self = .idle
        case "now": self = .now
        case "token": self = .token(until: try required(until))
        case "rate": self = .rate
        case "reference":
            self = .reference(BookKey(bytes: try required(key)), until: until)
        case "turn": self = .turn(BookKey(bytes: try required(key)))
        case "base": self = .base(until: try required(until))
        case "queued": self = .queued(try required(token))
        case "sent": self = .sent(try required(token))
        case "reopening":
            self = .reopening(key.map { BookKey(bytes: $0) }, until: try required(until))
        default: throw .outOfRange(field: "wait")
        }
    }

    fileprivate func write(_ writer: inout JSONWriter) {
        writer.name("wait")
        writer.beginObject()
        writer.field("for", name)
        switch self {
        case .idle, .now, .rate: break
        case .token(let until), .base(let until):
            writer.field("until", until.milliseconds)
        case .reference(let key, let until):
            writer.field("key", key: key.bytes)
            writer.field("until", until?.milliseconds)
        case .turn(let key):
            writer.field("key", key: key.bytes)
        case .queued(let token), .sent(let token):
            writer.field("externalPurchaseId", token.text)
        case .reopening(let key, let until):
            writer.field("key", key: key?.bytes)
            writer.field("until", until.milliseconds)
        }
        writer.endObject()
    }
}

extension NetFamily.Share {
    fileprivate init(from scanner: inout JSONScanner) throws(WireFault) {
        var amounts: [Int64] = []
        try scanner.tuple(of: 2) { (_, scanner) throws(WireFault) in
            amounts.append(try scanner.integer())
        }
        self.init(priced: Milliunits(amounts[0]), reported: Milliunits(amounts[1]))
    }

    fileprivate func write(_ writer: inout JSONWriter) {
        writer.beginArray()
        writer.integer(priced.count)
        writer.integer(reported.count)
        writer.endArray()
    }
}

/// The members of ``ReportingTerms`` while they are read.
private struct TermsFields {
    private var currency: AlphaCode?
    private var rate: ExchangeRate?

    mutating func take(_ key: JSONKey, _ scanner: inout JSONScanner) throws(WireFault) {
        switch key {
        case "currency": currency = AlphaCode(try scanner.string())
        case "rate": rate = try .read(&scanner, atMost: nil)
        default: try scanner.skip()
        }
    }

    func terms() throws(WireFault) -> ReportingTerms {
        ReportingTerms(currency: try JSONScanner.require(currency, "currency"), rate: rate)
    }
}
