internal import TokenWire

/// A JWS taken apart, nothing in it believed.
///
/// Source: RFC 7515; JWSDecodedHeader
struct JWSParts {
    /// Text of the chain's members, standard base64: leaf, intermediate, and one that is ignored.
    var chain: [[UInt8]]
    /// Decoded: a JSON object.
    var payload: [UInt8]
    /// The payload's `signedDate`; nil where it is absent or no integer.
    var signedDate: Int64?
    /// Whether the payload has a member that only notifications have.
    var isNotification: Bool
    /// Decoded, of any length.
    var signature: [UInt8]
    /// How many bytes of the text were signed: header, dot and payload as they stand.
    var signedByteCount: Int

    init(_ text: Span<UInt8>) throws(JWSFault) {
        var dots: [Int] = []
        for index in text.indices where text[index] == UInt8(ascii: ".") && dots.count <= 2 {
            dots.append(index)
        }
        guard dots.count == 2 else {
            throw .malformed("it has not three parts")
        }
        let header = try Self.decoded(text.extracting(0..<dots[0]))
        let members = try JWSHeader(header)
        guard members.algorithm == "ES256" else {
            throw .algorithm
        }
        guard let chain = members.chain else {
            throw .malformed("its header has no list of certificates")
        }
        payload = try Self.decoded(text.extracting(dots[0] + 1..<dots[1]))
        (signedDate, isNotification) = try Self.marks(of: payload)
        signature = try Self.decoded(text.extracting(dots[1] + 1..<text.count))
        signedByteCount = dots[1]
        self.chain = chain
    }

    /// The payload is read through and not kept: most of what a forger sends ends here.
    private static func marks(
        of payload: [UInt8]
    ) throws(JWSFault) -> (signedDate: Int64?, isNotification: Bool) {
        var signedDate: Int64?
        var isNotification = false
        do throws(WireFault) {
            try JSONScanner.scanObject(payload.span) { (key, scanner) throws(WireFault) in
                switch key {
                case "signedDate":
                    // Of a member that stands twice the last one counts, as in ``JSONValue``.
                    let isNumber = try scanner.peekKind() == .number
                    let literal = try scanner.raw()
                    signedDate = isNumber ? DecimalNumber(literal: literal).integer : nil
                case "notificationType", "notificationUUID":
                    isNotification = true
                    try scanner.skip()
                default: try scanner.skip()
                }
            }
        } catch {
            throw .malformed("its payload is not a JSON object")
        }
        return (signedDate, isNotification)
    }

    private static func decoded(_ part: Span<UInt8>) throws(JWSFault) -> [UInt8] {
        do throws(Base64Fault) {
            return try Base64URL.decodeStrict(part)
        } catch {
            throw .malformed("a part is not base64url")
        }
    }
}

/// What we want of a JWS header; everything else in it is ignored, but must be well formed.
private struct JWSHeader {
    /// Nil where it is absent or no string.
    var algorithm: String?
    /// `x5c`; nil where it is absent or no array of strings.
    var chain: [[UInt8]]?

    init(_ bytes: [UInt8]) throws(JWSFault) {
        var names: Set<String> = []
        var isRepeated = false
        do throws(WireFault) {
            try JSONScanner.scan(bytes.span) { (scanner) throws(WireFault) in
                try scanner.beginObject()
                while let name = try scanner.nextName() {
                    isRepeated = !names.insert(name).inserted || isRepeated
                    switch name {
                    case "alg": algorithm = try Self.string(&scanner)
                    case "x5c": chain = try Self.strings(&scanner)
                    default: try scanner.skip()
                    }
                }
            }
        } catch {
            throw .malformed("its header is not a JSON object")
        }
        guard !isRepeated else {
            throw .malformed("a name stands twice in its header")
        }
        // Extensions that must be understood; we understand none (RFC 7515, 4.1.11).
        guard !names.contains("crit") else {
            throw .malformed("its header has critical extensions")
        }
    }

    private static func string(_ scanner: inout JSONScanner) throws(WireFault) -> String? {
        guard try scanner.peekKind() == .string else {
            try scanner.skip()
            return nil
        }
        return try scanner.string()
    }

    private static func strings(_ scanner: inout JSONScanner) throws(WireFault) -> [[UInt8]]? {
        guard try scanner.peekKind() == .array else {
            try scanner.skip()
            return nil
        }
        var strings: [[UInt8]]? = []
        try scanner.beginArray()
        while try scanner.nextElement() {
            guard try scanner.peekKind() == .string else {
                try scanner.skip()
                strings = nil
                continue
            }
            let string = try scanner.stringBytes()
            strings?.append(string)
        }
        return strings
    }
}
