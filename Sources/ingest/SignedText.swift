internal import TokenWire

/// The shape of a JWS: three parts in base64url, the first naming three certificates.
///
/// Whether it is genuine is found out behind the log; here it only must not be something else.
enum SignedText {
    /// - Throws: 413 for more than 64 KiB.
    static func checkSize(_ text: String, field: String) throws(Problem) {
        guard text.utf8.count <= IngestLimits.signedTextByteCountMax else {
            throw Problem(
                status: 413,
                code: "ingest.too_large",
                detail: "The field \"\(field)\" has more than "
                    + "\(IngestLimits.signedTextByteCountMax) bytes."
            )
        }
    }

    /// - Throws: 400, or 413 for more than 64 KiB.
    static func check(_ text: String, field: String) throws(Problem) {
        try checkSize(text, field: field)
        let parts = Array(text.utf8).split(
            separator: UInt8(ascii: "."),
            omittingEmptySubsequences: false
        )
        guard parts.count == 3, parts.allSatisfy({ !$0.isEmpty && $0.allSatisfy(isBase64URL) })
        else {
            throw malformed(field, "it is not three parts in base64url")
        }
        guard certificateCount(inHeader: Array(parts[0])) == 3 else {
            throw malformed(field, "its header does not name three certificates")
        }
    }

    /// The member of the payload that is a text, unverified; nil where there is none to be read.
    static func claim(_ name: JSONKey, of text: String) -> String? {
        let parts = text.utf8.split(separator: UInt8(ascii: "."))
        guard parts.count == 3 else {
            return nil
        }
        do {
            let payload = try Base64URL.decodeStrict(Array(parts[1]).span)
            var claim: String?
            try JSONScanner.scanObject(payload.span) { (key, scanner) throws(WireFault) in
                guard key == name, try scanner.peekKind() == .string else {
                    return try scanner.skip()
                }
                claim = try scanner.string()
            }
            return claim
        } catch {
            // Only a hint for the key: what cannot be read goes without, and is judged later.
            return nil
        }
    }

    private static func certificateCount(inHeader part: [UInt8]) -> Int? {
        do {
            let header = try Base64URL.decodeStrict(part.span)
            var count: Int?
            try JSONScanner.scanObject(header.span) { (key, scanner) throws(WireFault) in
                guard key == "x5c" else {
                    return try scanner.skip()
                }
                var found = 0
                try scanner.beginArray()
                while try scanner.nextElement() {
                    guard try !scanner.stringBytes().isEmpty else {
                        throw .outOfRange(field: "x5c")
                    }
                    found += 1
                }
                count = found
            }
            return count
        } catch {
            // Whatever is wrong with it, it names no three certificates.
            return nil
        }
    }

    private static func malformed(_ field: String, _ reason: String) -> Problem {
        Problem(
            status: 400,
            code: "ingest.not_signed",
            detail: "The field \"\(field)\" is no JWS: \(reason)."
        )
    }

    private static func isBase64URL(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default:
            false
        }
    }
}
