/// Where a server listens: a numeric address or `localhost`, and a port.
package struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    /// `127.0.0.1`, `::1` (without brackets) or `localhost`; never empty.
    package let host: String
    /// 0: any free port.
    package let port: UInt16

    package init(host: String, port: UInt16) {
        self.host = host
        self.port = port
    }

    /// Reads `127.0.0.1:8080`, `[::1]:8080` or `localhost:0`; nil where it is none of these.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else {
            return nil
        }
        let digits = text[text.index(after: colon)...]
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
            let port = UInt16(digits)
        else {
            return nil
        }
        var host = text[..<colon]
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = host.dropFirst().dropLast()
        } else if host.contains(":") {
            return nil
        }
        guard !host.isEmpty, !host.contains("["), !host.contains("]") else {
            return nil
        }
        self.init(host: String(host), port: port)
    }

    /// Whether only this machine can reach it: 127.0.0.0/8, ::1 and `localhost`.
    package var isLoopback: Bool {
        guard host != "localhost", host != "::1" else {
            return true
        }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }

    package var description: String {
        host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
