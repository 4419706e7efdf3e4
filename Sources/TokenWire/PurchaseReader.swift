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
        var event = blank
        var judge = PurchaseJudge()
        do throws(WireFault) {
            try JSONScanner.scan(value) { (scanner) throws(WireFault) in
                try scanner.readMembers {
                    event.members(&$0)
                } orElse: { (fault, scanner) throws(WireFault) in
                    try judge.take(fault, &scanner)
                }
            }
        } catch {
            let repair = "Send one JSON object: \(error.message)."
            throw PurchaseFaults([PurchaseFault(.notJSON, nil, repair: repair)])
        }
        judge.complete(&event, from: origin)
        let faults =
            judge.faults
            + PurchaseRules.faults(of: event, unreadable: judge.unreadable, now: now)
        guard faults.isEmpty else {
            throw PurchaseFaults(faults, event: event)
        }
        return event
    }
}

/// What is wrong with the members of an event that is read.
///
/// A value that has the wrong type is a fault of its field and no end of the reading.
private struct PurchaseJudge {
    private(set) var faults: [PurchaseFault] = []
    /// Fields that stood there without a value that can be used.
    private(set) var unreadable: [PurchaseField] = []

    /// Takes a fault of a member; the scanner stands before its value.
    mutating func take(_ fault: WireFault, _ scanner: inout JSONScanner) throws(WireFault) {
        switch fault {
        case .notJSON, .tooDeep: throw fault
        case .missing:
            // The rules know what must be there.
            break
        case .repeated(let name):
            refuse(.repeatedField, Self.field(name), "Send the field once: it stands there twice.")
        case .tooLong(let name, let byteCountMax):
            refuse(.tooLong, Self.field(name), "Send at most \(byteCountMax) bytes.")
        case .wrongType(let name):
            let repair =
                switch (scanner.expected, try scanner.peekKind()) {
                case (.number, .number): "Send an integer: no point and no exponent."
                case (.number, _): "Send a JSON number."
                default: "Send a JSON string."
                }
            refuse(.wrongType, Self.field(name), repair)
        case .outOfRange(let name):
            let field = Self.field(name)
            let (rule, repair) = try Self.outOfRange(field, &scanner)
            refuse(rule, field, repair)
        }
    }

    /// The rule that a value breaks that is of the right type, and how to repair it.
    private static func outOfRange(
        _ field: PurchaseField,
        _ scanner: inout JSONScanner
    ) throws(WireFault) -> (PurchaseRule, String) {
        switch field {
        case .type: oneOf(PurchaseEvent.Kind.self)
        case .environment: oneOf(AppleEnvironment.self)
        case .subscriptionEvent: oneOf(SubscriptionEvent.self)
        case .taxCountry: (.unknownCountry, "Send a code of three capital letters.")
        case .pricingCurrency, .reportingCurrency:
            (.unknownCurrency, "Send a code of three capital letters.")
        case .exchangeRate: rate(try scanner.raw())
        case .externalPurchaseID: (.outOfRange, "Send a name, or leave the field out.")
        default: (.outOfRange, "Send an integer of 64 bits.")
        }
    }

    private static func oneOf<Value: RawRepresentable<String> & CaseIterable>(
        _ type: Value.Type
    ) -> (PurchaseRule, String) {
        let names = Value.allCases.map(\.rawValue).joined(separator: ", ")
        return (.unknownValue, "Send one of \(names).")
    }

    private static func rate(_ literal: [UInt8]) -> (PurchaseRule, String) {
        do throws(ExchangeRate.Fault) {
            _ = try ExchangeRate(utf8: literal)
        } catch .notPositive {
            return (.notPositive, "Send a rate above zero.")
        } catch {
            // The same as of any number of too many digits.
        }
        return (
            .outOfRange,
            "Send at most \(ExchangeRate.digitCountMax) significant digits, and"
                + " \(ExchangeRate.scaleMax) behind the point."
        )
    }

    /// What is no fault of a single value, and what is not the sender's to say.
    mutating func complete(_ event: inout PurchaseEvent, from origin: PurchaseOrigin) {
        if event.bundleID?.isEmpty ?? false {
            event.bundleID = nil
            refuse(.outOfRange, .bundleID, "Send a name, or leave the field out.")
        }
        switch origin {
        case .door:
            event.receivedAt = nil
            event.requestID = nil
        case .topic:
            event.requestID = event.requestID.flatMap { TextLimit.identifier.holds($0) ? $0 : nil }
        }
        if var text = event.customer?.text, !Self.isGood(&text, origin) {
            event.customer = nil
            refuse(
                .badCustomer,
                .customer,
                origin == .door
                    ? "Send 1 to \(PurchaseRules.customerByteCountMax) bytes."
                    : "Send the pseudonym that the customer key gives: c1. and 43 characters."
            )
        }
    }

    private static func isGood(_ customer: inout String, _ origin: PurchaseOrigin) -> Bool {
        switch origin {
        case .door:
            !customer.isEmpty && customer.utf8.count <= PurchaseRules.customerByteCountMax
        case .topic:
            customer.withUTF8 { unsafe CustomerID.isWellFormed(Span(_unsafeElements: $0)) }
        }
    }

    private mutating func refuse(_ rule: PurchaseRule, _ field: PurchaseField, _ repair: String) {
        faults.append(PurchaseFault(rule, field, repair: repair))
        unreadable.append(field)
    }

    private static func field(_ name: String) -> PurchaseField {
        guard let field = PurchaseField(rawValue: name) else {
            preconditionFailure("every member of an event is one of its fields")
        }
        return field
    }
}
