/// A link taken apart as far as Apple's rules look at it; RFC 3986, ASCII.
struct LinkAddress: Equatable {
    /// In lower case; nil where the text has none.
    var scheme: String?
    /// In lower case; nil where there is none, or none that can be one.
    var host: String?
    var port: Int?
    var path: String
    /// The query and the fragment, with their marks.
    var tail: String
    /// What is wrong with it, in a few words; nil where nothing is.
    var defect: String?

    init(_ text: String) {
        let beforeFragment = text.prefix { $0 != "#" && $0 != "?" }
        tail = String(text[beforeFragment.endIndex...])
        let schemeEnd = beforeFragment.firstIndex(of: ":")
        let name = beforeFragment[..<(schemeEnd ?? beforeFragment.startIndex)]
        path = ""
        guard let schemeEnd, Self.isScheme(name) else {
            defect = "it has no scheme"
            return
        }
        scheme = name.lowercased()
        let rest = beforeFragment[beforeFragment.index(after: schemeEnd)...]
        guard rest.hasPrefix("//") else {
            defect = "it has no host"
            return
        }
        let authority = rest.dropFirst(2).prefix { $0 != "/" }
        path = String(rest.dropFirst(2 + authority.count))
        defect = Self.defectOfCharacters(text) ?? takeAuthority(authority)
    }

    /// The same for two links without defect that differ only where servers see no difference.
    var folded: String {
        let isDefaultPort = port == nil || (scheme == "https" && port == 443)
        let portText = isDefaultPort ? "" : ":\(port ?? 0)"
        let trimmed = path.hasSuffix("/") ? String(path.dropLast()) : path
        return "\(scheme ?? "")://\(host ?? "")\(portText)\(trimmed)\(tail)"
    }

    private static func isScheme(_ name: Substring) -> Bool {
        guard let first = name.utf8.first, isLetter(first) else {
            return false
        }
        return name.utf8.allSatisfy { isLetter($0) || isDigit($0) || "+-.".utf8.contains($0) }
    }

    private mutating func takeAuthority(_ authority: Substring) -> String? {
        guard !authority.contains("@") else {
            return "it carries user information"
        }
        var name = authority
        var portText: Substring?
        let afterBracket = authority.lastIndex(of: "]").map(authority.index(after:))
        if let colon = authority[(afterBracket ?? authority.startIndex)...].firstIndex(of: ":") {
            name = authority[..<colon]
            portText = authority[authority.index(after: colon)...]
        }
        guard Self.isHost(name) else {
            return name.isEmpty ? "it has no host" : "its host cannot be one"
        }
        host = name.lowercased()
        guard let portText else {
            return nil
        }
        guard !portText.isEmpty, portText.utf8.allSatisfy(Self.isDigit),
            let port = Int(portText), (1...65_535).contains(port)
        else {
            return "its port is none"
        }
        self.port = port
        return nil
    }

    private static func isHost(_ name: Substring) -> Bool {
        if name.hasPrefix("["), name.hasSuffix("]") {
            let inner = name.dropFirst().dropLast().utf8
            return inner.contains(UInt8(ascii: ":"))
                && inner.allSatisfy { isHexDigit($0) || ":.".utf8.contains($0) }
        }
        // What is not ASCII is another rule's business.
        let labels = (name.hasSuffix(".") ? name.dropLast() : name)
            .split(separator: ".", omittingEmptySubsequences: false)
        return name.utf8.count <= 253
            && labels.allSatisfy { label in
                (1...63).contains(label.utf8.count)
                    && label.utf8.allSatisfy {
                        isLetter($0) || isDigit($0) || "-_".utf8.contains($0) || $0 >= 0x80
                    }
            }
    }

    /// Characters that no URL may hold, and percent signs without two digits.
    private static func defectOfCharacters(_ text: String) -> String? {
        let bytes = Array(text.utf8)
        for (index, byte) in bytes.enumerated() {
            if byte == UInt8(ascii: "%") {
                guard index + 2 < bytes.count, isHexDigit(bytes[index + 1]),
                    isHexDigit(bytes[index + 2])
                else {
                    return "a percent sign lacks its two digits"
                }
            }
            if byte <= 0x20 || byte == 0x7f || "\"<>\\^`{|}".utf8.contains(byte) {
                return "it holds a character that must be percent-encoded"
            }
        }
        return nil
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        isDigit(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte | 0x20)
    }
}
