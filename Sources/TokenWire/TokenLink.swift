internal import Glibc
package import TokenDomain

/// The link by which StoreKit opens a website: the token and the bundle id in its query.
///
/// Source: developer.apple.com/documentation/storekit/externalpurchaselink/open(url:)
package struct TokenLink: Equatable, Sendable {
    /// As it stood in the link, `%XX` decoded; may be anything but empty.
    package var token: String
    package var bundleID: String?

    /// Reads an `http` or `https` URL.
    ///
    /// Parameters are matched by their exact names and split at their first `=`.
    ///
    /// - Throws: ``DecodeFault/badEnvelope(reason:)`` for another scheme, a percent sign without
    ///   two hexadecimal digits in one of the two parameters, or one of them repeated;
    ///   ``DecodeFault/empty`` where there is no token.
    package init(reading url: Span<UInt8>) throws(DecodeFault) {
        let url = unsafe url.withUnsafeBufferPointer { unsafe Array(TokenText.trimmed($0)) }
        guard Self.hasPrefix("https://", url) || Self.hasPrefix("http://", url) else {
            throw .badEnvelope(reason: "the link is neither http nor https")
        }
        let end = Self.index(of: UInt8(ascii: "#"), in: url[...])
        var token: [UInt8]?
        var bundleID: [UInt8]?
        var start = Self.index(of: UInt8(ascii: "?"), in: url[..<end]) + 1
        while start < end {
            let parameterEnd = Self.index(of: UInt8(ascii: "&"), in: url[start..<end])
            let nameEnd = Self.index(of: UInt8(ascii: "="), in: url[start..<parameterEnd])
            let value = url[min(nameEnd + 1, parameterEnd)..<parameterEnd]
            let name = url[start..<nameEnd]
            if name.elementsEqual("externalPurchaseToken".utf8) {
                try Self.keep(value, in: &token, name: "externalPurchaseToken")
            } else if name.elementsEqual("bundleId".utf8) {
                try Self.keep(value, in: &bundleID, name: "bundleId")
            }
            start = parameterEnd + 1
        }
        guard let token, token.contains(where: { !TokenText.isBlank($0) }) else {
            throw .empty
        }
        self.token = String(decoding: token, as: UTF8.self)
        self.bundleID = bundleID.map { String(decoding: $0, as: UTF8.self) }
    }

    private static func hasPrefix(_ scheme: StaticString, _ url: [UInt8]) -> Bool {
        "\(scheme)".utf8.count <= url.count
            && zip("\(scheme)".utf8, url).allSatisfy { expected, byte in
                expected == byte || (0x41...0x5a ~= byte && byte | 0x20 == expected)
            }
    }

    /// Where a byte stands first, or the end.
    private static func index(of byte: UInt8, in bytes: ArraySlice<UInt8>) -> Int {
        unsafe bytes.withUnsafeBytes { part in
            guard let base = part.baseAddress,
                let found = unsafe memchr(base, Int32(byte), part.count)
            else {
                return bytes.endIndex
            }
            return unsafe bytes.startIndex + (UnsafeRawPointer(found) - base)
        }
    }

    private static func keep(
        _ value: ArraySlice<UInt8>,
        in slot: inout [UInt8]?,
        name: StaticString
    ) throws(DecodeFault) {
        guard slot == nil else {
            throw .badEnvelope(reason: "the link has \(name) twice")
        }
        slot = try percentDecoded(value)
    }

    private static func percentDecoded(
        _ value: ArraySlice<UInt8>
    ) throws(DecodeFault) -> [UInt8] {
        var index = index(of: UInt8(ascii: "%"), in: value)
        var decoded = Array(value[..<index])
        while index < value.endIndex {
            guard value[index] == UInt8(ascii: "%") else {
                decoded.append(value[index])
                index += 1
                continue
            }
            guard index + 2 < value.endIndex,
                let high = JSONString.hexDigit(value[index + 1]),
                let low = JSONString.hexDigit(value[index + 2])
            else {
                throw .badEnvelope(reason: "the link has a percent sign without two digits")
            }
            decoded.append(high << 4 | low)
            index += 3
        }
        return decoded
    }
}
