package import TokenDomain

extension PurchaseEvent {
    /// Reads a purchase event and judges all that can be judged of it alone.
    ///
    /// Unknown fields are ignored; null counts as absent.
    ///
    /// - Parameters:
    ///   - value: one JSON object.
    ///   - origin: at the door a customer has any name, and what only `ingest` may say
    ///     (`receivedAt`, `requestId`) is ignored.
    ///   - now: dates after it are in the future.
    /// - Returns: the event, without a fault.
    /// - Throws: every fault at once: of types, then of rules. A text that is not JSON, or nests
    ///   too deep, has no other fault.
    package static func read(
        _ value: Span<UInt8>,
        from origin: PurchaseOrigin,
        now: Timestamp
    ) throws(PurchaseFaults) -> PurchaseEvent {
        var reader = PurchaseReader(origin: origin)
        do throws(WireFault) {
            try JSONScanner.scanObject(value) { (key, scanner) throws(WireFault) in
                try reader.take(key, from: &scanner)
            }
        } catch {
            let repair = "Send one JSON object: \(error.message)."
            throw PurchaseFaults([PurchaseFault(.notJSON, nil, repair: repair)])
        }
        reader.complete()
        let faults =
            reader.faults
            + PurchaseRules.faults(of: reader.event, unreadable: reader.unreadable, now: now)
        guard faults.isEmpty else {
            throw PurchaseFaults(faults, event: reader.event)
        }
        return reader.event
    }
}

extension PurchaseEvent {
    /// Reads an event from state of our own, where no rule is asked again.
    package init(fromState scanner: inout JSONScanner) throws(WireFault) {
        var reader = PurchaseReader(origin: .topic)
        try scanner.beginObject()
        while let key = try scanner.nextKey() {
            try reader.take(key, from: &scanner)
        }
        reader.complete()
        guard reader.faults.isEmpty else {
            throw .outOfRange(field: reader.faults[0].field)
        }
        self = reader.event
    }

    /// Reads the value of an event that passed the rules before.
    package init(fromState value: [UInt8]) throws(WireFault) {
        self = try JSONScanner.scan(value.span) { (scanner) throws(WireFault) in
            try PurchaseEvent(fromState: &scanner)
        }
    }
}

extension ExchangeRate {
    /// Reads a rate from state of our own.
    package init(fromState scanner: inout JSONScanner) throws(WireFault) {
        let field = scanner.fieldName
        let literal = try scanner.raw()
        do throws(ExchangeRate.Fault) {
            self = try ExchangeRate(utf8: literal)
        } catch {
            throw .outOfRange(field: field)
        }
    }
}

/// The members of a purchase event while they are read.
///
/// A value that has the wrong type is a fault of its field and no end of the reading.
struct PurchaseReader {
    private(set) var event = PurchaseEvent(lineItemID: "")
    private(set) var faults: [PurchaseFault] = []
    /// Fields that stood there without a value that can be used.
    private(set) var unreadable: [PurchaseField] = []
    private let origin: PurchaseOrigin
    /// A bit for each field that stood there, null or not.
    private var seen: UInt32 = 0
    private var environment: AppleEnvironment?

    init(origin: PurchaseOrigin) {
        self.origin = origin
    }

    /// One field while its value is read.
    private struct Slot {
        let field: PurchaseField
        let bit: UInt32

        init(_ field: PurchaseField, _ bitIndex: UInt32) {
            self.field = field
            bit = 1 << bitIndex
        }
    }

    mutating func take(_ key: JSONKey, from scanner: inout JSONScanner) throws(WireFault) {
        switch key {
        case "type":
            event.kind = try value(Slot(.type, 0), &scanner) ?? .buy
        case "lineItemId":
            event.lineItemID = try text(Slot(.lineItemID, 1), &scanner) ?? ""
        case "customer":
            event.customer = try customer(Slot(.customer, 2), &scanner)
        case "externalPurchaseId":
            event.externalPurchaseID = try tokenID(Slot(.externalPurchaseID, 3), &scanner)
        case "appAppleId":
            event.appAppleID = try integer(Slot(.appAppleID, 4), &scanner)
        case "bundleId":
            event.bundleID = try named(Slot(.bundleID, 5), &scanner)
        case "environment":
            environment = try value(Slot(.environment, 6), &scanner)
        case "creationDate":
            event.creationDate = try date(Slot(.creationDate, 7), &scanner)
        case "productIdentifier":
            event.productIdentifier = try text(Slot(.productIdentifier, 8), &scanner)
        case "quantity":
            event.quantity = try integer(Slot(.quantity, 9), &scanner)
        case "taxCountry":
            event.taxCountry = try code(Slot(.taxCountry, 10), .unknownCountry, &scanner)
        case "pricingCurrency":
            event.pricingCurrency = try code(Slot(.pricingCurrency, 11), .unknownCurrency, &scanner)
        default: try takeMore(key, from: &scanner)
        }
    }

    private mutating func takeMore(
        _ key: JSONKey,
        from scanner: inout JSONScanner
    ) throws(WireFault) {
        switch key {
        case "amountTaxInclusive":
            event.amountTaxInclusive = try amount(Slot(.amountTaxInclusive, 12), &scanner)
        case "taxAmount":
            event.taxAmount = try amount(Slot(.taxAmount, 13), &scanner)
        case "amountTaxExclusive":
            event.amountTaxExclusive = try amount(Slot(.amountTaxExclusive, 14), &scanner)
        case "reportingCurrency":
            let slot = Slot(.reportingCurrency, 15)
            event.reportingCurrency = try code(slot, .unknownCurrency, &scanner)
        case "exchangeRate":
            event.exchangeRate = try rate(Slot(.exchangeRate, 16), &scanner)
        case "subscriptionId":
            event.subscriptionID = try text(Slot(.subscriptionID, 17), &scanner)
        case "subscriptionEvent":
            event.subscriptionEvent = try value(Slot(.subscriptionEvent, 18), &scanner)
        case "subscriptionStartDate":
            event.subscriptionStartDate = try date(Slot(.subscriptionStartDate, 19), &scanner)
        case "subscriptionEndDate":
            event.subscriptionEndDate = try date(Slot(.subscriptionEndDate, 20), &scanner)
        case "subscriptionDaysOfPaidService":
            let slot = Slot(.subscriptionDaysOfPaidService, 21)
            event.subscriptionDaysOfPaidService = try integer(slot, &scanner)
        case "referenceLineItemId":
            event.referenceLineItemID = try text(Slot(.referenceLineItemID, 22), &scanner)
        case "receivedAt" where origin == .topic:
            event.receivedAt = try scanner.integerIfAny().map { Timestamp(milliseconds: $0) }
        case "requestId" where origin == .topic:
            event.requestID = try scanner.stringIfAny().flatMap {
                TextLimit.identifier.holds($0) ? $0 : nil
            }
        default: try scanner.skip()
        }
    }

    /// What follows from two fields.
    mutating func complete() {
        event.environment =
            environment ?? event.externalPurchaseID?.environment ?? .production
    }

    // MARK: Faults

    private mutating func refuse(_ rule: PurchaseRule, _ slot: Slot, _ repair: String) {
        faults.append(PurchaseFault(rule, slot.field, repair: repair))
        unreadable.append(slot.field)
    }

    /// Whether the field is there for the first time and has a value of the kind; any other value
    /// is skipped.
    private mutating func isPresent(
        _ slot: Slot,
        _ kind: JSONScanner.Kind,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> Bool {
        let isRepeated = seen & slot.bit != 0
        seen |= slot.bit
        let found = try scanner.peekKind()
        guard !isRepeated else {
            refuse(.repeatedField, slot, "Send the field once: it stands there twice.")
            try scanner.skip()
            return false
        }
        guard found == kind else {
            if found != .null {
                refuse(.wrongType, slot, "Send a JSON \(kind == .string ? "string" : "number").")
            }
            try scanner.skip()
            return false
        }
        return true
    }

    // MARK: Values

    private mutating func text(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> String? {
        guard try isPresent(slot, .string, &scanner) else {
            return nil
        }
        return try scanner.string()
    }

    /// A name that Apple gave: never empty, and no longer than a token's fields.
    private mutating func named(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> String? {
        guard let text = try text(slot, &scanner) else {
            return nil
        }
        guard !text.isEmpty else {
            refuse(.outOfRange, slot, "Send a name, or leave the field out.")
            return nil
        }
        guard TextLimit.tokenField.holds(text) else {
            let byteCountMax = TextLimit.tokenField.byteCountMax
            refuse(.tooLong, slot, "Send at most \(byteCountMax) bytes.")
            return nil
        }
        return text
    }

    private mutating func tokenID(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> TokenID? {
        try named(slot, &scanner).map { TokenID($0) }
    }

    private mutating func customer(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> CustomerID? {
        guard let text = try text(slot, &scanner) else {
            return nil
        }
        let isGood: Bool
        switch origin {
        case .door:
            isGood = !text.isEmpty && text.utf8.count <= PurchaseRules.customerByteCountMax
        case .topic:
            var copy = text
            isGood = copy.withUTF8 { unsafe CustomerID.isWellFormed(Span(_unsafeElements: $0)) }
        }
        guard isGood else {
            refuse(
                .badCustomer,
                slot,
                origin == .door
                    ? "Send 1 to \(PurchaseRules.customerByteCountMax) bytes."
                    : "Send the pseudonym that the customer key gives: c1. and 43 characters."
            )
            return nil
        }
        return CustomerID(text)
    }

    private mutating func integer(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> Int64? {
        guard try isPresent(slot, .number, &scanner) else {
            return nil
        }
        switch try scanner.takeNumber() {
        case .integer(let value): return value
        case .integerOutOfRange:
            refuse(.outOfRange, slot, "Send an integer of 64 bits.")
        case .fractional:
            refuse(.wrongType, slot, "Send an integer: no point and no exponent.")
        }
        return nil
    }

    private mutating func amount(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> Milliunits? {
        try integer(slot, &scanner).map { Milliunits($0) }
    }

    private mutating func date(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> Timestamp? {
        try integer(slot, &scanner).map { Timestamp(milliseconds: $0) }
    }

    private mutating func code(
        _ slot: Slot,
        _ rule: PurchaseRule,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> AlphaCode? {
        guard let text = try text(slot, &scanner) else {
            return nil
        }
        guard let code = AlphaCode(text) else {
            refuse(rule, slot, "Send a code of three capital letters.")
            return nil
        }
        return code
    }

    private mutating func rate(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> ExchangeRate? {
        guard try isPresent(slot, .number, &scanner) else {
            return nil
        }
        let literal = try scanner.raw()
        do throws(ExchangeRate.Fault) {
            return try ExchangeRate(utf8: literal)
        } catch {
            switch error {
            case .notANumber, .tooManyDigits:
                let digitCountMax = ExchangeRate.digitCountMax
                refuse(.outOfRange, slot, "Send at most \(digitCountMax) significant digits.")
            case .notPositive:
                refuse(.notPositive, slot, "Send a rate above zero.")
            }
            return nil
        }
    }

    private mutating func value<Value: RawRepresentable<String> & CaseIterable>(
        _ slot: Slot,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> Value? {
        guard let text = try text(slot, &scanner) else {
            return nil
        }
        guard let value = Value(rawValue: text) else {
            let names = Value.allCases.map(\.rawValue).joined(separator: ", ")
            refuse(.unknownValue, slot, "Send one of \(names).")
            return nil
        }
        return value
    }
}
