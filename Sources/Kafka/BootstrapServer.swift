/// One of `bootstrap.servers`, in the spellings that librdkafka takes (rd_kafka_broker_name_parse).
struct BootstrapServer: Equatable {
    /// librdkafka's own, `RD_KAFKA_PORT`.
    private static let portDefault = "9092"
    /// librdkafka's own for a server without a name.
    private static let hostDefault = "localhost"

    /// A name, or an address; an IPv6 one without its brackets.
    var host: String
    var port: String

    /// Those of a comma-separated list; blanks around them and empty ones do not count.
    ///
    /// Each is `host`, `host:port` or an IPv6 address, in brackets where a port follows; all with or
    /// without `protocol://` before it and a path behind that.
    static func list(_ text: String) -> [BootstrapServer] {
        text.split(separator: ",").compactMap { entry in
            let blanks: Set<Character> = [" ", "\t"]
            let start = entry.drop { blanks.contains($0) }
            guard let last = start.lastIndex(where: { !blanks.contains($0) }) else {
                return nil
            }
            return BootstrapServer(start[...last])
        }
    }

    /// `entry` is one server without blanks around it.
    private init(_ entry: Substring) {
        var server = entry
        if let scheme = server.firstRange(of: "://") {
            server = server[scheme.upperBound...].prefix { $0 != "/" }
        }
        host = String(server)
        port = Self.portDefault
        if let colon = server.lastIndex(of: ":") {
            let name = server[..<colon]
            // The colons of an address without brackets are its own.
            if name.hasSuffix("]") || !name.contains(":") {
                host = String(name)
                port = String(server[server.index(after: colon)...])
            }
        }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        }
        host = host.isEmpty ? Self.hostDefault : host
        port = port.isEmpty ? Self.portDefault : port
    }
}
