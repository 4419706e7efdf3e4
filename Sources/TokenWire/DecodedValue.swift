internal import TokenDomain

/// A value of `tokens.decoded.v1` as it is written from a token that was just read.
///
/// Its texts lie in memory of the reader and of the record that was read.
@safe
struct DecodedValue {
    @unsafe struct Texts {
        let id: UnsafeBufferPointer<UInt8>
        let bundleID: UnsafeBufferPointer<UInt8>
        let tokenType: UnsafeBufferPointer<UInt8>?
        /// In its one form, which has nothing to escape.
        let customer: UnsafeBufferPointer<UInt8>?
        /// Base64: nothing to escape.
        let token: UnsafeBufferPointer<UInt8>

        init(
            reader: borrowing TokenReader,
            customer: UnsafeBufferPointer<UInt8>?,
            token: UnsafeBufferPointer<UInt8>
        ) {
            unsafe id = reader.slice(reader.fields.externalPurchaseID)
            unsafe bundleID = reader.slice(reader.fields.bundleID)
            unsafe tokenType = reader.fields.tokenType.map { unsafe reader.slice($0) }
            unsafe self.customer = customer
            unsafe self.token = token
        }
    }

    /// Where among the writer's bytes the record's key may be taken from.
    struct Places {
        /// Of the id as it was written: longer than the id where it had to be escaped.
        var id = 0..<0
        var customer: Range<Int>?
    }

    let fields: PlainToken.Fields
    let environment: AppleEnvironment
    let receivedAt: Timestamp

    /// Writes it, whatever its texts hold.
    func write(_ texts: Texts, to writer: inout JSONWriter) -> Places {
        var places = Places()
        writer.beginObject()
        unsafe places.id = writer.field("externalPurchaseId", utf8: Span(_unsafeElements: texts.id))
        writer.field("environment", environment.rawValue)
        writer.field("appAppleId", fields.appAppleID)
        unsafe writer.field("bundleId", utf8: Span(_unsafeElements: texts.bundleID))
        if let type = unsafe texts.tokenType {
            unsafe writer.field("tokenType", utf8: Span(_unsafeElements: type))
        }
        writer.field("tokenCreationDate", fields.tokenCreationDate)
        writer.field("tokenExpirationDate", fields.tokenExpirationDate)
        if let customer = unsafe texts.customer {
            places.customer = unsafe writer.field(
                "customer",
                utf8: Span(_unsafeElements: customer)
            )
        }
        writer.field("receivedAt", receivedAt.milliseconds)
        unsafe writer.field("token", utf8: Span(_unsafeElements: texts.token))
        writer.endObject()
        return places
    }

    /// Writes the same, where no text has anything to escape: nobody looks for it, and for room only
    /// once.
    func writePlain(_ texts: Texts, to writer: inout JSONWriter) -> Places {
        var places = Places()
        let start = writer.bytes.count
        var textByteCount = unsafe texts.id.count + texts.bundleID.count + texts.token.count
        textByteCount += unsafe (texts.tokenType?.count ?? 0) + (texts.customer?.count ?? 0)
        unsafe writer.put(atMost: Self.plainByteCountMax + textByteCount) { tail in
            unsafe tail.append("{\"externalPurchaseId\":\"")
            places.id = unsafe Self.append(texts.id, to: &tail, from: start)
            switch environment {
            case .production: unsafe tail.append("\",\"environment\":\"production")
            case .sandbox: unsafe tail.append("\",\"environment\":\"sandbox")
            }
            unsafe tail.append("\",\"appAppleId\":")
            unsafe tail.append(fields.appAppleID)
            unsafe tail.append(",\"bundleId\":\"")
            unsafe tail.append(texts.bundleID)
            if let type = unsafe texts.tokenType {
                unsafe tail.append("\",\"tokenType\":\"")
                unsafe tail.append(type)
            }
            unsafe tail.append("\",\"tokenCreationDate\":")
            unsafe tail.append(fields.tokenCreationDate)
            if let expiration = fields.tokenExpirationDate {
                unsafe tail.append(",\"tokenExpirationDate\":")
                unsafe tail.append(expiration)
            }
            if let customer = unsafe texts.customer {
                unsafe tail.append(",\"customer\":\"")
                places.customer = unsafe Self.append(customer, to: &tail, from: start)
                unsafe tail.append("\"")
            }
            unsafe tail.append(",\"receivedAt\":")
            unsafe tail.append(receivedAt.milliseconds)
            unsafe tail.append(",\"token\":\"")
            unsafe tail.append(texts.token)
            unsafe tail.append("\"}")
        }
        return places
    }

    /// Names and punctuation, less than 192 bytes, and four numbers.
    private static let plainByteCountMax = 192 + 4 * JSONWriter.integerByteCountMax

    /// - Returns: where it lies, the tail beginning at `start`.
    @inline(__always)
    private static func append(
        _ text: UnsafeBufferPointer<UInt8>,
        to tail: inout JSONWriter.Tail,
        from start: Int
    ) -> Range<Int> {
        let first = unsafe start + tail.count
        unsafe tail.append(text)
        return first..<first + text.count
    }
}
