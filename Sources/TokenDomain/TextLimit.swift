/// The longest text that a field of a record may hold, in bytes of UTF-8.
///
/// The topics may be written by others, and what is read here goes into state that Kafka must take
/// as one record. `Protocols/` states each limit as `maxLength`, which counts characters: never
/// more than bytes.
package struct TextLimit: Equatable, Sendable {
    package let byteCountMax: Int

    package init(byteCountMax: Int) {
        self.byteCountMax = byteCountMax
    }

    /// A field of a token: its id, its bundle id, its type.
    ///
    /// None is longer than the JSON that the longest token text can hold, so what `decode` lets
    /// through passes every later stage.
    package static let tokenField = TextLimit(byteCountMax: DecodeFault.textByteCountMax / 4 * 3)
    package static let tokenText = TextLimit(byteCountMax: DecodeFault.textByteCountMax)
    package static let customer = TextLimit(byteCountMax: CustomerID.byteCount)
    /// A platform's own name for a line item.
    ///
    /// Source: developer.apple.com/documentation/externalpurchaseserverapi/lineitemid
    package static let lineItemID = TextLimit(byteCountMax: 512)
    /// What names one thing: a UUID, the id of a request or a transaction, a subtype, a reason.
    package static let identifier = TextLimit(byteCountMax: 256)
    /// Who ordered something by hand, and why.
    package static let byHand = TextLimit(byteCountMax: 512)
    /// What Apple names in an error: a field, a line item (128 characters at most).
    package static let errorDetail = TextLimit(byteCountMax: 512)

    package func holds(_ text: String) -> Bool { text.utf8.count <= byteCountMax }
}
