internal import Glibc

/// Where to listen, as a setting has it: a numeric address or `localhost`, and a port.
package struct ListenText: Equatable, Sendable {
    package let text: String
    package let host: String
    /// 0: any free port.
    package let port: UInt16
    /// Whether only this machine can reach it.
    package let isLoopback: Bool

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
        var host = String(text[..<colon])
        let isBracketed = host.hasPrefix("[") && host.hasSuffix("]")
        if isBracketed {
            host = String(host.dropFirst().dropLast())
        }
        let bytes = NumericAddress.bytes(host, family: isBracketed ? AF_INET6 : AF_INET)
        guard bytes != nil || (host == "localhost" && !isBracketed) else {
            return nil
        }
        self.text = text
        self.host = host
        self.port = port
        let loopback6 = [UInt8](repeating: 0, count: 15) + [1]
        isLoopback = bytes == nil || bytes == loopback6 || (bytes?.count == 4 && bytes?[0] == 127)
    }
}

/// The machine's name, the default of `INSTANCE`.
package enum HostName {
    package static var current: String {
        var bytes = [CChar](repeating: 0, count: 256)
        let status = unsafe gethostname(&bytes, bytes.count - 1)
        guard status == 0 else {
            return "localhost"
        }
        return String(
            decoding: bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)),
            as: UTF8.self
        )
    }
}
