package import TokenDomain

extension PurchaseAnswered {
    /// Reads a value of `purchases.answered.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var requestIdentifier: String?
        var externalPurchaseID: TokenID?
        var lineItemIDs: [String]?
        var outcome: ReportOutcome.Outcome?
        var errors: [AppleError]?
        var reason: String?
        var verified: [String]?
        var primary: TokenID?
        var settledAt: Timestamp?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "requestIdentifier":
                try scanner.fill(&requestIdentifier, atMost: .identifier)
            case "externalPurchaseId":
                try scanner.fill(&externalPurchaseID, atMost: .tokenField)
            case "lineItemIds": try Self.fill(&lineItemIDs, from: &scanner)
            case "outcome": try scanner.fill(&outcome)
            case "errors": try AppleError.fill(&errors, from: &scanner)
            case "reason": try scanner.fill(&reason, atMost: .identifier)
            case "verifiedLineItemIds": try Self.fill(&verified, from: &scanner)
            case "primaryExternalPurchaseId": try scanner.fill(&primary, atMost: .tokenField)
            case "settledAt": try scanner.fill(&settledAt)
            default: try scanner.skip()
            }
        }
        self.init(
            requestIdentifier: try JSONScanner.require(requestIdentifier, "requestIdentifier"),
            externalPurchaseID: try JSONScanner.require(externalPurchaseID, "externalPurchaseId"),
            lineItemIDs: try JSONScanner.require(lineItemIDs, "lineItemIds"),
            outcome: try JSONScanner.require(outcome, "outcome"),
            errors: errors ?? [],
            reason: reason,
            verifiedLineItemIDs: verified ?? [],
            primaryExternalPurchaseID: primary,
            settledAt: try JSONScanner.require(settledAt, "settledAt")
        )
    }

    private static func fill(
        _ slot: inout [String]?,
        from scanner: inout JSONScanner
    ) throws(WireFault) {
        guard slot == nil else {
            throw .repeated(field: scanner.fieldName)
        }
        var ids: [String] = []
        try scanner.beginArray()
        while try scanner.nextElement() {
            ids.append(try scanner.string(atMost: .lineItemID))
        }
        slot = ids
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("requestIdentifier", requestIdentifier)
            writer.field("externalPurchaseId", externalPurchaseID.text)
            Self.write("lineItemIds", lineItemIDs, to: &writer)
            writer.field("outcome", outcome.rawValue)
            AppleError.write(errors, to: &writer)
            writer.field("reason", reason)
            if !verifiedLineItemIDs.isEmpty {
                Self.write("verifiedLineItemIds", verifiedLineItemIDs, to: &writer)
            }
            writer.field("primaryExternalPurchaseId", primaryExternalPurchaseID?.text)
            writer.field("settledAt", settledAt.milliseconds)
            writer.endObject()
        }
    }

    private static func write(
        _ name: StaticString,
        _ ids: [String],
        to writer: inout JSONWriter
    ) {
        writer.name(name)
        writer.beginArray()
        for id in ids {
            writer.string(id)
        }
        writer.endArray()
    }
}

extension PurchaseOutcome {
    /// Reads a value of `purchases.outcomes.v1`.
    ///
    /// `item` is an object, kept byte for byte.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var lineItemID: String?
        var revision: Int?
        var type: PurchaseEvent.Kind?
        var outcome: Outcome?
        var externalPurchaseID: TokenID?
        var requestIdentifier: String?
        var reason: String?
        var errors: [AppleError]?
        var item: String?
        var receivedAt: Timestamp?
        var settledAt: Timestamp?
        var appAppleID: Int64?
        var environment: AppleEnvironment?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "lineItemId": try scanner.fill(&lineItemID, atMost: .lineItemID)
            case "revision": try scanner.fillCount(&revision)
            case "type": try scanner.fill(&type)
            case "outcome": try scanner.fill(&outcome)
            case "externalPurchaseId":
                try scanner.fill(&externalPurchaseID, atMost: .tokenField)
            case "requestIdentifier":
                try scanner.fill(&requestIdentifier, atMost: .identifier)
            case "reason": try scanner.fill(&reason, atMost: .identifier)
            case "errors": try AppleError.fill(&errors, from: &scanner)
            case "item": try scanner.fillObject(&item)
            case "receivedAt": try scanner.fill(&receivedAt)
            case "settledAt": try scanner.fill(&settledAt)
            case "appAppleId": try scanner.fill(&appAppleID)
            case "environment": try scanner.fill(&environment)
            default: try scanner.skip()
            }
        }
        self.init(
            lineItemID: try JSONScanner.require(lineItemID, "lineItemId"),
            revision: try JSONScanner.require(revision, "revision"),
            type: try JSONScanner.require(type, "type"),
            outcome: try JSONScanner.require(outcome, "outcome"),
            externalPurchaseID: externalPurchaseID,
            requestIdentifier: requestIdentifier,
            reason: try JSONScanner.require(reason, "reason"),
            errors: errors ?? [],
            item: item,
            receivedAt: try JSONScanner.require(receivedAt, "receivedAt"),
            settledAt: try JSONScanner.require(settledAt, "settledAt"),
            lane: appAppleID.map {
                Lane(appAppleID: $0, environment: environment ?? .production)
            }
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("lineItemId", lineItemID)
            writer.field("revision", revision)
            writer.field("type", type.rawValue)
            writer.field("outcome", outcome.rawValue)
            writer.field("externalPurchaseId", externalPurchaseID?.text)
            writer.field("requestIdentifier", requestIdentifier)
            writer.field("reason", reason)
            AppleError.write(errors, to: &writer)
            if let item {
                writer.field("item", raw: item.utf8.span)
            }
            writer.field("receivedAt", receivedAt.milliseconds)
            writer.field("settledAt", settledAt.milliseconds)
            writer.field("appAppleId", lane?.appAppleID)
            writer.field("environment", lane?.environment.rawValue)
            writer.endObject()
        }
    }
}

extension TokenRefused {
    /// Reads a value of `tokens.refused.v1`.
    package init(reading value: Span<UInt8>) throws(WireFault) {
        var externalPurchaseID: TokenID?
        var customer: CustomerID?
        var refusedAt: Timestamp?
        try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
            switch key {
            case "externalPurchaseId":
                try scanner.fill(&externalPurchaseID, atMost: .tokenField)
            case "customer": try scanner.fill(&customer, atMost: .customer)
            case "refusedAt": try scanner.fill(&refusedAt)
            default: try scanner.skip()
            }
        }
        self.init(
            externalPurchaseID: try JSONScanner.require(externalPurchaseID, "externalPurchaseId"),
            customer: customer,
            refusedAt: try JSONScanner.require(refusedAt, "refusedAt")
        )
    }

    package func write(to arena: inout [UInt8]) {
        JSONWriter.append(to: &arena) { writer in
            writer.beginObject()
            writer.field("externalPurchaseId", externalPurchaseID.text)
            writer.field("customer", customer?.text)
            writer.field("refusedAt", refusedAt.milliseconds)
            writer.endObject()
        }
    }
}
