/// Which names a server answers to.
///
/// A page in a browser can let a name of its own point to this machine (DNS rebinding) and then read
/// what a port without key answers. It cannot choose the `Host` header: that says its own name. So
/// IP addresses and `localhost` pass, and other names only where they are listed.
package struct HostRule: Equatable, Sendable {
    /// In lower case, without port.
    private let names: Set<String>

    /// Names are compared without case.
    package init(names: [String] = []) {
        self.names = Set(names.map { $0.lowercased() })
    }

    /// Whether a request with this `Host` header is answered.
    ///
    /// One without passes: HTTP/1.0 knows none, probes speak it, and no browser does.
    package func accepts(_ header: String?) -> Bool {
        guard let header else {
            return true
        }
        guard let host = Self.host(of: header) else {
            return false
        }
        return host == "localhost" || Self.isAddress(host) || names.contains(host)
    }

    /// Without port and brackets, in lower case; nil where the header is malformed.
    private static func host(of header: String) -> String? {
        let text = header.lowercased()
        let isPlain = text.utf8.allSatisfy { (0x21...0x7e).contains($0) && $0 != 0x2c }
        guard isPlain, !text.isEmpty else {
            return nil
        }
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else {
                return nil
            }
            let address = text[text.index(after: text.startIndex)..<end]
            return address.contains(":") && isPort(text[text.index(after: end)...])
                ? String(address) : nil
        }
        let end = text.firstIndex(of: ":") ?? text.endIndex
        return isPort(text[end...]) ? String(text[..<end]) : nil
    }

    /// Nothing, or a colon and digits.
    private static func isPort(_ text: Substring) -> Bool {
        text.isEmpty
            || (text.hasPrefix(":")
                && text.utf8.dropFirst().allSatisfy { (0x30...0x39).contains($0) })
    }

    private static func isAddress(_ host: String) -> Bool {
        if host.contains(":") {
            return host.utf8.allSatisfy { "0123456789abcdef:.".utf8.contains($0) }
        }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4
            && parts.allSatisfy { part in
                part.utf8.allSatisfy { (0x30...0x39).contains($0) } && UInt8(part) != nil
            }
    }
}
