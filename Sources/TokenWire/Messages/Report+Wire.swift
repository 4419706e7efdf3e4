package import TokenDomain

extension ReportRequested {
    /// Reads a value of `reports.requested.v1`.
    ///
    /// `lineItems` is an array, kept byte for byte. Whether it fits the status is the rules' to say.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var externalPurchaseID: TokenID?
        var appAppleID: Int64?
        var bundleID: String?
        var status: ReportStatus?
        var requestIdentifier: String?
        var lineItems: String?
        var environment: AppleEnvironment?
        var deadline: Timestamp?
        var purchaseKey: PurchaseKey?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "externalPurchaseId":
                try scanner.fill(&externalPurchaseID, atMost: .tokenField)
            case "appAppleId": try scanner.fill(&appAppleID)
            case "bundleId": try scanner.fill(&bundleID, atMost: .tokenField)
            case "status": try scanner.fill(&status)
            case "requestIdentifier":
                try scanner.fill(&requestIdentifier, atMost: .identifier)
            case "lineItems": try scanner.fillArray(&lineItems)
            case "environment": try scanner.fill(&environment)
            case "deadline": try scanner.fill(&deadline)
            case "purchaseKey": try scanner.fill(&purchaseKey, atMost: .tokenField)
            default: try scanner.skip()
            }
        }
        let id = try JSONScanner.require(externalPurchaseID, "externalPurchaseId")
        // It follows from the id; who says another one means another token.
        guard environment == nil || environment == id.environment else {
            throw .outOfRange(field: "environment")
        }
        self.init(
            externalPurchaseID: id,
            appAppleID: try JSONScanner.require(appAppleID, "appAppleId"),
            bundleID: try JSONScanner.require(bundleID, "bundleId"),
            status: try JSONScanner.require(status, "status"),
            requestIdentifier: requestIdentifier,
            lineItems: lineItems,
            deadline: deadline,
            purchaseKey: purchaseKey
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("externalPurchaseId", externalPurchaseID.text)
            writer.field("environment", externalPurchaseID.environment.rawValue)
            writer.field("appAppleId", appAppleID)
            writer.field("bundleId", bundleID)
            writer.field("status", status.rawValue)
            writer.field("requestIdentifier", requestIdentifier)
            if let lineItems {
                writer.field("lineItems", raw: lineItems.utf8.span)
            }
            writer.field("deadline", deadline?.milliseconds)
            writer.field("purchaseKey", purchaseKey?.text)
            writer.endObject()
        }
    }
}

extension AppleError {
    fileprivate init(from scanner: inout JSONScanner) throws(WireFault) {
        var code: Int64?
        var fieldName: String?
        var lineItemID: String?
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            switch key {
            case "code": try scanner.fill(&code)
            case "fieldName": try scanner.fill(&fieldName, atMost: .errorDetail)
            case "lineItemId": try scanner.fill(&lineItemID, atMost: .errorDetail)
            default: try scanner.skip()
            }
        }
        self.init(
            code: try JSONScanner.require(code, "code"),
            fieldName: fieldName,
            lineItemID: lineItemID
        )
    }

    fileprivate func write(to writer: inout JSONWriter) {
        writer.beginObject()
        writer.field("code", code)
        writer.field("fieldName", fieldName)
        writer.field("lineItemId", lineItemID)
        writer.endObject()
    }

    /// Apple's reasons, as our own messages have them.
    static func fill(
        _ slot: inout [AppleError]?,
        from scanner: inout JSONScanner
    ) throws(WireFault) {
        guard slot == nil else {
            throw .repeated(field: scanner.fieldName)
        }
        guard !(try scanner.takeNull()) else {
            return
        }
        var errors: [AppleError] = []
        try scanner.beginArray()
        while try scanner.nextElement() {
            errors.append(try AppleError(from: &scanner))
        }
        slot = errors
    }

    /// The member `errors`.
    static func write(_ errors: [AppleError], to writer: inout JSONWriter) {
        writer.name("errors")
        writer.beginArray()
        for error in errors {
            error.write(to: &writer)
        }
        writer.endArray()
    }
}

extension ReportOutcome {
    /// Reads a value of `reports.outcomes.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var requestIdentifier: String?
        var externalPurchaseID: TokenID?
        var appAppleID: Int64?
        var status: ReportStatus?
        var outcome: Outcome?
        var httpStatus: Int?
        var errors: [AppleError]?
        var attempts: Int?
        var reason: String?
        var firstSentAt: Timestamp?
        var settledAt: Timestamp?
        var exchanges: [ReportExchange] = []
        var details = Details()
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "requestIdentifier":
                try scanner.fill(&requestIdentifier, atMost: .identifier)
            case "externalPurchaseId":
                try scanner.fill(&externalPurchaseID, atMost: .tokenField)
            case "appAppleId": try scanner.fill(&appAppleID)
            case "status": try scanner.fill(&status)
            case "requests": exchanges = try ReportExchange.list(&scanner)
            case "outcome": try scanner.fill(&outcome)
            case "httpStatus": try scanner.fill(&httpStatus)
            case "errors": try AppleError.fill(&errors, from: &scanner)
            case "attempts": try scanner.fill(&attempts)
            case "reason": try scanner.fill(&reason, atMost: .identifier)
            case "firstSentAt": try scanner.fill(&firstSentAt)
            case "settledAt": try scanner.fill(&settledAt)
            default:
                guard try details.take(key, from: &scanner) else {
                    return try scanner.skip()
                }
            }
        }
        self.init(
            requestIdentifier: try JSONScanner.require(requestIdentifier, "requestIdentifier"),
            externalPurchaseID: try JSONScanner.require(externalPurchaseID, "externalPurchaseId"),
            appAppleID: try JSONScanner.require(appAppleID, "appAppleId"),
            status: try JSONScanner.require(status, "status"),
            outcome: try JSONScanner.require(outcome, "outcome"),
            httpStatus: try JSONScanner.require(httpStatus, "httpStatus"),
            errors: errors ?? [],
            attempts: try JSONScanner.require(attempts, "attempts"),
            reason: try JSONScanner.require(reason, "reason"),
            firstSentAt: try JSONScanner.require(firstSentAt, "firstSentAt"),
            settledAt: try JSONScanner.require(settledAt, "settledAt"),
            exchanges: exchanges,
            details: details
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("requestIdentifier", requestIdentifier)
            writer.field("externalPurchaseId", externalPurchaseID.text)
            writer.field("environment", externalPurchaseID.environment.rawValue)
            writer.field("appAppleId", appAppleID)
            writer.field("status", status.rawValue)
            writer.field("outcome", outcome.rawValue)
            writer.field("httpStatus", httpStatus)
            AppleError.write(errors, to: &writer)
            writer.field("attempts", attempts)
            writer.field("reason", reason)
            writer.field("firstSentAt", firstSentAt.milliseconds)
            writer.field("settledAt", settledAt.milliseconds)
            ReportExchange.write(exchanges, &writer)
            details.write(to: &writer)
            writer.endObject()
        }
    }
}

extension ReportOutcome.Details {
    /// - Returns: whether the member is one of these.
    fileprivate mutating func take(
        _ key: JSONKey,
        from scanner: inout JSONScanner
    ) throws(WireFault) -> Bool {
        switch key {
        case "lineItems": try scanner.fillArray(&lineItems)
        case "tokenCreationDate": try scanner.fill(&tokenCreationDate)
        case "tokenExpirationDate": try scanner.fill(&tokenExpirationDate)
        case "deadline": try scanner.fill(&deadline)
        case "lateBySeconds": try scanner.fill(&lateBySeconds)
        case "purchaseKey": try scanner.fill(&purchaseKey, atMost: .tokenField)
        default: return false
        }
        return true
    }

    fileprivate func write(to writer: inout JSONWriter) {
        if let lineItems {
            writer.field("lineItems", raw: lineItems.utf8.span)
        }
        writer.field("tokenCreationDate", tokenCreationDate?.milliseconds)
        writer.field("tokenExpirationDate", tokenExpirationDate?.milliseconds)
        writer.field("deadline", deadline?.milliseconds)
        writer.field("lateBySeconds", lateBySeconds)
        writer.field("purchaseKey", purchaseKey?.text)
    }
}
