package import TokenDomain

/// A value of a member: how it stands in JSON.
package protocol WireValue {
    /// Reads a value that is not null.
    ///
    /// The limit is of each text in it; nil where the text is bounded as a whole.
    static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Self

    func write(by writer: inout JSONWriter)
}

extension String: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> String {
        try scanner.string(atMost: limit)
    }

    package func write(by writer: inout JSONWriter) { writer.string(self) }
}

extension Int64: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Int64 {
        try scanner.integer()
    }

    package func write(by writer: inout JSONWriter) { writer.integer(self) }
}

/// How many: never below zero.
extension Int: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Int {
        try scanner.count()
    }

    package func write(by writer: inout JSONWriter) { writer.integer(Int64(self)) }
}

extension Timestamp: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Timestamp {
        Timestamp(milliseconds: try scanner.integer())
    }

    package func write(by writer: inout JSONWriter) { writer.integer(milliseconds) }
}

extension Bool: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Bool {
        try scanner.bool()
    }

    package func write(by writer: inout JSONWriter) { writer.bool(self) }
}

/// Thousandths of a currency's unit.
extension Milliunits: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Milliunits {
        Milliunits(try scanner.integer())
    }

    package func write(by writer: inout JSONWriter) { writer.integer(count) }
}

/// A text of a form of its own; any other text is out of range.
package protocol WireForm: WireValue {
    init?(_ text: String)
    var text: String { get }
}

extension WireForm {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Self {
        guard let value = Self(try scanner.string()) else {
            throw .outOfRange(field: scanner.fieldName)
        }
        return value
    }

    package func write(by writer: inout JSONWriter) { writer.string(text) }
}

/// Three capital letters.
extension AlphaCode: WireForm {}

/// A header of W3C.
extension TraceParent: WireForm {}

/// A number with all its digits; one that is no rate is out of range.
extension ExchangeRate: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> ExchangeRate {
        let field = scanner.fieldName
        let literal = try scanner.raw(.number)
        do throws(ExchangeRate.Fault) {
            return try ExchangeRate(utf8: literal)
        } catch {
            throw .outOfRange(field: field)
        }
    }

    package func write(by writer: inout JSONWriter) { writer.raw(Array(text.utf8)) }
}

/// A text with a type of its own.
package protocol WireText: WireValue {
    /// Whether an empty one is out of range.
    static var isNeverEmpty: Bool { get }
    init(_ text: String)
    var text: String { get }
}

extension WireText {
    package static var isNeverEmpty: Bool { true }

    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Self {
        let text = try scanner.string(atMost: limit)
        guard !isNeverEmpty || !text.isEmpty else {
            throw .outOfRange(field: scanner.fieldName)
        }
        return Self(text)
    }

    package func write(by writer: inout JSONWriter) { writer.string(text) }
}

extension TokenID: WireText {}
extension PurchaseKey: WireText {}

/// Others may write an empty one, which whoever it concerns judges.
extension CustomerID: WireText {
    package static var isNeverEmpty: Bool { false }
}

/// Apple's data: any text is kept.
extension TokenType: WireText {
    package static var isNeverEmpty: Bool { false }
    package init(_ text: String) { self.init(text: text) }
}

extension Array: WireValue where Element: WireValue {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> [Element] {
        var list: [Element] = []
        try scanner.beginArray()
        while try scanner.nextElement() {
            list.append(try Element.read(&scanner, atMost: limit))
        }
        return list
    }

    package func write(by writer: inout JSONWriter) {
        writer.beginArray()
        for element in self {
            element.write(by: &writer)
        }
        writer.endArray()
    }
}

/// A text that is one of the values of a closed enum.
extension WireValue where Self: RawRepresentable<String> {
    package static func read(
        _ scanner: inout JSONScanner,
        atMost limit: TextLimit?
    ) throws(WireFault) -> Self {
        guard let value = Self(rawValue: try scanner.string()) else {
            throw .outOfRange(field: scanner.fieldName)
        }
        return value
    }

    package func write(by writer: inout JSONWriter) { writer.string(rawValue) }
}

extension AppleEnvironment: WireValue {}
extension ReportReason: WireValue {}
extension ReportStatus: WireValue {}
extension ReportOutcome.Outcome: WireValue {}
extension PurchaseOutcome.Outcome: WireValue {}
extension ReportIntent.Phase: WireValue {}
extension PurchaseEvent.Kind: WireValue {}
extension SubscriptionEvent: WireValue {}
extension AccountTokenOutcome.Outcome: WireValue {}
extension LaneOrder.State: WireValue {}

// What a reader fills before anything was read.

extension Timestamp {
    static var blank: Timestamp { Timestamp(milliseconds: 0) }
}

extension TokenID {
    static var blank: TokenID { TokenID("") }
}

extension ExternalPurchaseToken {
    static var blank: ExternalPurchaseToken {
        ExternalPurchaseToken(
            externalPurchaseID: .blank,
            appAppleID: 0,
            bundleID: "",
            tokenType: nil,
            tokenCreationDate: .blank,
            tokenExpirationDate: nil
        )
    }
}

extension Lane {
    static var blank: Lane { Lane(appAppleID: 0, environment: .production) }
}
