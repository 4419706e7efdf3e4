internal import TokenDomain

/// A value of `tokens.decoded.v1` in the very form in which `decode` writes it, read in one pass.
///
/// Members in its order, no blanks, strings of plain ASCII without escapes, positive integers of at
/// most 18 digits. A value of any other form, valid or not, is not understood here and goes to the
/// scanner, which alone knows the faults.
package struct PlainDecoded {
    /// What lies where in the value.
    package struct Fields: Equatable {
        package var externalPurchaseID = 0..<0
        package var appAppleID: Int64 = 0
        package var bundleID = 0..<0
        package var tokenType: Range<Int>?
        package var tokenCreationDate: Int64 = 0
        package var tokenExpirationDate: Int64?
        package var customer: Range<Int>?
        package var receivedAt: Int64 = 0
        /// Where the members that `tokens.distinct.v1` takes over end, before the comma.
        package var keptEnd = 0
    }

    private var scanner: PlainScanner

    /// - Returns: nil where the value is of another form.
    package static func read(_ value: Span<UInt8>) -> Fields? {
        unsafe value.withUnsafeBufferPointer { bytes in
            var reader = unsafe PlainDecoded(scanner: PlainScanner(bytes))
            return reader.fields()
        }
    }

    private mutating func fields() -> Fields? {
        var fields = Fields()
        guard take("{\"externalPurchaseId\":\""), let id = string(.tokenField),
            take(",\"environment\":\""),
            takeEnvironment(of: id), take(",\"appAppleId\":"), let app = integer(),
            take(",\"bundleId\":\""), let bundle = string(.tokenField)
        else {
            return nil
        }
        fields.externalPurchaseID = id
        fields.appAppleID = app
        fields.bundleID = bundle
        if take(",\"tokenType\":\"") {
            guard let type = string(.tokenField) else {
                return nil
            }
            fields.tokenType = type
        }
        guard take(",\"tokenCreationDate\":"), let creation = integer() else {
            return nil
        }
        fields.tokenCreationDate = creation
        if take(",\"tokenExpirationDate\":") {
            guard let expiration = integer() else {
                return nil
            }
            fields.tokenExpirationDate = expiration
        }
        if take(",\"customer\":\"") {
            guard let customer = string(.customer), !customer.isEmpty else {
                return nil
            }
            fields.customer = customer
        }
        guard take(",\"receivedAt\":"), let receivedAt = integer() else {
            return nil
        }
        fields.receivedAt = receivedAt
        fields.keptEnd = scanner.position
        guard take(",\"token\":\""), string(.tokenText) != nil, take("}"),
            scanner.isAtEnd, !id.isEmpty
        else {
            return nil
        }
        return fields
    }

    /// The environment that the id says, and its quote.
    private mutating func takeEnvironment(of id: Range<Int>) -> Bool {
        switch scanner.environment(ofID: id) {
        case .production: take("production\"")
        case .sandbox: take("sandbox\"")
        }
    }

    private mutating func take(_ text: StaticString) -> Bool { scanner.take(text) }

    private mutating func string(_ limit: TextLimit) -> Range<Int>? {
        scanner.string(byteCountMax: limit.byteCountMax)
    }

    private mutating func integer() -> Int64? { scanner.integer() }
}
