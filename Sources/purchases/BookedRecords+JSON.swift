internal import TokenDomain
internal import TokenWire

extension BookedToken {
    init(reading value: [UInt8], key: BookKey) throws(WireFault) {
        var token = BookedToken(touchedAt: Timestamp(milliseconds: 0))
        var appAppleID: Int64?
        var bundleID: String?
        var type: TokenType?
        var creation: Timestamp?
        var expiration: Timestamp?
        var touchedAt: Timestamp?
        try JSONScanner.scanObject(value.span) { (key, scanner) throws(WireFault) in
            switch key {
            case "appAppleId": try scanner.fill(&appAppleID)
            case "bundleId": try scanner.fill(&bundleID)
            case "tokenType": try scanner.fill(&type, atMost: nil)
            case "tokenCreationDate": try scanner.fill(&creation)
            case "tokenExpirationDate": try scanner.fill(&expiration)
            case "offset": token.offset = try scanner.integer()
            case "decodedAt":
                token.decodedAt = Timestamp(milliseconds: try scanner.integer())
            case "hasCustomer": token.hasCustomer = try scanner.bool()
            case "refused": token.isRefused = try scanner.bool()
            case "otherClaims":
                try scanner.beginArray()
                while try scanner.nextElement() {
                    token.otherClaims.append(try Claim(from: &scanner))
                }
            case "knownAt": try scanner.fill(&token.knownAt)
            case "wakesFrom": token.wakesFrom = try scanner.keyBytes()
            case "touchedAt": try scanner.fill(&touchedAt)
            default: try scanner.skip()
            }
        }
        if let appAppleID {
            token.token = ExternalPurchaseToken(
                externalPurchaseID: key.tokenID,
                appAppleID: appAppleID,
                bundleID: try JSONScanner.require(bundleID, "bundleId"),
                tokenType: type,
                tokenCreationDate: try JSONScanner.require(creation, "tokenCreationDate"),
                tokenExpirationDate: expiration
            )
        }
        token.touchedAt = try JSONScanner.require(touchedAt, "touchedAt")
        self = token
    }

    func write(to bytes: inout [UInt8]) {
        JSONWriter.append(to: &bytes) { writer in
            writer.beginObject()
            writer.field("appAppleId", token?.appAppleID)
            writer.field("bundleId", token?.bundleID)
            writer.field("tokenType", token?.tokenType?.text)
            writer.field("tokenCreationDate", token?.tokenCreationDate.milliseconds)
            writer.field("tokenExpirationDate", token?.tokenExpirationDate?.milliseconds)
            writer.field("offset", offset)
            if decodedAt.milliseconds > 0 { writer.field("decodedAt", decodedAt.milliseconds) }
            if hasCustomer { writer.field("hasCustomer", true) }
            if isRefused { writer.field("refused", true) }
            // An earlier version skips them, and keeps the first claim alone.
            if !otherClaims.isEmpty {
                writer.name("otherClaims")
                writer.beginArray()
                for claim in otherClaims {
                    claim.write(by: &writer)
                }
                writer.endArray()
            }
            writer.field("knownAt", knownAt?.milliseconds)
            writer.field("wakesFrom", key: wakesFrom)
            writer.field("touchedAt", touchedAt.milliseconds)
            writer.endObject()
        }
    }
}

extension BookedToken.Claim {
    fileprivate init(from scanner: inout JSONScanner) throws(WireFault) {
        var type: TokenType?
        var creation: Timestamp?
        var expiration: Timestamp?
        var offset: Int64?
        var decodedAt: Timestamp?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "tokenType": try scanner.fill(&type, atMost: nil)
            case "tokenCreationDate": try scanner.fill(&creation)
            case "tokenExpirationDate": try scanner.fill(&expiration)
            case "offset": try scanner.fill(&offset)
            case "decodedAt": try scanner.fill(&decodedAt)
            default: try scanner.skip()
            }
        }
        self.init(
            tokenType: type,
            tokenCreationDate: try JSONScanner.require(creation, "tokenCreationDate"),
            tokenExpirationDate: expiration,
            offset: try JSONScanner.require(offset, "offset"),
            decodedAt: try JSONScanner.require(decodedAt, "decodedAt")
        )
    }

    fileprivate func write(by writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("tokenType", tokenType?.text)
        writer.field("tokenCreationDate", tokenCreationDate.milliseconds)
        writer.field("tokenExpirationDate", tokenExpirationDate?.milliseconds)
        writer.field("offset", offset)
        writer.field("decodedAt", decodedAt.milliseconds)
        writer.endObject()
    }
}

extension BookedCustomer {
    init(reading value: [UInt8]) throws(WireFault) {
        var tokens: [TokenID] = []
        var touchedAt: Timestamp?
        try JSONScanner.scanObject(value.span) { (key, scanner) throws(WireFault) in
            switch key {
            case "tokens": tokens = try scanner.texts().map { TokenID($0) }
            case "touchedAt": try scanner.fill(&touchedAt)
            default: try scanner.skip()
            }
        }
        self.init(tokens: tokens, touchedAt: try JSONScanner.require(touchedAt, "touchedAt"))
    }

    func write(to bytes: inout [UInt8]) {
        JSONWriter.append(to: &bytes) { writer in
            writer.beginObject()
            writer.texts("tokens", tokens.map(\.text))
            writer.field("touchedAt", touchedAt.milliseconds)
            writer.endObject()
        }
    }
}

extension BookedSubscription {
    init(reading value: [UInt8]) throws(WireFault) {
        var record = BookedSubscription(touchedAt: Timestamp(milliseconds: 0))
        record.paid = nil
        record.countsArrivals = false
        var newest: String?
        var newestDate: Timestamp?
        var others: [String] = []
        var otherDates: [Timestamp] = []
        var offsets: [Int64] = []
        var before: Int64?
        var last: PaidService.Period?
        var forgotten: Int64?
        var touchedAt: Timestamp?
        try JSONScanner.scanObject(value.span) { (key, scanner) throws(WireFault) in
            switch key {
            case "startLineItemId": try scanner.fill(&newest)
            case "startDate": try scanner.fill(&newestDate)
            case "otherStarts": others = try scanner.texts()
            case "otherStartDates":
                try scanner.beginArray()
                while try scanner.nextElement() {
                    otherDates.append(Timestamp(milliseconds: try scanner.integer()))
                }
            case "startOffsets":
                try scanner.beginArray()
                while try scanner.nextElement() {
                    offsets.append(try scanner.integer())
                }
            case "paidBefore": try scanner.fill(&before)
            case "last":
                var parts: [Int64] = []
                try scanner.tuple(of: 3) { (_, scanner) throws(WireFault) in
                    parts.append(try scanner.integer())
                }
                last = PaidService.Period(
                    start: Timestamp(milliseconds: parts[0]),
                    end: Timestamp(milliseconds: parts[1]),
                    isPaid: parts[2] == 1
                )
            case "paidForgotten": try scanner.fill(&forgotten)
            case "paidForgottenStart": try scanner.fill(&record.forgottenStart)
            case "paidForgottenUntil": try scanner.fill(&record.forgottenUntil)
            case "countsArrivals": record.countsArrivals = try scanner.bool()
            case "givesDays": record.givesDays = try scanner.bool()
            case "wakesFrom": record.wakesFrom = try scanner.keyBytes()
            case "touchedAt": try scanner.fill(&touchedAt)
            default: try scanner.skip()
            }
        }
        if let newest {
            record.starts = [Start(name: newest, date: newestDate)]
        }
        record.starts += others.enumerated().map { index, name in
            Start(name: name, date: otherDates.indices.contains(index) ? otherDates[index] : nil)
        }
        for (index, offset) in zip(record.starts.indices, offsets) where offset >= 0 {
            record.starts[index].offset = offset
        }
        record.forgotten = Milliseconds(forgotten ?? 0)
        record.paid = before.map { PaidService(before: Milliseconds($0), last: last) }
        record.touchedAt = try JSONScanner.require(touchedAt, "touchedAt")
        self = record
    }

    func write(to bytes: inout [UInt8]) {
        JSONWriter.append(to: &bytes) { writer in
            writer.beginObject()
            writer.field("startLineItemId", starts.first?.name)
            writer.field("startDate", starts.first?.date?.milliseconds)
            writer.texts("otherStarts", starts.dropFirst().map(\.name))
            // Those without a date are the last.
            let dates = starts.dropFirst().prefix { $0.date != nil }.compactMap(\.date)
            if !dates.isEmpty {
                writer.name("otherStartDates")
                writer.beginArray()
                for date in dates {
                    writer.integer(date.milliseconds)
                }
                writer.endArray()
            }
            if starts.contains(where: { $0.offset != nil }) {
                writer.name("startOffsets")
                writer.beginArray()
                for start in starts {
                    writer.integer(start.offset ?? -1)
                }
                writer.endArray()
            }
            writer.field("paidBefore", paid?.before.count)
            if let last = paid?.last {
                writer.name("last")
                writer.beginArray()
                writer.integer(last.start.milliseconds)
                writer.integer(last.end.milliseconds)
                writer.integer(last.isPaid ? 1 : 0)
                writer.endArray()
            }
            if forgotten.count != 0 { writer.field("paidForgotten", forgotten.count) }
            // An earlier version skips it, and counts the sum for every life.
            writer.field("paidForgottenStart", forgottenStart)
            writer.field("paidForgottenUntil", forgottenUntil?.milliseconds)
            if countsArrivals { writer.field("countsArrivals", true) }
            if givesDays { writer.field("givesDays", true) }
            writer.field("wakesFrom", key: wakesFrom)
            writer.field("touchedAt", touchedAt.milliseconds)
            writer.endObject()
        }
    }
}

extension BookedEvent {
    /// Of a record of its own.
    init(reading value: [UInt8]) throws(WireFault) {
        self = try JSONScanner.scan(value.span) { (scanner) throws(WireFault) in
            try BookedEvent(from: &scanner)
        }
    }

    /// Of an item's record.
    init(from scanner: inout JSONScanner) throws(WireFault) {
        var bytes: [UInt8] = []
        var offset: Int64?
        var receivedAt: Timestamp?
        var readAt: Timestamp?
        var trace: String?
        var history: ReplayHistory?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "value":
                bytes =
                    try scanner.peekKind() == .object ? scanner.raw() : scanner.stringBytes()
            case "offset": try scanner.fill(&offset)
            case "receivedAt": try scanner.fill(&receivedAt)
            case "readAt": try scanner.fill(&readAt)
            case "traceparent": try scanner.fill(&trace)
            case "history": history = try .read(&scanner, atMost: nil)
            default: try scanner.skip()
            }
        }
        self.init(
            value: bytes,
            offset: try JSONScanner.require(offset, "offset"),
            receivedAt: try JSONScanner.require(receivedAt, "receivedAt"),
            readAt: readAt,
            trace: trace.flatMap { TraceParent($0) },
            history: history
        )
    }

    func write(to bytes: inout [UInt8]) {
        JSONWriter.append(to: &bytes) { writer in
            writer.beginObject()
            write(&writer)
            writer.endObject()
        }
    }

    /// Whether the value can stand in a record as it is, from its first byte to its last: what has objects in
    /// it might be deeper there than a record may be.
    private var isFlatObject: Bool {
        var count = 0
        for byte in value where byte == UInt8(ascii: "{") || byte == UInt8(ascii: "[") {
            count += 1
        }
        return count == 1 && value.first == UInt8(ascii: "{") && value.last == UInt8(ascii: "}")
    }

    /// Its members.
    func write(_ writer: inout JSONWriter) {
        if isFlatObject {
            writer.field("value", raw: value)
        } else if !value.isEmpty {
            writer.field("value", utf8: value.span)
        }
        writer.field("offset", offset)
        writer.field("receivedAt", receivedAt.milliseconds)
        writer.field("readAt", readAt?.milliseconds)
        writer.field("traceparent", trace?.text)
        writer.object("history", history, wrapped: false) { $0.write(by: &$1) }
    }
}

extension JSONWriter {
    mutating func fields(of terms: ReportingTerms) {
        field("currency", terms.currency.text)
        if let rate = terms.rate {
            field("rate", raw: Array(rate.text.utf8))
        }
    }

    /// A member that is an object, `write` its members; where `wrapped` is false `write` writes the
    /// whole value.
    mutating func object<Value>(
        _ name: StaticString,
        _ value: Value?,
        wrapped: Bool = true,
        _ write: (Value, inout JSONWriter) -> Void
    ) {
        guard let value else {
            return
        }
        self.name(name)
        if wrapped { beginObject() }
        write(value, &self)
        if wrapped { endObject() }
    }

    mutating func texts(_ name: StaticString, _ texts: [String]) {
        guard !texts.isEmpty else {
            return
        }
        self.name(name)
        beginArray()
        for text in texts {
            string(text)
        }
        endArray()
    }

    mutating func field(_ name: StaticString, key: [UInt8]?) {
        field(name, key.map { Base64URL.encode($0.span) })
    }
}

extension JSONScanner {
    mutating func texts() throws(WireFault) -> [String] {
        var texts: [String] = []
        try beginArray()
        while try nextElement() {
            texts.append(try string())
        }
        return texts
    }

    mutating func keyBytes() throws(WireFault) -> [UInt8] {
        let field = fieldName
        let text = try string()
        do throws(Base64Fault) {
            return try Base64URL.decodeStrict(text.utf8.span)
        } catch {
            throw .outOfRange(field: field)
        }
    }
}
